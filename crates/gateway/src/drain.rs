//! Ends connections without losing a call.
//!
//! When the daemon ends, it asks each client to leave with a notification of its own. A host of
//! ours then says that nothing more comes; the daemon answers what has come, says that it has, and
//! the host goes on elsewhere. Other clients ignore the notification: their connections close once
//! they have been quiet for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use trunkline_wire::Peer;

/// The notification that asks a client to leave.
pub(crate) const GO_AWAY: &str = "notifications/trunkline/goAway";

/// The client's last message to a daemon that asked it to leave.
pub(crate) const LEAVING: &str = "notifications/trunkline/leaving";

/// The daemon's last message: every request before the client's last message has its response.
pub(crate) const LEFT: &str = "notifications/trunkline/left";

/// How long a client may take to close its connection then.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client must be quiet before its connection is closed.
const QUIET: Duration = Duration::from_millis(500);

/// How often it is checked.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// What a client waits for.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// The number of its requests that have no response yet.
    requests: AtomicUsize,
    /// Whether nothing more comes from it.
    is_leaving: AtomicBool,
}

/// A request without a response.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<Activity>);

impl Activity {
    /// Counts a request until the result is dropped. A subscription does not count: it never ends.
    pub(crate) fn begin(self: &Arc<Self>, method: &str) -> Option<ActiveRequest> {
        if method == "subscriptions/listen" {
            return None;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(ActiveRequest(Arc::clone(self)))
    }

    /// Notes a notification of the client.
    pub(crate) fn note(&self, method: &str) {
        if method == LEAVING {
            self.is_leaving.store(true, Ordering::Relaxed);
        }
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
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
        } else if activity.is_leaving() {
            peer.try_notify(LEFT, None);
            sleep(CLOSE_TIMEOUT).await;
            return;
        }
    }
}
