//! Loads a set of servers from a file.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::Scope;
use crate::document::{Document, Members};
use crate::entry::{RawEntry, ServerEntry, suggest_field};
use crate::expand::ExpansionReport;
use crate::load::LoadState;
use crate::names::{check_displayable, check_name, quoted_name};

/// The key of the servers in a file.
pub(crate) const KEY: &str = "mcpServers";

/// Loads the servers of a file of the form `{"mcpServers": {…}}`.
pub(crate) fn file_servers(
    state: &mut LoadState,
    document: &Document,
    root: &Members,
    scope: Scope,
) {
    if root.get(KEY).is_none() {
        let hint = if root.get("servers").is_some() {
            "; it has \"servers\", as VS Code writes it: rename it, or run `trunkline import`"
        } else if root
            .iter()
            .any(|(_, value)| looks_like_a_server(document, value))
        {
            "; put the servers into one: {\"mcpServers\": {\"name\": {…}}}"
        } else {
            ""
        };
        let message = format!("there is no \"{KEY}\" object{hint}");
        state.diagnostics.push(document.problem(0, message));
    }
    members_servers(state, document, root, scope);
}

/// Loads the servers in the `mcpServers` of an object.
pub(crate) fn members_servers(
    state: &mut LoadState,
    document: &Document,
    members: &Members,
    scope: Scope,
) {
    let mut all = members.iter().filter(|(name, _)| *name == KEY).rev();
    let Some((_, raw)) = all.next() else {
        return;
    };
    for (_, ignored) in all {
        let message = format!("\"{KEY}\" is repeated; the last one counts");
        state
            .diagnostics
            .push(document.problem(document.offset(ignored), message));
    }
    servers(state, document, raw, scope, str::to_owned);
}

/// Whether a value looks like a server.
pub(crate) fn looks_like_a_server<'a>(document: &Document<'a>, raw: &'a RawValue) -> bool {
    document
        .members(raw)
        .is_ok_and(|members| members.get("command").is_some() || members.get("url").is_some())
}

/// Loads an object of servers. An invalid entry affects only itself and is reported with its
/// position (CFG-3).
pub(crate) fn servers<'a>(
    state: &mut LoadState,
    document: &Document<'a>,
    raw: &'a RawValue,
    scope: Scope,
    rename: impl Fn(&str) -> String,
) {
    let members = match document.members(raw) {
        Ok(members) => members,
        Err(problem) => {
            let message = format!(
                "\"{KEY}\": {}; write {{\"name\": {{\"command\": …}}}}",
                problem.message
            );
            state
                .diagnostics
                .push(document.problem(problem.offset, message));
            return;
        }
    };
    let mut last: HashMap<&str, &RawValue> = HashMap::with_capacity(members.len());
    for (name, value) in members.iter() {
        if last.insert(name, value).is_some() {
            let message = "it is defined more than once in this file; the last one counts";
            let problem = document.warning(document.offset(value), message);
            state.diagnostics.push(problem.about(quoted_name(name)));
        }
    }
    state.entries.reserve(members.len());
    for (name, value) in members.iter() {
        if last
            .get(name)
            .is_some_and(|last| std::ptr::eq(*last, value))
        {
            let entry = entry(state, document, value, name, scope, &rename);
            state.entries.extend(entry);
        }
    }
}

fn entry<'a>(
    state: &mut LoadState,
    document: &Document<'a>,
    raw: &'a RawValue,
    name: &str,
    scope: Scope,
    rename: impl Fn(&str) -> String,
) -> Option<ServerEntry> {
    let start = document.offset(raw);
    let full = rename(name);
    let mut report = ExpansionReport::default();
    // The name of the plugin is part of the full name.
    let name = check_name(name).and_then(|()| check_displayable(&full));
    let checked = match (name, RawEntry::decode(document, raw)) {
        (Err(reason), _) => Err((start, reason)),
        (Ok(()), Err(problem)) => Err((problem.offset, problem.message)),
        (Ok(()), Ok(entry)) => entry
            .check(
                &full,
                scope,
                document.source(),
                &state.environment,
                &mut report,
            )
            .map_err(|message| (start, message)),
    };
    let env = checked
        .as_ref()
        .ok()
        .and_then(|entry| entry.transport.env());
    // `X=${X}` passes a variable on, and sets nothing without it.
    let passes_on = |value: &str, name: &str| {
        let references = [
            format!("${{{name}}}"),
            format!("${{env:{name}}}"),
            format!("${name}"),
        ];
        references.iter().any(|reference| value == reference)
    };
    let own = |name: &str| {
        let value = env.and_then(|env| env.get(name));
        value.is_some_and(|value| !passes_on(value.expose(), name))
    };
    for warning in report.warnings(own) {
        state
            .diagnostics
            .push(document.warning(start, warning).about(&full));
    }
    let mistyped = mistyped(document, raw);
    for (at, message) in mistyped.iter().filter(|_| checked.is_ok()) {
        state
            .diagnostics
            .push(document.warning(*at, message).about(&full));
    }
    match checked {
        Ok(mut entry) => {
            entry.written = Some(raw.get().into());
            entry.relative_to(&state.base);
            Some(entry)
        }
        Err((at, mut message)) => {
            for (_, more) in mistyped {
                message = format!("{message}; {more}");
            }
            let problem = document.problem(at, message).about(quoted_name(&full));
            state.diagnostics.push(problem);
            None
        }
    }
}

/// The unknown keys of an entry that resemble a missing field.
fn mistyped<'a>(document: &Document<'a>, raw: &'a RawValue) -> Vec<(usize, String)> {
    let Ok(members) = document.members(raw) else {
        return Vec::new();
    };
    let near = members.iter().filter_map(|(key, value)| {
        let field = suggest_field(key).filter(|field| members.get(field).is_none())?;
        let message = format!(
            "\"{}\" is not a field: did you mean \"{field}\"?",
            quoted_name(key)
        );
        Some((document.offset(value), message))
    });
    near.collect()
}
