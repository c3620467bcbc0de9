//! Waiting: a queue for the threads of this process, and backoff for other processes.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest pause between two attempts to take a lock.
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// The files that a thread of this process has locked or is waiting for. Threads queue here, so
/// that only one of them polls the lock.
static TURNS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static TURN_ENDED: Condvar = Condvar::new();

pub(super) struct InProcessLock(PathBuf);

impl InProcessLock {
    pub(super) fn take(target: &Path, end: Instant) -> Option<Self> {
        let mut turns = turns();
        while turns.contains(target) {
            let left = end.checked_duration_since(Instant::now())?;
            turns = TURN_ENDED
                .wait_timeout(turns, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        turns.insert(target.to_owned());
        Some(Self(target.to_owned()))
    }
}

impl Drop for InProcessLock {
    fn drop(&mut self) {
        turns().remove(&self.0);
        TURN_ENDED.notify_all();
    }
}

fn turns() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Growing, randomised pauses between attempts, so that processes do not run in step.
pub(super) struct Backoff {
    next: Duration,
    pub(super) end: Instant,
}

impl Backoff {
    pub(super) fn until(end: Instant) -> Self {
        let next = Duration::from_millis(1);
        Self { next, end }
    }

    /// Sleeps; `false` once the deadline has passed.
    pub(super) fn pause(&mut self) -> bool {
        let Some(left) = self.end.checked_duration_since(Instant::now()) else {
            return false;
        };
        let half = self.next / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        let pause = half + Duration::from_nanos(random_u64() % nanos);
        thread::sleep(pause.min(left));
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        true
    }
}

/// A random number.
pub(super) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}
