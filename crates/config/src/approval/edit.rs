//! Writes approvals and rejections of a project's servers (CFG-6).

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::ApprovedEntry;
use crate::diagnostic::Diagnostic;
use crate::editor::{ChangeError, Editor, WriteOutcome, get, remove, set};
use crate::entry::ServerEntry;
use crate::files::{self, shown};
use crate::load::Loader;
use crate::names::normalize_name;
use crate::scopes::Scope;
use crate::server_set::{EntryStatus, ServerSet};

const ENABLED: &str = "enabledMcpjsonServers";
const DISABLED: &str = "disabledMcpjsonServers";
const ENABLE_ALL: &str = "enableAllProjectMcpServers";

/// How long loading waits for the lock of the approvals file.
const BIND_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A stored approval. Its server may no longer be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRecord {
    /// The project, as its key in `~/.claude.json`.
    pub project: String,
    /// The file that held the server.
    pub source: String,
    /// The server.
    pub name: String,
}

impl Editor {
    /// Approves servers of the project with their current content.
    pub fn approve(&self, servers: &[&ServerEntry]) -> Result<WriteOutcome, ChangeError> {
        // The content first: a name without content would approve whatever comes next.
        let content = servers
            .iter()
            .map(|entry| (*entry, ApprovedEntry::of(entry)));
        let recorded = self.record(&content.collect::<Vec<_>>())?;
        let names = || servers.iter().map(|entry| entry.name.as_str());
        let mut outcome = self.move_names(names, DISABLED, ENABLED)?;
        // The name was approved before; only its content is new.
        if recorded && !outcome.changed {
            outcome.file = self.layout.approvals_file();
            outcome.changed = true;
        }
        Ok(outcome)
    }

    /// Rejects servers of the project.
    pub fn reject(&self, names: &[&str]) -> Result<WriteOutcome, ChangeError> {
        self.move_names(|| names.iter().copied(), ENABLED, DISABLED)
    }

    /// Removes every approval and rejection of this project's servers. Returns the changed files.
    pub fn reset_approvals(&self) -> Result<Vec<WriteOutcome>, ChangeError> {
        let key = self.key()?;
        let mut changed = Vec::new();
        let global = self.layout.global_file.clone();
        let is_changed = self.edit_existing(&global, |text| {
            let mut new = text.to_owned();
            for list in [ENABLED, DISABLED] {
                let path = ["projects", key, list];
                let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
                if get(&global, &new, &path)?.is_some_and(|value| !is_empty(&value)) {
                    new = set(&global, &new, &path, &json!([]))?;
                }
            }
            let left = remove(&global, &new, &["projects", key, ENABLE_ALL])?;
            Ok(left.unwrap_or(new))
        })?;
        if is_changed {
            changed.push(self.outcome(global, Scope::Local, true));
        }
        let approvals = self.layout.approvals_file();
        let is_changed = self.edit_existing(&approvals, |text| {
            let left = remove(&approvals, text, &["projects", key])?;
            Ok(left.unwrap_or_else(|| text.to_owned()))
        })?;
        if is_changed {
            changed.push(self.outcome(approvals, Scope::Local, true));
        }
        Ok(changed)
    }

    /// Returns the stored approvals of all projects.
    pub fn approvals(&self) -> Result<Vec<ApprovalRecord>, ChangeError> {
        let file = self.layout.approvals_file();
        let text = files::read(&file)
            .map_err(|error| ChangeError::File(format!("{}: {error}", file.display())))?
            .unwrap_or_default();
        let projects = get(&file, &text, &["projects"])?.unwrap_or_default();
        let mut found = Vec::new();
        let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
        for (project, sources) in members(&projects) {
            for (source, servers) in members(&sources) {
                for name in members(&servers).keys() {
                    found.push(ApprovalRecord {
                        project: project.clone(),
                        source: source.clone(),
                        name: name.clone(),
                    });
                }
            }
        }
        Ok(found)
    }

