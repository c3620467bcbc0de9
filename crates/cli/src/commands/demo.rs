//! `trunkline demo`: servers, tools and calls at work, with nothing installed.

use std::time::Duration;

use serde_json::json;
use trunkline::result::Results;
use trunkline::storage::{EraMemory, PinStore};
use trunkline::tool::ToolOutput;
use trunkline::{Builtin, CallOptions, Host, ServerEntry};

use super::{call, list, tools};
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style};
use crate::session;

pub(crate) async fn run(config: &ConfigArgs, as_json: bool) -> Exit {
    let tracer = match session::tracer(config) {
        Ok(tracer) => tracer,
        Err(exit) => return exit,
    };
    // Leaves no pins, eras or results behind.
    let mut builder = session::builder(None)
        .pins(PinStore::in_memory())
        .eras(EraMemory::in_memory())
        .results(Results::default().limits_from_env())
        .builtin(calculator())
        .builtin(kitchen())
        .server(ServerEntry::stdio(
            "missing",
            "trunkline-demo-no-such-program",
            ["--stdio"],
        ));
    if let Some(tracer) = tracer {
        builder = builder.trace(tracer);
    }
    session::with_host(builder, |host| async move {
        host.ready().await;
        if as_json {
            let set = host.config();
            let rows = list::rows(&host, &set);
            output::json(&rows.iter().map(list::Row::as_value).collect::<Vec<_>>());
            return Exit::Done;
        }
        show(&host).await
    })
    .await
}

async fn show(host: &Host) -> Exit {
    heading("Servers: two in this process, and one whose program is not installed");
    let set = host.config();
    output::result(list::overview(&list::rows(host, &set)));

    heading("Tools, as a model sees them");
    output::result(tools::by_server(
        host.pool().tools().iter().map(|tool| &**tool),
        |_| false,
    ));

    heading("A call: mcp__calculator__add {\"a\": 2, \"b\": 3}");
    if let Err(exit) = step(host, "mcp__calculator__add", json!({"a": 2, "b": 3}), false).await {
        return exit;
    }

    heading("A call with progress: mcp__kitchen__bake {\"what\": \"bread\"}");
    if let Err(exit) = step(host, "mcp__kitchen__bake", json!({"what": "bread"}), false).await {
        return exit;
    }

    heading("A failing call: mcp__calculator__divide {\"a\": 1, \"b\": 0}");
    if let Err(exit) = step(
        host,
        "mcp__calculator__divide",
        json!({"a": 1, "b": 0}),
        true,
    )
    .await
    {
        return exit;
    }

    heading("A misspelt tool: mcp__calculator__ad {}");
    match host
        .call("mcp__calculator__ad", json!({}), CallOptions::new())
        .await
    {
        Ok(_) => return Exit::Failed,
        Err(error) => {
            let hint = error.hint().unwrap_or_default();
            let line = Line::of(Style::Error, "error:");
            let mut lines = Lines::from(line.and(Style::Plain, format_args!(" {error}")));
            lines.push_hint("  ", &hint);
            output::result(lines);
        }
    }

    output::result(
        "\nNow try your own servers:\n  trunkline add <name> -- <command>\n  trunkline list\n  \
         trunkline call <name> <tool> key=value\n",
    );
    Exit::Done
}

fn heading(text: &str) {
    let mut lines = Lines::from("\n");
    lines.push_heading(format_args!("== {text}"));
    output::result(lines);
}

/// Makes a call and prints it. Fails if the outcome is not the expected one.
async fn step(
    host: &Host,
    name: &str,
    arguments: serde_json::Value,
    fails: bool,
) -> Result<(), Exit> {
    let options = CallOptions::new().on_progress(|progress| {
        output::result(Lines::one(call::describe(&progress)));
    });
    match host.call(name, arguments, options).await {
        Ok(result) => {
            let said = if result.is_error { "tool error: " } else { "" };
            output::result(Lines::one(format!("{said}{}", result.text())));
            if result.is_error == fails {
                Ok(())
            } else {
                Err(Exit::Failed)
            }
        }
        Err(error) => Err(call::fail(&error)),
    }
}

/// A server that calculates.
pub(crate) fn calculator() -> Builtin {
    let two_numbers = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    });
    Builtin::new("calculator")
        .instructions("Adds and divides.")
        .tool("add", "Adds two numbers", &two_numbers, |call| async move {
            match (call.number("a"), call.number("b")) {
                (Some(a), Some(b)) => Ok(ToolOutput::structured(&json!({"sum": a + b}))),
                _ => Err("a and b must be numbers".into()),
            }
        })
        .tool(
            "divide",
            "Divides one number by another",
            &two_numbers,
            |call| async move {
                match (call.number("a"), call.number("b")) {
                    (Some(_), Some(0.0)) => Err("division by zero: b must not be 0".into()),
                    (Some(a), Some(b)) => Ok(ToolOutput::structured(&json!({"quotient": a / b}))),
                    _ => Err("a and b must be numbers".into()),
                }
            },
        )
}

/// A server that reports progress.
pub(crate) fn kitchen() -> Builtin {
    let schema =
        json!({"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]});
    Builtin::new("kitchen").tool(
        "bake",
        "Bakes something and reports progress",
        &schema,
        |call| async move {
            let what = call.text("what").unwrap_or_else(|| "cake".to_owned());
            let steps = ["mixing", "kneading", "baking", "cooling"];
            for (done, step) in [1.0, 2.0, 3.0, 4.0].into_iter().zip(steps) {
                tokio::time::sleep(Duration::from_millis(120)).await;
                call.progress(done, Some(4.0), step).await;
            }
            Ok(format!("The {what} is ready.").into())
        },
    )
}
