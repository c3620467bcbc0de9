//! `trunkline list`: connects to all servers and shows their status.

use std::fmt::Write as _;
use std::time::SystemTime;

use serde_json::{Value, json};
use trunkline::Host;
use trunkline::auth::Account;
use trunkline::server::{ServerStatus, State};
use trunkline_config::redact::redact_text;
use trunkline_config::{Diagnostic, EntryStatus, Server, ServerSet, Severity};
use unicode_width::UnicodeWidthStr;

use super::accounts;
use crate::args::ConfigArgs;
use crate::exit::Exit;
use crate::output::{self, Lines, indented_stderr, inline, name};
use crate::session;
use crate::standing;

/// The maximum width of the name column. A longer name shifts only its own row.
const MAX_NAME_WIDTH: usize = 40;

pub(crate) async fn run(config: &ConfigArgs, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let connectors = session::connectors(configured.loader.layout());
    let loader = &configured.loader;
    let above = session::project_above(loader.layout(), &loader.project().cwd);
    let above = above.map(|above| format!("no servers are configured here; {above}"));
    let nothing = configured.left_out().map(str::to_owned).or(above);
    let mut builder = configured.host();
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    let show = |host: &Host, is_over: bool| show(host, nothing.as_deref(), is_over, as_json);
    let work = |host: Host| async move {
        session::ready(&host).await;
        show(&host, false);
        Exit::Done
    };
    // On an interrupt, show the servers that are known so far.
    session::with_host_or(builder, work, |host| show(host, true)).await
}

/// Prints all servers. `nothing` explains why there are none; `is_over` means that waiting was
/// interrupted.
fn show(host: &Host, nothing: Option<&str>, is_over: bool, as_json: bool) {
    let set = host.config();
    let mut rows = rows(host, &set);
    for row in &mut rows {
        row.is_over = is_over;
    }
    if as_json {
        let is_shown = |about: &str| rows.iter().any(|row| row.name() == about);
        for problem in &set.diagnostics {
            if !problem.server.as_deref().is_some_and(is_shown) {
                output::warning(&problem.to_string());
            }
        }
        output::json(&rows.iter().map(Row::as_value).collect::<Vec<_>>());
        return;
    }
    if let (true, Some(file)) = (rows.is_empty(), &set.exclusive) {
        output::result(Lines::one(format!(
            "the enterprise configuration has exclusive control and no servers ({})",
            file.display()
        )));
    } else if rows.is_empty() && !set.diagnostics.is_empty() {
        output::result("no servers could be loaded");
    } else if let (true, Some(nothing)) = (rows.is_empty(), nothing) {
        output::result(Lines::one(nothing));
    } else {
        output::result(table(&rows));
    }
    output::result(problems(host, &rows, &set.diagnostics));
    let of_project = |server: &Server| server.entry.needs_approval();
    if let Some(all) = &set.approve_all
        && set.servers.iter().any(of_project)
    {
        output::note(Lines::one(format!("note: {all}")));
    }
}

/// One server: its configuration, and its status if it runs.
#[derive(Default)]
pub(crate) struct Row<'a> {
    server: Option<&'a Server>,
    status: Option<std::sync::Arc<ServerStatus>>,
    /// Problems of its entry. An invalid entry has nothing else.
    diagnostics: Vec<&'a Diagnostic>,
    /// Whether waiting for it was interrupted.
    is_over: bool,
    /// Who is signed in to it.
    account: Option<Account>,
}

/// Returns a row per server. Shadowed entries appear in the row of the entry that shadows them.
pub(crate) fn rows<'a>(host: &Host, set: &'a ServerSet) -> Vec<Row<'a>> {
    let shown = |server: &&Server| !matches!(server.status, EntryStatus::Shadowed { .. });
    let mut rows: Vec<Row> = set
        .servers
        .iter()
        .filter(shown)
        .map(|server| Row::of(host, server).with_diagnostics(set))
        .collect();
    rows.extend(invalid(set));
    // Servers of the embedding program are in no configuration.
    let own = host.servers().into_iter().filter(|status| {
        let running = |row: &Row| {
            let status_of = row.status.as_ref();
            status_of.is_some_and(|known| known.name == status.name)
        };
        !rows.iter().any(running)
    });
    let own: Vec<_> = own
        .map(|status| Row {
            status: Some(status),
            ..Row::default()
        })
        .collect();
    rows.extend(own);
    rows.sort_by(|a, b| a.name().cmp(b.name()));
    rows
}

/// Returns a row for each invalid entry.
fn invalid(set: &ServerSet) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for problem in &set.diagnostics {
        let Some(name) = problem.server.as_deref() else {
            continue;
        };
        let is_error = problem.severity == Severity::Error;
        let is_known =
            set.named(name).next().is_some() || rows.iter().any(|row| row.name() == name);
        if is_error && !is_known {
            rows.push(Row {
                diagnostics: set.diagnostics_for(name).collect(),
                ..Row::default()
            });
        }
    }
    rows
}

