//! `trunkline list`: connects to every server and shows how it fares.

use std::fmt::Write as _;

use serde_json::{Value, json};
use trunkline::{Host, ServerStatus, State};
use trunkline_config::{Diagnostic, Server, ServerSet, Standing};
use unicode_width::UnicodeWidthStr;

use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, harmless, harmless_lines, indented_stderr};
use crate::session;
use crate::standing;

/// How wide the names' column may become; a longer name pushes its own line only.
const WIDEST_NAME: usize = 40;

pub(crate) async fn run(config: &ConfigArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let connectors = session::connectors(configured.loader.layout());
    let loader = &configured.loader;
    let above = session::project_above(loader.layout(), &loader.project().cwd);
    let mut builder = configured.host();
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    session::with_host(builder, |host| async move {
        session::ready(&host).await;
        let set = host.config();
        if as_json {
            for diagnostic in &set.diagnostics {
                output::warning(&diagnostic.to_string());
            }
            let rows: Vec<_> = rows(&host, &set).iter().map(Row::as_value).collect();
            output::json(&rows);
        } else {
            let rows = rows(&host, &set);
            if let (true, Some(file)) = (rows.is_empty(), &set.exclusive) {
                let file = file.display().to_string();
                output::result(&format!(
                    "the enterprise configuration has exclusive control and no servers ({})\n",
                    harmless(&file)
                ));
            } else if rows.is_empty() && !set.diagnostics.is_empty() {
                output::result("no servers could be loaded\n");
            } else if let (true, Some(above)) = (rows.is_empty(), &above) {
                output::result(&format!(
                    "no servers are configured here; {}\n",
                    harmless(above)
                ));
            } else {
                output::result(&table(&rows));
            }
            output::result(&problems(&host, &set.diagnostics));
        }
        Exit::Done
    })
    .await
}

/// One server: how it is configured, and how it fares if it runs.
pub(crate) struct Row<'a> {
    server: Option<&'a Server>,
    status: Option<std::sync::Arc<ServerStatus>>,
}

/// Every server that is worth a line: those that are only hidden by another are shown with that one.
pub(crate) fn rows<'a>(host: &Host, set: &'a ServerSet) -> Vec<Row<'a>> {
    let shown = |server: &&Server| !matches!(server.standing, Standing::Shadowed { .. });
    let mut rows: Vec<Row> = set
        .servers
        .iter()
        .filter(shown)
        .map(|server| Row::of(host, server))
        .collect();
    // The embedding program's own are in no configuration.
    let own = host.servers().into_iter().filter(|status| {
        let running = |row: &Row| {
            let status_of = row.status.as_ref();
            status_of.is_some_and(|known| known.name == status.name)
        };
        !rows.iter().any(running)
    });
    let own: Vec<_> = own
        .map(|status| Row {
            server: None,
            status: Some(status),
        })
        .collect();
    rows.extend(own);
    rows.sort_by(|a, b| a.name().cmp(b.name()));
    rows
}

impl<'a> Row<'a> {
    pub(crate) fn of(host: &Host, server: &'a Server) -> Self {
        let runs = server.standing.may_run();
        Self {
            server: Some(server),
            status: runs.then(|| host.server(&server.entry.name)).flatten(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match (self.server, &self.status) {
            (Some(server), _) => &server.entry.name,
            (None, Some(status)) => &status.name,
            (None, None) => "",
        }
    }

    /// How it fares, if it runs.
    pub(crate) fn status(&self) -> Option<&ServerStatus> {
        self.status.as_deref()
    }

    /// Why it may not run, and what to do about it.
    pub(crate) fn reason(&self) -> Option<(String, Option<String>)> {
        self.server.and_then(standing::reason)
    }

    /// What to do about it, if it does not run.
    pub(crate) fn hint(&self) -> Option<String> {
        if let Some((_, hint)) = self.reason() {
            return hint;
        }
        if self.state() == "disabled" {
            return Some(standing::enabling(self.name()));
        }
        self.status()?.state.hint().map(str::to_owned)
    }

    /// What is wrong with it, and what to do about that; nothing for one that runs.
    pub(crate) fn troubles(&self) -> String {
        let mut text = String::new();
        if let Some((reason, _)) = self.reason() {
            let _ = writeln!(text, "  {}", harmless(&reason));
        }
        let changes = self.server.map(standing::differences);
        for line in standing::difference_lines(&changes.unwrap_or_default()) {
            let _ = writeln!(text, "    {}", harmless(&line));
        }
        let state = self.status().map(|status| &status.state);
        if let Some(State::NeedsAuth) = state {
            text += "  the server asks for a sign-in\n";
        }
        let failure = state.and_then(State::failure);
        if let Some(failure) = failure {
            let _ = writeln!(text, "  {}", harmless_lines(&failure.to_string()));
            if let Some(target) = self.server.and_then(target) {
                let _ = writeln!(text, "  {}", harmless(&target));
            }
        }
        if let Some(hint) = self.hint() {
            let _ = writeln!(text, "  hint: {}", harmless(&hint));
        }
        if let Some(failure) = failure {
            text += &indented_stderr(&failure.stderr, "  ");
        }
        text
    }

    pub(crate) fn state(&self) -> &'static str {
        let standing = self.server.and_then(|server| server.standing.name());
        standing
            .or_else(|| self.status.as_ref().map(|status| status.state.name()))
            .unwrap_or("disabled")
    }

    fn scope(&self) -> Option<&'static str> {
        let entry = self
            .status
            .as_ref()
            .and_then(|status| status.entry.as_ref());
        let scope = self.server.map(|server| server.entry.scope);
        scope
            .or_else(|| entry.map(|entry| entry.scope))
            .map(trunkline::Scope::name)
    }

