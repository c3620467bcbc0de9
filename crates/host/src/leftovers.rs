//! Finds files of servers that are no longer configured.
//!
//! The caller decides which servers are known. Deleting a leftover of a running server loses its
//! log lines or cached lists; a pin is created again at the next call.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use trunkline_config::{CONNECTOR_PREFIX, ServerEntry};

use crate::catalog::CatalogKey;
use crate::connection::Source;
use crate::logs::{LogStore, log_path, rotated_path};
use crate::pins::pin_file;
use crate::result::{is_result_of, is_saved_result};

/// Maximum size of a pin file to inspect.
const MAX_PIN_BYTES: u64 = 64 * 1024 * 1024;

/// The directories in which a host stores files.
#[derive(Clone, Debug, Default)]
pub struct KeptFiles {
    /// Logs.
    pub logs: Option<PathBuf>,
    /// Saved results.
    pub results: Option<PathBuf>,
    /// Catalogs of earlier runs.
    pub catalogs: Option<PathBuf>,
    /// Pins.
    pub pins: Option<PathBuf>,
}

/// The kind of a leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LeftoverKind {
    /// A server's log.
    Log,
    /// A saved result.
    Result,
    /// The catalog of an earlier run.
    Catalog,
    /// The pins of a server's tools.
    Pins,
}

impl LeftoverKind {
    /// Returns the kind's name in `clean --json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Result => "result",
            Self::Catalog => "catalog",
            Self::Pins => "pins",
        }
    }
}

/// A file of a removed server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// The kind.
    pub kind: LeftoverKind,
    /// The server, if the file names it.
    pub server: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// The size.
    pub bytes: u64,
    /// The time of the last write.
    pub modified: Option<SystemTime>,
}

/// Returns the files that belong to none of these servers. Connectors are not configured, so only
/// their catalogs count as leftovers. May block.
///
/// ```
/// use trunkline::storage::{KeptFiles, leftovers};
///
/// let kept = KeptFiles { logs: Some("/nonexistent".into()), ..KeptFiles::default() };
/// assert!(leftovers(&kept, &[]).is_empty());
/// ```
pub fn leftovers(kept: &KeptFiles, known: &[ServerEntry]) -> Vec<Leftover> {
    let names: HashSet<&str> = known.iter().map(|entry| entry.name.as_str()).collect();
    let is_connector = |name: &str| name.starts_with(CONNECTOR_PREFIX.trim_end());
    let sources = || {
        let entries = known.iter().cloned();
        entries.map(|entry| Source::Entry(entry.into()))
    };
    let mut found = Vec::new();
    if let Some(dir) = &kept.logs {
        let current: HashSet<PathBuf> = names.iter().map(|name| log_path(dir, name)).collect();
        for (server, path) in LogStore::at(dir).files(None) {
            if !current.contains(&path) && !is_connector(&server) {
                let both = [path.clone(), rotated_path(&path)];
                let of_server = both.into_iter();
                found
                    .extend(of_server.filter_map(|path| {
                        leftover(LeftoverKind::Log, Some(server.clone()), path)
                    }));
            }
        }
    }
    for path in kept.results.as_deref().map(files).unwrap_or_default() {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        let is_known = || names.iter().any(|server| is_result_of(name, server));
        if is_saved_result(name) && !is_known() {
            found.extend(leftover(LeftoverKind::Result, None, path));
        }
    }
    if let Some(dir) = &kept.catalogs {
        let current: HashSet<PathBuf> = sources()
            .map(|source| CatalogKey::new(&source.hash(), None).path(dir))
            .collect();
        for path in files(dir) {
            if CatalogKey::is_of(&path) && !current.contains(&path) {
                found.extend(leftover(LeftoverKind::Catalog, None, path));
            }
        }
    }
    if let Some(dir) = &kept.pins {
        let current: HashSet<PathBuf> = sources()
            .map(|source| pin_file(dir, &source.pin_key()))
            .collect();
        for path in files(dir) {
            let server = server_of_pins(&path);
            if let Some(server) = server.filter(|name| !is_connector(name))
                && !current.contains(&path)
            {
                found.extend(leftover(LeftoverKind::Pins, Some(server), path));
            }
        }
    }
    found.sort_by(|one, other| (one.kind, &one.path).cmp(&(other.kind, &other.path)));
    found
}

