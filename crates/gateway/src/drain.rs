//! Ends connections without losing a call.
//!
//! When the daemon ends, it asks each client to leave with a notification of our own. Hosts of ours
//! send nothing new after it, wait for the responses that are due, and go on elsewhere (see
//! [`RelayPump`](crate::daemon::relay)). Other clients ignore it: their connections close once they
//! have been quiet for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use trunkline_wire::Peer;

/// The notification that asks a client to leave.
pub(crate) const GO_AWAY: &str = "notifications/trunkline/goAway";

/// How long a client must be quiet before its connection is closed.
const QUIET: Duration = Duration::from_millis(500);

/// How often it is checked.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// The number of requests of a client that have no response yet.
#[derive(Debug, Default)]
pub(crate) struct Activity(AtomicUsize);

/// A request without a response.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<Activity>);

impl Activity {
    /// Counts a request until the result is dropped. A subscription does not count: it never ends.
    pub(crate) fn begin(self: &Arc<Self>, method: &str) -> Option<ActiveRequest> {
        if method == "subscriptions/listen" {
            return None;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(ActiveRequest(Arc::clone(self)))
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Completes when the daemon ends and the client has nothing left to wait for.
pub(crate) async fn drained(
    peer: &Peer,
    activity: &Activity,
    draining: &mut watch::Receiver<bool>,
) {
    if draining.wait_for(|draining| *draining).await.is_err() {
        // Nobody will ever say so.
        std::future::pending::<()>().await;
    }
    peer.try_notify(GO_AWAY, None);
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < QUIET {
        sleep(CHECK_EVERY).await;
        if !activity.is_idle() {
            quiet_since = Instant::now();
        }
    }
}
