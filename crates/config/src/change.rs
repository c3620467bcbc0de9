//! What a person changes about servers: adding, removing, switching on and off, approving (CFG-4, CFG-6, CFG-10).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::approve::Approved;
use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::edit::splice::{self, SpliceError};
use crate::edit::{EditError, EditOptions, edit_file};
use crate::entry::{RawEntry, ServerEntry};
use crate::expand::{Environment, Findings};
use crate::files::{self, shown};
use crate::layout::{Layout, Project};
use crate::load::{Loader, is_exclusive};
use crate::names::{normalize_name, unfit_to_add};
use crate::policy::{Blocked, Policy};
use crate::scopes::Scope;
use crate::server_set::{Place, Server, ServerSet};

const SERVERS: &str = "mcpServers";
const ENABLED: &str = "enabledMcpjsonServers";
const DISABLED: &str = "disabledMcpjsonServers";
const ENABLE_ALL: &str = "enableAllProjectMcpServers";

/// Changes configuration files: each change is whole or not at all, and touches nothing else.
///
/// ```
/// # let home = tempfile::tempdir().unwrap();
/// use trunkline_config::{Editor, Layout, Policy, Scope};
///
/// let editor = Editor::new(Layout::under(home.path()), home.path());
/// let entry = serde_json::json!({"type": "stdio", "command": "cat", "args": [], "env": {}});
/// let written = editor.add(Scope::User, "cat", &entry, &Policy::default())?;
/// assert_eq!(written.file, home.path().join(".claude.json"));
/// # Ok::<(), trunkline_config::ChangeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Editor {
    layout: Layout,
    project: Project,
}

/// What was written where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub file: PathBuf,
    /// The project in the file, where it keeps several.
    pub project: Option<String>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The company's file alone decides which servers there are.
    #[error("the enterprise configuration {} has exclusive control, so servers cannot be added or removed here", .0.display())]
    Exclusive(PathBuf),
    /// Policy forbids the server.
    #[error("the server \"{name}\" is blocked by policy: {blocked}")]
    Blocked {
        /// The server.
        name: String,
        /// The rule.
        blocked: Blocked,
    },
    /// The name cannot be used.
    #[error("{0}")]
    BadName(String),
    /// The entry is wrong.
    #[error("the entry of \"{name}\" cannot be used: {reason}")]
    BadEntry {
        /// The server.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The scope has such a server already.
    #[error("there is a server \"{name}\" in the {scope} scope already ({})", file.display())]
    Exists {
        /// The server.
        name: String,
        /// The scope.
        scope: Scope,
        /// Its file.
        file: PathBuf,
    },
    /// The scope has no such server.
    #[error("there is no server \"{name}\" in the {scope} scope")]
    Unknown {
        /// The server.
        name: String,
        /// The scope.
        scope: Scope,
    },
    /// Servers of that scope are not written here.
    #[error("servers of the {0} scope cannot be changed here; write local, project or user")]
    ReadOnly(Scope),
    /// The file is not what it should be.
    #[error("{}: {problem}; mend the file first", file.display())]
    BadFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file could not be read or written.
    #[error("{0}")]
    File(String),
}

impl ChangeError {
    /// Whether a company's configuration stands in the way.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Exclusive(_) | Self::Blocked { .. })
    }
}

impl From<EditError> for ChangeError {
    fn from(error: EditError) -> Self {
        Self::File(error.to_string())
    }
}

impl Editor {
    /// Changes what counts in this working directory.
    pub fn new(layout: Layout, cwd: impl Into<PathBuf>) -> Self {
        Self {
            layout,
            project: Project::at(cwd),
        }
    }

    /// Adds a server to a scope.
    pub fn add(
        &self,
        scope: Scope,
        name: &str,
        entry: &Value,
        policy: &Policy,
    ) -> Result<Written, ChangeError> {
        self.check(scope, name, entry, policy)?;
        let (file, path) = self.place(scope, name)?;
        // The user's servers may stand in a second file, where they would be hidden by the new one.
        if scope == Scope::User
            && let Some(place) = self
                .scopes_of(name)
                .iter()
                .find(|place| place.scope == scope)
        {
            return Err(ChangeError::Exists {
                name: name.to_owned(),
                scope,
                file: PathBuf::from(&place.source),
            });
        }
        self.edit(&file, |text| {
            if get(&file, text, &path)?.is_some() {
                return Err(ChangeError::Exists {
                    name: name.to_owned(),
                    scope,
                    file: file.clone(),
                });
            }
            set(&file, text, &path, entry).map(Some)
        })?;
        Ok(self.written(file, scope))
    }

