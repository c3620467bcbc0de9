//! Which era each server was found to belong to, so that the probe is paid once (LIF-5).
//!
//! A file shared by all processes of a user. It only saves time: a file that cannot be read or written does no harm, and
//! a wrong detected is corrected by the next connection.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::disk::{Durability, create_private_dir, write_atomic};

/// How many entries the file keeps.
const MAX_ENTRIES: usize = 1000;

/// How long the file may be: a little more than that many entries.
const MAX_BYTES: u64 = 256 * 1024;

/// What was found out about a server, which need not be found out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DetectedProtocol {
    /// It is modern.
    Modern,
    /// It is legacy, over whatever transport its entry names first.
    Legacy,
    /// It is legacy and speaks HTTP+SSE.
    Sse,
}

/// Remembers each server entry's era, by the entry's hash.
#[derive(Default)]
pub struct EraMemory {
    file: Option<PathBuf>,
    entries: Mutex<BTreeMap<String, DetectedProtocol>>,
}

impl EraMemory {
    /// Forgets when the program ends.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Kept in `file`, which need not exist.
    pub fn at(file: PathBuf) -> Self {
        Self {
            entries: Mutex::new(read(&file)),
            file: Some(file),
        }
    }

    pub(crate) fn get(&self, hash: &str) -> Option<DetectedProtocol> {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(hash)
            .copied()
    }

    /// Remembers a detected; writes the file only when it is news.
    pub(crate) fn set(&self, hash: &str, detected: Option<DetectedProtocol>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(hash).copied() == detected {
            return;
        }
        match detected {
            Some(detected) => entries.insert(hash.to_owned(), detected),
            None => entries.remove(hash),
        };
        if let Some(file) = &self.file {
            // Others may have learned something meanwhile; only what is news here is changed.
            let mut merged = read(file);
            merged.remove(hash);
            while merged.len() >= MAX_ENTRIES {
                merged.pop_first();
            }
            merged.extend(detected.map(|detected| (hash.to_owned(), detected)));
            let _ = write(file, &merged);
        }
    }
}

/// What the file says; nothing if it is no file, too large to be is_readable, or broken.
fn read(file: &Path) -> BTreeMap<String, DetectedProtocol> {
    let is_readable = |found: &fs::Metadata| found.is_file() && found.len() <= MAX_BYTES;
    if !fs::metadata(file).is_ok_and(|found| is_readable(&found)) {
        return BTreeMap::new();
    }
    let text = fs::read(file).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write(file: &Path, entries: &BTreeMap<String, DetectedProtocol>) -> std::io::Result<()> {
    if let Some(parent) = file.parent() {
        create_private_dir(parent)?;
    }
    write_atomic(file, &serde_json::to_vec(entries)?, Durability::BestEffort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_persist_and_a_broken_file_is_ignored() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("deep/eras.json");
        let memory = EraMemory::at(file.clone());
        memory.set("a", Some(DetectedProtocol::Legacy));
        EraMemory::at(file.clone()).set("b", Some(DetectedProtocol::Modern));
        memory.set("c", Some(DetectedProtocol::Modern));
        let later = EraMemory::at(file.clone());
        assert_eq!(
            (later.get("a"), later.get("b")),
            (
                Some(DetectedProtocol::Legacy),
                Some(DetectedProtocol::Modern)
            )
        );
        later.set("a", None);
        assert_eq!(EraMemory::at(file.clone()).get("a"), None);

        fs::write(&file, "{broken").unwrap();
        let broken = EraMemory::at(file.clone());
        assert_eq!(broken.get("b"), None);
        broken.set("b", Some(DetectedProtocol::Legacy));
        assert_eq!(EraMemory::at(file).get("b"), Some(DetectedProtocol::Legacy));
    }
}
