//! Which era each server was found to belong to, so that the probe is paid once (LIF-5).
//!
//! A file shared by all processes of a user. It only saves time: a file that cannot be read or written does no harm, and
//! a wrong verdict is corrected by the next connection.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::disk::{Care, private_dir, write_whole};

/// How many verdicts the file keeps.
const MAX_VERDICTS: usize = 1000;

/// How long the file may be: a little more than that many verdicts.
const MAX_BYTES: u64 = 256 * 1024;

/// What was found out about a server, which need not be found out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
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
    verdicts: Mutex<BTreeMap<String, Verdict>>,
}

impl EraMemory {
    /// Forgets when the program ends.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Kept in `file`, which need not exist.
    pub fn at(file: PathBuf) -> Self {
        Self {
            verdicts: Mutex::new(read_whole(&file)),
            file: Some(file),
        }
    }

    pub(crate) fn get(&self, hash: &str) -> Option<Verdict> {
        self.verdicts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(hash)
            .copied()
    }

    /// Remembers a verdict; writes the file only when it is news.
    pub(crate) fn set(&self, hash: &str, verdict: Option<Verdict>) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.get(hash).copied() == verdict {
            return;
        }
        match verdict {
            Some(verdict) => verdicts.insert(hash.to_owned(), verdict),
            None => verdicts.remove(hash),
        };
        if let Some(file) = &self.file {
            // Others may have learned something meanwhile; only what is news here is changed.
            let mut merged = read_whole(file);
            merged.remove(hash);
            while merged.len() >= MAX_VERDICTS {
                merged.pop_first();
            }
            merged.extend(verdict.map(|verdict| (hash.to_owned(), verdict)));
            let _ = write(file, &merged);
        }
    }
}

/// What the file says; nothing if it is no file, too large to be ours, or broken.
fn read_whole(file: &Path) -> BTreeMap<String, Verdict> {
    let ours = |found: &fs::Metadata| found.is_file() && found.len() <= MAX_BYTES;
    if !fs::metadata(file).is_ok_and(|found| ours(&found)) {
        return BTreeMap::new();
    }
    let text = fs::read(file).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write(file: &Path, verdicts: &BTreeMap<String, Verdict>) -> std::io::Result<()> {
    if let Some(parent) = file.parent() {
        private_dir(parent)?;
    }
    write_whole(file, &serde_json::to_vec(verdicts)?, Care::Little)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_outlive_the_process_and_a_broken_file_does_no_harm() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("deep/eras.json");
        let memory = EraMemory::at(file.clone());
        memory.set("a", Some(Verdict::Legacy));
        EraMemory::at(file.clone()).set("b", Some(Verdict::Modern));
        memory.set("c", Some(Verdict::Modern));
        let later = EraMemory::at(file.clone());
        assert_eq!(
            (later.get("a"), later.get("b")),
            (Some(Verdict::Legacy), Some(Verdict::Modern))
        );
        later.set("a", None);
        assert_eq!(EraMemory::at(file.clone()).get("a"), None);

        fs::write(&file, "{broken").unwrap();
        let broken = EraMemory::at(file.clone());
        assert_eq!(broken.get("b"), None);
        broken.set("b", Some(Verdict::Legacy));
        assert_eq!(EraMemory::at(file).get("b"), Some(Verdict::Legacy));
    }
}
