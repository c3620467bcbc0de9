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
const MAX_WATCHED: usize = 1000;

/// The method whose results are kept while they are fresh.
pub(super) const READ: &str = "resources/read";

/// What is watched.
#[derive(Default)]
pub(super) struct ResourceSubscriptions {
    /// The addresses, each with the number of those who want to hear about it.
    numbers: watch::Sender<BTreeMap<String, usize>>,
    /// Whoever asks the server for an address holds this meanwhile: nobody else is told that it is watched before it is.
    asking: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl ResourceSubscriptions {
    /// One more wants to hear about it; true for the first, `Err` where there are too many.
    fn add(&self, uri: &str) -> Result<bool, RequestError> {
        let mut first = Ok(false);
        self.numbers.send_if_modified(|subscriptions| {
            let full = subscriptions.len() >= MAX_WATCHED;
            match subscriptions.entry(uri.to_owned()) {
                Entry::Occupied(mut number) => {
                    *number.get_mut() += 1;
                    false
                }
                Entry::Vacant(_) if full => {
                    let problem = format!("{MAX_WATCHED} of its resources are watched already");
                    first = Err(RequestError::Malformed(problem));
                    false
                }
                Entry::Vacant(place) => {
                    place.insert(1);
                    first = Ok(true);
                    true
                }
            }
        });
        first
    }

    /// One less wants to hear about it; true for the last.
    fn remove(&self, uri: &str) -> bool {
        self.numbers.send_if_modified(|subscriptions| {
            let Some(number) = subscriptions.get_mut(uri) else {
                return false;
            };
            *number -= 1;
            let last = *number == 0;
            if last {
                subscriptions.remove(uri);
            }
            last
        })
    }

    pub(super) fn changes(&self) -> watch::Receiver<BTreeMap<String, usize>> {
        self.numbers.subscribe()
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.numbers.borrow().keys().cloned().collect()
    }

    /// What is held by whoever asks the server for an address.
    fn asking(&self, uri: &str) -> Arc<AsyncMutex<()>> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.retain(|_, held| held.strong_count() > 0);
        if let Some(held) = asking.get(uri).and_then(Weak::upgrade) {
            return held;
        }
        let held = Arc::default();
        asking.insert(uri.to_owned(), Arc::downgrade(&held));
        held
    }
}

impl Connection {
    /// Has the server tell when a resource changes. Who comes while the server is being asked already waits for what it says, and asks
    /// it again if that was no.
    pub(crate) async fn watch(
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
        let asking = self.core.subscriptions.asking(uri);
        let started = Instant::now();
        let held = timeout_at(deadline, asking.lock()).await;
        let _held = held.map_err(|_| RequestError::Timeout {
            after: started.elapsed(),
            sent: false,
        })?;
        // Noted before it is asked for: a connection that is made meanwhile asks for it, too.
        if self.core.subscriptions.add(uri)? {
            let mut undo = Undo {
                core: &self.core,
                uri: Some(uri),
            };
            client.subscribe(uri, Some(deadline)).await?;
            undo.uri = None;
        }
        Ok(())
    }

    /// No longer has the server tell when a resource changes.
    pub(crate) async fn unwatch(&self, uri: &str) {
        // Whoever wants it again meanwhile waits, or the server might hear of it in the wrong order.
        let asking = self.core.subscriptions.asking(uri);
        let _held = asking.lock().await;
        if self.core.subscriptions.remove(uri)
            && let Some(connected) = self.now()
            && connected.era() == Era::Legacy
        {
            let deadline = settings::deadline(self.core.context.settings.connect_timeout);
            // What it says after this is of no use to anybody, and no harm.
            let _ = connected.client.unsubscribe(uri, Some(deadline)).await;
        }
    }

    /// A content that was read before and is still fresh.
    pub(crate) fn fetched(&self, uri: &str) -> Option<Json> {
        self.now()?;
        self.core.fetched.get(READ, uri)
    }

    /// Keeps a content for as long as its server says that it is fresh.
    pub(crate) fn keep_fetched(&self, uri: &str, result: &Json) {
        self.core.fetched.put(READ, uri, result);
    }
}

/// Takes back what was noted, if asking for it fails or is given up.
struct Undo<'a> {
    core: &'a Core,
    uri: Option<&'a str>,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if let Some(uri) = self.uri {
            self.core.subscriptions.remove(uri);
        }
    }
}

/// Asks a legacy server for what was asked of it over an earlier connection. What changed in between nobody knows, so all of it counts
/// as changed.
pub(super) async fn ask_again(core: &Core, client: &Client) {
    for uri in core.subscriptions.uris() {
        let deadline = settings::deadline(core.context.settings.connect_timeout);
        if client.subscribe(&uri, Some(deadline)).await.is_ok() {
            core.notifications.updated(uri);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_asks_and_the_last_lets_go() {
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
        for n in 0..MAX_WATCHED {
            subscriptions.add(&n.to_string()).unwrap();
        }
        assert!(subscriptions.add("one more").is_err());
        assert!(!subscriptions.add("7").unwrap());
    }
}
