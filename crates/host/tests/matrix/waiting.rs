//! Helpers that wait for conditions.

use std::future::Future;
use std::time::{Duration, Instant};

/// Time limit for conditions, generous for busy machines.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Waits for `condition` while the host runs.
pub(crate) async fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_or(|| what.to_owned(), condition).await;
}

/// Waits for `condition`; `what` describes the state at the time of the failure.
pub(crate) async fn eventually_or(what: impl Fn() -> String, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < SOON, "waited for {}, in vain", what());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the outcome of `work`, which must complete.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(SOON, work).await;
    outcome.unwrap_or_else(|_| panic!("waited for {what}, in vain"))
}