    /// Whether a server could be added to a scope, as far as its name, its entry and policy go.
    pub fn check(
        &self,
        scope: Scope,
        name: &str,
        entry: &Value,
        policy: &Policy,
    ) -> Result<(), ChangeError> {
        self.may_change()?;
        let checked = check(name, scope, entry)?;
        match policy.blocks(&checked) {
            Some(blocked) => Err(ChangeError::Blocked {
                name: name.to_owned(),
                blocked,
            }),
            None => Ok(()),
        }
    }

    /// Removes a server from a scope.
    pub fn remove(&self, scope: Scope, name: &str) -> Result<Written, ChangeError> {
        self.may_change()?;
        let unknown = || ChangeError::Unknown {
            name: name.to_owned(),
            scope,
        };
        // It may stand in several files; the one that counts goes first.
        let places = self.places_of(scope, name)?;
        for (file, path) in places {
            // Where there is no file there is nothing to lock, and perhaps no right to.
            if matches!(files::read(&file), Ok(None)) {
                continue;
            }
            let mut found = false;
            self.edit(&file, |text| {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let left = splice::remove(text, &path).map_err(|error| bad_file(&file, &error))?;
                found = left.is_some();
                Ok(left)
            })?;
            if found {
                return Ok(self.written(file, scope));
            }
        }
        Err(unknown())
    }

    /// The scopes that have a server of that name and can be changed, strongest first.
    pub fn scopes_of(&self, name: &str) -> Vec<Place> {
        let mut found = Vec::new();
        for scope in [Scope::Local, Scope::Project, Scope::User] {
            for (file, path) in self.places_of(scope, name).unwrap_or_default() {
                let Ok(Some(text)) = files::read(&file) else {
                    continue;
                };
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                if matches!(splice::get(&text, &path), Ok(Some(_))) {
                    found.push(Place {
                        scope,
                        source: shown(&file),
                    });
                    break;
                }
            }
        }
        found
    }

