//! Remembers servers that asked for a sign-in, so that they are not probed again for a while
//! (AUTH-7).
//!
//! The file is shared by all processes of a user. It is an optimisation: errors are ignored.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::challenge::Challenge;
use crate::files::{FileLock, beside, read_bounded, replace_private};

/// How long a server is remembered (AUTH-7).
pub const NEEDS_AUTH_LIFETIME: Duration = Duration::from_mins(15);

/// The maximum size of the file, and of entries in it.
const MAX_BYTES: u64 = 1024 * 1024;
const MAX_ENTRIES: usize = 500;

/// How long to wait for the lock of the file. Its holder only writes a small file.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// The memory of servers that asked for a sign-in. All methods block for a small file.
///
/// ```
/// use std::time::SystemTime;
/// use trunkline_auth::{Challenge, NeedsAuthMemory};
///
/// # let folder = tempfile::tempdir()?;
/// let memory = NeedsAuthMemory::at(folder.path().join("needs-auth.json"));
/// let now = SystemTime::now();
/// memory.remember("github|1f", &Challenge::default(), now);
/// assert!(memory.recall("github|1f", now).is_some());
/// memory.clear("github|1f");
/// assert!(memory.recall("github|1f", now).is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NeedsAuthMemory {
    file: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    /// When the server answered 401, in seconds since 1970.
    at: u64,
    #[serde(default)]
    challenge: Challenge,
}

type Entries = BTreeMap<String, Entry>;

impl NeedsAuthMemory {
    /// Uses `file`, which need not exist.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    /// Returns the challenge of a server that asked for a sign-in less than 15 minutes ago.
    pub fn recall(&self, key: &str, now: SystemTime) -> Option<Challenge> {
        let now = seconds(now);
        let entry = self.read().remove(key)?;
        is_current(&entry, now).then_some(entry.challenge)
    }

    /// Remembers that a server asked for a sign-in.
    pub fn remember(&self, key: &str, challenge: &Challenge, now: SystemTime) {
        let at = seconds(now);
        self.update(at, |entries| {
            let challenge = challenge.clone();
            entries.insert(key.to_owned(), Entry { at, challenge });
            true
        });
    }

    /// Forgets a server, after a sign-in.
    pub fn clear(&self, key: &str) {
        // Usually there is no entry; do not create a lock file then.
        if !self.read().contains_key(key) {
            return;
        }
        self.update(seconds(SystemTime::now()), |entries| {
            entries.remove(key).is_some()
        });
    }

    fn update(&self, now: u64, change: impl FnOnce(&mut Entries) -> bool) {
        let lock = FileLock::acquire(&beside(&self.file, ".lock"), LOCK_LIMIT);
        let Ok(Some(_lock)) = lock else { return };
        let mut entries = self.read();
        if !change(&mut entries) {
            return;
        }
        entries.retain(|_, entry| is_current(entry, now));
        while entries.len() > MAX_ENTRIES {
            remove_oldest(&mut entries);
        }
        // A file that is too large would be read as an empty one.
        while let Ok(bytes) = serde_json::to_vec(&entries) {
            if bytes.len() as u64 <= MAX_BYTES {
                let _ = replace_private(&self.file, &bytes);
                return;
            }
            for _ in 0..entries.len().div_ceil(2) {
                remove_oldest(&mut entries);
            }
        }
    }

    fn read(&self) -> Entries {
        let bytes = read_bounded(&self.file, MAX_BYTES).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}

fn remove_oldest(entries: &mut Entries) {
    let oldest = entries.iter().min_by_key(|(_, entry)| entry.at);
    if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
        entries.remove(&oldest);
    }
}

/// An entry from the future comes from a clock that was wrong.
fn is_current(entry: &Entry, now: u64) -> bool {
    entry.at <= now && now - entry.at < NEEDS_AUTH_LIFETIME.as_secs()
}

pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn challenge(error: &str) -> Challenge {
        Challenge {
            error: Some(error.to_owned()),
            ..Challenge::default()
        }
    }

    #[test]
    fn a_server_is_remembered_for_fifteen_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let memory = NeedsAuthMemory::at(folder.path().join("deep/needs-auth.json"));
        memory.remember("a", &challenge("x"), at(10_000));
        let cases = [
            (10_000, true),
            (10_899, true),
            (10_900, false),
            (9_999, false),
        ];
        for (now, remembered) in cases {
            assert_eq!(memory.recall("a", at(now)).is_some(), remembered, "{now}");
        }
        assert_eq!(memory.recall("a", at(10_001)), Some(challenge("x")));
        assert_eq!(memory.recall("b", at(10_001)), None);
    }

    #[test]
    fn old_entries_are_removed_and_a_broken_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("needs-auth.json");
        let memory = NeedsAuthMemory::at(&file);
        memory.remember("a", &Challenge::default(), at(10_000));
        memory.remember("b", &Challenge::default(), at(20_000));
        assert!(!std::fs::read_to_string(&file).unwrap().contains("\"a\""));
        std::fs::write(&file, "{broken").unwrap();
        assert_eq!(memory.recall("b", at(20_000)), None);
        memory.remember("c", &Challenge::default(), at(20_000));
        assert!(memory.recall("c", at(20_000)).is_some());
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let memory = NeedsAuthMemory::at(folder.path().join("needs-auth.json"));
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let memory = &memory;
                scope.spawn(move || {
                    for n in 0..10 {
                        memory.remember(&format!("{writer}-{n}"), &Challenge::default(), at(1));
                    }
                });
            }
        });
        assert_eq!(memory.read().len(), 80);
    }

    #[test]
    fn the_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let memory = NeedsAuthMemory::at(folder.path().join("needs-auth.json"));
        memory.update(2, |entries| {
            for n in 0..=MAX_ENTRIES {
                let at = u64::from(n != 7);
                let challenge = Challenge::default();
                entries.insert(format!("{n}"), Entry { at, challenge });
            }
            true
        });
        assert_eq!(memory.read().len(), MAX_ENTRIES);
        assert!(!memory.read().contains_key("7"));
    }

    #[test]
    fn large_challenges_do_not_displace_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let memory = NeedsAuthMemory::at(folder.path().join("needs-auth.json"));
        memory.update(2, |entries| {
            for n in 0..MAX_ENTRIES {
                let challenge = challenge(&"x".repeat(10_000));
                entries.insert(format!("{n}"), Entry { at: 1, challenge });
            }
            true
        });
        memory.remember("new", &Challenge::default(), at(2));
        assert!(memory.recall("new", at(2)).is_some());
        assert!(memory.read().len() > 10);
    }
}
