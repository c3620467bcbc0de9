//! Installs the gateway in the configuration of other clients, and removes it again.
//!
//! [`Installer::plan_install`] and [`Installer::plan_uninstall`] read the client's file and say
//! what would change; [`Installer::apply`] writes it under the lock of the file, atomically, and
//! never through a link out of the home directory. `json_file` and `toml_file` edit the two
//! formats, `preview` shows an edit without the secrets around it, and a `receipt` makes the way
//! back exact.

mod client;
mod json_file;
mod preview;
mod receipt;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod toml_file;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use client::{GatewayEntry, InstallClient};
pub use preview::DiffLine;

use crate::edit::text_edit::{self, TextEdit};
use crate::edit::{EditError, EditOptions, ProjectBounds, delete_file, edit_file};
use crate::files;
use crate::import::ClientDirs;
use crate::layout::Layout;
use crate::own_entry::is_gateway_command;
use client::Format;
use receipt::Receipt;

/// Installs the gateway in the files of clients.
///
/// ```
/// use trunkline_config::Layout;
/// use trunkline_config::import::{ClientDirs, Os};
/// use trunkline_config::install::{GatewayEntry, InstallClient, Installer};
///
/// # let home = tempfile::tempdir().unwrap();
/// # let home = home.path().canonicalize().unwrap();
/// let dirs = ClientDirs::under(Os::Linux, &home, &home);
/// let installer = Installer::new(dirs, Layout::under(&home));
/// let gateway = GatewayEntry::Stdio {
///     command: "/usr/bin/trunkline".to_owned(),
///     args: vec!["serve".to_owned()],
/// };
/// let plan = installer.plan_install(InstallClient::Cursor, "trunkline", &gateway)?;
/// installer.apply(&plan)?;
/// assert!(installer.status(InstallClient::Cursor).installed_as.is_some());
/// # Ok::<(), trunkline_config::install::InstallError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Installer {
    dirs: ClientDirs,
    layout: Layout,
    /// The running program, which may have another name than the entries that start it.
    own_program: Option<PathBuf>,
}

/// A client on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStatus {
    /// The client.
    pub client: InstallClient,
    /// Its file.
    pub file: PathBuf,
    /// Whether the client has left traces on this machine.
    pub found: bool,
    /// The name of the entry that starts the gateway.
    pub installed_as: Option<String>,
    /// Why the file cannot be read.
    pub problem: Option<String>,
}

/// A change to a client's file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InstallPlan {
    /// The client.
    pub client: InstallClient,
    /// The name of the entry.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// What changes, with masked values; empty if nothing does.
    pub diff: Vec<DiffLine>,
    /// Whether the file is deleted, because the installation created it.
    pub deletes_file: bool,
    action: Action,
}

impl InstallPlan {
    /// Whether there is anything to write.
    pub fn is_change(&self) -> bool {
        self.deletes_file || !self.diff.is_empty()
    }
}

#[derive(Clone, Debug)]
enum Action {
    Install(Map<String, Value>),
    Uninstall,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The client cannot have such an entry.
    #[error("{0}")]
    Unsupported(&'static str),
    /// Another server has the name.
    #[error("{} has another server \"{name}\"", file.display())]
    Taken {
        /// The name.
        name: String,
        /// The file.
        file: PathBuf,
    },
    /// The file cannot be edited.
    #[error("{}: {problem}", file.display())]
    BadFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file cannot be read or written.
    #[error("{0}")]
    File(String),
}

impl From<EditError> for InstallError {
    fn from(error: EditError) -> Self {
        Self::File(error.to_string())
    }
}

/// The result of an uninstallation.
enum Removal {
    Nothing,
    Text(String),
    /// The file did not exist before the installation.
    File,
}

impl Installer {
    /// Creates an installer for the files of one user.
    pub fn new(dirs: ClientDirs, layout: Layout) -> Self {
        Self {
            dirs,
            layout,
            own_program: None,
        }
    }

    /// Recognises entries that start this program, whatever its name is.
    #[must_use]
    pub fn own_program(mut self, program: Option<PathBuf>) -> Self {
        self.own_program = program;
        self
    }

    /// The status of a client.
    pub fn status(&self, client: InstallClient) -> ClientStatus {
        let file = client.file(&self.dirs, &self.layout);
        let servers = files::read(&file)
            .map_err(|error| error.to_string())
            .and_then(|text| servers(client, text.as_deref().unwrap_or_default()));
        let (servers, problem) = match servers {
            Ok(servers) => (servers, None),
            Err(problem) => (Map::new(), Some(problem)),
        };
        let is_own = |(name, entry): &(&String, &Value)| {
            let receipt = receipt::find(&self.layout, &file, name);
            self.is_own(entry, receipt.as_ref())
        };
        ClientStatus {
            client,
            found: client.is_found(&self.dirs, &self.layout),
            installed_as: servers.iter().find(is_own).map(|(name, _)| name.clone()),
            problem,
            file,
        }
    }

