//! The lock shared with other programs (CFG-4).
//!
//! Claude Code locks a file with npm's `proper-lockfile`: an empty directory `<file>.lock`.
//! Creating it takes the lock, removing it releases the lock, and one whose modification time is
//! over ten seconds old is stale, because a living owner renews it every five. We use the same
//! lock.
//!
//! To avoid waiting ten seconds for a killed Trunkline process, Trunkline processes first take an
//! OS file lock, which the kernel releases when they die, on a journal: a file that names the lock
//! directories its holder has created. If the holder of the journal finds a directory that the
//! journal names, the owner of the directory is dead. So that each of our directories is always in
//! the journal, it is created under another name, recorded, and then renamed. Without a journal,
//! the directory alone is the lock.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::edit::EditError;
use crate::edit::atomic::sibling;
use crate::edit::journal::{DirectoryId, LockJournal, distinct_now, identify};
use crate::edit::wait::{Backoff, InProcessLock};

/// The age at which our directory is renewed: `update` of `proper-lockfile`.
const RENEW: Duration = Duration::from_secs(5);

/// A held lock, released on drop.
pub(crate) struct Lock {
    // Released in this order: the next holder of the journal must not find a directory of ours.
    directories: Vec<LockDirectory>,
    journal: Option<LockJournal>,
    _turn: InProcessLock,
}

struct LockDirectory {
    path: PathBuf,
    identity: DirectoryId,
}

impl Lock {
    /// Takes the lock on `target` by creating all of `directories`, waiting at most `lock_timeout`.
    /// The journal is kept under `state`, if that is writable.
    pub(crate) fn acquire(
        target: &Path,
        directories: &BTreeSet<PathBuf>,
        state: Option<&Path>,
        lock_timeout: Duration,
    ) -> Result<Self, EditError> {
        let mut backoff = Backoff::until(Instant::now() + lock_timeout);
        let late = |lock: &Path, advice| EditError::LockTimeout {
            path: target.to_owned(),
            lock: lock.to_owned(),
            seconds: lock_timeout.as_secs(),
            advice,
        };
        let turn = InProcessLock::take(target, backoff.end)
            .ok_or_else(|| late(target, "another edit of it in this process hangs"))?;
        let journal = match state.map(|state| LockJournal::open(state, target)) {
            Some(Ok(mut journal)) => loop {
                match journal.file.try_lock() {
                    Ok(()) => {
                        journal.load();
                        break Some(journal);
                    }
                    Err(TryLockError::WouldBlock) => {
                        if !backoff.pause() {
                            let advice = "another trunkline process has it; end that if it hangs";
                            return Err(late(&journal.path, advice));
                        }
                    }
                    // The file system does not support locks.
                    Err(TryLockError::Error(_)) => break None,
                }
            },
            Some(Err(_)) | None => None,
        };
        let mut lock = Self {
            directories: Vec::new(),
            journal,
            _turn: turn,
        };
        let own = sibling(target, "", ".lock");
        for path in directories {
            loop {
                let source = match lock.try_directory(path) {
                    Ok(true) => break,
                    Ok(false) if backoff.pause() => continue,
                    Ok(false) => {
                        let advice = "close the program that uses the file, or remove that \
                                      directory if there is none";
                        return Err(late(path, advice));
                    }
                    Err(source) => source,
                };
                return Err(match source.kind() {
                    ErrorKind::NotADirectory | ErrorKind::DirectoryNotEmpty => EditError::Lock {
                        lock: path.clone(),
                        source,
                    },
                    // Beside a link in a directory where we cannot create a lock, nobody else can
                    // either.
                    _ if *path != own => break,
                    // Where no lock can be created, no file can.
                    _ => EditError::Write {
                        path: target.to_owned(),
                        source,
                    },
                });
            }
        }
        Ok(lock)
    }

    /// Whether the lock is still ours: it is not if we slept until it was stale and another process
    /// took it. Renews it if necessary.
    pub(crate) fn confirm(&mut self) -> bool {
        (0..self.directories.len()).all(|at| self.renew(at).unwrap_or(false))
    }

    fn renew(&mut self, at: usize) -> io::Result<bool> {
        let held = &self.directories[at];
        let found = DirectoryId::of(&held.path)?;
        if found.as_ref() != Some(&held.identity) {
            return Ok(false);
        }
        if held.identity.age() < RENEW {
            return Ok(true);
        }
        // Through a handle, so that only our own directory can be renewed.
        let directory = File::open(&held.path)?;
        if DirectoryId::from(&directory.metadata()?) != held.identity {
            return Ok(false);
        }
        directory.set_modified(distinct_now())?;
        let identity = DirectoryId::from(&directory.metadata()?);
        self.directories[at].identity = identity;
        self.enter(None);
        Ok(DirectoryId::of(&self.directories[at].path)?.as_ref() == Some(&identity))
    }

