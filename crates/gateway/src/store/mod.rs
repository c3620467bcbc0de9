//! The state of a gateway that outlives a request, behind traits: sessions, tokens, rates and
//! events.
//!
//! Each trait has an implementation in memory and one on disk ([`Sqlite`], the feature `sqlite`).
//! All methods are asynchronous, so that several gateways can share an engine over the network
//! without a change to the endpoint.
//!
//! Times are milliseconds since the Unix epoch, given by the caller: the stores have no clock, and
//! records survive a restart.

mod events;
mod rates;
mod secret;
mod sessions;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tokens;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;

pub use events::{Event, EventLimits, EventLog, MemoryEventLog, Replay};
pub use rates::{MemoryRateLimiter, Rate, RateDecision, RateLimiter};
pub use secret::{Digest, random_id};
pub use sessions::{MemorySessionStore, SessionRecord, SessionStore};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use tokens::{MemoryTokenStore, NewToken, TokenRecord, TokenStatus, TokenStore};

/// The result of a store's method.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// The engine of a store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(String);

impl StoreError {
    /// Creates an error with a message for people.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The stores of a gateway. Clones share them.
#[derive(Clone)]
#[non_exhaustive]
pub struct Stores {
    /// The sessions of legacy clients.
    pub sessions: Arc<dyn SessionStore>,
    /// The bearer tokens of clients.
    pub tokens: Arc<dyn TokenStore>,
    /// The rates of requests.
    pub rates: Arc<dyn RateLimiter>,
    /// The events that a client may ask for again.
    pub events: Arc<dyn EventLog>,
}

impl Stores {
    /// Keeps everything in memory.
    pub fn in_memory() -> Self {
        Self {
            sessions: Arc::new(MemorySessionStore::default()),
            tokens: Arc::new(MemoryTokenStore::default()),
            rates: Arc::new(MemoryRateLimiter::default()),
            events: Arc::new(MemoryEventLog::default()),
        }
    }

    /// Keeps tokens and sessions on disk, which survive a restart; rates and events, which every
    /// request touches, stay in memory.
    #[cfg(feature = "sqlite")]
    pub fn on_disk(database: &Arc<Sqlite>) -> Self {
        Self {
            sessions: Arc::clone(database) as Arc<dyn SessionStore>,
            tokens: Arc::clone(database) as Arc<dyn TokenStore>,
            ..Self::in_memory()
        }
    }

    /// Keeps everything on disk: event streams can be resumed after a restart, and several
    /// processes share the rates.
    #[cfg(feature = "sqlite")]
    pub fn durable(database: &Arc<Sqlite>) -> Self {
        Self {
            rates: Arc::clone(database) as Arc<dyn RateLimiter>,
            events: Arc::clone(database) as Arc<dyn EventLog>,
            ..Self::on_disk(database)
        }
    }
}

/// Returns the current time in milliseconds since the Unix epoch.
pub fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests;