    /// The text of an entry as the client's file would have it, for pasting.
    pub fn snippet(
        &self,
        client: InstallClient,
        name: &str,
        gateway: &GatewayEntry,
    ) -> Result<String, InstallError> {
        let entry = client.entry(gateway).map_err(InstallError::Unsupported)?;
        self.edits(client, name, &entry, "", None)
            .map(|edits| text_edit::apply("", &edits).unwrap_or_default())
    }

    /// Plans the entry `name` in a client's file.
    pub fn plan_install(
        &self,
        client: InstallClient,
        name: &str,
        gateway: &GatewayEntry,
    ) -> Result<InstallPlan, InstallError> {
        let entry = client.entry(gateway).map_err(InstallError::Unsupported)?;
        let file = client.file(&self.dirs, &self.layout);
        let text = read(&file)?.unwrap_or_default();
        let receipt = receipt::find(&self.layout, &file, name);
        let edits = self.edits(client, name, &entry, &text, receipt.as_ref())?;
        let diff = if edits.is_empty() {
            Vec::new()
        } else {
            preview::of_edits(&text, &edits, client.format())
        };
        Ok(InstallPlan {
            client,
            name: name.to_owned(),
            file,
            diff,
            deletes_file: false,
            action: Action::Install(entry),
        })
    }

    /// Plans the removal of the entry `name` from a client's file.
    pub fn plan_uninstall(
        &self,
        client: InstallClient,
        name: &str,
    ) -> Result<InstallPlan, InstallError> {
        let file = client.file(&self.dirs, &self.layout);
        let text = read(&file)?.unwrap_or_default();
        let removal = self.removal(client, name, &file, &text)?;
        let diff = match &removal {
            Removal::Nothing => Vec::new(),
            Removal::Text(new) => preview::of_texts(&text, new, client.format()),
            Removal::File => preview::of_texts(&text, "", client.format()),
        };
        Ok(InstallPlan {
            client,
            name: name.to_owned(),
            file,
            diff,
            deletes_file: matches!(removal, Removal::File),
            action: Action::Uninstall,
        })
    }

    /// Writes a planned change. Returns whether the file changed.
    pub fn apply(&self, plan: &InstallPlan) -> Result<bool, InstallError> {
        match &plan.action {
            Action::Install(entry) => self.install(plan, entry),
            Action::Uninstall => self.uninstall(plan),
        }
    }

    fn install(
        &self,
        plan: &InstallPlan,
        entry: &Map<String, Value>,
    ) -> Result<bool, InstallError> {
        let InstallPlan {
            client, name, file, ..
        } = plan;
        let created_directories = missing_directories(file);
        let state = self.layout.state_dir();
        let bounds = self.bounds();
        let options = options(&state, &bounds);
        edit_file(file, &options, |text| {
            let old = receipt::find(&self.layout, file, name);
            let edits = self.edits(*client, name, entry, text, old.as_ref())?;
            if edits.is_empty() {
                return Ok((None, false));
            }
            let new = text_edit::apply(text, &edits);
            let undo = text_edit::inverse(text, &edits);
            let (Some(new), Some(undo)) = (new, undo) else {
                return Err(bad_file(file, "it cannot be edited"));
            };
            // Before the file: without its receipt, an entry can only be removed, not undone. An
            // update is not undone to the entry before it, but the way back stays.
            if let Some(mut old) = old {
                old.written = Some(entry.clone());
                receipt::store(&self.layout, &old)?;
            } else {
                let receipt = Receipt {
                    written: Some(entry.clone()),
                    client: client.id().to_owned(),
                    file: file.clone(),
                    name: name.clone(),
                    sha256: receipt::hash(&new),
                    undo,
                    created_file: text.is_empty() && !file.exists(),
                    created_directories: created_directories.clone(),
                    created_section: !has_section(*client, text),
                };
                receipt::store(&self.layout, &receipt)?;
            }
            Ok((Some(new), true))
        })
    }

    fn uninstall(&self, plan: &InstallPlan) -> Result<bool, InstallError> {
        let InstallPlan {
            client, name, file, ..
        } = plan;
        let state = self.layout.state_dir();
        let bounds = self.bounds();
        let options = options(&state, &bounds);
        let receipt = receipt::find(&self.layout, file, name);
        let changed = if plan.deletes_file {
            delete_file(file, &options, |text| {
                let removal = self.removal(*client, name, file, text)?;
                Ok::<_, InstallError>(matches!(removal, Removal::File))
            })?
        } else {
            edit_file(file, &options, |text| {
                match self.removal(*client, name, file, text)? {
                    Removal::Text(new) => Ok((Some(new), true)),
                    Removal::Nothing | Removal::File => Ok::<_, InstallError>((None, false)),
                }
            })?
        };
        if plan.deletes_file && !changed {
            return Err(bad_file(file, "it changed meanwhile; try again"));
        }
        receipt::forget(&self.layout, file, name)?;
        if let (true, Some(receipt)) = (plan.deletes_file, receipt) {
            for directory in receipt.created_directories.iter().rev() {
                // Only if it is empty.
                let _ = std::fs::remove_dir(directory);
            }
        }
        Ok(changed)
    }

