//! The resources of a server that somebody wants to hear about, however often its connection is made anew (CTX-1).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{Instant, timeout_at};
use trunkline_wire::version::Era;
use trunkline_wire::{Client, Json, RequestError};

use super::{Connected, Connection, Core};
use crate::settings;

/// How many resources of one server can be watched (SEC-4).
const MAX_SUBSCRIPTIONS: usize = 1000;

/// The method whose results are kept while they are fresh.
pub(super) const RESOURCES_READ: &str = "resources/read";

/// What is watched.
#[derive(Default)]
pub(super) struct ResourceSubscriptions {
    /// The addresses, each with the count of those who want to hear about it.
    counts: watch::Sender<BTreeMap<String, usize>>,
    /// Whoever asks the server for an address holds this meanwhile: nobody else is told that it is watched before it is.
    in_flight: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl ResourceSubscriptions {
    /// One more wants to hear about it; true for the first, `Err` where there are too many.
    fn add(&self, uri: &str) -> Result<bool, RequestError> {
        let mut first = Ok(false);
        self.counts.send_if_modified(|subscriptions| {
            let full = subscriptions.len() >= MAX_SUBSCRIPTIONS;
            match subscriptions.entry(uri.to_owned()) {
                Entry::Occupied(mut count) => {
                    *count.get_mut() += 1;
                    false
                }
                Entry::Vacant(_) if full => {
                    let problem =
                        format!("{MAX_SUBSCRIPTIONS} of its resources are watched already");
                    first = Err(RequestError::Malformed(problem));
                    false
                }
                Entry::Vacant(entry) => {
                    entry.insert(1);
                    first = Ok(true);
                    true
                }
            }
        });
        first
    }

    /// One less wants to hear about it; true for the last.
    fn remove(&self, uri: &str) -> bool {
        self.counts.send_if_modified(|subscriptions| {
            let Some(count) = subscriptions.get_mut(uri) else {
                return false;
            };
            *count -= 1;
            let last = *count == 0;
            if last {
                subscriptions.remove(uri);
            }
            last
        })
    }

    pub(super) fn changes(&self) -> watch::Receiver<BTreeMap<String, usize>> {
        self.counts.subscribe()
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.counts.borrow().keys().cloned().collect()
    }

    /// What is guard by whoever asks the server for an address.
    fn in_flight(&self, uri: &str) -> Arc<AsyncMutex<()>> {
        let mut in_flight = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        in_flight.retain(|_, guard| guard.strong_count() > 0);
        if let Some(guard) = in_flight.get(uri).and_then(Weak::upgrade) {
            return guard;
        }
        let guard = Arc::default();
        in_flight.insert(uri.to_owned(), Arc::downgrade(&guard));
        guard
    }
}

impl Connection {
    /// Has the server tell when a resource changes. Who comes while the server is being asked already waits for what it says, and asks
    /// it again if that was no.
    pub(crate) async fn subscribe(
        &self,
        connected: &Connected,
        uri: &str,
        deadline: Instant,
    ) -> Result<(), RequestError> {
        let client = &connected.client;
        if client.era() == Era::Modern {
            // It is asked for by whoever listens.
            return self.core.subscriptions.add(uri).map(drop);
        }
        let in_flight = self.core.subscriptions.in_flight(uri);
        let started = Instant::now();
        let guard = timeout_at(deadline, in_flight.lock()).await;
        let _guard = guard.map_err(|_| RequestError::Timeout {
            after: started.elapsed(),
            sent: false,
        })?;
        // Noted before it is asked for: a connection that is made meanwhile asks for it, too.
        if self.core.subscriptions.add(uri)? {
            let mut roll_back = RollBack {
                core: &self.core,
                uri: Some(uri),
            };
            client.subscribe(uri, Some(deadline)).await?;
            roll_back.uri = None;
        }
        Ok(())
    }

    /// No longer has the server tell when a resource changes.
    pub(crate) async fn unsubscribe(&self, uri: &str) {
        // Whoever wants it again meanwhile waits, or the server might hear of it in the wrong order.
        let in_flight = self.core.subscriptions.in_flight(uri);
        let _guard = in_flight.lock().await;
        if self.core.subscriptions.remove(uri)
            && let Some(connected) = self.connected()
            && connected.era() == Era::Legacy
        {
            let deadline = settings::deadline(self.core.shared.settings.connect_timeout);
            // What it says after this is of no use to anybody, and no harm.
            let _ = connected.client.unsubscribe(uri, Some(deadline)).await;
        }
    }

    /// A content that was read before and is still fresh.
    pub(crate) fn cached_read(&self, uri: &str) -> Option<Json> {
        self.connected()?;
        self.core.fetched.get(RESOURCES_READ, uri)
    }

    /// Keeps a content for as long as its server says that it is fresh.
    pub(crate) fn cache_read(&self, uri: &str, result: &Json) {
        self.core.fetched.put(RESOURCES_READ, uri, result);
    }
}

/// Takes back what was noted, if in_flight for it fails or is given up.
struct RollBack<'a> {
    core: &'a Core,
    uri: Option<&'a str>,
}

impl Drop for RollBack<'_> {
    fn drop(&mut self) {
        if let Some(uri) = self.uri {
            self.core.subscriptions.remove(uri);
        }
    }
}

/// Asks a legacy server for what was asked of it over an earlier connection. What changed in between nobody knows, so all of it counts
/// as changed.
pub(super) async fn resubscribe(core: &Core, client: &Client) {
    for uri in core.subscriptions.uris() {
        let deadline = settings::deadline(core.shared.settings.connect_timeout);
        if client.subscribe(&uri, Some(deadline)).await.is_ok() {
            core.notifications.mark_updated(uri);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_subscriber_subscribes_and_last_unsubscribes() {
        let subscriptions = ResourceSubscriptions::default();
        let mut changes = subscriptions.changes();
        assert!(subscriptions.add("a").unwrap());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(!subscriptions.add("a").unwrap());
        assert!(!subscriptions.remove("a") && !subscriptions.remove("b"));
        assert!(!changes.has_changed().unwrap());
        assert!(subscriptions.remove("a") && subscriptions.uris().is_empty());
        assert!(changes.has_changed().unwrap());
        for n in 0..MAX_SUBSCRIPTIONS {
            subscriptions.add(&n.to_string()).unwrap();
        }
        assert!(subscriptions.add("one more").is_err());
        assert!(!subscriptions.add("7").unwrap());
    }
}
