//! `trunkline tools`: shows the tools of all servers, or of one.

use std::fmt::Write as _;

use serde_json::{Value, json};
use trunkline::{Host, PoolTool, State, nearest};

use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::session;

/// How much of a description is shown on one line.
const SHOWN: usize = 100;

pub(crate) async fn run(mcp_config: &[String], server: Option<&str>, as_json: bool) -> Exit {
    let configured = match session::configuration(mcp_config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    for diagnostic in &configured.diagnostics {
        output::warning(&diagnostic.to_string());
    }
    let mut servers = configured.servers;
    if let Some(wanted) = server {
        if !servers.iter().any(|entry| entry.name == wanted) {
            return unknown_server(wanted, servers.iter().map(|entry| entry.name.as_str()));
        }
        servers.retain(|entry| entry.name == wanted);
    }
    session::with_host(session::builder().servers(servers), |host| async move {
        session::ready(&host).await;
        let pool = host.pool();
        if as_json {
            output::json(&pool.tools().iter().map(|tool| as_value(tool)).collect());
        } else {
            output::result(&table(pool.tools().iter().map(|tool| &**tool)));
        }
        report_failures(&host)
    })
    .await
}

/// Explains that there is no such server.
pub(crate) fn unknown_server<'a>(
    wanted: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Exit {
    let hint = match nearest(wanted, known.clone()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
    };
    output::error(&format!("there is no server \"{wanted}\""), Some(&hint));
    Exit::Usage
}

/// Says which servers failed, and why; an error only if none is left.
fn report_failures(host: &Host) -> Exit {
    let servers = host.servers();
    let mut failed = 0;
    for server in &servers {
        if let State::Failed(failure) = &server.state {
            failed += 1;
            output::error(
                &format!("server \"{}\": {failure}", server.name),
                failure.hint(),
            );
            output::stderr_lines(&failure.stderr);
        }
    }
    if failed > 0 && failed == servers.len() {
        Exit::NotConnected
    } else {
        Exit::Done
    }
}

/// One tool a line.
pub(crate) fn table<'a>(tools: impl Iterator<Item = &'a PoolTool>) -> String {
    let mut text = String::new();
    for tool in tools {
        let description = tool.tool.description.as_deref().unwrap_or_default();
        let first_line = description.trim_start().lines().next().unwrap_or_default();
        let mut shown: String = first_line.chars().take(SHOWN).collect();
        if shown.len() < first_line.len() {
            shown.push('…');
        }
        let _ = writeln!(text, "{}  {}", tool.name, harmless(&shown));
    }
    text
}

/// One tool, as UI-2 says.
fn as_value(tool: &PoolTool) -> Value {
    let hints = tool.tool.hints;
    let meta = tool.tool.meta.as_ref();
    let mut value = json!({
        "name": tool.name,
        "server": *tool.server,
        "originalName": *tool.tool.name,
        "description": tool.tool.description.as_deref().unwrap_or_default(),
        "inputSchema": tool.tool.input_schema.to_value().unwrap_or_default(),
        "readOnly": hints.read_only,
        "destructive": hints.destructive,
        "openWorld": hints.open_world,
        "alwaysLoad": meta.and_then(|meta| meta.field("anthropic/alwaysLoad")).unwrap_or(false),
    });
    if let Some(title) = &tool.tool.title {
        value["title"] = json!(**title);
    }
    if let Some(hint) = meta.and_then(|meta| meta.field::<String>("anthropic/searchHint")) {
        value["searchHint"] = json!(hint.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    value
}
