//! `doctor --fix`: the repairs that neither weaken security nor guess, through the editor of the
//! configuration.
//!
//! Only entries of the user's own files are changed, and never those of a project or a managed
//! file: others depend on them.

use std::path::Path;

use serde_json::{Value, json};
use trunkline_config::{EntryEdit, Scope};

use super::diagnosis::Repair;
use super::entry_of;
use super::report::{ServerReport, Verdict};
use crate::audit;
use crate::output::{self, Lines, inline, name};
use crate::session::Configured;

/// A repair of one server.
pub(super) struct Fix {
    server: String,
    scope: Scope,
    repair: Repair,
    state: FixState,
}

enum FixState {
    Planned,
    Applied,
    /// Not done, and why.
    Refused(String),
}

/// Returns whether `--fix` would do anything.
pub(super) fn is_worthwhile(reports: &[ServerReport]) -> bool {
    reports.iter().any(|report| {
        let step = report.failure();
        step.is_some_and(|step| step.repair.is_some())
            && matches!(report.scope, Some("local" | "user"))
    })
}

/// Returns the repairs of the failed servers.
pub(super) fn plan(configured: &Configured, reports: &[ServerReport]) -> Vec<Fix> {
    let failed = reports
        .iter()
        .filter(|report| report.verdict == Verdict::Failed);
    let fixes = failed.filter_map(|report| {
        let repair = report.failure()?.repair.clone()?;
        let scope = entry_of(configured, report)?.entry.scope;
        let state = match scope {
            Scope::Local | Scope::User => FixState::Planned,
            Scope::Project => {
                FixState::Refused("others share the project's file; change it yourself".to_owned())
            }
            scope => FixState::Refused(format!("entries of the {scope} scope are not changed")),
        };
        Some(Fix {
            server: report.name.clone(),
            scope,
            repair,
            state,
        })
    });
    fixes.collect()
}

impl Fix {
    pub(super) fn is_applied(&self) -> bool {
        matches!(self.state, FixState::Applied)
    }

    /// Makes the change, if it may be made.
    pub(super) fn apply(&mut self, configured: &Configured) {
        if !matches!(self.state, FixState::Planned) {
            return;
        }
        let done = match &self.repair {
            Repair::MakeExecutable(path) => make_executable(path),
            repair => self.edit(configured, repair),
        };
        self.state = match done {
            Ok(()) => FixState::Applied,
            Err(problem) => FixState::Refused(problem),
        };
    }

    fn edit(&self, configured: &Configured, repair: &Repair) -> Result<(), String> {
        let editor = configured.editor();
        let seen = editor.entry_text(self.scope, &self.server);
        let seen = seen.map_err(|error| error.to_string())?;
        let entry: Value = serde_json::from_str(&seen.text).map_err(|error| error.to_string())?;
        let edits = edits(repair, &entry)?;
        let policy = &configured.set.policy;
        let changed = editor.edit_entry(self.scope, &self.server, &seen, &edits, policy);
        let changed = changed.map_err(|error| error.to_string())?;
        audit::record_change(&changed.write, &json!({"edited": self.server}));
        Ok(())
    }

    /// Returns what the repair changes.
    fn text(&self) -> String {
        match &self.repair {
            Repair::AddYes => "add \"-y\" to the arguments of npx".to_owned(),
            Repair::SetType(kind) => format!("set \"type\" to \"{kind}\""),
            Repair::SetUrl { url, kind } => {
                let url = trunkline_config::redact::redact_url(url);
                match kind {
                    Some(kind) => format!("set \"url\" to {url} and \"type\" to \"{kind}\""),
                    None => format!("set \"url\" to {url}"),
                }
            }
            Repair::SetCommand { to, search, .. } => {
                let also = if search.is_some() {
                    ", and its directory on the server's PATH"
                } else {
                    ""
                };
                format!("set \"command\" to {}{also}", to.display())
            }
            Repair::MakeExecutable(path) => format!("make {} executable for you", path.display()),
        }
    }

    pub(super) fn as_value(&self) -> Value {
        let mut value = json!({
            "server": self.server,
            "change": self.text(),
            "applied": self.is_applied(),
        });
        if let FixState::Refused(reason) = &self.state {
            value["reason"] = json!(reason);
        }
        value
    }
}

