//! Why a server does not run, in words, and what to do about it.

use serde_json::{Value, json};
use trunkline_config::{Change, Server, Standing, changes};

use crate::exit::Exit;
use crate::output;

/// Why a server does not run, and what to do; `None` for one that does, or that is only switched off.
pub(crate) fn reason(server: &Server) -> Option<(String, Option<String>)> {
    let name = quoted(&server.entry.name);
    match &server.standing {
        Standing::Active | Standing::Disabled => None,
        Standing::PendingApproval { before: None } => Some((
            "it comes with the project and needs your approval".to_owned(),
            Some(format!(
                "look at it with `trunkline get {name}`, then `trunkline approve {name}`"
            )),
        )),
        Standing::PendingApproval { before: Some(_) } => Some((
            "it has changed since you approved it".to_owned(),
            Some(format!(
                "if the change is wanted: `trunkline approve {name}`"
            )),
        )),
        Standing::Rejected { source } => Some((
            format!("you rejected it ({source})"),
            Some(format!(
                "if you changed your mind: `trunkline approve {name}`"
            )),
        )),
        Standing::Blocked(blocked) => Some((format!("policy does not allow it: {blocked}"), None)),
        Standing::Suppressed { by } => Some((format!("it is the same server as \"{by}\""), None)),
        Standing::Shadowed { by } => {
            Some((format!("an entry of the same name hides it: {by}"), None))
        }
    }
}

/// What has changed since a server was approved.
pub(crate) fn differences(server: &Server) -> Vec<Change> {
    match &server.standing {
        Standing::PendingApproval {
            before: Some(before),
        } => changes(before, &server.entry),
        _ => Vec::new(),
    }
}

/// Old and new, one below the other.
pub(crate) fn difference_lines(changes: &[Change]) -> Vec<String> {
    let side = |value: &Option<Value>| value.as_ref().map_or("(none)".to_owned(), Value::to_string);
    let hidden = |value: &Option<Value>| {
        let text = value.as_ref().and_then(Value::as_str);
        text.is_some_and(|text| text.starts_with("sha256:"))
    };
    changes
        .iter()
        .flat_map(|change| {
            if hidden(&change.old) && hidden(&change.new) {
                return vec![format!("~ {}: another value", change.field)];
            }
            let shown = |value: &Option<Value>| {
                if hidden(value) {
                    "***".to_owned()
                } else {
                    side(value)
                }
            };
            vec![
                format!("- {}: {}", change.field, shown(&change.old)),
                format!("+ {}: {}", change.field, shown(&change.new)),
            ]
        })
        .collect()
}

/// The same for `--json`.
pub(crate) fn difference_json(changes: &[Change]) -> Value {
    let side = |value: &Option<Value>| match value {
        Some(Value::String(text)) if text.starts_with("sha256:") => json!("***"),
        Some(value) => value.clone(),
        None => Value::Null,
    };
    changes
        .iter()
        .map(|change| json!({"field": change.field, "old": side(&change.old), "new": side(&change.new)}))
        .collect()
}

/// Explains that a server may not run.
pub(crate) fn refuse(server: &Server) -> Exit {
    if let Some((reason, hint)) = reason(server) {
        let what = format!(
            "the server \"{}\" does not run: {reason}",
            server.entry.name
        );
        output::error(&what, hint.as_deref());
    }
    Exit::Refused
}

/// A name as it is written on a command line.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}
