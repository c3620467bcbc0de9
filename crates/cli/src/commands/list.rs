//! `trunkline list`: connects to every server and shows how it fares.

use std::fmt::Write as _;

use serde_json::{Value, json};
use trunkline::{Host, ServerStatus, State};
use trunkline_config::Diagnostic;

use crate::exit::Exit;
use crate::output::{self, harmless, harmless_lines, indented_stderr};
use crate::session;

pub(crate) async fn run(mcp_config: &[String], as_json: bool) -> Exit {
    let configured = match session::configuration(mcp_config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let diagnostics = configured.diagnostics;
    session::with_host(
        session::builder().servers(configured.servers),
        |host| async move {
            session::ready(&host).await;
            if as_json {
                for diagnostic in &diagnostics {
                    output::warning(&diagnostic.to_string());
                }
                let servers: Vec<_> = host
                    .servers()
                    .iter()
                    .map(|server| as_value(server))
                    .collect();
                output::json(&servers);
            } else {
                output::result(&table(&host));
                output::result(&problems(&host, &diagnostics));
            }
            Exit::Done
        },
    )
    .await
}

/// One server, as UI-2 says.
pub(crate) fn as_value(server: &ServerStatus) -> Value {
    let mut value = json!({
        "name": *server.name,
        "scope": server.entry.as_ref().map(|entry| entry.scope),
        "transport": transport(server),
        "state": server.state.name(),
        "tools": server.catalog.tools().len(),
        "prompts": server.catalog.prompts.len(),
        "resources": server.catalog.resources.len(),
        "source": server.entry.as_ref().map(|entry| &entry.source),
    });
    match &server.state {
        State::Connected(connected) => {
            let identity = connected.identity();
            value["protocolVersion"] = json!(identity.protocol_version);
            if let Some(info) = &identity.info {
                value["serverInfo"] = json!(info);
            }
        }
        State::Pending { .. } | State::Failed(_) | State::NeedsAuth | State::Disabled => {}
    }
    if let Some(failure) = server.state.failure() {
        value["error"] = json!(failure.to_string());
        value["stderr"] = json!(failure.stderr);
    }
    if !server.catalog.diagnostics.is_empty() {
        value["diagnostics"] = json!(*server.catalog.diagnostics);
    }
    value
}

fn transport(server: &ServerStatus) -> &str {
    server
        .entry
        .as_ref()
        .map_or("in-process", |entry| entry.transport.kind())
}

/// The table of servers, failures explained below each.
pub(crate) fn table(host: &Host) -> String {
    let servers = host.servers();
    if servers.is_empty() {
        return "no servers\n".to_owned();
    }
    let width = servers
        .iter()
        .map(|server| server.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for server in &servers {
        let name = harmless(&server.name);
        let _ = write!(
            text,
            "{name:width$}  {:<9}  {:<10}",
            server.state.name(),
            transport(server)
        );
        match &server.state {
            State::Connected(connected) => {
                let identity = connected.identity();
                let catalog = &server.catalog;
                let _ = write!(text, "  {}", count(catalog.tools().len(), "tool"));
                for (number, what) in [
                    (catalog.prompts.len(), "prompt"),
                    (catalog.resources.len(), "resource"),
                ] {
                    if number > 0 {
                        let _ = write!(text, ", {}", count(number, what));
                    }
                }
                if let Some(info) = &identity.info {
                    let _ = write!(
                        text,
                        "  ({} {})",
                        harmless(&info.name),
                        harmless(&info.version)
                    );
                }
                let _ = writeln!(text, "  {}", identity.protocol_version);
            }
            State::Pending { .. } | State::Failed(_) | State::NeedsAuth | State::Disabled => {
                let Some(failure) = server.state.failure() else {
                    text.push('\n');
                    continue;
                };
                let _ = writeln!(text, "  {}", harmless_lines(&failure.to_string()));
                if let Some(hint) = failure.hint() {
                    let _ = writeln!(text, "  hint: {hint}");
                }
                text += &indented_stderr(&failure.stderr, "  ");
            }
        }
    }
    text
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// What is wrong with the configuration and with the servers' lists.
fn problems(host: &Host, diagnostics: &[Diagnostic]) -> String {
    let mut lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    for server in host.servers() {
        let of_server = server.catalog.diagnostics.iter();
        lines.extend(of_server.map(|problem| format!("{}: {problem}", server.name)));
    }
    lines.extend(host.pool().diagnostics().iter().cloned());
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = lines
        .iter()
        .map(|line| format!("  {}\n", harmless(line)))
        .collect();
    format!("\nproblems:\n{}", lines.concat())
}
