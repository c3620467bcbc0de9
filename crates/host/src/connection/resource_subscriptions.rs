//! Resource subscriptions that survive reconnects (CTX-1).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::{Instant, timeout_at};
use trunkline_wire::version::Era;
use trunkline_wire::{Client, Json, RequestError};

use super::{Connected, Connection, Core};
use crate::settings;

/// Maximum number of subscriptions per server (SEC-4).
const MAX_SUBSCRIPTIONS: usize = 1000;

/// The method whose results are cached.
pub(super) const RESOURCES_READ: &str = "resources/read";

/// The subscribed resources of a server.
#[derive(Default)]
pub(super) struct ResourceSubscriptions {
    /// Number of subscribers by URI.
    counts: watch::Sender<BTreeMap<String, usize>>,
    /// Held while a URI is being subscribed, so concurrent subscribers wait for the server's
    /// answer.
    in_flight: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl ResourceSubscriptions {
    /// Adds a subscriber; returns true for the first and `Err` at the limit.
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
                    let problem = format!(
                        "the limit of {MAX_SUBSCRIPTIONS} resource subscriptions is reached"
                    );
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

    /// Removes a subscriber; returns true for the last.
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

    /// Returns the lock for a subscription in flight.
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
    /// Subscribes to a resource. Concurrent callers share the request in flight and retry if it
    /// fails.
    pub(crate) async fn subscribe(
        &self,
        connected: &Connected,
        uri: &str,
        deadline: Instant,
    ) -> Result<(), RequestError> {
        let client = &connected.client;
        if client.era() == Era::Modern {
            // The open subscription stream picks it up.
            return self.core.subscriptions.add(uri).map(drop);
        }
        let in_flight = self.core.subscriptions.in_flight(uri);
        let started = Instant::now();
        let guard = timeout_at(deadline, in_flight.lock()).await;
        let _guard = guard.map_err(|_| RequestError::Timeout {
            after: started.elapsed(),
            sent: false,
        })?;
        // Added first, so a connection made meanwhile subscribes too.
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

    /// Unsubscribes from a resource.
    pub(crate) async fn unsubscribe(&self, uri: &str) {
        // Serializes with a concurrent subscribe, so the server sees both in order.
        let in_flight = self.core.subscriptions.in_flight(uri);
        let _guard = in_flight.lock().await;
        if self.core.subscriptions.remove(uri)
            && let Some(connected) = self.connected()
            && connected.era() == Era::Legacy
        {
            let deadline = settings::deadline(self.core.shared.settings.connect_timeout);
            // The server's answer does not matter.
            let _ = connected.client.unsubscribe(uri, Some(deadline)).await;
        }
    }

    /// Returns the cached contents of a resource.
    pub(crate) fn cached_read(&self, uri: &str) -> Option<Json> {
        self.connected()?;
        self.core.fetched.get(RESOURCES_READ, uri)
    }

    /// Caches the contents of a resource while they are fresh.
    pub(crate) fn cache_read(&self, uri: &str, result: &Json) {
        self.core.fetched.put(RESOURCES_READ, uri, result);
    }
}

/// Removes the subscriber if the request fails or is dropped.
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

/// Subscribes a legacy server again after a reconnect. Changes in between are unknown, so all
/// resources count as updated.
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