    fn source(&self) -> Option<&str> {
        let entry = self
            .status
            .as_ref()
            .and_then(|status| status.entry.as_ref());
        let source = self.server.map(|server| server.entry.source.as_str());
        source.or_else(|| entry.map(|entry| entry.source.as_str()))
    }

    fn transport(&self) -> &'static str {
        let entry = self
            .status
            .as_ref()
            .and_then(|status| status.entry.as_ref());
        let kind = self.server.map(|server| server.entry.transport.kind());
        kind.or_else(|| entry.map(|entry| entry.transport.kind()))
            .unwrap_or("in-process")
    }

    /// It, as UI-2 says.
    pub(crate) fn as_value(&self) -> Value {
        let catalog = self.status.as_ref().map(|status| &status.catalog);
        let mut value = json!({
            "name": self.name(),
            "scope": self.scope(),
            "transport": self.transport(),
            "state": self.state(),
            "tools": catalog.map_or(0, |catalog| catalog.tools().len()),
            "prompts": catalog.map_or(0, |catalog| catalog.prompts.len()),
            "resources": catalog.map_or(0, |catalog| catalog.resources.len()),
            "source": self.source(),
        });
        if let Some(server) = self.server {
            add_standing(&mut value, server);
        }
        if let Some(status) = &self.status {
            add_status(&mut value, status);
        }
        value
    }
}

fn add_standing(value: &mut Value, server: &Server) {
    if let Some((reason, hint)) = standing::reason(server) {
        value["error"] = json!(reason);
        if let Some(hint) = hint {
            value["hint"] = json!(hint);
        }
    }
    if let Standing::Suppressed { by } = &server.standing {
        value["suppressedBy"] = json!(by);
    }
    let changes = standing::differences(server);
    if !changes.is_empty() {
        value["changes"] = standing::difference_json(&changes);
    }
    if !server.shadows.is_empty() {
        value["shadows"] = json!(server.shadows);
    }
}

fn add_status(value: &mut Value, status: &ServerStatus) {
    if let State::Connected(connected) = &status.state {
        let identity = connected.identity();
        value["protocolVersion"] = json!(identity.protocol_version);
        if let Some(info) = &identity.info {
            value["serverInfo"] = json!(info);
        }
    }
    if let Some(failure) = status.state.failure() {
        value["error"] = json!(failure.to_string());
        value["stderr"] = json!(failure.stderr);
    }
    if status.catalog.cached {
        value["cached"] = json!(true);
    }
    if !status.catalog.diagnostics.is_empty() {
        value["diagnostics"] = json!(*status.catalog.diagnostics);
    }
}

/// The table of servers, with what there is to say below each.
pub(crate) fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no servers are configured; add one with `trunkline add`, take over those of another client with \
                `trunkline import`, or see it all at work with `trunkline demo`\n"
            .to_owned();
    }
    let names: Vec<_> = rows.iter().map(|row| harmless(row.name())).collect();
    let widths = names.iter().map(|name| name.width());
    let width = widths.max().unwrap_or(0).min(WIDEST_NAME);
    let lengths = rows.iter().map(|row| row.state().len());
    let state_width = lengths.max().unwrap_or(0);
    let mut text = String::new();
    for (row, name) in rows.iter().zip(names) {
        let padding = width.saturating_sub(name.width());
        let _ = write!(
            text,
            "{name}{:padding$}  {:<state_width$}  {:<10}  {:<10}",
            "",
            row.state(),
            row.scope().unwrap_or("program"),
            row.transport(),
        );
        // Nothing follows the columns of some rows.
        match &row.status {
            Some(status) => text += &status_line(status),
            None => text.push('\n'),
        }
        while text.ends_with(" \n") {
            text.truncate(text.len() - 2);
            text.push('\n');
        }
        text += &below(row);
    }
    text
}

/// What a server that runs, or ran before, has to show for it.
fn status_line(status: &ServerStatus) -> String {
    let mut text = String::new();
    let catalog = &status.catalog;
    let connected = matches!(status.state, State::Connected(_));
    if connected || catalog.cached {
        let _ = write!(text, "  {}", count(catalog.tools().len(), "tool"));
        for (number, what) in [
            (catalog.prompts.len(), "prompt"),
            (catalog.resources.len(), "resource"),
        ] {
            if number > 0 {
                let _ = write!(text, ", {}", count(number, what));
            }
        }
        if catalog.cached {
            text += ", as of an earlier run";
        }
    }
    if let State::Connected(connected) = &status.state {
        let identity = connected.identity();
        if let Some(info) = &identity.info {
            let (name, version) = (harmless(&info.name), harmless(&info.version));
            let _ = write!(text, "  ({name} {version})");
        }
        let _ = write!(text, "  {}", identity.protocol_version);
    }
    text.push('\n');
    text
}

/// The lines below a server's own.
fn below(row: &Row) -> String {
    let mut text = String::new();
    if let Some(source) = row.source() {
        let _ = writeln!(text, "  from {}", harmless(source));
    }
    if let Some(server) = row.server {
        for place in &server.shadows {
            let _ = writeln!(text, "  hides {}", harmless(&place.to_string()));
        }
    }
    text + &row.troubles()
}

/// What is started or connected to, as it is written.
fn target(server: &Server) -> Option<String> {
    let shown = server.entry.shown(false);
    if let Some(url) = shown.get("url").and_then(Value::as_str) {
        return Some(format!("url: {url}"));
    }
    let command = shown.get("command")?.as_str()?;
    let args = shown.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<_> = std::iter::once(command)
        .chain(args)
        .map(standing::quoted)
        .collect();
    Some(format!("command: {}", words.join(" ")))
}

pub(super) fn count(number: usize, what: &str) -> String {
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
