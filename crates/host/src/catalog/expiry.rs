//! Tracks when the next list of any server becomes stale. Every call checks it, so it costs one
//! atomic load while no server sets a TTL.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

const NEVER: u64 = u64::MAX;

/// The earliest time at which a list becomes stale.
pub(crate) struct Expiry {
    since: Instant,
    /// Milliseconds after `since`.
    next: AtomicU64,
}

impl Expiry {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            next: AtomicU64::new(NEVER),
        }
    }

    /// Schedules a check for a list that becomes stale at `when`.
    pub(crate) fn schedule(&self, when: Option<Instant>) {
        if let Some(when) = when {
            let after = when.saturating_duration_since(self.since);
            // Round up: a check that comes too early finds nothing stale.
            let after = after + Duration::from_millis(1);
            let after = u64::try_from(after.as_millis()).unwrap_or(NEVER);
            self.next.fetch_min(after, Ordering::AcqRel);
        }
    }

    /// Returns whether a list may be stale. Returns true to one caller only, which then checks all
    /// lists and schedules the next check.
    pub(crate) fn is_due(&self) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        if next == NEVER || self.since.elapsed().as_millis() < u128::from(next) {
            return false;
        }
        let taken = self
            .next
            .compare_exchange(next, NEVER, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn earliest_deadline_fires_once() {
        let expiry = Expiry::new();
        assert!(!expiry.is_due());
        let now = Instant::now();
        expiry.schedule(None);
        expiry.schedule(Some(now + Duration::from_secs(20)));
        expiry.schedule(Some(now + Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!expiry.is_due());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(expiry.is_due());
        assert!(!expiry.is_due());
        expiry.schedule(Some(now));
        assert!(expiry.is_due());
    }
}