    /// Switches a server on or off for this project (CFG-10).
    pub fn set_enabled(&self, entry: &ServerEntry, on: bool) -> Result<Written, ChangeError> {
        let name = entry.name.as_str();
        let file = self.layout.global_file.clone();
        self.edit(&file, |text| {
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
        Ok(self.written(file, Scope::Local))
    }

    /// Approves servers of the project as they are now (CFG-6).
    pub fn approve(&self, servers: &[&ServerEntry]) -> Result<Written, ChangeError> {
        // The content first: a name without it would be approved for whatever comes.
        let content = servers.iter().map(|entry| (*entry, Approved::of(entry)));
        self.record(&content.collect::<Vec<_>>())?;
        let file = self.layout.global_file.clone();
        self.edit(&file, |text| {
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
        Ok(self.written(file, Scope::Local))
    }

    /// Rejects servers of the project.
    pub fn reject(&self, names: &[&str]) -> Result<Written, ChangeError> {
        let file = self.layout.global_file.clone();
        self.edit(&file, |text| {
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
        Ok(self.written(file, Scope::Local))
    }

    /// Forgets every approval and rejection of this project's servers.
    pub fn reset_choices(&self) -> Result<Written, ChangeError> {
        let file = self.layout.global_file.clone();
        let key = self.key()?;
        self.edit(&file, |text| {
            let mut text = text.to_owned();
            for list in [ENABLED, DISABLED] {
                let path = ["projects", key, list];
                if get(&file, &text, &path)?.is_some() {
                    text = set(&file, &text, &path, &json!([]))?;
                }
            }
            let all = ["projects", key, ENABLE_ALL];
            if let Some(left) =
                splice::remove(&text, &all).map_err(|error| bad_file(&file, &error))?
            {
                text = left;
            }
            Ok(Some(text))
        })?;
        let approvals = self.layout.approvals_file();
        self.edit(&approvals, |text| {
            splice::remove(text, &["projects", key]).map_err(|error| bad_file(&approvals, &error))
        })?;
        Ok(self.written(file, Scope::Local))
    }

    fn may_change(&self) -> Result<(), ChangeError> {
        if is_exclusive(&self.layout) {
            return Err(ChangeError::Exclusive(self.layout.managed_servers()));
        }
        Ok(())
    }

    /// Under what this project's choices are kept.
    fn key(&self) -> Result<&str, ChangeError> {
        self.project.key().ok_or_else(|| {
            let message =
                "the name of the project's directory is not UTF-8, so nothing can be kept for it";
            ChangeError::File(message.to_owned())
        })
    }

    /// Where a new server of a scope is written.
    fn place<'a>(
        &'a self,
        scope: Scope,
        name: &'a str,
    ) -> Result<(PathBuf, Vec<&'a str>), ChangeError> {
        match scope {
            Scope::Local => {
                let key = self.key()?;
                let path = vec!["projects", key, SERVERS, name];
                Ok((self.layout.global_file.clone(), path))
            }
            Scope::User => Ok((self.layout.global_file.clone(), vec![SERVERS, name])),
            Scope::Project => {
                let file = self.project.cwd.join(&self.layout.project_file);
                Ok((file, vec![SERVERS, name]))
            }
            other => Err(ChangeError::ReadOnly(other)),
        }
    }

    /// Every place where a scope may have a server.
    fn places_of(
        &self,
        scope: Scope,
        name: &str,
    ) -> Result<Vec<(PathBuf, Vec<String>)>, ChangeError> {
        let (file, path) = self.place(scope, name)?;
        let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
        let more: Vec<PathBuf> = match scope {
            Scope::User => vec![self.layout.settings_file()],
            Scope::Project => {
                let above = self.project.cwd.ancestors().skip(1);
                above
                    .map(|dir| dir.join(&self.layout.project_file))
                    .collect()
            }
            _ => Vec::new(),
        };
        let files = std::iter::once(file).chain(more);
        Ok(files.map(|file| (file, path.clone())).collect())
    }

    fn written(&self, file: PathBuf, scope: Scope) -> Written {
        Written {
            file,
            project: (scope == Scope::Local).then(|| shown(&self.project.root)),
        }
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

    fn edit(
        &self,
        file: &Path,
        mut change: impl FnMut(&str) -> Result<Option<String>, ChangeError>,
    ) -> Result<(), ChangeError> {
        let state = self.layout.state_dir();
        let options = EditOptions {
            locks: Some(&state),
            private: !file.ends_with(&self.layout.project_file),
        };
        edit_file(file, &options, |text| change(text).map(|text| (text, ())))
    }

    /// Keeps what was approved.
    fn record(&self, content: &[(&ServerEntry, Approved)]) -> Result<(), ChangeError> {
        if content.is_empty() {
            return Ok(());
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
    }
}

impl ServerSet {
    /// Binds approvals that other programs gave by name to the content that was found with them first (CFG-6).
    pub fn record_approvals(&self, loader: &Loader) -> Result<(), Diagnostic> {
        let unbound = |server: &Server| server.to_record.clone();
        let content: Vec<_> = self
            .servers
            .iter()
            .filter_map(|server| Some((&server.entry, unbound(server)?)))
            .collect();
        let editor = Editor {
            layout: loader.layout().clone(),
            project: loader.project().clone(),
        };
        editor.record(&content).map_err(|error| {
            let file = shown(&loader.layout().approvals_file());
            let message = format!("approvals cannot be bound to what was approved: {error}");
            Diagnostic::warning(file, message)
        })
    }
}

/// Checks an entry as it would be when loaded.
fn check(name: &str, scope: Scope, entry: &Value) -> Result<ServerEntry, ChangeError> {
    if let Some(reason) = unfit_to_add(name) {
        return Err(ChangeError::BadName(reason));
    }
    let bad = |reason: String| ChangeError::BadEntry {
        name: name.to_owned(),
        reason,
    };
    let text = entry.to_string();
    let document = Document::new("", &text);
    let raw = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let raw = RawEntry::decode(&document, raw).map_err(|problem| bad(problem.message))?;
    let mut findings = Findings::default();
    raw.check(name, scope, "", &Environment::process(), &mut findings)
        .map_err(bad)
}

fn get(file: &Path, text: &str, path: &[&str]) -> Result<Option<Value>, ChangeError> {
    let found = splice::get(text, path).map_err(|error| bad_file(file, &error))?;
    let value = found.map(|raw| serde_json::from_str(raw.get())).transpose();
    value.map_err(|error| ChangeError::BadFile {
        file: file.to_owned(),
        problem: error.to_string(),
    })
}

fn set(file: &Path, text: &str, path: &[&str], value: &Value) -> Result<String, ChangeError> {
    splice::set(text, path, value).map_err(|error| bad_file(file, &error))
}

fn bad_file(file: &Path, error: &SpliceError) -> ChangeError {
    ChangeError::BadFile {
        file: file.to_owned(),
        problem: error.to_string(),
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
