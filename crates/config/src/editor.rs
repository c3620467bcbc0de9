//! Adds, removes and switches servers in configuration files (CFG-4, CFG-10).

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::edit::splice;
use crate::edit::{EditError, EditOptions, ProjectBounds, edit_file};
use crate::entry::{RawEntry, ServerEntry};
use crate::expand::{Environment, ExpansionReport};
use crate::files::{self, shown};
use crate::layout::{Layout, Project};
use crate::load::is_exclusive;
use crate::names::check_new_name;
use crate::policy::{Blocked, Policy};
use crate::scopes::{KEY, Scope};
use crate::server_set::Source;

/// Edits configuration files. Each edit is atomic and leaves every other byte of the file
/// unchanged.
///
/// ```
/// # let home = tempfile::tempdir().unwrap();
/// use trunkline_config::{Editor, Layout, Policy, Scope};
///
/// let editor = Editor::new(Layout::under(home.path()), home.path());
/// let entry = serde_json::json!({"type": "stdio", "command": "cat", "args": [], "env": {}});
/// let outcome = editor.add(Scope::User, "cat", &entry, &Policy::default())?;
/// assert_eq!(outcome.file, home.path().join(".claude.json"));
/// # Ok::<(), trunkline_config::ChangeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Editor {
    pub(crate) layout: Layout,
    project: Project,
    /// How long to wait for the lock of a file; `None` is the default.
    lock_timeout: Option<Duration>,
}

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The edited file.
    pub file: PathBuf,
    /// The project within the file, for files that hold several.
    pub project: Option<String>,
    /// Whether the file changed; `false` if it already had the requested content.
    pub changed: bool,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The enterprise configuration has exclusive control over the servers.
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
    /// The name is invalid.
    #[error("{0}")]
    BadName(String),
    /// The entry is invalid.
    #[error("the entry of \"{name}\" is invalid: {reason}")]
    BadEntry {
        /// The server.
        name: String,
        /// Why it is invalid.
        reason: String,
    },
    /// The scope already has a server of that name.
    #[error("the {scope} scope already has a server \"{name}\" ({})", file.display())]
    Exists {
        /// The server.
        name: String,
        /// The scope.
        scope: Scope,
        /// The file that holds it.
        file: PathBuf,
    },
    /// The scope has no server of that name.
    #[error("there is no server \"{name}\" in the {scope} scope")]
    Unknown {
        /// The server.
        name: String,
        /// The scope.
        scope: Scope,
    },
    /// Servers of that scope are not kept in a file that can be edited.
    #[error("servers of the {0} scope cannot be changed here; use local, project or user")]
    ReadOnly(Scope),
    /// The file is not JSON.
    #[error("{0}; fix the file first")]
    NotJson(Diagnostic),
    /// The file does not have the expected structure.
    #[error("{}: {problem}; fix the file first", file.display())]
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
    /// Whether an administrator's configuration forbids the change.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Exclusive(_) | Self::Blocked { .. })
    }
}

impl From<EditError> for ChangeError {
    fn from(error: EditError) -> Self {
        Self::File(error.to_string())
    }
}

/// Changes one list of names.
type EditList<'a> = &'a dyn Fn(&mut Vec<Value>);

impl Editor {
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Creates an editor for the files that apply in a working directory.
    pub fn new(layout: Layout, cwd: impl Into<PathBuf>) -> Self {
        Self {
            layout,
            project: Project::at(cwd),
            lock_timeout: None,
        }
    }

