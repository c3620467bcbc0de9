//! Waiting for a condition instead of sleeping.

use std::{
    thread,
    time::{Duration, Instant},
};

const POLL: Duration = Duration::from_millis(2);

/// Polls until `condition` holds.
///
/// # Panics
/// When it does not within `limit`, at the caller's line.
#[track_caller]
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(limit, "the condition", || condition().then_some(()));
}

/// Polls until `probe` gives a value.
///
/// # Panics
/// When it gives none within `limit`, at the caller's line, naming `what` was awaited.
#[track_caller]
pub fn wait_for<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    match poll(limit, &mut probe) {
        Some(value) => value,
        None => panic!("waited {limit:?} for {what}, in vain"),
    }
}

/// Polls until `probe` gives a value; `None` if it gives none within `limit`.
pub(crate) fn poll<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let value = probe();
        if value.is_some() || start.elapsed() >= limit {
            return value;
        }
        thread::sleep(POLL);
    }
}