impl<'a> Row<'a> {
    pub(crate) fn of(host: &Host, server: &'a Server) -> Self {
        let runs = server.status.may_run();
        let name = &server.entry.name;
        let auth = host.server_auth(name).filter(|_| runs);
        Self {
            server: Some(server),
            status: runs.then(|| host.server(name)).flatten(),
            diagnostics: Vec::new(),
            is_over: false,
            account: auth.and_then(|auth| auth.listed_account()),
        }
    }

    /// Adds the problems of its entry.
    pub(crate) fn with_diagnostics(mut self, set: &'a ServerSet) -> Self {
        self.diagnostics = set.diagnostics_for(self.name()).collect();
        self
    }

    pub(crate) fn name(&self) -> &str {
        match (self.server, &self.status) {
            (Some(server), _) => &server.entry.name,
            (None, Some(status)) => &status.name,
            (None, None) => {
                let about = self.diagnostics.first();
                about
                    .and_then(|problem| problem.server.as_deref())
                    .unwrap_or_default()
            }
        }
    }

    /// Describes who is signed in to it.
    pub(crate) fn signed_in(&self) -> Option<String> {
        let account = self.account.as_ref()?;
        let account = accounts::describe(account, SystemTime::now());
        Some(format!("signed in: {account}"))
    }

    /// Returns who is signed in to it.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Returns its status, if it runs.
    pub(crate) fn status(&self) -> Option<&ServerStatus> {
        self.status.as_deref()
    }

    /// Returns whether its entry is invalid.
    fn is_invalid(&self) -> bool {
        self.server.is_none() && self.status.is_none()
    }

    /// Returns notes on its catalog, one per line.
    pub(crate) fn notes(&self) -> Lines {
        let notes = self.status().map(|status| &*status.catalog.notes);
        let mut lines = Lines::new();
        for note in notes.unwrap_or_default() {
            lines.push(format!("  note: {}", inline(note)));
        }
        lines
    }

    /// Returns why it may not run, and a hint.
    pub(crate) fn reason(&self) -> Option<(String, Option<String>)> {
        if self.is_invalid() {
            let problem = self.diagnostics.first()?;
            let what = format!("invalid entry: {}", problem.message);
            return Some((what, Some(format!("fix it in {}", problem.location()))));
        }
        self.server.and_then(standing::reason)
    }

    /// Returns a hint if it does not run.
    pub(crate) fn hint(&self) -> Option<String> {
        if let Some((_, hint)) = self.reason() {
            return hint;
        }
        if self.state() == "disabled" {
            return Some(standing::enable_hint(self.name()));
        }
        standing::state_hint(self.status()?)
    }