/// Returns the regular files of a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.filter(is_file).map(|entry| entry.path()).collect()
}

fn leftover(kind: LeftoverKind, server: Option<String>, path: PathBuf) -> Option<Leftover> {
    let found = fs::symlink_metadata(&path).ok()?;
    Some(Leftover {
        kind,
        server,
        path,
        bytes: found.len(),
        modified: found.modified().ok(),
    })
}

/// Returns the server named in a pin file; `None` for other files.
fn server_of_pins(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Pinned {
        server: String,
        #[serde(rename = "tools")]
        _tools: serde::de::IgnoredAny,
    }
    let is_small = fs::metadata(path).is_ok_and(|found| found.len() <= MAX_PIN_BYTES);
    if !is_small || path.extension().is_none_or(|extension| extension != "json") {
        return None;
    }
    let pinned: Pinned = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some(pinned.server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_config::normalize_name;

    #[test]
    fn only_our_files_of_removed_servers_are_leftovers() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = |name: &str| scratch.path().join(name);
        let kept = KeptFiles {
            logs: Some(dir("logs")),
            results: Some(dir("results")),
            catalogs: Some(dir("catalogs")),
            pins: Some(dir("pins")),
        };
        for name in ["logs", "results", "catalogs", "pins"] {
            fs::create_dir(dir(name)).unwrap();
        }
        let write = |name: &str, text: &str| fs::write(dir(name), text).unwrap();
        let known = ServerEntry::stdio("known", "cmd", ["a"]);
        let source = Source::Entry(known.clone().into());
        let key = |hash: &str| CatalogKey::new(hash, None).path(&dir("catalogs"));
        let pins = |place: &str| pin_file(&dir("pins"), place);
        let pinned = |server: &str| format!("{{\"server\": \"{server}\", \"tools\": {{}}}}");
        for name in ["known.log", "gone.log", "gone.log.1", "gone.txt", ".rotate"] {
            write(&format!("logs/{name}"), "x");
        }
        let result = |server: &str| {
            format!(
                "mcp-{}-t-20261116T010203-0123abcd.json",
                normalize_name(server)
            )
        };
        write(&format!("results/{}", result("known")), "x");
        write(&format!("results/{}", result("gone")), "x");
        write("results/mine.json", "x");
        fs::write(key(&source.hash()), "x").unwrap();
        fs::write(key("another"), "x").unwrap();
        write("catalogs/mine.json", "x");
        fs::write(pins(&source.pin_key()), pinned("known")).unwrap();
        // Another server of the same name was removed too.
        fs::write(pins("known\nother"), pinned("known")).unwrap();
        fs::write(pins("gone\nx"), pinned("gone")).unwrap();
        fs::write(pins("claude.ai X\nx"), pinned("claude.ai X")).unwrap();
        write("pins/mine.json", "{}");
        let mut found: Vec<String> = leftovers(&kept, &[known])
            .iter()
            .map(|leftover| {
                let path = leftover.path.strip_prefix(scratch.path()).unwrap();
                path.to_str().unwrap().to_owned()
            })
            .collect();
        found.sort();
        let name = |path: PathBuf| {
            let path = path.strip_prefix(scratch.path()).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let mut expected = vec![
            name(key("another")),
            "logs/gone.log".to_owned(),
            "logs/gone.log.1".to_owned(),
            name(pins("known\nother")),
            name(pins("gone\nx")),
            format!("results/{}", result("gone")),
        ];
        expected.sort();
        assert_eq!(found, expected);
    }
}
