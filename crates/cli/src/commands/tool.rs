//! `trunkline tools <server> <tool>`: shows one tool with an example call.

use serde_json::Value;
use trunkline::tool::{Format, ModelTools, PoolTool};
use trunkline::{Host, Json};

use super::tool_json::{Denial, ToolJson};
use super::tool_ref::{ResolvedTool, ToolRef};
use crate::args::ToolFormat;
use crate::background::Checker;
use crate::example;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style};
use crate::schema::{self, Document};
use crate::session::{self, Configured};
use crate::stored;

pub(crate) async fn run(
    configured: Configured,
    words: &[String],
    format: Option<ToolFormat>,
    as_json: bool,
) -> Exit {
    let wanted = match ToolRef::parse(words, &configured) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    configured.warn_about(wanted.servers());
    let checker = Checker::of(&configured);
    let (builder, wanted) = (wanted.host(configured), &wanted);
    session::with_host(builder, |host| async move {
        session::ready(&host).await;
        if wanted.find(&host.pool()).is_none() {
            connect(&host).await;
        }
        let exit = show(&host, wanted, format, as_json);
        stored::note(&host, &checker);
        exit
    })
    .await
}

/// Connects to the servers whose stored catalogs lack the tool: they may have it by now.
async fn connect(host: &Host) {
    for server in host.servers() {
        if server.catalog.cached {
            let _ = host.reconnect(&server.name).await;
        }
    }
    session::ready(host).await;
}

fn show(host: &Host, wanted: &ToolRef, format: Option<ToolFormat>, as_json: bool) -> Exit {
    let pool = host.pool();
    let Some(found) = wanted.find(&pool) else {
        return wanted.report_missing(host);
    };
    let denied = match found {
        ResolvedTool::Server(tool) => Denial::of(host, &tool.name),
        ResolvedTool::BuiltIn(tool) => Denial::of(host, &tool.name),
    };
    match format {
        Some(format) => output::json_text(&exported(found, format.into())),
        None if as_json => {
            let tool = match found {
                ResolvedTool::Server(tool) => ToolJson::of(tool).whole(tool),
                ResolvedTool::BuiltIn(tool) => ToolJson::own(tool),
            };
            output::json(&tool.with_denial(denied));
        }
        None => output::paged(text(found, denied.as_ref())),
    }
    Exit::Done
}

/// Exports one tool for a model's API.
fn exported(found: ResolvedTool, format: Format) -> String {
    let mut tools = ModelTools::default();
    match found {
        ResolvedTool::Server(tool) => tools.loaded.push(tool.clone()),
        ResolvedTool::BuiltIn(tool) => tools.own.push(tool.clone()),
    }
    tools.export(format)
}

/// Formats the tool as text.
fn text(found: ResolvedTool, denied: Option<&Denial>) -> Lines {
    let (name, description, schema) = match found {
        ResolvedTool::Server(tool) => (&tool.name, &*tool.description, &tool.shown_schema),
        ResolvedTool::BuiltIn(tool) => (&tool.name, &*tool.description, &tool.input_schema),
    };
    let mut lines = Lines::new();
    lines.push_heading(name);
    match found {
        ResolvedTool::Server(tool) => about(tool, &mut lines),
        ResolvedTool::BuiltIn(_) => lines.push("  built-in"),
    }
    if let Some(denied) = denied {
        let what = format!("  denied: {}", denied.reason);
        lines.push_line(Line::of(Style::Failed, what));
    }
    if !description.trim().is_empty() {
        lines.push_gap();
        lines.push_block("  ", description.trim());
    }
    lines.push_gap();
    match members(schema) {
        Some(members) if members.is_empty() => lines.append("no arguments"),
        Some(members) => {
            lines.push_heading("arguments:");
            for member in &members {
                lines.push_line(member_line(member));
            }
        }
        None => lines.append("the schema cannot be shown here; use --json"),
    }
    if let ResolvedTool::Server(tool) = found
        && let Some(members) = tool.tool.output_schema.as_ref().and_then(members)
        && !members.is_empty()
    {
        lines.push_gap();
        lines.push_heading("returns:");
        for member in &members {
            lines.push_line(member_line(member));
        }
    }
    let (server, original, schema) = match found {
        ResolvedTool::Server(tool) => (
            Some(&*tool.server),
            &*tool.tool.name,
            &tool.tool.input_schema,
        ),
        ResolvedTool::BuiltIn(tool) => (None, &*tool.name, &tool.input_schema),
    };
    if let Ok(schema) = schema.to_value() {
        let line = example::call_line(server, original, name, schema);
        lines.push_gap();
        lines.push_heading("example:");
        lines.push_line(Line::plain("  ").and(Style::Literal, line));
    }
    lines
}

/// Formats the tool's server, names and annotations.
fn about(tool: &PoolTool, lines: &mut Lines) {
    let mut put = |field: &str, value: &str| {
        let line = Line::plain("  ").and(Style::Dim, format_args!("{field}:"));
        lines.push_line(line.and(Style::Plain, format_args!(" {value}")));
    };
    if let Some(title) = &tool.title {
        put("title", title);
    }
    put("shown as", &tool.display_name());
    let (server, original) = (&tool.server, &tool.tool.name);
    put("server", &format!("{server} (tool {original})"));
    let hints = &tool.tool.hints;
    let flags: Vec<&str> = [
        (hints.read_only, "read-only"),
        (hints.destructive, "destructive"),
        (hints.idempotent, "idempotent"),
        (hints.open_world, "open-world"),
        (tool.always_load, "always loaded"),
    ]
    .into_iter()
    .filter_map(|(is_so, name)| is_so.then_some(name))
    .collect();
    if !flags.is_empty() {
        put("annotations", &flags.join(", "));
    }
    if let Some(hint) = &tool.search_hint {
        put("search hint", hint);
    }
}

/// Formats a schema, one line per member; `None` if it is invalid.
fn members(schema: &Json) -> Option<Vec<String>> {
    let document = Document::new(schema.to_value().ok().filter(Value::is_object)?);
    Some(schema::lines(document.schema(), 2))
}

/// Formats a line of a schema: the name in bold, its type dimmed, and whether it is required.
fn member_line(member: &str) -> Line {
    let body = member.trim_start_matches(' ');
    let indent = &member[..member.len() - body.len()];
    let line = Line::plain(indent);
    if let Some(about) = body.strip_prefix("| ") {
        return line.and(Style::Dim, "| ").and(Style::Plain, about);
    }
    let Some((name, kind)) = body.split_once("  ") else {
        return line.and(Style::Plain, body);
    };
    let (kind, rest) = match kind.split_once(", required") {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (kind, None),
    };
    let line = line
        .and(Style::Name, name)
        .and(Style::Dim, format_args!("  {kind}"));
    match rest {
        Some(rest) => line
            .and(Style::Dim, ", ")
            .and(Style::Attention, "required")
            .and(Style::Dim, rest),
        None => line,
    }
}
