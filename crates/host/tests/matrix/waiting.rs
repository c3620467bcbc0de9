//! Helpers that wait for conditions.

use std::future::Future;
use std::time::{Duration, Instant};

/// Time limit for conditions, generous for busy machines.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Waits for `condition` while the host runs.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < SOON, "waited for {what}, in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the outcome of `work`, which must complete.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(SOON, work).await;
    outcome.unwrap_or_else(|_| panic!("waited for {what}, in vain"))
}
