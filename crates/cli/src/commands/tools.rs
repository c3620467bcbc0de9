//! `trunkline tools`: shows the tools of all servers, or of one.

use std::fmt::Write as _;

use serde::Serialize;
use trunkline::{Host, Json, PoolTool, State, nearest};

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
            let tools: Vec<_> = pool.tools().iter().map(|tool| ToolJson::of(tool)).collect();
            output::json(&tools);
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
        None if known.clone().next().is_none() => "no servers are configured".to_owned(),
        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
    };
    output::error(&format!("there is no server \"{wanted}\""), Some(&hint));
    Exit::Usage
}

/// Says which servers failed, which lists could not be used, and why; an error only if no server is left.
fn report_failures(host: &Host) -> Exit {
    let servers = host.servers();
    let mut failed = 0;
    for server in &servers {
        for problem in &*server.catalog.diagnostics {
            output::warning(&format!("server \"{}\": {problem}", server.name));
        }
        if let Some(failure) = server.state.failure() {
            failed += 1;
            output::error(
                &format!("server \"{}\": {failure}", server.name),
                failure.hint(),
            );
            output::stderr_lines(&failure.stderr);
        }
        if matches!(server.state, State::Disabled) {
            output::warning(&format!("server \"{}\" is disabled", server.name));
        }
    }
    for problem in host.pool().diagnostics() {
        output::warning(problem);
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

/// One tool, as UI-2 says; its schema is what the server wrote, byte for byte.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolJson<'a> {
    name: &'a str,
    server: &'a str,
    original_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    description: &'a str,
    input_schema: &'a Json,
    read_only: bool,
    destructive: bool,
    open_world: bool,
    always_load: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_hint: Option<String>,
}

impl<'a> ToolJson<'a> {
    fn of(tool: &'a PoolTool) -> Self {
        let meta = |key| tool.tool.meta.as_ref().and_then(|meta| meta.get(key));
        let hint = meta("anthropic/searchHint").and_then(|hint| hint.as_string());
        Self {
            name: &tool.name,
            server: &tool.server,
            original_name: &tool.tool.name,
            title: tool.tool.title.as_deref(),
            description: tool.tool.description.as_deref().unwrap_or_default(),
            input_schema: &tool.tool.input_schema,
            read_only: tool.tool.hints.read_only,
            destructive: tool.tool.hints.destructive,
            open_world: tool.tool.hints.open_world,
            always_load: meta("anthropic/alwaysLoad").is_some_and(|set| set.as_str() == "true"),
            search_hint: hint.map(|hint| hint.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
}
