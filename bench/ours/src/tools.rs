//! Many tools: from their lists to a pool, when one list changes, searched, and what sanitising them costs.

use std::hint::black_box;
use std::time::Instant;

use bench_client::{Args, Report};
use serde_json::{Value, json};
use trunkline::text::{sanitize_json, shown};
use trunkline::tool::{Pool, Tool};
use trunkline::Json;
use trunkline_wire::mcp::Item;

use crate::Failure;

/// How often what takes little time is done.
const TIMES: usize = 20;

const VERBS: [&str; 10] = [
    "create", "delete", "list", "update", "search", "export", "archive", "merge", "validate", "schedule",
];
const THINGS: [&str; 20] = [
    "issue", "branch", "invoice", "calendar", "message", "document", "deployment", "alert", "customer", "ticket",
    "pipeline", "dashboard", "contract", "container", "secret", "workflow", "report", "payment", "comment", "repository",
];
const QUERIES: [&str; 8] = [
    "create an invoice for a customer",
    "which deployments failed",
    "delete branch",
    "schedule a report",
    "+server7 merge documents",
    "send somebody a message about an alert",
    "archive old tickets",
    "repositry",
];

/// Their raw lists, as they would arrive.
fn lists(args: &Args) -> Vec<(String, String)> {
    let each = args.n / args.servers;
    let list = |server: usize| {
        let tools: Vec<_> = (0..each).map(|tool| definition(server, tool)).collect();
        (format!("server{server}"), json!({ "tools": tools }).to_string())
    };
    (0..args.servers).map(list).collect()
}

/// A tool of the size that real ones have.
fn definition(server: usize, number: usize) -> Value {
    let (verb, thing) = (VERBS[number % 10], THINGS[number / 10 % 20]);
    json!({
        "name": format!("{verb}_{thing}_{number}"),
        "title": format!("{verb} {thing}"),
        "description": format!(
            "{verb}s the {thing} of a project in workspace {server}. Takes the identifier that an earlier call gave back, \
             and returns the {thing} as it is afterwards, with its history and the people who may change it."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                format!("{thing}_id"): {"type": "string", "description": format!("Which {thing}, by its identifier")},
                "fields": {"type": "array", "items": {"type": "string"}, "description": "What to return; everything if left out"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "How many at most"},
            },
            "required": [format!("{thing}_id")],
            "additionalProperties": false,
        },
        "annotations": {"readOnlyHint": verb == "list", "destructiveHint": verb == "delete"},
    })
}

fn parsed(lists: &[(String, String)]) -> Result<Vec<(&str, Json)>, Failure> {
    let parse = |(_, list): &(String, String)| Json::parse(list.clone());
    let names = lists.iter().map(|(server, _)| server.as_str());
    let lists: Result<Vec<_>, _> = lists.iter().map(parse).collect();
    Ok(names.zip(lists?).collect())
}

/// From raw bytes to the pool.
pub(crate) fn pool(args: &Args) -> Result<(), Failure> {
    let lists = lists(args);
    let start = Instant::now();
    let pool = Pool::from_lists(parsed(&lists)?);
    let report = Report::since(start, 1);
    expect(&pool, args)?;
    report.print();
    Ok(())
}

/// One server's list, from raw bytes into the pool.
pub(crate) fn change(args: &Args) -> Result<(), Failure> {
    let lists = lists(args);
    let mut pool = Pool::from_lists(parsed(&lists)?);
    expect(&pool, args)?;
    let (server, list) = &lists[args.servers / 2];
    let start = Instant::now();
    for time in 0..TIMES {
        let list = list.replace("in workspace", &format!("in its {time}. workspace"));
        pool = pool.with_list(server, &Json::parse(list)?);
    }
    report(start, TIMES);
    let last = format!("in its {}. workspace", TIMES - 1);
    let changed = pool.tools().iter().filter(|tool| tool.description.contains(&last));
    if changed.count() != args.n / args.servers {
        return Err("the change is not in the pool".into());
    }
    expect(&pool, args)
}

/// A search, once everything is indexed.
pub(crate) fn search(args: &Args) -> Result<(), Failure> {
    let lists = lists(args);
    let pool = Pool::from_lists(parsed(&lists)?);
    expect(&pool, args)?;
    black_box(pool.search(QUERIES[0], 5));
    let start = Instant::now();
    for _ in 0..TIMES {
        for query in QUERIES {
            if pool.search(query, 5).len() < 5 {
                return Err(format!("too little was found for {query:?}").into());
            }
        }
    }
    report(start, TIMES * QUERIES.len());
    Ok(())
}

/// Reading the lists: every entry a tool, its texts decoded.
pub(crate) fn decode(args: &Args) -> Result<(), Failure> {
    let lists = lists(args);
    black_box(tools(&parsed(&lists)?));
    let start = Instant::now();
    for _ in 0..TIMES {
        black_box(tools(&parsed(&lists)?));
    }
    report(start, TIMES);
    Ok(())
}

/// Sanitising everything in them that a model sees.
pub(crate) fn sanitize(args: &Args) -> Result<(), Failure> {
    let lists = lists(args);
    let tools = tools(&parsed(&lists)?);
    let start = Instant::now();
    for _ in 0..TIMES {
        for tool in &tools {
            for text in [&tool.title, &tool.description].into_iter().flatten() {
                black_box(shown(text));
            }
            black_box(sanitize_json(&tool.input_schema));
        }
    }
    report(start, TIMES);
    Ok(())
}

fn tools(lists: &[(&str, Json)]) -> Vec<Tool> {
    let entries = lists.iter().filter_map(|(_, list)| list.get("tools")?.to_elements());
    entries.flatten().filter_map(|entry| Tool::from_json(entry).ok()).collect()
}

/// The time of one of `times`.
fn report(start: Instant, times: usize) {
    let report = Report::since(start, 1);
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let seconds = report.seconds / times as f64;
    Report { seconds, ..report }.print();
}

fn expect(pool: &Pool, args: &Args) -> Result<(), Failure> {
    match pool.tools().len() {
        found if found == args.n => Ok(()),
        found => Err(format!("expected {} tools, got {found}", args.n).into()),
    }
}