/// Prints the repairs.
pub(super) fn print(fixes: &[Fix]) {
    let mut lines = Lines::new();
    if fixes.is_empty() {
        lines.push("nothing that can be fixed automatically");
    }
    for fix in fixes {
        let (server, text) = (name(&fix.server), inline(&fix.text()));
        lines.push(match &fix.state {
            FixState::Planned => format!("would fix {server}: {text}"),
            FixState::Applied => format!("fixed {server}: {text}"),
            FixState::Refused(reason) => {
                format!("did not fix {server}: {text}: {}", inline(reason))
            }
        });
    }
    output::result(lines);
}

/// Returns the edits of an entry as written.
fn edits(repair: &Repair, entry: &Value) -> Result<Vec<EntryEdit>, String> {
    match repair {
        Repair::AddYes => {
            let mut words = vec![json!("-y")];
            words.extend(entry["args"].as_array().into_iter().flatten().cloned());
            Ok(vec![EntryEdit::set(&["args"], words)])
        }
        Repair::SetType(kind) => Ok(vec![EntryEdit::set(&["type"], *kind)]),
        Repair::SetUrl { url, kind } => {
            let written = entry["url"].as_str().unwrap_or_default();
            if written.contains('$') {
                return Err("its \"url\" has variables".to_owned());
            }
            let mut edits = vec![EntryEdit::set(&["url"], url.as_str())];
            edits.extend(kind.map(|kind| EntryEdit::set(&["type"], kind)));
            Ok(edits)
        }
        Repair::SetCommand { from, to, search } => {
            if entry["command"].as_str() != Some(from) {
                return Err("its \"command\" has variables".to_owned());
            }
            let to = to.to_str().ok_or("the path is not UTF-8")?;
            let mut edits = vec![EntryEdit::set(&["command"], to)];
            if let Some(search) = search {
                if entry["env"].get("PATH").is_some() {
                    return Err("its \"env\" already sets PATH".to_owned());
                }
                let path = format!("{}:${{PATH}}", search.display());
                edits.push(EntryEdit::set(&["env", "PATH"], path));
            }
            Ok(edits)
        }
        Repair::MakeExecutable(_) => Ok(Vec::new()),
    }
}

/// Lets the owner of a file run it.
#[cfg(unix)]
fn make_executable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |error: std::io::Error| error.to_string();
    let mut permissions = std::fs::symlink_metadata(path)
        .map_err(failed)?
        .permissions();
    permissions.set_mode(permissions.mode() | 0o100);
    std::fs::set_permissions(path, permissions).map_err(failed)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<(), String> {
    Err("files have no executable bit here".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_change_only_what_was_diagnosed() {
        type Case<'a> = (Repair, &'a Value, Result<Vec<EntryEdit>, &'static str>);

        let entry = json!({"command": "npx", "args": ["pkg"], "url": "http://h/${P}"});
        let set_command = |from: &str, search: Option<&str>| Repair::SetCommand {
            from: from.to_owned(),
            to: "/b/npx".into(),
            search: search.map(Into::into),
        };
        let set_url = || Repair::SetUrl {
            url: "http://h/mcp".to_owned(),
            kind: Some("sse"),
        };
        let cases: [Case; 6] = [
            (
                Repair::AddYes,
                &entry,
                Ok(vec![EntryEdit::set(&["args"], json!(["-y", "pkg"]))]),
            ),
            (
                Repair::SetType("sse"),
                &entry,
                Ok(vec![EntryEdit::set(&["type"], "sse")]),
            ),
            (set_url(), &entry, Err("its \"url\" has variables")),
            (
                set_url(),
                &json!({"url": "http://h/"}),
                Ok(vec![
                    EntryEdit::set(&["url"], "http://h/mcp"),
                    EntryEdit::set(&["type"], "sse"),
                ]),
            ),
            (
                set_command("npx", Some("/b")),
                &entry,
                Ok(vec![
                    EntryEdit::set(&["command"], "/b/npx"),
                    EntryEdit::set(&["env", "PATH"], "/b:${PATH}"),
                ]),
            ),
            (
                set_command("uvx", None),
                &entry,
                Err("its \"command\" has variables"),
            ),
        ];
        for (repair, entry, expected) in cases {
            let found = edits(&repair, entry);
            assert!(found == expected.map_err(str::to_owned), "{repair:?}");
        }
    }
}
