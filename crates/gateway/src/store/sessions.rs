//! Sessions of legacy HTTP clients, which continue after a restart of the gateway.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Digest, StoreFuture};

/// A session: enough to create it again. Its id authenticates the client, so only its digest is
/// stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The digest of the session id.
    pub key: Digest,
    /// The identity that opened it. No other may use it.
    pub owner: String,
    /// The server of the endpoint; `None` for all servers.
    pub server: Option<String>,
    /// The `params` of the client's `initialize` request, as JSON text.
    pub initialize: String,
    /// The time of the last request.
    pub last_used: u64,
}

/// Stores sessions.
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a session, or replaces it.
    fn put(&self, record: SessionRecord) -> StoreFuture<'_, ()>;

    /// Finds a session.
    fn get(&self, key: Digest) -> StoreFuture<'_, Option<SessionRecord>>;

    /// Sets the time of the last request.
    fn touch(&self, key: Digest, now: u64) -> StoreFuture<'_, ()>;

    /// Removes a session.
    fn remove(&self, key: Digest) -> StoreFuture<'_, ()>;

    /// Removes the sessions that were last used before `time`.
    fn expire(&self, time: u64) -> StoreFuture<'_, ()>;
}

/// Sessions in memory.
#[derive(Default)]
pub struct MemorySessionStore(Mutex<HashMap<Digest, SessionRecord>>);

impl MemorySessionStore {
    fn with<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut HashMap<Digest, SessionRecord>) -> T,
    ) -> StoreFuture<'_, T> {
        let value = change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(async { Ok(value) })
    }
}

impl SessionStore for MemorySessionStore {
    fn put(&self, record: SessionRecord) -> StoreFuture<'_, ()> {
        self.with(|sessions| {
            sessions.insert(record.key, record);
        })
    }

    fn get(&self, key: Digest) -> StoreFuture<'_, Option<SessionRecord>> {
        self.with(|sessions| sessions.get(&key).cloned())
    }

    fn touch(&self, key: Digest, now: u64) -> StoreFuture<'_, ()> {
        self.with(|sessions| {
            if let Some(record) = sessions.get_mut(&key) {
                record.last_used = now;
            }
        })
    }

    fn remove(&self, key: Digest) -> StoreFuture<'_, ()> {
        self.with(|sessions| {
            sessions.remove(&key);
        })
    }

    fn expire(&self, time: u64) -> StoreFuture<'_, ()> {
        self.with(|sessions| sessions.retain(|_, record| record.last_used >= time))
    }
}
