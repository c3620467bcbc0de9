//! Waiting for one's turn: in line with the threads of this process, and with pauses for other processes.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest pause between two looks at a lock that someone else has.
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// The files that a thread of this process has the lock of, or waits outside the process for. The threads queue here, so only
/// one of them looks at the lock again and again.
static TURNS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static TURN_ENDED: Condvar = Condvar::new();

pub(super) struct Turn(PathBuf);

impl Turn {
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

impl Drop for Turn {
    fn drop(&mut self) {
        turns().remove(&self.0);
        TURN_ENDED.notify_all();
    }
}

fn turns() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pauses between looks at a lock, which grow, and differ between processes, so that these do not run in step.
pub(super) struct Pauses {
    next: Duration,
    pub(super) end: Instant,
}

impl Pauses {
    pub(super) fn until(end: Instant) -> Self {
        let next = Duration::from_millis(1);
        Self { next, end }
    }

    /// `false` when there is no time left.
    pub(super) fn pause(&mut self) -> bool {
        let Some(left) = self.end.checked_duration_since(Instant::now()) else {
            return false;
        };
        let half = self.next / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        let pause = half + Duration::from_nanos(chance() % nanos);
        thread::sleep(pause.min(left));
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        true
    }
}

/// A random number.
pub(super) fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}
