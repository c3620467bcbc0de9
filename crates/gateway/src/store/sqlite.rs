//! All stores in one SQLite file.
//!
//! The methods run on the blocking pool, one at a time. The file has the permissions of its owner
//! alone, and a write-ahead log, so that `trunkline serve token` and a running gateway can share
//! it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::rates::Bucket;
use super::{
    Digest, Event, EventLimits, EventLog, Rate, RateDecision, RateLimiter, Replay, SessionRecord,
    SessionStore, StoreError, StoreFuture, TokenRecord, TokenStore,
};

/// The version of the schema, in SQLite's `user_version`.
const SCHEMA_VERSION: i64 = 1;

/// The longest wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A bucket that nobody has used for this long is full again.
const FORGET_RATES_AFTER: u64 = 3_600_000;

const SCHEMA: &str = "
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, label TEXT NOT NULL, digest BLOB NOT NULL UNIQUE, profile TEXT,
    created INTEGER NOT NULL, expires INTEGER, revoked INTEGER
) STRICT;
CREATE TABLE sessions (
    key BLOB PRIMARY KEY, owner TEXT NOT NULL, server TEXT, initialize TEXT NOT NULL,
    last_used INTEGER NOT NULL
) STRICT;
CREATE TABLE rates (key TEXT PRIMARY KEY, tokens REAL NOT NULL, updated INTEGER NOT NULL) STRICT;
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT, session BLOB NOT NULL, stream INTEGER NOT NULL,
    number INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE INDEX events_of_session ON events (session, position);
CREATE TABLE dropped_events (
    session BLOB NOT NULL, stream INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (session, stream)
) STRICT;
";

/// The stores in a file.
pub struct Sqlite {
    connection: Arc<Mutex<Connection>>,
    limits: EventLimits,
}

impl Sqlite {
    /// Opens the file, and creates it if it is missing. Blocks.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: &dyn std::fmt::Display| {
            StoreError::new(format!("{} cannot be opened: {error}", path.display()))
        };
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        }
        create_private(path).map_err(|error| failed(&error))?;
        let connection = Connection::open(path).map_err(|error| failed(&error))?;
        Self::prepare(connection).map_err(|error| match error {
            OpenError::Newer(version) => failed(&format_args!(
                "a newer Trunkline has written it (schema {version})"
            )),
            OpenError::Sqlite(error) => failed(&error),
        })
    }

    fn prepare(mut connection: Connection) -> Result<Self, OpenError> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let create = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let create = create?;
        match create.pragma_query_value(None, "user_version", |row| row.get(0))? {
            0_i64 => {
                create.execute_batch(SCHEMA)?;
                create.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            SCHEMA_VERSION => {}
            version => return Err(OpenError::Newer(version)),
        }
        create.commit()?;
        Ok(Self {
            connection: Arc::new(Mutex::new(connection)),
            limits: EventLimits::default(),
        })
    }

    /// Changes the bounds of the events that are kept.
    #[must_use]
    pub fn with_event_limits(mut self, limits: EventLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs `work` in a transaction on the blocking pool.
    fn run<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'a, T> {
        let connection = Arc::clone(&self.connection);
        Box::pin(async move {
            let work = move || {
                let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                // Immediate: a transaction that reads first must not find at its write that another
                // process was faster.
                let behavior = rusqlite::TransactionBehavior::Immediate;
                let transaction = connection.transaction_with_behavior(behavior)?;
                let value = work(&transaction)?;
                transaction.commit()?;
                Ok(value)
            };
            let outcome: rusqlite::Result<T> = tokio::task::spawn_blocking(work)
                .await
                .map_err(|_| StoreError::new("the gateway is shutting down"))?;
            outcome.map_err(|error| StoreError::new(format!("the gateway's database: {error}")))
        })
    }
}

enum OpenError {
    Newer(i64),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Creates the file with permissions for its owner alone; SQLite gives its other files the same.
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// SQLite has signed integers only; times and counters stay far below the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &Row, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

fn optional(row: &Row, column: usize) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    Ok(value.map(|value| u64::try_from(value).unwrap_or(0)))
}

fn digest(row: &Row, column: usize) -> rusqlite::Result<Digest> {
    Ok(Digest::from_bytes(row.get(column)?))
}

const TOKEN: &str = "SELECT id, label, digest, profile, created, expires, revoked FROM tokens";

