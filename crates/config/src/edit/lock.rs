//! The lock that other processes respect (CFG-4).
//!
//! Claude Code locks a file with npm's `proper-lockfile`: an empty directory `<file>.lock`. Who makes it has the lock, who
//! removes it gives it back, and one whose modification time is older than ten seconds is anybody's, because its owner, were
//! it alive, would have set it anew every five. We take that same lock.
//!
//! So as not to wait ten seconds for a Trunkline process that was killed, Trunkline processes first take an OS file lock, which
//! the kernel gives back when they die, on a ledger: a file that names the lock directories its holder has made. Who
//! holds the ledger and finds a directory that it names knows that the directory's owner is dead. So that there is no instant at
//! which a directory of ours is not in the ledger, it is made under another name, entered, and then renamed. Without a ledger,
//! the directory is the whole lock.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::edit::EditError;
use crate::edit::atomic::sibling;
use crate::edit::ledger::{Identity, Ledger, distinct_now, identify};
use crate::edit::wait::{Pauses, Turn};

/// How old ours may get before it is renewed: `proper-lockfile`'s `update`.
const RENEW: Duration = Duration::from_secs(5);

/// A held lock; dropping it gives it back.
pub(crate) struct Lock {
    // In this order they are given back: who gets the ledger must not meet a directory of ours.
    directories: Vec<Held>,
    ledger: Option<Ledger>,
    _turn: Turn,
}

struct Held {
    path: PathBuf,
    identity: Identity,
}

impl Lock {
    /// Takes the lock on `target` by making all of `directories`, and waits for it no longer than `patience`. The ledger is
    /// kept under `state`, if that can be written.
    pub(crate) fn acquire(
        target: &Path,
        directories: &BTreeSet<PathBuf>,
        state: Option<&Path>,
        patience: Duration,
    ) -> Result<Self, EditError> {
        let mut pauses = Pauses::until(Instant::now() + patience);
        let late = |lock: &Path, advice| EditError::LockTimeout {
            path: target.to_owned(),
            lock: lock.to_owned(),
            seconds: patience.as_secs(),
            advice,
        };
        let turn = Turn::take(target, pauses.end)
            .ok_or_else(|| late(target, "another edit of it in this process hangs"))?;
        let ledger = match state.map(|state| Ledger::open(state, target)) {
            Some(Ok(mut ledger)) => loop {
                match ledger.file.try_lock() {
                    Ok(()) => {
                        ledger.load();
                        break Some(ledger);
                    }
                    Err(TryLockError::WouldBlock) => {
                        if !pauses.pause() {
                            let advice = "another trunkline process has it; end that if it hangs";
                            return Err(late(&ledger.path, advice));
                        }
                    }
                    // A file system without locks.
                    Err(TryLockError::Error(_)) => break None,
                }
            },
            Some(Err(_)) | None => None,
        };
        let mut lock = Self {
            directories: Vec::new(),
            ledger,
            _turn: turn,
        };
        let own = sibling(target, "", ".lock");
        for path in directories {
            loop {
                let source = match lock.try_directory(path) {
                    Ok(true) => break,
                    Ok(false) if pauses.pause() => continue,
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
                    // Beside a link, in a directory where we can make no lock, nobody else can either.
                    _ if *path != own => break,
                    // Where no lock can be made, no file can.
                    _ => EditError::Write {
                        path: target.to_owned(),
                        source,
                    },
                });
            }
        }
        Ok(lock)
    }

    /// Whether the lock is still ours, as it is not when we slept for so long that it went stale and someone else took it. If
    /// it is old, it is made young again.
    pub(crate) fn confirm(&mut self) -> bool {
        (0..self.directories.len()).all(|at| self.renew(at).unwrap_or(false))
    }

    fn renew(&mut self, at: usize) -> io::Result<bool> {
        let held = &self.directories[at];
        let found = Identity::of(&held.path)?;
        if found.as_ref() != Some(&held.identity) {
            return Ok(false);
        }
        if held.identity.age() < RENEW {
            return Ok(true);
        }
        // Through a handle, so that it cannot be somebody else's that we renew.
        let directory = File::open(&held.path)?;
        if Identity::from(&directory.metadata()?) != held.identity {
            return Ok(false);
        }
        directory.set_modified(distinct_now())?;
        let identity = Identity::from(&directory.metadata()?);
        self.directories[at].identity = identity;
        self.enter(None);
        Ok(Identity::of(&self.directories[at].path)?.as_ref() == Some(&identity))
    }

    /// Takes the lock directory if it is free, stale, or that of a dead process.
    fn try_directory(&mut self, path: &Path) -> io::Result<bool> {
        if let Some(found) = Identity::of(path)? {
            let owner_is_dead = |ledger: &Ledger| ledger.dead.contains(&found);
            if !found.is_stale() && !self.ledger.as_ref().is_some_and(owner_is_dead) {
                return Ok(false);
            }
            // As proper-lockfile does. Should a third process replace a stale one between our look at it and this, it would
            // lose a fresh lock; that is so between any two users of this protocol.
            match fs::remove_dir(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match &self.ledger {
            Some(ledger) => self.make_entered(path, ledger.name),
            None => self.make(path),
        }
    }

    /// Makes the directory, and enters it into the ledger afterwards.
    fn make(&mut self, path: &Path) -> io::Result<bool> {
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        let identity = identify(path)?;
        let path = path.to_owned();
        self.directories.push(Held { path, identity });
        self.enter(None);
        Ok(true)
    }

    /// Enters the directory into the ledger before it is there.
    fn make_entered(&mut self, path: &Path, name: u64) -> io::Result<bool> {
        // The name is the ledger's, because processes with another ledger, as in another container, may be at the same file.
        let temporary = sibling(path, ".", &format!(".trunkline-{name:016x}"));
        // What a killed process left; we hold the ledger, so it is nobody's.
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
            self.directories.push(Held { path, identity });
            return Ok(true);
        }
        fs::remove_dir(&temporary)?;
        match renamed {
            // The file system cannot do it. If we are killed in the next instant, the next edit waits until it is stale.
            Err(error) if is_unsupported(&error) => self.make(path),
            other => other,
        }
    }

    /// Writes into the ledger what is ours, or about to be, or was a dead process's. A ledger that cannot be written costs
    /// nothing but the wait for a stale directory.
    fn enter(&mut self, next: Option<Identity>) {
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let ours = self.directories.iter().map(|held| held.identity);
        let entries: Vec<_> = ours.chain(next).collect();
        let _ = ledger.write(&entries);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        for held in self.directories.drain(..) {
            if matches!(Identity::of(&held.path), Ok(Some(found)) if found == held.identity) {
                let _ = fs::remove_dir(&held.path);
            }
        }
        self.enter(None);
    }
}