    /// Returns the note that connecting was interrupted.
    fn interruption(&self) -> Option<&'static str> {
        let state = &self.status()?.state;
        let connects = matches!(state, State::Pending { attempt: 1.., .. });
        let is_so = self.is_over && connects && state.failure().is_none();
        is_so.then_some("interrupted while connecting")
    }

    /// Returns its problems with a hint; empty for a server that runs.
    pub(crate) fn problems(&self) -> Lines {
        self.problems_with(self.hint().as_deref())
    }

    /// As [`Row::problems`], with another hint.
    pub(crate) fn problems_with(&self, hint: Option<&str>) -> Lines {
        let mut lines = Lines::new();
        if let Some((reason, _)) = self.reason() {
            lines.push(format!("  {reason}"));
        }
        let changes = self.server.map(standing::differences);
        for line in standing::difference_lines(&changes.unwrap_or_default()) {
            lines.push(format!("    {line}"));
        }
        let state = self.status().map(|status| &status.state);
        if let Some(asked) = state.and_then(State::sign_in) {
            lines.push(format!("  {}", inline(&asked.to_string())));
        }
        if let Some(interruption) = self.interruption() {
            lines.push(format!("  {interruption}"));
        }
        let failure = state.and_then(State::failure);
        if let Some(failure) = failure {
            lines.push(format!("  {}", inline(&failure.to_string())));
            if let Some(target) = self.server.and_then(target) {
                lines.push(format!("  {target}"));
            }
        }
        if let Some(hint) = hint {
            lines.push(format!("  hint: {hint}"));
        }
        if let Some(failure) = failure {
            lines.append(indented_stderr(self.name(), &failure.stderr, "  "));
        }
        lines
    }

    pub(crate) fn state(&self) -> &'static str {
        if self.is_invalid() {
            return "failed";
        }
        let standing = self.server.and_then(|server| server.status.name());
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
            .map(trunkline::config::Scope::name)
    }

    fn source(&self) -> Option<&str> {
        let entry = self
            .status
            .as_ref()
            .and_then(|status| status.entry.as_ref());
        let source = self.server.map(|server| server.entry.source.as_str());
        let broken = self
            .diagnostics
            .first()
            .map(|problem| problem.source.as_str());
        source
            .or_else(|| entry.map(|entry| entry.source.as_str()))
            .or(broken)
    }

    pub(crate) fn transport(&self) -> &'static str {
        let entry = self
            .status
            .as_ref()
            .and_then(|status| status.entry.as_ref());
        let kind = self.server.map(|server| server.entry.transport.kind());
        if self.is_invalid() {
            return "-";
        }
        // Only connecting determines the transport of an entry without a type.
        if let Some(State::Connected(connected)) = self.status().map(|status| &status.state)
            && connected.is_sse()
            && kind == Some("http")
        {
            return "sse";
        }
        kind.or_else(|| entry.map(|entry| entry.transport.kind()))
            .unwrap_or("in-process")
    }

    /// Returns the JSON of UI-2.
    pub(crate) fn as_value(&self) -> Value {
        let catalog = self.status.as_ref().map(|status| &status.catalog);
        let mut value = json!({
            "name": self.name(),
            "scope": self.scope(),
            "transport": (!self.is_invalid()).then(|| self.transport()),
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
        if let Some(account) = &self.account {
            value["account"] = json!(account);
        }
        if let Some(interruption) = self.interruption() {
            value["error"] = json!(interruption);
        }
        if self.is_invalid()
            && let Some((reason, hint)) = self.reason()
        {
            value["error"] = json!(reason);
            value["hint"] = json!(hint);
        }
        let listed = self
            .status()
            .map(|status| status.catalog.diagnostics.iter());
        let listed = listed.into_iter().flatten().cloned();
        let problems: Vec<String> = self
            .diagnostics
            .iter()
            .map(|problem| redact_text(&problem.to_string()).into_owned())
            .chain(listed)
            .collect();
        if !problems.is_empty() {
            value["diagnostics"] = json!(problems);
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
    if let EntryStatus::Suppressed { by } = &server.status {
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
    if let Some(asked) = status.state.sign_in() {
        value["error"] = json!(asked.to_string());
    }
    if let Some(hint) = standing::state_hint(status) {
        value["hint"] = json!(hint);
    }
    if status.catalog.cached {
        value["cached"] = json!(true);
    }
    if !status.catalog.notes.is_empty() {
        value["notes"] = json!(*status.catalog.notes);
    }
}

/// Formats the servers as a table, with details below each row.
pub(crate) fn table(rows: &[Row]) -> Lines {
    if rows.is_empty() {
        return "no servers are configured; add one with `trunkline add`, import those of another client with \
                `trunkline import`, or try `trunkline demo`"
            .into();
    }
    let names: Vec<_> = rows.iter().map(|row| name(row.name())).collect();
    let widths = names.iter().map(|name| name.width());
    let width = widths.max().unwrap_or(0).min(MAX_NAME_WIDTH);
    let lengths = rows.iter().map(|row| row.state().len());
    let state_width = lengths.max().unwrap_or(0);
    let mut lines = Lines::new();
    for (row, name) in rows.iter().zip(names) {
        let padding = width.saturating_sub(name.width());
        let status = row.status.as_deref().map(status_line).unwrap_or_default();
        lines.push(format!(
            "{name}{:padding$}  {:<state_width$}  {:<10}  {:<10}{status}",
            "",
            row.state(),
            row.scope()
                .unwrap_or(if row.is_invalid() { "-" } else { "program" }),
            row.transport(),
        ));
        lines.append(details(row));
    }
    lines
}

/// Formats the catalog and version of a server that runs or has a cached catalog.
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
            text += " (cached)";
        }
    }
    if let State::Connected(connected) = &status.state {
        let identity = connected.identity();
        if let Some(info) = &identity.info {
            let (name, version) = (name(&info.name), name(&info.version));
            let _ = write!(text, "  ({name} {version})");
        }
        let _ = write!(text, "  {}", identity.protocol_version);
    }
    text
}

/// Formats the lines below a row.
fn details(row: &Row) -> Lines {
    let mut lines = Lines::new();
    if let Some(signed_in) = row.signed_in() {
        lines.push(format!("  {signed_in}"));
    }
    if let Some(source) = row.source() {
        lines.push(format!("  from {source}"));
    }
    if let Some(server) = row.server {
        for place in &server.shadows {
            lines.push(format!("  shadows {place}"));
        }
    }
    lines.append(row.problems());
    lines
}

/// Returns the command or URL as configured.
fn target(server: &Server) -> Option<String> {
    let shown = server.entry.redacted();
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

/// Formats the problems of the configuration and of catalogs.
fn problems(host: &Host, rows: &[Row], diagnostics: &[Diagnostic]) -> Lines {
    // The row of an invalid entry has its problem already.
    let is_told = |problem: &&Diagnostic| {
        let mut invalid = rows.iter().filter(|row| row.is_invalid());
        invalid.any(|row| row.diagnostics.first() == Some(problem))
    };
    let untold = diagnostics.iter().filter(|problem| !is_told(problem));
    let mut problems: Vec<String> = untold.map(ToString::to_string).collect();
    for server in host.servers() {
        let of_server = server.catalog.diagnostics.iter();
        problems.extend(of_server.map(|problem| format!("{}: {problem}", name(&server.name))));
    }
    problems.extend(host.pool().diagnostics().iter().cloned());
    let mut lines = Lines::new();
    if !problems.is_empty() {
        lines.append("\nproblems:");
    }
    for problem in problems {
        lines.push(format!("  {}", inline(&problem)));
    }
    lines
}