fn token(row: &Row) -> rusqlite::Result<TokenRecord> {
    Ok(TokenRecord {
        id: row.get(0)?,
        label: row.get(1)?,
        digest: digest(row, 2)?,
        profile: row.get(3)?,
        created: unsigned(row, 4)?,
        expires: optional(row, 5)?,
        revoked: optional(row, 6)?,
    })
}

impl TokenStore for Sqlite {
    fn insert(&self, record: TokenRecord) -> StoreFuture<'_, ()> {
        self.run(move |connection| {
            connection.execute(
                "INSERT INTO tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    record.id,
                    record.label,
                    record.digest.as_bytes(),
                    record.profile,
                    signed(record.created),
                    record.expires.map(signed),
                    record.revoked.map(signed),
                ],
            )?;
            Ok(())
        })
    }

    fn find(&self, digest: Digest) -> StoreFuture<'_, Option<TokenRecord>> {
        self.run(move |connection| {
            let mut find = connection.prepare_cached(&format!("{TOKEN} WHERE digest = ?1"))?;
            find.query_row([digest.as_bytes()], token).optional()
        })
    }

    fn list(&self) -> StoreFuture<'_, Vec<TokenRecord>> {
        self.run(|connection| {
            let mut list = connection.prepare(&format!("{TOKEN} ORDER BY created, id"))?;
            let rows = list.query_map([], token)?;
            rows.collect()
        })
    }

    fn revoke<'a>(&'a self, name: &'a str, now: u64) -> StoreFuture<'a, Vec<TokenRecord>> {
        let name = name.to_owned();
        self.run(move |connection| {
            let mut revoke = connection.prepare(
                "UPDATE tokens SET revoked = ?2 WHERE revoked IS NULL AND (id = ?1 OR label = ?1)
                 RETURNING id, label, digest, profile, created, expires, revoked",
            )?;
            let rows = revoke.query_map(params![name, signed(now)], token)?;
            rows.collect()
        })
    }
}

impl SessionStore for Sqlite {
    fn put(&self, record: SessionRecord) -> StoreFuture<'_, ()> {
        self.run(move |connection| {
            connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    record.key.as_bytes(),
                    record.owner,
                    record.server,
                    record.initialize,
                    signed(record.last_used),
                ],
            )?;
            Ok(())
        })
    }

    fn get(&self, key: Digest) -> StoreFuture<'_, Option<SessionRecord>> {
        self.run(move |connection| {
            let query =
                "SELECT key, owner, server, initialize, last_used FROM sessions WHERE key = ?1";
            let record = |row: &Row| {
                Ok(SessionRecord {
                    key: digest(row, 0)?,
                    owner: row.get(1)?,
                    server: row.get(2)?,
                    initialize: row.get(3)?,
                    last_used: unsigned(row, 4)?,
                })
            };
            connection
                .query_row(query, [key.as_bytes()], record)
                .optional()
        })
    }

    fn touch(&self, key: Digest, now: u64) -> StoreFuture<'_, ()> {
        self.run(move |connection| {
            let set = "UPDATE sessions SET last_used = ?2 WHERE key = ?1";
            connection.execute(set, params![key.as_bytes(), signed(now)])?;
            Ok(())
        })
    }

    fn remove(&self, key: Digest) -> StoreFuture<'_, ()> {
        self.run(move |connection| {
            connection.execute("DELETE FROM sessions WHERE key = ?1", [key.as_bytes()])?;
            Ok(())
        })
    }

    fn expire(&self, time: u64) -> StoreFuture<'_, ()> {
        self.run(move |connection| {
            let expired = "DELETE FROM sessions WHERE last_used < ?1";
            connection.execute(expired, [signed(time)])?;
            for table in ["events", "dropped_events"] {
                // Events of a session that another process has deleted would stay for ever.
                let orphans =
                    format!("DELETE FROM {table} WHERE session NOT IN (SELECT key FROM sessions)");
                connection.execute(&orphans, [])?;
            }
            Ok(())
        })
    }
}