/// Renames unless there is something by the new name; `false` if there is.
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
    // EINVAL is what Linux says when the file system does not know the flag.
    matches!(
        error.kind(),
        ErrorKind::Unsupported | ErrorKind::InvalidInput
    )
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::edit::ledger::STALE;

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

        fn entries(&self) -> Vec<Identity> {
            let mut ledger = self.ledger();
            ledger.load();
            ledger.dead
        }

        fn ledger(&self) -> Ledger {
            Ledger::open(&self.state(), &self.target).unwrap()
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
        make_old(&scratch.lock);
        let error = scratch.acquire(None).err().unwrap().to_string();
        assert!(error.contains("not empty"), "{error}");
    }

    #[test]
    fn a_stale_lock_is_taken_over() {
        let scratch = Scratch::new();
        let state = scratch.state();
        for state in [None, Some(&*state)] {
            fs::create_dir(&scratch.lock).unwrap();
            make_old(&scratch.lock);
            assert!(scratch.acquire(state).unwrap().confirm());
            assert!(!scratch.lock.exists());
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

        // As a foreign process may make it right after us, on the same inode.
        fs::create_dir(&scratch.lock).unwrap();
        scratch.ledger().write(&[ours]).unwrap();
        assert!(scratch.acquire(Some(&state)).is_err());

        // As it is when its owner was killed.
        let left = Identity::of(&scratch.lock).unwrap().unwrap();
        scratch.ledger().write(&[left]).unwrap();
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
        lock.directories[0].identity = Identity::of(&scratch.lock).unwrap().unwrap();
        assert!(lock.confirm());
        let renewed = Identity::of(&scratch.lock).unwrap().unwrap();
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
        assert!(lock.ledger.is_none() && scratch.lock.exists());
    }

    fn make_old(path: &Path) {
        let old = SystemTime::now() - STALE - Duration::from_secs(1);
        File::open(path).unwrap().set_modified(old).unwrap();
    }
}
