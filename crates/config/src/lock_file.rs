//! `.mcp.lock.json`: the versions and contents of a project's servers, beside its `.mcp.json`.
//!
//! Loading compares it with what is configured. `trunkline lock` writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::edit::{EditError, replace_file};
use crate::entry::ServerEntry;
use crate::files;
use crate::packages::{Package, Registry};
use crate::scopes::Scope;

/// The name of the file.
const FILE: &str = ".mcp.lock.json";

/// The version of the format.
const VERSION: u32 = 1;

/// The locked servers of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LockFile {
    version: u32,
    /// The servers by name.
    pub servers: BTreeMap<String, LockedServer>,
}

/// A locked server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LockedServer {
    /// The package that its command fetches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<LockedPackage>,
    /// The repository files that it runs, with their SHA-256.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A locked package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LockedPackage {
    /// Its registry.
    pub registry: Registry,
    /// Its name.
    pub name: String,
    /// Its version; for an image, its digest.
    pub version: String,
    /// The hashes of its content, as the registry lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub integrity: Vec<String>,
    /// Further packages that the command installs, as it names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The registries that the command or the entry's `env` names, without credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<String>,
}

impl LockedPackage {
    /// A package at a version.
    pub fn new(package: &Package, version: impl Into<String>, integrity: Vec<String>) -> Self {
        Self {
            registry: package.registry,
            name: package.name.clone(),
            version: version.into(),
            integrity,
            also: package.also.clone(),
            registries: package.shown_registries(),
        }
    }
}

impl LockFile {
    /// Creates a file without servers.
    pub fn new() -> Self {
        Self {
            version: VERSION,
            servers: BTreeMap::new(),
        }
    }

    /// Returns the path beside a servers file.
    pub fn path_beside(servers_file: &Path) -> PathBuf {
        servers_file.with_file_name(FILE)
    }

    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn read(path: &Path) -> Result<Option<Self>, String> {
        let text = files::read(path).map_err(|error| error.to_string())?;
        let Some(text) = text else {
            return Ok(None);
        };
        let file: Self = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if file.version != VERSION {
            return Err(format!(
                "its version is {}, expected {VERSION}",
                file.version
            ));
        }
        Ok(Some(file))
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        replace_file(path, &format!("{text}\n")).map_err(|error: EditError| error.to_string())
    }
}

impl Default for LockFile {
    fn default() -> Self {
        Self::new()
    }
}

impl LockedServer {
    /// The files that an entry runs, without its package.
    pub fn of_files(entry: &ServerEntry) -> Self {
        let files = entry.files.iter();
        Self {
            package: None,
            files: files
                .map(|file| (file.path.clone(), file.sha256.clone()))
                .collect(),
        }
    }

    /// Returns how an entry differs from what is locked.
    pub fn differences(&self, entry: &ServerEntry) -> Vec<String> {
        let mut found = Vec::new();
        match (&self.package, Package::of(entry)) {
            (None, None) => {}
            (None, Some(package)) => {
                found.push(format!(
                    "it runs the package {}, which is not locked",
                    package.name
                ));
            }
            (Some(locked), None) => {
                found.push(format!(
                    "it does not run the locked package {}",
                    locked.name
                ));
            }
            (Some(locked), Some(package)) => {
                found.extend(package_difference(locked, &package));
                found.extend(surroundings_difference(locked, &package));
            }
        }
        let now = Self::of_files(entry).files;
        for (path, hash) in &self.files {
            match now.get(path) {
                Some(now) if now == hash => {}
                Some(_) => found.push(format!("{path} is not the locked file")),
                None => found.push(format!("it does not run the locked file {path}")),
            }
        }
        let added = now.keys().filter(|path| !self.files.contains_key(*path));
        found.extend(added.map(|path| format!("it runs {path}, which is not locked")));
        found
    }
}

fn package_difference(locked: &LockedPackage, package: &Package) -> Option<String> {
    let LockedPackage { name, version, .. } = locked;
    if locked.registry != package.registry || locked.name != package.name {
        return Some(format!(
            "it runs the package {}, locked is {name}",
            package.name
        ));
    }
    match &package.requested {
        Some(requested) if package.is_pinned && requested == version => None,
        Some(requested) if package.is_pinned => {
            Some(format!("it runs {name} {requested}, locked is {version}"))
        }
        _ => Some(format!(
            "it runs any version of {name}, locked is {version}; pin that version in its command"
        )),
    }
}

