//! Ways to wait for what must happen.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Waits for `condition`, letting the host work meanwhile.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < SOON, "waited for {what}, in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The outcome of `work`, which must come.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(SOON, work).await;
    outcome.unwrap_or_else(|_| panic!("waited for {what}, in vain"))
}
