//! `trunkline get`: shows the status and configuration of a server.

use serde_json::Value;
use trunkline_config::{Scope, Server, Severity};

use super::list::{self, Detail, Row, table};
use super::tools::{NO_SERVERS, sign_in_exit, unknown_server};
use crate::args::ConfigArgs;
use crate::background::Checker;
use crate::exit::Exit;
use crate::output::{self, Line, Lines, Style, name as shown_name};
use crate::session;
use crate::standing::last_word;
use crate::stored::{self, Catalogs};

pub(crate) async fn run(
    config: &ConfigArgs,
    name: &str,
    show_secrets: bool,
    catalogs: Catalogs,
    as_json: bool,
) -> Exit {
    if show_secrets && !output::on_terminal() {
        output::error(
            "--show-secrets works only on a terminal",
            Some("scripts can read the configuration file"),
        );
        return Exit::Usage;
    }
    let configured = match session::configuration(config) {
        Ok(configured) => configured.with_catalogs(catalogs),
        Err(exit) => return exit,
    };
    let checker = Checker::of(&configured);
    let connectors = session::connectors(configured.loader.layout());
    let is_broken = configured
        .set
        .diagnostics_for(name)
        .any(|problem| problem.severity == Severity::Error);
    if configured.foremost(name).is_none() && (connectors.is_none() || is_broken) {
        return configured.unknown(name);
    }
    let all: Vec<String> = configured.names().into_iter().map(str::to_owned).collect();
    let known = configured.foremost(name).is_some();
    let wanted = name.to_owned();
    let mut builder = configured.host().only(move |name| name == wanted);
    if let (false, Some(connectors)) = (known, connectors) {
        builder = builder.connectors(connectors);
    }
    session::with_host(builder, |host| async move {
        session::ready(&host).await;
        let set = host.config();
        if set.servers.is_empty() {
            return unknown_server(name, all.iter().map(String::as_str), NO_SERVERS);
        }
        if as_json {
            let rows: Vec<Value> = set
                .servers
                .iter()
                .map(|server| {
                    let mut row = Row::of(&host, server).with_diagnostics(&set).as_value();
                    row["config"] = written(server, show_secrets);
                    row
                })
                .collect();
            match <[Value; 1]>::try_from(rows) {
                Ok([only]) => output::json(&only),
                Err(mut rows) => {
                    // The entry in effect, with the others inside.
                    let first = set
                        .servers
                        .iter()
                        .position(|server| server.status.may_run())
                        .unwrap_or(0);
                    let mut row = rows.remove(first);
                    row["others"] = rows.into();
                    output::json(&row);
                }
            }
            return sign_in_exit(&host);
        }
        let mut lines = Lines::new();
        for server in &set.servers {
            let row = Row::of(&host, server);
            let notes = row.notes();
            if output::on_terminal() {
                if !lines.is_empty() {
                    lines.push_gap();
                }
                lines.append(list::card(&row));
            } else {
                lines.append(table(&[row], Detail::Full));
            }
            lines.append(notes);
            lines.append(details(server, show_secrets));
        }
        output::paged(lines);
        stored::note(&host, &checker);
        for problem in set
            .diagnostics
            .iter()
            .filter(|problem| problem.server.as_deref().is_none_or(|about| about == name))
        {
            output::warning(&problem.to_string());
        }
        sign_in_exit(&host)
    })
    .await
}

/// Formats the fields of an entry, one per line, and the command that removes it.
fn details(server: &Server, show_secrets: bool) -> Lines {
    let mut lines = Lines::new();
    let shown = written(server, show_secrets);
    let field_line = |indent: &str, field: &str| {
        Line::plain(indent).and(Style::Dim, format_args!("{}:", shown_name(field)))
    };
    let put = |lines: &mut Lines, indent: &str, field: &str, value: &Value| {
        let mut line = field_line(indent, field);
        line.push_whole(Style::Plain, format_args!(" {}", plain(value)));
        lines.push_line(line);
    };
    for (field, value) in shown.as_object().into_iter().flatten() {
        match value {
            Value::Object(members) if !members.is_empty() => {
                lines.push_line(field_line("  ", field));
                for (name, value) in members {
                    put(&mut lines, "    ", name, value);
                }
            }
            value => put(&mut lines, "  ", field, value),
        }
    }
    if matches!(
        server.entry.scope,
        Scope::Local | Scope::Project | Scope::User
    ) {
        let (name, scope) = (last_word(&server.entry.name), server.entry.scope);
        let line = Line::plain("  ").and(Style::Dim, "remove with:");
        let command = format!(" trunkline remove -s {scope} {name}");
        lines.push_line(line.and(Style::Literal, command));
    }
    lines
}

/// The entry as written, with its secrets masked unless they are requested.
fn written(server: &Server, show_secrets: bool) -> Value {
    if show_secrets {
        server.entry.as_written()
    } else {
        server.entry.redacted()
    }
}

/// Formats a string without quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