    /// Deletes stored approvals. The name goes first: a name without its approved content would
    /// approve whatever comes next.
    pub fn forget_approvals(&self, records: &[ApprovalRecord]) -> Result<(), ChangeError> {
        if records.is_empty() {
            return Ok(());
        }
        let global = self.layout.global_file.clone();
        self.edit_existing(&global, |text| {
            let mut text = text.to_owned();
            for record in records {
                let path = ["projects", &record.project, ENABLED];
                let Some(Value::Array(mut names)) = get(&global, &text, &path)? else {
                    continue;
                };
                let before = names.len();
                remove_name(&mut names, &record.name);
                if names.len() < before {
                    text = set(&global, &text, &path, &names.into())?;
                }
            }
            Ok(text)
        })?;
        let file = self.layout.approvals_file();
        self.edit(&file, |text| {
            let mut text = text.to_owned();
            for record in records {
                let path = ["projects", &record.project, &record.source, &record.name];
                text = remove(&file, &text, &path)?.unwrap_or(text);
                // Objects that are empty now go too.
                for parent in [&path[..3], &path[..2]] {
                    let value = get(&file, &text, parent)?;
                    let object = value.as_ref().and_then(Value::as_object);
                    if object.is_some_and(serde_json::Map::is_empty) {
                        text = remove(&file, &text, parent)?.unwrap_or(text);
                    }
                }
            }
            Ok(Some(text))
        })?;
        Ok(())
    }

    /// Moves names from one list of this project to another.
    fn move_names<'n, I: Iterator<Item = &'n str>>(
        &self,
        names: impl Fn() -> I,
        from: &str,
        to: &str,
    ) -> Result<WriteOutcome, ChangeError> {
        self.edit_lists([
            (from, &|list| {
                names().for_each(|name| remove_name(list, name));
            }),
            (to, &|list| {
                for name in names() {
                    remove_name(list, name);
                    list.push(json!(name));
                }
            }),
        ])
    }

    /// Edits a file if it exists, and returns whether it changed.
    fn edit_existing(
        &self,
        file: &Path,
        change: impl Fn(&str) -> Result<String, ChangeError>,
    ) -> Result<bool, ChangeError> {
        if matches!(files::read(file), Ok(None)) {
            return Ok(false);
        }
        self.edit(file, |text| change(text).map(Some))
    }

    /// Stores what was approved, and returns whether that changed the file.
    fn record(&self, content: &[(&ServerEntry, ApprovedEntry)]) -> Result<bool, ChangeError> {
        if content.is_empty() {
            return Ok(false);
        }
        let file = self.layout.approvals_file();
        let key = self.key()?;
        let recorded = self.edit(&file, |text| {
            let mut text = text.to_owned();
            for (entry, approved) in content {
                let path = ["projects", key, &entry.source, &entry.name];
                text = set(&file, &text, &path, &json!(approved))?;
            }
            Ok(Some(text))
        });
        // The file is ours, so the user cannot be expected to fix it.
        let broken = |problem: String| {
            ChangeError::File(format!(
                "{problem}; delete this file of approvals and approve again"
            ))
        };
        recorded.map_err(|error| match error {
            ChangeError::NotJson(problem) => broken(problem.to_string()),
            ChangeError::BadFile { file, problem } => {
                broken(format!("{}: {problem}", file.display()))
            }
            error => error,
        })
    }
}

impl ServerSet {
    /// Binds approvals by name alone, given in other programs, to the content found with them first
    /// (CFG-6). An approval that cannot be bound is revoked: it would cover any later content.
    pub fn bind_approvals(&mut self, loader: &Loader) {
        let Err(problem) = self.record_approvals(loader) else {
            return;
        };
        for server in &mut self.servers {
            if server.unbound_approval.take().is_some() {
                server.status = EntryStatus::PendingApproval { before: None };
            }
        }
        self.diagnostics.push(problem);
    }

    /// Stores the content of approvals by name alone.
    pub fn record_approvals(&self, loader: &Loader) -> Result<(), Diagnostic> {
        let content: Vec<_> = self
            .servers
            .iter()
            .filter_map(|server| Some((&server.entry, server.unbound_approval.clone()?)))
            .collect();
        let project = loader.project().cwd.clone();
        let editor = Editor::new(loader.layout().clone(), project).lock_timeout(BIND_LOCK_TIMEOUT);
        editor.record(&content).map(|_| ()).map_err(|error| {
            let file = shown(&loader.layout().approvals_file());
            let message = format!(
                "approvals by name do not count, because they cannot be bound to the approved \
                 content: {error}"
            );
            Diagnostic::error(file, message)
        })
    }
}

/// Removes a name from a list, in every spelling that normalises to it.
fn remove_name(names: &mut Vec<Value>, name: &str) {
    let normalized = normalize_name(name);
    let is_same = |known: &str| normalize_name(known) == normalized;
    names.retain(|known| !known.as_str().is_some_and(is_same));
}
