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
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        let waited = start.elapsed();
        assert!(waited < limit, "waited {waited:?} for {what}, in vain");
        thread::sleep(POLL);
    }
}
