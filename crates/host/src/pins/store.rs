//! One server's pins in a file shared by processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::definition::Definition;
use crate::disk::{Durability, create_private_dir, hex, no_follow, private_options, write_atomic};

/// Maximum file size.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum wait for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between attempts to lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The pin file of one server.
pub(super) struct PinFile {
    path: PathBuf,
    server: String,
}

/// Identifies a version of a file; `None` if there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp(Option<(Option<SystemTime>, u64, u64)>);

/// Pinned definitions by original name, with the version of their file.
type Pins = (FileStamp, BTreeMap<String, Definition>);

#[derive(Default, Serialize, Deserialize)]
struct PinDocument {
    /// The server, for people who inspect the file.
    server: String,
    tools: BTreeMap<String, Definition>,
}

/// A replaced file has another inode.
#[cfg(unix)]
fn inode(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &fs::Metadata) -> u64 {
    0
}

impl PinFile {
    /// Returns the file for a server's key: its name, then lines that may be private.
    pub(super) fn of(dir: &Path, key: &str) -> Self {
        let name = hex(&Sha256::digest(key)[..12]);
        Self {
            path: dir.join(name + ".json"),
            server: key.lines().next().unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all pins and the file's version; `None` if the file is unchanged.
    pub(super) fn changed_since(&self, known: Option<FileStamp>) -> Result<Option<Pins>, String> {
        // Stat before reading: a concurrent write then changes the version.
        let stamp = self.stamp();
        if known == Some(stamp) {
            return Ok(None);
        }
        let pinned = self.read().map_err(|error| self.unreadable(&error))?;
        Ok(Some((stamp, pinned.tools)))
    }

    fn stamp(&self) -> FileStamp {
        let metadata = fs::metadata(&self.path).ok();
        FileStamp(
            metadata.map(|metadata| (metadata.modified().ok(), metadata.len(), inode(&metadata))),
        )
    }

    /// Adds a pin.
    pub(super) fn pin(&self, tool: &str, definition: &Definition) -> Result<(), String> {
        let written = self.update(|pinned| {
            super::insert(&mut pinned.tools, tool, definition);
        });
        written.map_err(|error| {
            let file = self.path.display();
            format!(
                "cannot store the pin of \"{tool}\" in {file}: {error}; later runs will not notice changes"
            )
        })
    }

    fn unreadable(&self, error: &io::Error) -> String {
        let file = self.path.display();
        format!("cannot read the pins in {file}: {error}; delete the file to start over")
    }

    fn read(&self) -> io::Result<PinDocument> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if is_not_found(&error) => {
                return Ok(PinDocument {
                    server: self.server.clone(),
                    ..PinDocument::default()
                });
            }
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Reads, changes and writes the file under a lock.
    fn update(&self, change: impl FnOnce(&mut PinDocument)) -> io::Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        create_private_dir(dir)?;
        let _lock = lock(&dir.join(".lock"))?;
        let mut pinned = self.read()?;
        change(&mut pinned);
        let text = serde_json::to_vec(&pinned)?;
        // A file that cannot be read back would block every call.
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("it would be too large"));
        }
        write_atomic(&self.path, &text, Durability::Synced)
    }
}

fn is_not_found(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Locks a file until dropped or the process ends.
fn lock(path: &Path) -> io::Result<File> {
    let mut options = private_options();
    options.create(true).truncate(false).write(true);
    no_follow(&mut options);
    let file = options.open(path)?;
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Err(fs::TryLockError::WouldBlock) if Instant::now() > until => {
                return Err(io::Error::other("another process does not let go of it"));
            }
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL_INTERVAL),
        }
    }
}
