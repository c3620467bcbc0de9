//! `trunkline status`: summarises all servers, or exports the whole state as JSON (AGT-3).

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};
use trunkline::{Host, Json};

use super::list::{self, Row};
use super::tools::sign_in_exit;
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, name};
use crate::session::{self, Patience};
use crate::standing::last_word;

/// The order of states in the summary, good ones first.
const STATES: [&str; 10] = [
    "connected",
    "not started",
    "pending",
    "needs-auth",
    "failed",
    "pending-approval",
    "rejected",
    "blocked",
    "suppressed",
    "disabled",
];

pub(crate) async fn run(config: &ConfigArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    // The summary includes invalid entries.
    let is_known = |about: &str| configured.set.named(about).next().is_some();
    configured.warn_about(is_known);
    let connectors = session::connectors(configured.loader.layout());
    let nothing = configured.left_out();
    let mut builder = configured.host_with_daemon();
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    session::with_ready_host(builder, Patience::WhileProgressing, async |host| {
        if as_json {
            output::json(&document(host).await);
        } else {
            output::result(summary(host, nothing).await);
        }
        for server in session::starting_servers(host) {
            let shown = name(&server.name);
            output::warning(&format!("server \"{shown}\" is still starting"));
            let name = last_word(&server.name);
            output::hint(&format!(
                "`trunkline list {name}` waits for it, `trunkline doctor {name}` finds out what \
                 it does"
            ));
        }
        sign_in_exit(host)
    })
    .await
}

/// Summarises the state; `nothing` explains why there are no servers.
async fn summary(host: &Host, nothing: Option<&str>) -> Lines {
    let set = host.config();
    let rows = list::rows(host, &set);
    let mut lines = Lines::new();
    if rows.is_empty() {
        lines.push(nothing.unwrap_or("no servers are configured; add one with `trunkline add`"));
    }
    for state in STATES {
        let names: Vec<_> = rows
            .iter()
            .filter(|row| row.shown_state() == state)
            .map(|row| name(row.name()))
            .collect();
        if !names.is_empty() {
            lines.push_line(state_line(state, &names));
        }
    }
    if !rows.is_empty() {
        lines.push(by_transport(&rows));
    }
    lines.push(counts(host));
    for row in &rows {
        if let Some(signed_in) = row.signed_in() {
            lines.push(format!("{}: {signed_in}", name(row.name())));
        }
        let problems = row.problems();
        if !problems.is_empty() {
            lines.push_heading(format_args!("{}:", name(row.name())));
            lines.append(problems);
        }
    }
    let (changed, problems) = host.changed_tools().await;
    for change in changed {
        lines.push(change);
    }
    for problem in problems.iter().chain(host.pool().diagnostics()) {
        lines.push(problem);
    }
    lines
}

/// Formats the servers of a state.
fn state_line(state: &str, names: &[String]) -> Line {
    let (count, names) = (names.len(), names.join(", "));
    if !output::on_terminal() {
        return Line::plain(format_args!("{state}: {count} ({names})"));
    }
    let status = list::status_of(state);
    let line = Line::status(status);
    let word = in_words(state, count);
    let mut line = line.and(status.style(), format_args!("{count} {word}"));
    line.pad(24);
    line.and(Style::Plain, names).hang(24)
}

/// Returns a state in the words of `list` on a terminal, and by its name for programs.
fn in_words(state: &str, count: usize) -> &str {
    match state {
        "pending" if output::on_terminal() => "starting",
        "needs-auth" if output::on_terminal() && count == 1 => "needs sign-in",
        "needs-auth" if output::on_terminal() => "need sign-in",
        "pending-approval" if output::on_terminal() && count == 1 => "needs approval",
        "pending-approval" if output::on_terminal() => "need approval",
        "suppressed" if output::on_terminal() => "duplicate",
        "disabled" if output::on_terminal() => "off",
        state => state,
    }
}

/// Counts servers by transport and state: `stdio: 2 connected, 1 failed; http: 1 connected`.
fn by_transport(rows: &[Row]) -> String {
    let transports = counted(rows).into_iter().filter_map(|(transport, states)| {
        let in_order = STATES
            .iter()
            .filter_map(|state| Some((state, states.get(state)?)));
        let states: Vec<_> = in_order
            .map(|(state, count)| format!("{count} {}", in_words(state, *count)))
            .collect();
        (!states.is_empty()).then(|| format!("{transport}: {}", states.join(", ")))
    });
    let transports: Vec<_> = transports.collect();
    format!("servers by transport: {}", transports.join("; "))
}

/// Counts servers by transport and state.
fn counted(rows: &[Row]) -> BTreeMap<&'static str, BTreeMap<&'static str, usize>> {
    let mut counts: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
    for row in rows {
        let states = counts.entry(row.transport()).or_default();
        *states.entry(row.shown_state()).or_default() += 1;
    }
    counts
}

/// Counts tools, resources, templates and prompts.
fn counts(host: &Host) -> String {
    let (servers, pool) = (host.servers(), host.pool());
    let of = |count: for<'s> fn(&'s trunkline::server::Catalog) -> usize| {
        servers
            .iter()
            .map(|server| count(&server.catalog))
            .sum::<usize>()
    };
    let own: Vec<&str> = pool.own().iter().map(|tool| tool.name.as_str()).collect();
    format!(
        "tools: {}, resources: {}, resource templates: {}, prompts: {}; built-in tools: {}",
        pool.offered().count(),
        of(|catalog| catalog.resources.len()),
        of(|catalog| catalog.templates.len()),
        of(|catalog| catalog.prompts.len()),
        own.join(", "),
    )
}

/// Returns the host's export, extended by servers that may not run, and hints.
async fn document(host: &Host) -> Members {
    let export = host.export().await;
    let set = host.config();
    let rows = list::rows(host, &set);
    let mut members = Members(Vec::new());
    export.members(|name, value| {
        let value = if name == "clients" {
            Json::from(Value::Array(clients(&value, &rows)))
        } else {
            value
        };
        members.0.push((name.to_owned(), value));
    });
    let counts = Json::from(json!(counted(&rows)));
    members.0.push(("serverCounts".to_owned(), counts));
    members
}

/// Merges the servers of the export with the rows, sorted by name.
fn clients(told: &Json, rows: &[Row]) -> Vec<Value> {
    let mut clients = Vec::new();
    told.elements(|client| clients.push(client.decode().unwrap_or_else(|_| readable(&client))));
    for row in rows {
        let known = clients
            .iter()
            .position(|client| client["name"] == row.name());
        let at = known.unwrap_or_else(|| {
            clients.push(json!({"name": row.name(), "type": row.state(), "cached": false}));
            clients.len() - 1
        });
        if row.status().is_none() {
            let error = row.reason().map(|(reason, _)| reason);
            clients[at]["type"] = json!(row.state());
            clients[at]["error"] = json!(error);
        }
        if let Some(hint) = row.hint() {
            clients[at]["hint"] = json!(hint);
        }
        if let Some(account) = row.account() {
            clients[at]["account"] = json!(account);
        }
    }
    clients.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    clients
}

/// Returns the valid members of a client with invalid text, such as an unpaired surrogate.
fn readable(client: &Json) -> Value {
    let mut members = serde_json::Map::new();
    client.members(|name, value| {
        if let Ok(value) = value.decode() {
            members.insert(name.to_owned(), value);
        }
    });
    Value::Object(members)
}

/// The members of an object in their order, with values byte for byte.
struct Members(Vec<(String, Json)>);

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