    /// Takes the lock directory if it is free, stale, or owned by a dead process.
    fn try_directory(&mut self, path: &Path) -> io::Result<bool> {
        if let Some(found) = DirectoryId::of(path)? {
            // No lock, and waiting does not help: a repository may contain such a directory.
            if fs::read_dir(path).is_ok_and(|mut content| content.next().is_some()) {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            let owner_is_dead = |journal: &LockJournal| journal.dead.contains(&found);
            if !found.is_stale() && !self.journal.as_ref().is_some_and(owner_is_dead) {
                return Ok(false);
            }
            // Like proper-lockfile. If a third process replaces a stale directory between the check
            // and this, it loses a fresh lock; any two users of this protocol have that race.
            match fs::remove_dir(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match &self.journal {
            Some(journal) => self.make_entered(path, journal.name),
            None => self.make(path),
        }
    }

    /// Creates the directory and records it afterwards.
    fn make(&mut self, path: &Path) -> io::Result<bool> {
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        let identity = identify(path)?;
        let path = path.to_owned();
        self.directories.push(LockDirectory { path, identity });
        self.enter(None);
        Ok(true)
    }

    /// Records the directory before it exists.
    fn make_entered(&mut self, path: &Path, name: u64) -> io::Result<bool> {
        // The name is the journal's, because processes with another journal, as in another
        // container, may lock the same file.
        let temporary = sibling(path, ".", &format!(".trunkline-{name:016x}"));
        // Left by a killed process: we hold the journal, so nobody owns it.
        match fs::remove_dir(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&temporary)?;
        let identity = identify(&temporary)?;
        self.enter(Some(identity));
        let renamed = rename_unless_there(&temporary, path);
        if matches!(renamed, Ok(true)) {
            let path = path.to_owned();
            self.directories.push(LockDirectory { path, identity });
            return Ok(true);
        }
        fs::remove_dir(&temporary)?;
        match renamed {
            // The file system does not support it. If we are killed right now, the next edit waits
            // until the lock is stale.
            Err(error) if is_unsupported(&error) => self.make(path),
            other => other,
        }
    }

    /// Records our directories, the next one, and those of dead processes. If the journal cannot be
    /// written, the only cost is waiting for a stale directory.
    fn enter(&mut self, next: Option<DirectoryId>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let ours = self.directories.iter().map(|held| held.identity);
        let entries: Vec<_> = ours.chain(next).collect();
        let _ = journal.write(&entries);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        for held in self.directories.drain(..) {
            if matches!(DirectoryId::of(&held.path), Ok(Some(found)) if found == held.identity) {
                let _ = fs::remove_dir(&held.path);
            }
        }
        self.enter(None);
    }
}

/// Renames unless the target exists; `false` if it does.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_unless_there(from: &Path, to: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(error) if [rustix::io::Errno::EXIST, rustix::io::Errno::NOTEMPTY].contains(&error) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_unless_there(_: &Path, _: &Path) -> io::Result<bool> {
    Err(ErrorKind::Unsupported.into())
}

fn is_unsupported(error: &io::Error) -> bool {
    // Linux returns EINVAL if the file system does not support the flag.
    matches!(
        error.kind(),
        ErrorKind::Unsupported | ErrorKind::InvalidInput
    )
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::edit::journal::STALE;

    const SHORT: Duration = Duration::from_millis(60);

    struct Scratch {
        directory: tempfile::TempDir,
        target: PathBuf,
        lock: PathBuf,
        directories: BTreeSet<PathBuf>,
    }

    impl Scratch {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path().join("f.json");
            let lock = directory.path().join("f.json.lock");
            let directories = BTreeSet::from([lock.clone()]);
            Self {
                directory,
                target,
                lock,
                directories,
            }
        }

        fn acquire(&self, state: Option<&Path>) -> Result<Lock, EditError> {
            Lock::acquire(&self.target, &self.directories, state, SHORT)
        }

        fn state(&self) -> PathBuf {
            self.directory.path().join("state")
        }

        fn entries(&self) -> Vec<DirectoryId> {
            let mut journal = self.journal();
            journal.load();
            journal.dead
        }

        fn journal(&self) -> LockJournal {
            LockJournal::open(&self.state(), &self.target).unwrap()
        }
    }

    #[test]
    fn the_lock_is_an_empty_directory_beside_the_file_while_it_is_held() {
        let scratch = Scratch::new();
        for state in [None, Some(&*scratch.state())] {
            let mut lock = scratch.acquire(state).unwrap();
            assert_eq!(fs::read_dir(&scratch.lock).unwrap().count(), 0);
            assert!(lock.confirm());
            drop(lock);
            assert!(!scratch.lock.exists());
            let rest = fs::read_dir(scratch.directory.path()).unwrap().count();
            assert_eq!(rest, usize::from(state.is_some()));
        }
        assert_eq!(scratch.entries(), []);
    }

    #[test]
    fn a_lock_that_stays_taken_is_an_error_that_names_it() {
        let scratch = Scratch::new();
        let state = scratch.state();
        fs::create_dir(&scratch.lock).unwrap();
        for state in [None, Some(&*state)] {
            let error = scratch.acquire(state).err().unwrap();
            let error = error.to_string();
            assert!(error.contains("f.json.lock was not free"), "{error}");
            assert!(error.ends_with("if there is none"), "{error}");
        }
        assert!(scratch.lock.exists());
        assert_eq!(fs::read_dir(scratch.directory.path()).unwrap().count(), 2);

        fs::remove_dir(&scratch.lock).unwrap();
        let _held = scratch.acquire(None).unwrap();
        let error = scratch.acquire(None).err().unwrap().to_string();
        assert!(error.contains("in this process"), "{error}");
    }

    #[test]
    fn what_is_no_lock_directory_is_said_so() {
        let scratch = Scratch::new();
        fs::write(&scratch.lock, "").unwrap();
        let error = scratch.acquire(None).err().unwrap().to_string();
        assert!(error.contains("not a directory"), "{error}");

        fs::remove_file(&scratch.lock).unwrap();
        fs::create_dir(&scratch.lock).unwrap();
        fs::write(scratch.lock.join("x"), "").unwrap();
        for age in [Age::Old, Age::Future] {
            set_age(&scratch.lock, age);
            let error = scratch.acquire(None).err().unwrap().to_string();
            assert!(error.contains("not empty"), "{error}");
        }
    }

    #[test]
    fn a_stale_lock_is_taken_over() {
        let scratch = Scratch::new();
        let state = scratch.state();
        for state in [None, Some(&*state)] {
            for age in [Age::Old, Age::Future] {
                fs::create_dir(&scratch.lock).unwrap();
                set_age(&scratch.lock, age);
                assert!(scratch.acquire(state).unwrap().confirm());
                assert!(!scratch.lock.exists());
            }
        }
    }

    #[test]
    fn a_lock_that_the_ledger_names_is_taken_over_and_one_in_its_place_is_not() {
        let scratch = Scratch::new();
        let state = scratch.state();
        let lock = scratch.acquire(Some(&state)).unwrap();
        let ours = lock.directories[0].identity;
        assert_eq!(scratch.entries(), [ours]);
        drop(lock);

        // As another program may create it right after us, on the same inode.
        fs::create_dir(&scratch.lock).unwrap();
        scratch.journal().write(&[ours]).unwrap();
        assert!(scratch.acquire(Some(&state)).is_err());

        // As left behind by a killed owner.
        let left = DirectoryId::of(&scratch.lock).unwrap().unwrap();
        scratch.journal().write(&[left]).unwrap();
        assert!(scratch.acquire(Some(&state)).unwrap().confirm());
        assert!(!scratch.lock.exists());
    }

    #[test]
    fn a_lock_in_other_hands_is_noticed_and_left_to_them() {
        let scratch = Scratch::new();
        let mut lock = scratch.acquire(None).unwrap();
        fs::remove_dir(&scratch.lock).unwrap();
        assert!(!lock.confirm());
        fs::create_dir(&scratch.lock).unwrap();
        assert!(!lock.confirm());
        drop(lock);
        assert!(scratch.lock.exists());
    }

    #[test]
    fn a_lock_that_is_held_for_long_is_renewed() {
        let scratch = Scratch::new();
        let state = scratch.state();
        let mut lock = scratch.acquire(Some(&state)).unwrap();
        make_old(&scratch.lock);
        lock.directories[0].identity = DirectoryId::of(&scratch.lock).unwrap().unwrap();
        assert!(lock.confirm());
        let renewed = DirectoryId::of(&scratch.lock).unwrap().unwrap();
        assert!(renewed.age() < RENEW);
        assert_eq!(scratch.entries(), [renewed]);
        assert!(lock.confirm());
    }

    #[test]
    fn without_a_state_directory_the_lock_directory_is_enough() {
        let scratch = Scratch::new();
        let file = scratch.directory.path().join("file");
        fs::write(&file, "").unwrap();
        let lock = scratch.acquire(Some(&file.join("state"))).unwrap();
        assert!(lock.journal.is_none() && scratch.lock.exists());
    }

    fn make_old(path: &Path) {
        set_age(path, Age::Old);
    }

    /// Which stale time a directory has.
    #[derive(Clone, Copy)]
    enum Age {
        Old,
        Future,
    }

    fn set_age(path: &Path, age: Age) {
        let distance = STALE + Duration::from_secs(1);
        let time = match age {
            Age::Old => SystemTime::now() - distance,
            Age::Future => SystemTime::now() + distance * 1000,
        };
        File::open(path).unwrap().set_modified(time).unwrap();
    }
}
