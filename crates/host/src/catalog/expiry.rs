//! When the next list of any server becomes stale: looked at with every call, and so no more than one load while no server
//! says how long its lists are fresh.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

const NEVER: u64 = u64::MAX;

/// The earliest of all moments at which a list becomes stale.
pub(crate) struct Expiry {
    since: Instant,
    /// In milliseconds since then.
    next: AtomicU64,
}

impl Expiry {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            next: AtomicU64::new(NEVER),
        }
    }

    /// Takes schedule that a list becomes stale at `when`.
    pub(crate) fn schedule(&self, when: Option<Instant>) {
        if let Some(when) = when {
            let after = when.saturating_duration_since(self.since);
            // Rounded up: looked at too early, nothing would be stale yet.
            let after = after + Duration::from_millis(1);
            let after = u64::try_from(after.as_millis()).unwrap_or(NEVER);
            self.next.fetch_min(after, Ordering::AcqRel);
        }
    }

    /// Whether a list may have become stale. True for one caller only, who then looks at all of them and notes what is to come.
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