    /// Waits at most this long for the lock of a file.
    pub(crate) fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = Some(timeout);
        self
    }

    /// Adds a server to a scope.
    pub fn add(
        &self,
        scope: Scope,
        name: &str,
        entry: &Value,
        policy: &Policy,
    ) -> Result<WriteOutcome, ChangeError> {
        self.check(scope, name, entry, policy)?;
        let (file, path) = self.target(scope, name)?;
        let exists = |file: PathBuf| ChangeError::Exists {
            name: name.to_owned(),
            scope,
            file,
        };
        // The user's settings may hold a server of that name, which the new one would shadow.
        if scope == Scope::User
            && let Ok(found) = self.entry_text(scope, name)
        {
            return Err(exists(found.file));
        }
        let changed = self.edit(&file, |text| {
            if get(&file, text, &path)?.is_some() {
                return Err(exists(file.clone()));
            }
            set(&file, text, &path, entry).map(Some)
        })?;
        Ok(self.outcome(file, scope, changed))
    }

    /// Adds a server to a scope, or replaces the entry of that name in the scope's file.
    pub fn add_or_replace(
        &self,
        scope: Scope,
        name: &str,
        entry: &Value,
        policy: &Policy,
    ) -> Result<WriteOutcome, ChangeError> {
        self.check(scope, name, entry, policy)?;
        let (mut file, path) = self.target(scope, name)?;
        if scope == Scope::User
            && let Ok(found) = self.entry_text(scope, name)
        {
            file = found.file;
        }
        let changed = self.edit(&file, |text| set(&file, text, &path, entry).map(Some))?;
        Ok(self.outcome(file, scope, changed))
    }

    /// Checks whether a server could be added to a scope: its name, its entry and policy.
    pub fn check(
        &self,
        scope: Scope,
        name: &str,
        entry: &Value,
        policy: &Policy,
    ) -> Result<(), ChangeError> {
        self.check_not_exclusive()?;
        check_new_name(name).map_err(ChangeError::BadName)?;
        check_entry(name, scope, entry, policy)
    }

    /// Removes a server from a scope.
    pub fn remove(&self, scope: Scope, name: &str) -> Result<WriteOutcome, ChangeError> {
        self.check_not_exclusive()?;
        // Several files may hold it; the first one takes effect.
        let (files, path) = self.candidates(scope, name)?;
        for file in files {
            // A missing file needs no lock, and its directory may not be writable.
            if matches!(files::read(&file), Ok(None)) {
                continue;
            }
            let mut found = false;
            self.edit(&file, |text| {
                let left = remove(&file, text, &path)?;
                found = left.is_some();
                Ok(left)
            })?;
            if found {
                return Ok(self.outcome(file, scope, true));
            }
        }
        Err(unknown(scope, name))
    }

    /// Enables or disables a server for this project (CFG-10).
    pub fn set_enabled(
        &self,
        entry: &ServerEntry,
        enabled: bool,
    ) -> Result<WriteOutcome, ChangeError> {
        let set_member = |names: &mut Vec<Value>, member: bool| {
            let name = entry.name.as_str();
            if member && !names.iter().any(|known| known == name) {
                names.push(json!(name));
            } else if !member {
                names.retain(|known| known != name);
            }
        };
        self.edit_lists([
            ("disabledMcpServers", &|names| set_member(names, !enabled)),
            // Overrides `"disabled": true` in the entry, and only then.
            ("enabledMcpServers", &|names| {
                set_member(names, enabled && entry.disabled);
            }),
        ])
    }

    /// The editable scopes that have a server of that name, strongest first.
    pub fn scopes_of(&self, name: &str) -> Vec<Source> {
        let found = [Scope::Local, Scope::Project, Scope::User].map(|scope| {
            let (files, path) = self.candidates(scope, name).ok()?;
            let file = files.into_iter().find(|file| {
                let Ok(Some(text)) = files::read(file) else {
                    return false;
                };
                matches!(splice::get(&text, &path), Ok(Some(_)))
            })?;
            Some(Source {
                scope,
                source: shown(&file),
            })
        });
        found.into_iter().flatten().collect()
    }

    pub(crate) fn check_not_exclusive(&self) -> Result<(), ChangeError> {
        if is_exclusive(&self.layout) {
            return Err(ChangeError::Exclusive(self.layout.managed_servers()));
        }
        Ok(())
    }

    /// The key of this project in `~/.claude.json`.
    pub(crate) fn key(&self) -> Result<&str, ChangeError> {
        self.project.key().ok_or_else(|| {
            let message = "the path of the project is not UTF-8, so nothing can be stored for it";
            ChangeError::File(message.to_owned())
        })
    }

    /// The file and the JSON path that a new server of a scope is written to.
    fn target<'a>(
        &'a self,
        scope: Scope,
        name: &'a str,
    ) -> Result<(PathBuf, Vec<&'a str>), ChangeError> {
        let global = || self.layout.global_file.clone();
        match scope {
            Scope::Local => Ok((global(), vec!["projects", self.key()?, KEY, name])),
            Scope::User => Ok((global(), vec![KEY, name])),
            Scope::Project => {
                let file = self.project.cwd.join(&self.layout.project_file);
                Ok((file, vec![KEY, name]))
            }
            other => Err(ChangeError::ReadOnly(other)),
        }
    }

    /// Every file in which a scope may hold a server, and the JSON path of the entry in it.
    pub(crate) fn candidates<'a>(
        &'a self,
        scope: Scope,
        name: &'a str,
    ) -> Result<(Vec<PathBuf>, Vec<&'a str>), ChangeError> {
        let (file, path) = self.target(scope, name)?;
        let mut files = vec![file];
        match scope {
            Scope::User => files.push(self.layout.settings_file()),
            Scope::Project => {
                let above = self.project.cwd.ancestors().skip(1);
                files.extend(above.map(|dir| dir.join(&self.layout.project_file)));
            }
            _ => {}
        }
        Ok((files, path))
    }

    pub(crate) fn outcome(&self, file: PathBuf, scope: Scope, changed: bool) -> WriteOutcome {
        WriteOutcome {
            file,
            changed,
            project: (scope == Scope::Local).then(|| shown(&self.project.root)),
        }
    }

    /// Edits a file and returns whether it changed.
    pub(crate) fn edit(
        &self,
        file: &Path,
        mut change: impl FnMut(&str) -> Result<Option<String>, ChangeError>,
    ) -> Result<bool, ChangeError> {
        let state = self.layout.state_dir();
        let is_projects = file.ends_with(&self.layout.project_file);
        let bounds = if is_projects {
            let users = [&*self.layout.global_file, &*self.layout.config_dir];
            let bounds = ProjectBounds::new(file, &self.project.root, &users);
            Some(bounds.ok_or_else(|| bad_file(file, "its directory cannot be read"))?)
        } else {
            None
        };
        let options = EditOptions {
            locks: Some(&state),
            private: !is_projects,
            lock_timeout: self.lock_timeout,
            bounds: bounds.as_ref(),
        };
        edit_file(file, &options, |text| {
            // A syntax error reads the same as when the file is loaded.
            let source = shown(file);
            let document = Document::new(&source, text);
            if let (false, Err(problem)) = (text.trim().is_empty(), document.root()) {
                return Err(ChangeError::NotJson(problem));
            }
            let new = change(text)?;
            let changed = new.as_deref().is_some_and(|new| new != text);
            Ok((new, changed))
        })
    }

    /// Edits lists of names that `~/.claude.json` keeps for this project. A missing list that stays
    /// empty is not created.
    pub(crate) fn edit_lists(
        &self,
        lists: [(&str, EditList<'_>); 2],
    ) -> Result<WriteOutcome, ChangeError> {
        let file = self.layout.global_file.clone();
        let key = self.key()?;
        let changed = self.edit(&file, |text| {
            let mut text = text.to_owned();
            for (list, change) in lists {
                let path = ["projects", key, list];
                let before = match get(&file, &text, &path)? {
                    Some(Value::Array(names)) => names,
                    None | Some(Value::Null) => Vec::new(),
                    Some(_) => return Err(bad_file(&file, format!("\"{list}\" is not a list"))),
                };
                let mut names = before.clone();
                change(&mut names);
                if names != before {
                    text = set(&file, &text, &path, &names.into())?;
                }
            }
            Ok(Some(text))
        })?;
        Ok(self.outcome(file, Scope::Local, changed))
    }
}

/// Checks an entry as loading does, and against policy.
pub(crate) fn check_entry(
    name: &str,
    scope: Scope,
    entry: &Value,
    policy: &Policy,
) -> Result<(), ChangeError> {
    let bad = |reason: String| ChangeError::BadEntry {
        name: name.to_owned(),
        reason,
    };
    let text = entry.to_string();
    let document = Document::new("", &text);
    let raw = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let raw = RawEntry::decode(&document, raw).map_err(|problem| bad(problem.message))?;
    let mut report = ExpansionReport::default();
    let checked = raw
        .check(name, scope, "", &Environment::process(), &mut report)
        .map_err(bad)?;
    match policy.blocks(&checked) {
        Some(blocked) => Err(ChangeError::Blocked {
            name: name.to_owned(),
            blocked,
        }),
        None => Ok(()),
    }
}

/// The JSON value at `path`.
pub(crate) fn get(file: &Path, text: &str, path: &[&str]) -> Result<Option<Value>, ChangeError> {
    let found = splice::get(text, path).map_err(|error| bad_file(file, error))?;
    let value = found.map(|raw| serde_json::from_str(raw.get())).transpose();
    value.map_err(|error| bad_file(file, error))
}

/// The text with the value at `path` set.
pub(crate) fn set(
    file: &Path,
    text: &str,
    path: &[&str],
    value: &Value,
) -> Result<String, ChangeError> {
    splice::set(text, path, value).map_err(|error| bad_file(file, error))
}

/// The text without the member at `path`; `None` if there is none.
pub(crate) fn remove(
    file: &Path,
    text: &str,
    path: &[&str],
) -> Result<Option<String>, ChangeError> {
    splice::remove(text, path).map_err(|error| bad_file(file, error))
}

pub(crate) fn bad_file(file: &Path, problem: impl std::fmt::Display) -> ChangeError {
    ChangeError::BadFile {
        file: file.to_owned(),
        problem: problem.to_string(),
    }
}

pub(crate) fn unknown(scope: Scope, name: &str) -> ChangeError {
    ChangeError::Unknown {
        name: name.to_owned(),
        scope,
    }
}
