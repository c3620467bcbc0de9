//! Remembers each server's era, so it is probed only once (LIF-5).
//!
//! The file is shared by all processes of a user. It is an optimization: I/O errors are ignored,
//! and the next connection corrects a wrong entry.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::disk::{Durability, create_private_dir, write_atomic};

/// Maximum number of entries in the file.
const MAX_ENTRIES: usize = 1000;

/// Maximum file size, slightly more than all entries take.
const MAX_BYTES: u64 = 256 * 1024;

/// The protocol detected for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DetectedProtocol {
    /// The modern era.
    Modern,
    /// The legacy era, over the entry's first transport.
    Legacy,
    /// The legacy era over HTTP+SSE.
    Sse,
}

/// Remembers the era of each server by the hash of its entry.
#[derive(Default)]
pub struct EraMemory {
    file: Option<PathBuf>,
    entries: Mutex<BTreeMap<String, DetectedProtocol>>,
}

impl EraMemory {
    /// Creates a memory that lasts as long as the program.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Creates a memory stored in `file`, which need not exist.
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

    /// Remembers a protocol; writes the file only if it changed.
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
            // Other processes may have added entries; change only this one.
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

/// Reads the file; empty if it is not a file, too large or invalid.
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
