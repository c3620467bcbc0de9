//! What a person decides about servers that are there: switched on or off, approved or rejected (CFG-6, CFG-10).

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::approve::Approved;
use crate::change::{ChangeError, Editor, Written, bad_file, get, set};
use crate::diagnostic::Diagnostic;
use crate::edit::splice;
use crate::entry::ServerEntry;
use crate::files::{self, shown};
use crate::load::Loader;
use crate::names::normalize_name;
use crate::scopes::Scope;
use crate::server_set::{ServerSet, Standing};

pub(crate) const ENABLED: &str = "enabledMcpjsonServers";
const DISABLED: &str = "disabledMcpjsonServers";
const ENABLE_ALL: &str = "enableAllProjectMcpServers";

/// How long loading may wait until approvals can be written down.
const BINDING_PATIENCE: Duration = Duration::from_secs(1);

impl Editor {
    /// Switches a server on or off for this project (CFG-10).
    pub fn set_enabled(&self, entry: &ServerEntry, on: bool) -> Result<Written, ChangeError> {
        let name = entry.name.as_str();
        let file = self.layout.global_file.clone();
        let changed = self.edit(&file, |text| {
            let text = self.change_list(&file, text, "disabledMcpServers", |names| {
                set_member(names, name, !on);
            })?;
            // An entry that switches itself off is overridden, and no longer than need be.
            let overridden = on && entry.disabled;
            let text = self.change_list(&file, &text, "enabledMcpServers", |names| {
                set_member(names, name, overridden);
            })?;
            Ok(Some(text))
        })?;
        Ok(self.written(file, Scope::Local, changed))
    }

    /// Approves servers of the project as they are now (CFG-6).
    pub fn approve(&self, servers: &[&ServerEntry]) -> Result<Written, ChangeError> {
        // The content first: a name without it would be approved for whatever comes.
        let content = servers.iter().map(|entry| (*entry, Approved::of(entry)));
        let recorded = self.record(&content.collect::<Vec<_>>())?;
        let file = self.layout.global_file.clone();
        let changed = self.edit(&file, |text| {
            let text = self.change_list(&file, text, DISABLED, |names| {
                for entry in servers {
                    forget(names, &entry.name);
                }
            })?;
            let text = self.change_list(&file, &text, ENABLED, |names| {
                for entry in servers {
                    forget(names, &entry.name);
                    names.push(json!(entry.name));
                }
            })?;
            Ok(Some(text))
        })?;
        // An approval that was given by name before is only recorded with its content now.
        let file = match (changed, recorded) {
            (false, true) => self.layout.approvals_file(),
            _ => file,
        };
        Ok(self.written(file, Scope::Local, changed || recorded))
    }

    /// Rejects servers of the project.
    pub fn reject(&self, names: &[&str]) -> Result<Written, ChangeError> {
        let file = self.layout.global_file.clone();
        let changed = self.edit(&file, |text| {
            let text = self.change_list(&file, text, ENABLED, |list| {
                for name in names {
                    forget(list, name);
                }
            })?;
            let text = self.change_list(&file, &text, DISABLED, |list| {
                for name in names {
                    forget(list, name);
                    list.push(json!(name));
                }
            })?;
            Ok(Some(text))
        })?;
        Ok(self.written(file, Scope::Local, changed))
    }

    /// Forgets every approval and rejection of this project's servers. Gives the files that changed.
    pub fn reset_choices(&self) -> Result<Vec<Written>, ChangeError> {
        let key = self.key()?;
        let global = self.layout.global_file.clone();
        let mut changed = Vec::new();
        let is_changed = self.edit_existing(&global, |text| {
            let mut new = text.to_owned();
            for list in [ENABLED, DISABLED] {
                let path = ["projects", key, list];
                let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
                if get(&global, &new, &path)?.is_some_and(|value| !is_empty(&value)) {
                    new = set(&global, &new, &path, &json!([]))?;
                }
            }
            let all = ["projects", key, ENABLE_ALL];
            let left = splice::remove(&new, &all).map_err(|error| bad_file(&global, &error))?;
            Ok(left.unwrap_or(new))
        })?;
        if is_changed {
            changed.push(self.written(global, Scope::Local, true));
        }
        let approvals = self.layout.approvals_file();
        let is_changed = self.edit_existing(&approvals, |text| {
            let left = splice::remove(text, &["projects", key])
                .map_err(|error| bad_file(&approvals, &error))?;
            Ok(left.unwrap_or_else(|| text.to_owned()))
        })?;
        if is_changed {
            changed.push(self.written(approvals, Scope::Local, true));
        }
        Ok(changed)
    }