    /// The edits that install an entry; none if the file has it.
    fn edits(
        &self,
        client: InstallClient,
        name: &str,
        entry: &Map<String, Value>,
        text: &str,
        receipt: Option<&Receipt>,
    ) -> Result<Vec<TextEdit>, InstallError> {
        let file = client.file(&self.dirs, &self.layout);
        let failed = |problem: String| bad_file(&file, problem);
        let old = servers(client, text).map_err(failed)?.remove(name);
        if old.as_ref().is_some_and(|old| !self.is_own(old, receipt)) {
            let name = name.to_owned();
            return Err(InstallError::Taken { name, file });
        }
        let section = client.section();
        let edits = match client.format() {
            Format::Json(dialect) => json_file::set(text, section, name, entry, old, dialect),
            Format::Toml => toml_file::set(text, section, name, entry)
                .map(|new| toml_file::line_edit(text, &new)),
        };
        edits.map_err(failed)
    }

    /// What a file is without the entry.
    fn removal(
        &self,
        client: InstallClient,
        name: &str,
        file: &Path,
        text: &str,
    ) -> Result<Removal, InstallError> {
        let receipt = receipt::find(&self.layout, file, name);
        let failed = |problem: String| bad_file(file, problem);
        let Some(entry) = servers(client, text).map_err(failed)?.remove(name) else {
            return Ok(Removal::Nothing);
        };
        // Somebody else's entry may start this program too, or have replaced ours.
        let wrote = receipt
            .as_ref()
            .is_some_and(|receipt| receipt.wrote(&entry));
        if !wrote || !self.is_own(&entry, receipt.as_ref()) {
            let (name, file) = (name.to_owned(), file.to_owned());
            return Err(InstallError::Taken { name, file });
        }
        if let Some(receipt) = receipt.as_ref().filter(|receipt| receipt.fits(text)) {
            if receipt.created_file {
                return Ok(Removal::File);
            }
            if let Some(old) = text_edit::apply(text, &receipt.undo) {
                return Ok(Removal::Text(old));
            }
        }
        let section = client.section();
        let created_section = receipt.is_some_and(|receipt| receipt.created_section);
        let removed = match client.format() {
            Format::Json(dialect) => {
                json_file::remove(text, section, name, created_section, dialect)
            }
            Format::Toml => toml_file::remove(text, section, name),
        };
        let removed = removed.map_err(failed)?;
        Ok(removed.map_or(Removal::Nothing, Removal::Text))
    }

    /// Whether an entry leads to the gateway. A URL is known by its receipt.
    fn is_own(&self, entry: &Value, receipt: Option<&Receipt>) -> bool {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        if let Some(command) = text("command") {
            let given = entry.get("args").and_then(Value::as_array);
            let args = given.into_iter().flatten().filter_map(Value::as_str);
            let words: Vec<&str> = std::iter::once(command).chain(args).collect();
            return is_gateway_command(&words, self.own_program.as_deref());
        }
        let url = text("url").or_else(|| text("httpUrl"));
        url.is_some() && receipt.is_some_and(|receipt| receipt.wrote(entry))
    }

    /// The home directory, and directories that a variable moved out of it.
    fn bounds(&self) -> ProjectBounds {
        let ClientDirs {
            os: _,
            home,
            config,
            app_data,
            codex,
            project: _,
        } = &self.dirs;
        let global = self.layout.global_file.parent();
        let moved = [Some(&**config), Some(app_data), Some(codex), global];
        let moved = moved.into_iter().flatten();
        let outside = moved.filter(|directory| !directory.starts_with(home));
        ProjectBounds::trees(std::iter::once(&**home).chain(outside))
    }
}

fn read(file: &Path) -> Result<Option<String>, InstallError> {
    files::read(file).map_err(|error| bad_file(file, error))
}

fn options<'a>(state: &'a Path, bounds: &'a ProjectBounds) -> EditOptions<'a> {
    EditOptions {
        locks: Some(state),
        private: true,
        lock_timeout: None,
        bounds: Some(bounds),
    }
}

/// The servers of a client's file.
fn servers(client: InstallClient, text: &str) -> Result<Map<String, Value>, String> {
    let section = client.section();
    match client.format() {
        Format::Json(dialect) => json_file::servers(text, section, dialect),
        Format::Toml => toml_file::servers(text, section),
    }
}

fn has_section(client: InstallClient, text: &str) -> bool {
    match client.format() {
        Format::Json(dialect) => json_file::has_section(text, client.section(), dialect),
        // A table of tables needs no header.
        Format::Toml => true,
    }
}

/// The directories of a file that do not exist, outermost first.
fn missing_directories(file: &Path) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1);
    let missing = above.take_while(|directory| !directory.exists());
    let mut missing: Vec<_> = missing.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

fn bad_file(file: &Path, problem: impl std::fmt::Display) -> InstallError {
    InstallError::BadFile {
        file: file.to_owned(),
        problem: problem.to_string(),
    }
}
