//! What Trunkline processes tell each other about the lock directories that they make.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::edit::atomic::{create_directories, give_to_owner_of, set_mode};
use crate::edit::wait::chance;

/// How old a lock directory is when it no longer counts: `proper-lockfile`'s `stale`.
pub(super) const STALE: Duration = Duration::from_secs(10);

/// Which of all directories that ever had this path one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    inode: u64,
    /// Since 1970. A new directory may well get the inode of the one just removed, and within one tick of the clock its time, too;
    /// therefore ours have a time with random digits.
    modified: Duration,
}

impl Identity {
    /// `None` when there is nothing.
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

    /// Nothing for a time in the future, which `proper-lockfile` writes by up to a second.
    pub(super) fn age(&self) -> Duration {
        since_1970(SystemTime::now()).saturating_sub(self.modified)
    }

    pub(super) fn is_stale(&self) -> bool {
        self.age() > STALE
    }
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Gives a directory that we have just made a time that no other has.
pub(super) fn identify(path: &Path) -> io::Result<Identity> {
    // Where it cannot be set, the one it has must do.
    let _ = File::open(path).and_then(|directory| directory.set_modified(distinct_now()));
    Identity::of(path)?.ok_or_else(|| ErrorKind::NotFound.into())
}

/// Now, with random digits below the millisecond, which is all that `proper-lockfile` looks at.
pub(super) fn distinct_now() -> SystemTime {
    let now = since_1970(SystemTime::now());
    let millis =
        Duration::from_secs(now.as_secs()) + Duration::from_millis(now.subsec_millis().into());
    UNIX_EPOCH + millis + Duration::from_nanos(chance() % 1_000_000)
}

/// Where the holder of the OS lock says which lock directories are its own.
///
/// A line with its name, then one for each directory: its inode, and its time in seconds and nanoseconds.
pub(super) struct Ledger {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// A random number that tells it from the ledgers of the same file in other places.
    pub(super) name: u64,
    /// What its holder before us had when it died.
    pub(super) dead: Vec<Identity>,
}

impl Ledger {
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
            name: chance(),
            dead: Vec::new(),
        })
    }

    /// Reads what it says, once the OS lock is taken. Of what cannot be read, nothing is known.
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
            Some(Identity { inode, modified })
        };
        self.dead = lines.filter_map(entry).collect();
        // The others can be told by their age, and would make it grow.
        self.dead.retain(|entry| !entry.is_stale());
        if name.is_none() {
            // Whoever comes after us is to clean up under the same name.
            let _ = self.write(&[]);
        }
    }

    /// In one call to the kernel, so that a kill cannot leave half of it. The rest of a longer text that was there does no
    /// harm for the instant until it is cut off: its entries name what is gone.
    pub(super) fn write(&mut self, entries: &[Identity]) -> io::Result<()> {
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
        let entry = |inode| Identity { inode, modified };
        let open = || Ledger::open(scratch.path(), Path::new("/f.json")).unwrap();
        let check = |expected: &[Identity]| {
            let mut ledger = open();
            ledger.load();
            assert_eq!(ledger.dead, expected);
            ledger.name
        };
        let mut ledger = open();
        ledger.write(&[entry(u64::MAX), entry(2)]).unwrap();
        assert_eq!(check(&[entry(u64::MAX), entry(2)]), ledger.name);
        ledger.write(&[entry(3)]).unwrap();
        assert_eq!(check(&[entry(3)]), ledger.name);

        let (seconds, nanos) = (modified.as_secs(), modified.subsec_nanos());
        let text = format!(
            "7\nx\n1 2\n\n3 {seconds} {nanos}\n4 5 -6\n8 {} 0",
            seconds - 11
        );
        fs::write(&ledger.path, text).unwrap();
        assert_eq!(check(&[entry(3)]), 7);
        for rubbish in [&b""[..], b"x", &[0xff]] {
            fs::write(&ledger.path, rubbish).unwrap();
            check(&[]);
        }
    }
}