    /// Changes a file that is there; whether it is another one then.
    fn edit_existing(
        &self,
        file: &Path,
        change: impl Fn(&str) -> Result<String, ChangeError>,
    ) -> Result<bool, ChangeError> {
        // Where there is no file there is nothing to lock, and nothing to create.
        if matches!(files::read(file), Ok(None)) {
            return Ok(false);
        }
        self.edit(file, |text| change(text).map(Some))
    }

    /// Changes a list of names that is kept for this project; one that is not there and stays empty is not made.
    fn change_list(
        &self,
        file: &Path,
        text: &str,
        list: &str,
        change: impl FnOnce(&mut Vec<Value>),
    ) -> Result<String, ChangeError> {
        let key = self.key()?;
        let path = ["projects", key, list];
        let before = get(file, text, &path)?;
        let mut names: Vec<Value> = match &before {
            Some(Value::Array(names)) => names.clone(),
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                return Err(ChangeError::BadFile {
                    file: file.to_owned(),
                    problem: format!("\"{list}\" is not a list"),
                });
            }
        };
        let had = names.clone();
        change(&mut names);
        if names == had {
            return Ok(text.to_owned());
        }
        set(file, text, &path, &names.into())
    }

    /// Keeps what was approved; whether it is news.
    fn record(&self, content: &[(&ServerEntry, Approved)]) -> Result<bool, ChangeError> {
        if content.is_empty() {
            return Ok(false);
        }
        let file = self.layout.approvals_file();
        let key = self.key()?;
        self.edit(&file, |text| {
            let mut text = text.to_owned();
            for (entry, approved) in content {
                let path = ["projects", key, &entry.source, &entry.name];
                text = set(&file, &text, &path, &json!(approved))?;
            }
            Ok(Some(text))
        })
        .map_err(|error| match error {
            // Nobody has written it by hand, so nobody can be asked to mend it.
            ChangeError::NotJson(problem) => ChangeError::File(format!(
                "{problem}; delete that file, which holds what was approved, and approve again"
            )),
            ChangeError::BadFile { file, problem } => ChangeError::File(format!(
                "{}: {problem}; delete that file, which holds what was approved, and approve again",
                file.display()
            )),
            error => error,
        })
    }
}

impl ServerSet {
    /// Binds approvals that other programs gave by name to the content that was found with them first (CFG-6).
    pub fn record_approvals(&self, loader: &Loader) -> Result<(), Diagnostic> {
        let unbound = self.servers.iter();
        let content: Vec<_> = unbound
            .filter_map(|server| Some((&server.entry, server.to_record.clone()?)))
            .collect();
        let project = loader.project().cwd.clone();
        let editor = Editor::new(loader.layout().clone(), project).patient_for(BINDING_PATIENCE);
        editor.record(&content).map(|_| ()).map_err(|error| {
            let file = shown(&loader.layout().approvals_file());
            let message = format!("approvals by name cannot be bound to what was approved, so they do not count: {error}");
            Diagnostic::error(file, message)
        })
    }

    /// Binds approvals by name, and takes back those that cannot be bound: one that is good for whatever comes is none.
    pub fn bind_approvals(&mut self, loader: &Loader) {
        let Err(problem) = self.record_approvals(loader) else {
            return;
        };
        for server in &mut self.servers {
            if server.to_record.take().is_some() {
                server.standing = Standing::PendingApproval { before: None };
            }
        }
        self.diagnostics.push(problem);
    }
}

/// Makes a name be in a list, or not.
fn set_member(names: &mut Vec<Value>, name: &str, member: bool) {
    if member && !names.iter().any(|known| known == name) {
        names.push(json!(name));
    } else if !member {
        names.retain(|known| known != name);
    }
}

/// Takes a name out of a list, in every spelling that counts as it.
fn forget(names: &mut Vec<Value>, name: &str) {
    let normal = normalize_name(name);
    names.retain(|known| {
        known
            .as_str()
            .is_none_or(|known| normalize_name(known) != normal)
    });
}
