//! A set of servers as it stands in a file.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::Scope;
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Document, Members};
use crate::entry::{RawEntry, ServerEntry, TransportEntry, meant};
use crate::expand::Findings;
use crate::load_state::LoadState;
use crate::names::{quotable, unshowable, unusable};

/// What holds the servers in a file of the common form.
pub(crate) const KEY: &str = "mcpServers";

/// The servers of a file of the form `{"mcpServers": {…}}`.
pub(crate) fn file_servers(
    gather: &mut LoadState,
    document: &Document,
    root: &Members,
    scope: Scope,
) {
    if root.get(KEY).is_none() {
        let hint = if root.get("servers").is_some() {
            "; it has \"servers\", as VS Code writes it: rename that, or take it over with `trunkline import`"
        } else if root
            .iter()
            .any(|(_, value)| looks_like_a_server(document, value))
        {
            "; put the servers into one: {\"mcpServers\": {\"name\": {…}}}"
        } else {
            ""
        };
        let message = format!("it has no \"{KEY}\" object{hint}");
        gather.diagnostics.push(document.problem(0, message));
    }
    members_servers(gather, document, root, scope);
}

/// The servers in the `mcpServers` of an object, if it has any.
pub(crate) fn members_servers(
    gather: &mut LoadState,
    document: &Document,
    members: &Members,
    scope: Scope,
) {
    let mut all = members.iter().filter(|(name, _)| *name == KEY).rev();
    let Some((_, raw)) = all.next() else {
        return;
    };
    for (_, ignored) in all {
        let message = format!("\"{KEY}\" is there more than once; the last one counts");
        gather
            .diagnostics
            .push(document.problem(document.offset(ignored), message));
    }
    servers(gather, document, raw, scope, str::to_owned);
}

/// Whether a value could be meant as a server.
pub(crate) fn looks_like_a_server<'a>(document: &Document<'a>, raw: &'a RawValue) -> bool {
    document
        .members(raw)
        .is_ok_and(|members| members.get("command").is_some() || members.get("url").is_some())
}

/// The servers of an object of servers. One that is wrong costs itself and is named with its place (CFG-3).
pub(crate) fn servers<'a>(
    gather: &mut LoadState,
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
            gather
                .diagnostics
                .push(document.problem(problem.offset, message));
            return;
        }
    };
    let mut last: HashMap<&str, &RawValue> = HashMap::with_capacity(members.len());
    for (name, value) in members.iter() {
        if last.insert(name, value).is_some() {
            let message = "it is listed more than once in this file; the last one counts";
            let problem = document
                .problem(document.offset(value), message)
                .about(quotable(name));
            gather.diagnostics.push(Diagnostic {
                severity: Severity::Warning,
                ..problem
            });
        }
    }
    gather.entries.reserve(members.len());
    for (name, value) in members.iter() {
        if last
            .get(name)
            .is_some_and(|last| std::ptr::eq(*last, value))
        {
            let entry = entry(gather, document, value, name, scope, &rename);
            gather.entries.extend(entry);
        }
    }
}

fn entry<'a>(
    gather: &mut LoadState,
    document: &Document<'a>,
    raw: &'a RawValue,
    name: &str,
    scope: Scope,
    rename: impl Fn(&str) -> String,
) -> Option<ServerEntry> {
    let start = document.offset(raw);
    let full = rename(name);
    let mut findings = Findings::default();
    // A plugin's own name is part of the full one.
    let bad_name = unusable(name).or_else(|| unshowable(&full));
    let checked = match (bad_name, RawEntry::decode(document, raw)) {
        (Some(reason), _) => Err((start, reason)),
        (None, Err(problem)) => Err((problem.offset, problem.message)),
        (None, Ok(entry)) => entry
            .check(
                &full,
                scope,
                document.source(),
                &gather.environment,
                &mut findings,
            )
            .map_err(|message| (start, message)),
    };
    let env = checked
        .as_ref()
        .ok()
        .and_then(|entry| match &entry.transport {
            TransportEntry::Stdio(stdio) => Some(&stdio.env),
            _ => None,
        });
    let own = |name: &str| env.is_some_and(|env| env.contains_key(name));
    for warning in findings.warnings(own) {
        let problem = document.problem(start, warning).about(&full);
        gather.diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            ..problem
        });
    }
    let mistyped = mistyped(document, raw);
    for (at, message) in mistyped.iter().filter(|_| checked.is_ok()) {
        let problem = document.problem(*at, message).about(&full);
        gather.diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            ..problem
        });
    }
    match checked {
        Ok(mut entry) => {
            entry.written = Some(raw.get().into());
            entry.relative_to(&gather.base);
            Some(entry)
        }
        Err((at, mut message)) => {
            for (_, more) in mistyped {
                message = format!("{message}; {more}");
            }
            let problem = document.problem(at, message).about(quotable(&full));
            gather.diagnostics.push(problem);
            None
        }
    }
}

/// The keys of an entry that are no fields, but nearly, where the field itself is not there.
fn mistyped<'a>(document: &Document<'a>, raw: &'a RawValue) -> Vec<(usize, String)> {
    let Ok(members) = document.members(raw) else {
        return Vec::new();
    };
    let near = members.iter().filter_map(|(key, value)| {
        let field = meant(key).filter(|field| members.get(field).is_none())?;
        let message = format!(
            "\"{}\" is not a field: did you mean \"{field}\"?",
            quotable(key)
        );
        Some((document.offset(value), message))
    });
    near.collect()
}
