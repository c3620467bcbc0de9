//! Records the lock directories that Trunkline processes create.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::edit::atomic::{create_directories, give_to_owner_of, set_mode};
use crate::edit::wait::random_u64;

/// The age at which a lock directory is stale: `stale` of `proper-lockfile`.
pub(super) const STALE: Duration = Duration::from_secs(10);

/// Distinguishes a directory from earlier ones at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryId {
    inode: u64,
    /// Since 1970. A new directory may reuse the inode of the one just removed, and even its time
    /// within one clock tick; so ours get a time with random digits.
    modified: Duration,
}

impl DirectoryId {
    /// `None` if there is no directory.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Some(Self::from(&metadata))),
            Ok(_) => Err(ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn from(metadata: &fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        let modified = metadata.modified().ok();
        Self {
            inode,
            modified: modified.map(since_1970).unwrap_or_default(),
        }
    }

    /// Zero for a time in the future; `proper-lockfile` writes times up to a second ahead.
    pub(super) fn age(&self) -> Duration {
        since_1970(SystemTime::now()).saturating_sub(self.modified)
    }

    /// Old, or from further in the future than a living owner writes: a repository may contain
    /// such a directory.
    pub(super) fn is_stale(&self) -> bool {
        let now = since_1970(SystemTime::now());
        self.age() > STALE || self.modified.saturating_sub(now) > STALE
    }
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Gives a new directory a unique modification time.
pub(super) fn identify(path: &Path) -> io::Result<DirectoryId> {
    // If it cannot be set, the current one has to do.
    let _ = File::open(path).and_then(|directory| directory.set_modified(distinct_now()));
    DirectoryId::of(path)?.ok_or_else(|| ErrorKind::NotFound.into())
}

/// The current time with random digits below the millisecond, the resolution of `proper-lockfile`.
pub(super) fn distinct_now() -> SystemTime {
    let now = since_1970(SystemTime::now());
    let millis =
        Duration::from_secs(now.as_secs()) + Duration::from_millis(now.subsec_millis().into());
    UNIX_EPOCH + millis + Duration::from_nanos(random_u64() % 1_000_000)
}

/// The file in which the holder of the OS lock records its lock directories.
///
/// One line with its name, then one per directory: the inode, and the time in seconds and
/// nanoseconds.
pub(super) struct LockJournal {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// A random number that distinguishes it from journals of the same file elsewhere.
    pub(super) name: u64,
    /// The directories of the previous holder, which died.
    pub(super) dead: Vec<DirectoryId>,
}

impl LockJournal {
    pub(super) fn open(state: &Path, target: &Path) -> io::Result<Self> {
        let directory = state.join("locks");
        create_directories(&directory, true)?;
        let digest = Sha256::digest(target.as_os_str().as_encoded_bytes());
        let name = digest.first_chunk().copied().map(u64::from_be_bytes);
        let path = directory.join(format!("{:016x}.lock", name.unwrap_or_default()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        set_mode(&mut options, 0o600);
        let file = options.open(&path)?;
        give_to_owner_of(&directory, &file);
        Ok(Self {
            path,
            file,
            name: random_u64(),
            dead: Vec::new(),
        })
    }

    /// Reads the journal once the OS lock is held. Unreadable lines are ignored.
    pub(super) fn load(&mut self) {
        let mut text = String::new();
        if (&mut self.file)
            .take(4096)
            .read_to_string(&mut text)
            .is_err()
        {
            return;
        }
        let mut lines = text.lines();
        let name = lines.next().and_then(|line| line.parse().ok());
        self.name = name.unwrap_or(self.name);
        let entry = |line: &str| {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            let mut next = || numbers.next()?.ok();
            let (inode, seconds, nanos) = (next()?, next()?, next()?);
            let modified = Duration::new(seconds, u32::try_from(nanos).ok()?);
            Some(DirectoryId { inode, modified })
        };
        self.dead = lines.filter_map(entry).collect();
        // Stale ones are recognised by their age; keeping them would make the journal grow.
        self.dead.retain(|entry| !entry.is_stale());
        if name.is_none() {
            // The next holder must clean up under the same name.
            let _ = self.write(&[]);
        }
    }

    /// Writes in one system call, so that a kill cannot leave half of it. The rest of a longer
    /// previous text is harmless until it is truncated: it names directories that are gone.
    pub(super) fn write(&mut self, entries: &[DirectoryId]) -> io::Result<()> {
        let mut text = format!("{}\n", self.name);
        for entry in entries.iter().chain(&self.dead) {
            let (seconds, nanos) = (entry.modified.as_secs(), entry.modified.subsec_nanos());
            let line = format!("{} {seconds} {nanos}\n", entry.inode);
            text.push_str(&line);
        }
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_told_apart_from_the_one_a_moment_ago() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let mut times: Vec<_> = (0..4)
            .map(|_| {
                fs::create_dir(&path).unwrap();
                let identity = identify(&path).unwrap();
                fs::remove_dir(&path).unwrap();
                identity.modified.subsec_nanos() % 1_000_000
            })
            .collect();
        times.sort_unstable();
        times.dedup();
        // One coincidence in a million is no failure.
        assert!(times.len() >= 3, "{times:?}");
    }

    #[test]
    fn a_ledger_gives_back_what_was_entered_and_skips_what_it_does_not_know() {
        let scratch = tempfile::tempdir().unwrap();
        let modified = since_1970(SystemTime::now());
        let entry = |inode| DirectoryId { inode, modified };
        let open = || LockJournal::open(scratch.path(), Path::new("/f.json")).unwrap();
        let check = |expected: &[DirectoryId]| {
            let mut journal = open();
            journal.load();
            assert_eq!(journal.dead, expected);
            journal.name
        };
        let mut journal = open();
        journal.write(&[entry(u64::MAX), entry(2)]).unwrap();
        assert_eq!(check(&[entry(u64::MAX), entry(2)]), journal.name);
        journal.write(&[entry(3)]).unwrap();
        assert_eq!(check(&[entry(3)]), journal.name);

        let (seconds, nanos) = (modified.as_secs(), modified.subsec_nanos());
        let text = format!(
            "7\nx\n1 2\n\n3 {seconds} {nanos}\n4 5 -6\n8 {} 0",
            seconds - 11
        );
        fs::write(&journal.path, text).unwrap();
        assert_eq!(check(&[entry(3)]), 7);
        for rubbish in [&b""[..], b"x", &[0xff]] {
            fs::write(&journal.path, rubbish).unwrap();
            check(&[]);
        }
    }
}
