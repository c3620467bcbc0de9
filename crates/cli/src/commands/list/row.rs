//! One server in `list`, `get` and `status`: its configuration, and its status if it runs.

use std::time::SystemTime;

use serde_json::{Value, json};
use trunkline::Host;
use trunkline::auth::Account;
use trunkline::server::{ServerStatus, State};
use trunkline_config::redact::{Redactor, display_redactor, redact_text};
use trunkline_config::{Diagnostic, EntryStatus, Server, ServerSet, Severity};

use super::super::accounts;
use crate::output::{Lines, indented_stderr, inline};
use crate::standing;

/// One server: its configuration, and its status if it runs.
#[derive(Default)]
pub(crate) struct Row<'a> {
    pub(super) server: Option<&'a Server>,
    status: Option<std::sync::Arc<ServerStatus>>,
    /// Problems of its entry. An invalid entry has nothing else.
    pub(super) diagnostics: Vec<&'a Diagnostic>,
    /// Whether waiting for it was interrupted.
    pub(super) is_over: bool,
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
    pub(super) fn is_invalid(&self) -> bool {
        self.server.is_none() && self.status.is_none()
    }

    /// Returns notes on its catalog, one per line.
    pub(crate) fn notes(&self) -> Lines {
        let notes = self.status().map(|status| &*status.catalog.notes);
        let mut lines = Lines::new();
        for note in notes.unwrap_or_default() {
            lines.push(format!("  note: {}", inline(&self.redactor().known(note))));
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
        standing::thorough_hint(self.status()?)
    }

    /// Returns the changes since it was approved.
    pub(super) fn changes(&self) -> Vec<String> {
        let changes = self.server.map(standing::differences);
        standing::difference_lines(&changes.unwrap_or_default())
    }

    /// Returns the note that connecting was interrupted.
    pub(super) fn interruption(&self) -> Option<&'static str> {
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
        let failed = self.status().and_then(|status| status.state.failure());
        let target = failed.and(self.server).and_then(target);
        self.problems_and(target, hint)
    }

    /// As [`Row::problems`], without the command or URL.
    pub(super) fn problems_alone(&self) -> Lines {
        self.problems_and(None, self.hint().as_deref())
    }

    fn problems_and(&self, target: Option<(&str, String)>, hint: Option<&str>) -> Lines {
        let mut lines = Lines::new();
        if let Some((reason, _)) = self.reason() {
            lines.push(format!("  {reason}"));
        }
        for change in self.changes() {
            lines.push(format!("    {change}"));
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
            if let Some((field, value)) = target {
                lines.push(format!("  {field}: {value}"));
            }
        }
        if let Some(hint) = hint {
            lines.push_hint("  ", hint);
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

    /// Returns the state in words: a server that nobody has started is not pending.
    pub(crate) fn shown_state(&self) -> &'static str {
        match self.status().map(|status| &status.state) {
            Some(State::Pending { attempt: 0, .. }) => "not started",
            _ => self.state(),
        }
    }

    pub(super) fn scope(&self) -> Option<&'static str> {
        let entry = self
            .status
            .as_ref()
            .and_then(|status| status.entry.as_ref());
        let scope = self.server.map(|server| server.entry.scope);
        scope
            .or_else(|| entry.map(|entry| entry.scope))
            .map(trunkline::config::Scope::name)
    }

    /// Returns its scope, or what stands for one.
    pub(super) fn scope_or_none(&self) -> &'static str {
        let none = if self.is_invalid() { "-" } else { "program" };
        self.scope().unwrap_or(none)
    }

    pub(super) fn source(&self) -> Option<&str> {
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
        let name = value["name"].take();
        self.redactor().mask_value(&mut value);
        value["name"] = name;
        value
    }

    /// Returns a redactor of its secrets, which the server may have repeated (SEC-1).
    fn redactor(&self) -> Redactor {
        let own = self.status().and_then(|status| status.entry.as_deref());
        let entry = self.server.map(|server| &server.entry).or(own);
        entry.map(display_redactor).unwrap_or_default()
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
    if let Some(hint) = standing::thorough_hint(status) {
        value["hint"] = json!(hint);
    }
    if status.catalog.cached {
        value["cached"] = json!(true);
    }
    if !status.catalog.notes.is_empty() {
        value["notes"] = json!(*status.catalog.notes);
    }
}

/// Returns the command or URL as configured.
pub(super) fn target(server: &Server) -> Option<(&'static str, String)> {
    let shown = server.entry.redacted();
    if let Some(url) = shown.get("url").and_then(Value::as_str) {
        return Some(("url", url.to_owned()));
    }
    let command = shown.get("command")?.as_str()?;
    let args = shown.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<_> = std::iter::once(command)
        .chain(args)
        .map(standing::quoted)
        .collect();
    Some(("command", words.join(" ")))
}