/// Differences in what is installed beside a package, and in where it comes from.
fn surroundings_difference(locked: &LockedPackage, package: &Package) -> Vec<String> {
    let registries = package.shown_registries();
    let mut found = Vec::new();
    for (now, then, what) in [
        (&package.also, &locked.also, "installs"),
        (&registries, &locked.registries, "takes packages from"),
    ] {
        let added = now.iter().filter(|one| !then.contains(one));
        found.extend(added.map(|one| format!("it {what} {one}, which is not locked")));
        let removed = then.iter().filter(|one| !now.contains(one));
        found.extend(removed.map(|one| format!("it {what} {one} no more, which is locked")));
    }
    found
}

/// The lock files beside the servers files of a project's entries, each read once.
pub(crate) fn problems_with_locks(entries: &[ServerEntry]) -> LockProblems {
    let mut found = LockProblems::default();
    let mut known: BTreeMap<PathBuf, Option<LockFile>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.scope == Scope::Project) {
        let path = LockFile::path_beside(Path::new(&entry.source));
        let locked = known.entry(path.clone()).or_insert_with(|| {
            found.files.push(path.clone());
            LockFile::read(&path).unwrap_or_else(|problem| {
                let message = format!("the lock file cannot be used: {problem}");
                found.problems.push((path.clone(), None, message));
                None
            })
        });
        let Some(locked) = locked else {
            continue;
        };
        let differences = match locked.servers.get(&entry.name) {
            Some(server) => server.differences(entry),
            None => vec!["it is not locked".to_owned()],
        };
        for difference in differences {
            let message = format!("{difference}; if that is intended, run `trunkline lock`");
            let about = Some(entry.name.clone());
            found.problems.push((path.clone(), about, message));
        }
    }
    found
}

/// The differences from lock files.
#[derive(Default)]
pub(crate) struct LockProblems {
    /// The lock files, whether they exist or not.
    pub(crate) files: Vec<PathBuf>,
    /// File, server and problem.
    pub(crate) problems: Vec<(PathBuf, Option<String>, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_from_the_lock_are_told() {
        let locked = |version: &str| LockedServer {
            package: Some(LockedPackage {
                registry: Registry::Npm,
                name: "x".to_owned(),
                version: version.to_owned(),
                integrity: Vec::new(),
                also: Vec::new(),
                registries: Vec::new(),
            }),
            ..LockedServer::default()
        };
        for (args, expected) in [
            (&["-y", "x@1.2.3"][..], ""),
            (&["-y", "x@1.2.4"], "it runs x 1.2.4, locked is 1.2.3"),
            (
                &["-y", "x"],
                "it runs any version of x, locked is 1.2.3; pin that version in its command",
            ),
            (
                &["-y", "x@latest"],
                "it runs any version of x, locked is 1.2.3; pin that version in its command",
            ),
            (&["-y", "y@1.2.3"], "it runs the package y, locked is x"),
            (
                &["--registry=https://r.example", "x@1.2.3"],
                "it takes packages from --registry=https://r.example, which is not locked",
            ),
            (
                &["-p", "x@1.2.3", "-p", "y@1.2.3", "x"],
                "it installs y@1.2.3, which is not locked",
            ),
        ] {
            let entry = ServerEntry::stdio("s", "npx", args.iter().copied());
            let found = locked("1.2.3").differences(&entry);
            assert_eq!(found.join(";"), expected, "{args:?}");
        }
        let entry = ServerEntry::stdio("s", "node", ["a.js"]);
        assert_eq!(
            locked("1").differences(&entry),
            ["it does not run the locked package x"]
        );
        let npx = ServerEntry::stdio("s", "npx", ["x@1.2.3"]);
        let unlocked = LockedServer::default().differences(&npx);
        assert_eq!(unlocked, ["it runs the package x, which is not locked"]);
    }
}
