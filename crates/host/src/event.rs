//! Notifications of changes in a host (LIF-11).
//!
//! ```
//! use trunkline::{Builtin, Host};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let host = Host::builder().start();
//! let mut events = host.events();
//! host.add_builtin(Builtin::new("clock"));
//! while let Some(changes) = events.next().await {
//!     if changes.servers.contains("clock") {
//!         break;
//!     }
//! }
//! host.shutdown().await;
//! # }
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::{Notify, broadcast, watch};
use trunkline_wire::Json;

use crate::host::ServerFilter;

/// Changes are collected for this long before they are sent.
const BATCH: Duration = Duration::from_millis(16);

/// Batches that a slow subscriber may lag behind before it misses some.
const CAPACITY: usize = 64;

/// The changes since the previous batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// The servers whose state or catalog changed.
    pub servers: BTreeSet<Arc<str>>,
    /// The subscribed resources that changed, each with its server.
    pub resources_updated: BTreeSet<(Arc<str>, String)>,
    /// The servers that now wait for the user's approval, new or changed.
    pub awaiting_approval: BTreeSet<Arc<str>>,
    /// Whether [`Host::config`](crate::Host::config) changed.
    pub configuration: bool,
    /// Whether earlier batches were dropped because the subscriber was too slow: reread everything.
    pub missed: bool,
}

impl Changes {
    /// Keeps only the changes of some servers.
    fn retain(&mut self, of: impl Fn(&str) -> bool) {
        self.servers.retain(|server| of(server));
        self.resources_updated.retain(|(server, _)| of(server));
        self.awaiting_approval.retain(|server| of(server));
    }
}

/// A notification of a server that a program may forward to its clients; see
/// [`HostBuilder::on_notification`](crate::HostBuilder::on_notification).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerNotification {
    /// The server, by its name as configured.
    pub server: Arc<str>,
    /// `notifications/message` or `notifications/elicitation/complete`.
    pub method: String,
    /// The params; untrusted text, verbatim.
    pub params: Option<Json>,
    /// The clients that it may be about.
    pub audience: Audience,
}

/// The clients that a server's notification may be about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audience {
    /// No call is in flight: it is about the server.
    Everyone,
    /// All calls in flight are this client's.
    Client(Arc<str>),
    /// Calls of several clients are in flight, or of the program itself.
    Unknown,
}

pub(crate) type NotificationTap = Arc<dyn Fn(&ServerNotification) + Send + Sync>;

/// A stream of [`Changes`], which ends when the host shuts down or is dropped. A slow subscriber
/// delays no one.
pub struct Events(Pin<Box<dyn Stream<Item = Changes> + Send>>);

impl Events {
    /// Waits for the next changes; `None` once the host has shut down.
    pub async fn next(&mut self) -> Option<Changes> {
        self.0.next().await
    }
}

impl Stream for Events {
    type Item = Changes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Changes>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// One subscriber's state.
struct Subscription {
    changes: broadcast::Receiver<Arc<Changes>>,
    /// Turns true, or closes, when the host has shut down.
    closed: watch::Receiver<bool>,
    filter: Option<ServerFilter>,
}

impl Subscription {
    async fn next(&mut self) -> Option<Changes> {
        loop {
            let received = tokio::select! {
                // Changes before the shutdown are still delivered.
                biased;
                received = self.changes.recv() => received,
                _ = self.closed.wait_for(|closed| *closed) => return None,
            };
            return match received {
                Ok(changes) => {
                    let mut changes = Arc::unwrap_or_clone(changes);
                    if let Some(filter) = &self.filter {
                        changes.retain(&**filter);
                        if changes == Changes::default() {
                            continue;
                        }
                    }
                    Some(changes)
                }
                Err(broadcast::error::RecvError::Lagged(_)) => Some(Changes {
                    missed: true,
                    ..Changes::default()
                }),
                Err(broadcast::error::RecvError::Closed) => None,
            };
        }
    }
}

/// Collects changes and sends them in batches.
pub(crate) struct EventSender {
    changes: Mutex<Changes>,
    pending: Notify,
    subscribers: broadcast::Sender<Arc<Changes>>,
}

impl EventSender {
    pub(crate) fn new() -> Self {
        Self {
            changes: Mutex::default(),
            pending: Notify::new(),
            subscribers: broadcast::Sender::new(CAPACITY),
        }
    }

    pub(crate) fn changed(&self, server: &Arc<str>) {
        self.add(|changes| _ = changes.servers.insert(Arc::clone(server)));
    }

    /// Reports a changed resource.
    pub(crate) fn updated(&self, server: &Arc<str>, uri: String) {
        self.add(|changes| _ = changes.resources_updated.insert((Arc::clone(server), uri)));
    }

    /// Reports a server that waits for approval.
    pub(crate) fn awaits_approval(&self, server: &str) {
        self.add(|changes| _ = changes.awaiting_approval.insert(server.into()));
    }

    #[cfg(feature = "discovery")]
    pub(crate) fn configuration_changed(&self) {
        self.add(|changes| changes.configuration = true);
    }

    /// Subscribes until `closed` turns true or its sender is dropped.
    pub(crate) fn subscribe(
        &self,
        closed: watch::Receiver<bool>,
        filter: Option<ServerFilter>,
    ) -> Events {
        let subscription = Subscription {
            changes: self.subscribers.subscribe(),
            closed,
            filter,
        };
        let changes = stream::unfold(subscription, |mut subscription| async move {
            let changes = subscription.next().await?;
            Some((changes, subscription))
        });
        Events(Box::pin(changes.fuse()))
    }

    /// Sends batches for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            self.pending.notified().await;
            tokio::time::sleep(BATCH).await;
            self.flush();
        }
    }

    /// Sends the changes collected so far.
    pub(crate) fn flush(&self) {
        let changes = std::mem::take(&mut *self.lock());
        if changes != Changes::default() {
            let _ = self.subscribers.send(Arc::new(changes));
        }
    }

    fn add(&self, change: impl FnOnce(&mut Changes)) {
        if self.subscribers.receiver_count() == 0 {
            return;
        }
        change(&mut self.lock());
        self.pending.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_one_batch_and_a_slow_subscriber_learns_that_it_missed_some() {
        let events = Arc::new(EventSender::new());
        let closed = watch::Sender::new(false);
        let mut quick = events.subscribe(closed.subscribe(), None);
        let mut slow = events.subscribe(closed.subscribe(), None);
        let sending = tokio::spawn({
            let events = Arc::clone(&events);
            async move { events.run().await }
        });
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        for _ in 0..10 {
            events.changed(&a);
            events.changed(&b);
        }
        assert_eq!(
            quick.next().await.unwrap().servers,
            BTreeSet::from([a.clone(), b])
        );
        for _ in 0..=CAPACITY {
            events.changed(&a);
            quick.next().await.unwrap();
        }
        assert!(slow.next().await.unwrap().missed);
        assert!(!slow.next().await.unwrap().missed);

        // Changes before the end are delivered, and nothing after it.
        events.changed(&a);
        events.flush();
        closed.send_replace(true);
        assert!(quick.next().await.is_some());
        assert_eq!(quick.next().await, None);
        assert_eq!(StreamExt::next(&mut quick).await, None);
        sending.abort();
    }
}
