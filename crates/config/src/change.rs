//! What a person changes about which servers there are: adding and removing them (CFG-4).

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::edit::splice::{self, SpliceError};
use crate::edit::{EditError, EditOptions, edit_file};
use crate::entry::{RawEntry, ServerEntry};
use crate::expand::{Environment, Findings};
use crate::files::{self, shown};
use crate::layout::{Layout, Project};
use crate::load::is_exclusive;
use crate::names::unfit_to_add;
use crate::policy::{Blocked, Policy};
use crate::scopes::KEY;
use crate::scopes::Scope;
use crate::server_set::Source;

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
    pub(crate) layout: Layout,
    project: Project,
    /// How long to wait for other programs.
    patience: Option<Duration>,
}

/// What was written where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub file: PathBuf,
    /// The project in the file, where it keeps several.
    pub project: Option<String>,
    /// Whether the file is another one now; it is not where everything was so already.
    pub changed: bool,
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
    /// The file is not JSON.
    #[error("{0}; mend the file first")]
    NotJson(Diagnostic),
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
            patience: None,
        }
    }

    /// The same, giving up earlier when another program is at a file.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
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
        if scope == Scope::Project {
            self.stays_inside(&file)?;
        }
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
        let changed = self.edit(&file, |text| {
            if get(&file, text, &path)?.is_some() {
                return Err(ChangeError::Exists {
                    name: name.to_owned(),
                    scope,
                    file: file.clone(),
                });
            }
            set(&file, text, &path, entry).map(Some)
        })?;
        Ok(self.written(file, scope, changed))
    }

    /// Adds a server to a scope, or replaces the entry of that name in the file that the scope is written to.
    pub fn add_or_replace(
        &self,
        scope: Scope,
        name: &str,
        entry: &Value,
        policy: &Policy,
    ) -> Result<Written, ChangeError> {
        self.check(scope, name, entry, policy)?;
        let (mut file, path) = self.place(scope, name)?;
        if scope == Scope::User
            && let Ok(found) = self.entry_text(scope, name)
        {
            file = found.file;
        }
        if scope == Scope::Project {
            self.stays_inside(&file)?;
        }
        let changed = self.edit(&file, |text| set(&file, text, &path, entry).map(Some))?;
        Ok(self.written(file, scope, changed))
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
                return Ok(self.written(file, scope, true));
            }
        }
        Err(unknown())
    }

    /// The scopes that have a server of that name and can be changed, strongest first.
    pub fn scopes_of(&self, name: &str) -> Vec<Source> {
        let mut found = Vec::new();
        for scope in [Scope::Local, Scope::Project, Scope::User] {
            for (file, path) in self.places_of(scope, name).unwrap_or_default() {
                let Ok(Some(text)) = files::read(&file) else {
                    continue;
                };
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                if matches!(splice::get(&text, &path), Ok(Some(_))) {
                    found.push(Source {
                        scope,
                        source: shown(&file),
                    });
                    break;
                }
            }
        }
        found
    }

    /// A project's file that is a link to somewhere else would have us change that.
    pub(crate) fn stays_inside(&self, file: &Path) -> Result<(), ChangeError> {
        let (Ok(target), Ok(root)) = (file.canonicalize(), self.project.root.canonicalize()) else {
            return Ok(());
        };
        // A project's file may also stand above the repository.
        let own = file.parent().and_then(|dir| dir.canonicalize().ok());
        if target.starts_with(&root) || target.parent() == own.as_deref() {
            return Ok(());
        }
        Err(ChangeError::File(format!(
            "{} is a link to {}, outside of the project; change that file itself",
            file.display(),
            target.display()
        )))
    }

    pub(crate) fn may_change(&self) -> Result<(), ChangeError> {
        if is_exclusive(&self.layout) {
            return Err(ChangeError::Exclusive(self.layout.managed_servers()));
        }
        Ok(())
    }

    /// Under what this project's choices are kept.
    pub(crate) fn key(&self) -> Result<&str, ChangeError> {
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
                let path = vec!["projects", key, KEY, name];
                Ok((self.layout.global_file.clone(), path))
            }
            Scope::User => Ok((self.layout.global_file.clone(), vec![KEY, name])),
            Scope::Project => {
                let file = self.project.cwd.join(&self.layout.project_file);
                Ok((file, vec![KEY, name]))
            }
            other => Err(ChangeError::ReadOnly(other)),
        }
    }

    /// Every place where a scope may have a server.
    pub(crate) fn places_of(
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

    pub(crate) fn written(&self, file: PathBuf, scope: Scope, changed: bool) -> Written {
        Written {
            file,
            changed,
            project: (scope == Scope::Local).then(|| shown(&self.project.root)),
        }
    }

    /// Edits a file; whether it is another one then.
    pub(crate) fn edit(
        &self,
        file: &Path,
        mut change: impl FnMut(&str) -> Result<Option<String>, ChangeError>,
    ) -> Result<bool, ChangeError> {
        let state = self.layout.state_dir();
        let options = EditOptions {
            locks: Some(&state),
            private: !file.ends_with(&self.layout.project_file),
            patience: self.patience,
        };
        edit_file(file, &options, |text| {
            // In the words in which it is reported everywhere else.
            let source = shown(file);
            let document = Document::new(&source, text);
            if let (false, Err(problem)) = (text.trim().is_empty(), document.root()) {
                return Err(ChangeError::NotJson(problem));
            }
            let new = change(text)?;
            let is_changed = new.as_deref().is_some_and(|new| new != text);
            Ok((new, is_changed))
        })
    }
}

/// Checks an entry as it would be when loaded.
fn check(name: &str, scope: Scope, entry: &Value) -> Result<ServerEntry, ChangeError> {
    if let Some(reason) = unfit_to_add(name) {
        return Err(ChangeError::BadName(reason));
    }
    check_entry(name, scope, entry)
}

/// The same, for an entry whose name is there already.
pub(crate) fn check_entry(
    name: &str,
    scope: Scope,
    entry: &Value,
) -> Result<ServerEntry, ChangeError> {
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

pub(crate) fn get(file: &Path, text: &str, path: &[&str]) -> Result<Option<Value>, ChangeError> {
    let found = splice::get(text, path).map_err(|error| bad_file(file, &error))?;
    let value = found.map(|raw| serde_json::from_str(raw.get())).transpose();
    value.map_err(|error| ChangeError::BadFile {
        file: file.to_owned(),
        problem: error.to_string(),
    })
}

pub(crate) fn set(
    file: &Path,
    text: &str,
    path: &[&str],
    value: &Value,
) -> Result<String, ChangeError> {
    splice::set(text, path, value).map_err(|error| bad_file(file, &error))
}

pub(crate) fn bad_file(file: &Path, error: &SpliceError) -> ChangeError {
    ChangeError::BadFile {
        file: file.to_owned(),
        problem: error.to_string(),
    }
}