impl RateLimiter for Sqlite {
    fn take<'a>(&'a self, key: &'a str, rate: Rate, now: u64) -> StoreFuture<'a, RateDecision> {
        let key = key.to_owned();
        self.run(move |connection| {
            let query = "SELECT tokens, updated FROM rates WHERE key = ?1";
            let stored = |row: &Row| {
                Ok(Bucket {
                    tokens: row.get(0)?,
                    updated: unsigned(row, 1)?,
                })
            };
            let stored = connection.query_row(query, [&key], stored).optional()?;
            if stored.is_none() {
                let forgotten = signed(now.saturating_sub(FORGET_RATES_AFTER));
                connection.execute("DELETE FROM rates WHERE updated < ?1", [forgotten])?;
            }
            let mut bucket = stored.unwrap_or(Bucket::full(rate, now));
            let decision = bucket.take(rate, now);
            connection.execute(
                "INSERT OR REPLACE INTO rates VALUES (?1, ?2, ?3)",
                params![key, bucket.tokens, signed(bucket.updated)],
            )?;
            Ok(decision)
        })
    }
}

impl EventLog for Sqlite {
    fn append(&self, session: Digest, stream: u64, event: Event) -> StoreFuture<'_, ()> {
        let limits = self.limits;
        self.run(move |connection| {
            connection.execute(
                "INSERT INTO events (session, stream, number, data) VALUES (?1, ?2, ?3, ?4)",
                params![
                    session.as_bytes(),
                    signed(stream),
                    signed(event.number),
                    &event.data[..]
                ],
            )?;
            trim(connection, session, limits)
        })
    }

    fn after(&self, session: Digest, stream: u64, after: u64) -> StoreFuture<'_, Replay> {
        self.run(move |connection| {
            let query = "SELECT number FROM dropped_events WHERE session = ?1 AND stream = ?2";
            let key = params![session.as_bytes(), signed(stream)];
            let dropped = connection.query_row(query, key, |row| unsigned(row, 0));
            if dropped.optional()?.is_some_and(|dropped| dropped > after) {
                return Ok(Replay::Incomplete);
            }
            let mut later = connection.prepare_cached(
                "SELECT number, data FROM events WHERE session = ?1 AND stream = ?2 AND number > ?3
                 ORDER BY number",
            )?;
            let key = params![session.as_bytes(), signed(stream), signed(after)];
            let event = |row: &Row| {
                Ok(Event {
                    number: unsigned(row, 0)?,
                    data: Bytes::from(row.get::<_, Vec<u8>>(1)?),
                })
            };
            let events: rusqlite::Result<Vec<_>> = later.query_map(key, event)?.collect();
            Ok(Replay::checked(after, events?))
        })
    }

    fn forget(&self, session: Digest) -> StoreFuture<'_, ()> {
        self.run(move |connection| {
            for table in ["events", "dropped_events"] {
                let delete = format!("DELETE FROM {table} WHERE session = ?1");
                connection.execute(&delete, [session.as_bytes()])?;
            }
            Ok(())
        })
    }
}

/// Drops the oldest events of a session over its limits, and the oldest of all over the total.
fn trim(connection: &Connection, session: Digest, limits: EventLimits) -> rusqlite::Result<()> {
    let sum = "SELECT count(*), coalesce(sum(length(data)), 0) FROM events WHERE session = ?1";
    let numbers = |row: &Row| Ok((unsigned(row, 0)?, unsigned(row, 1)?));
    loop {
        let (count, bytes) = connection.query_row(sum, [session.as_bytes()], numbers)?;
        if count <= limits.events as u64 && bytes <= limits.bytes as u64 {
            break;
        }
        let oldest = "SELECT min(position) FROM events WHERE session = ?1";
        let oldest: Option<i64> =
            connection.query_row(oldest, [session.as_bytes()], |row| row.get(0))?;
        drop_event(connection, oldest)?;
    }
    loop {
        let total = "SELECT coalesce(sum(length(data)), 0) FROM events";
        let total = connection.query_row(total, [], |row| unsigned(row, 0))?;
        if total <= limits.total_bytes as u64 {
            return Ok(());
        }
        let oldest = "SELECT min(position) FROM events";
        let oldest: Option<i64> = connection.query_row(oldest, [], |row| row.get(0))?;
        drop_event(connection, oldest)?;
    }
}

fn drop_event(connection: &Connection, position: Option<i64>) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT OR REPLACE INTO dropped_events
         SELECT session, stream, number FROM events WHERE position = ?1",
        [position],
    )?;
    connection.execute("DELETE FROM events WHERE position = ?1", [position])?;
    Ok(())
}
