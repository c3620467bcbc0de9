//! The events of streams that a client may resume after a lost connection.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::{Digest, StoreFuture};

/// The streams of a session for which the last dropped event is remembered. Beyond it, only a gap
/// in the numbers shows that events are missing.
const MAX_DROPPED: usize = 4096;

/// One event: a message, under its number in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number within the stream, from 1.
    pub number: u64,
    /// The message.
    pub data: Bytes,
}

/// The bounds of the events that are kept. The oldest go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    /// The events of one session.
    pub events: usize,
    /// The bytes of one session.
    pub bytes: usize,
    /// The bytes of all sessions.
    pub total_bytes: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            events: 1024,
            bytes: 16 * 1024 * 1024,
            total_bytes: 256 * 1024 * 1024,
        }
    }
}

/// The events after a given one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// All of them, in order.
    Events(Vec<Event>),
    /// Some are no longer kept.
    Incomplete,
}

impl Replay {
    /// Numbers without a gap after `after` are complete.
    pub(super) fn checked(after: u64, events: Vec<Event>) -> Self {
        match events.first() {
            Some(first) if first.number != after.saturating_add(1) => Self::Incomplete,
            _ => Self::Events(events),
        }
    }
}

/// Keeps the events of streams. A stream belongs to a session.
pub trait EventLog: Send + Sync + 'static {
    /// Appends an event to a stream of a session.
    fn append(&self, session: Digest, stream: u64, event: Event) -> StoreFuture<'_, ()>;

    /// Returns the events of a stream after number `after`. Number 0 is before the first.
    fn after(&self, session: Digest, stream: u64, after: u64) -> StoreFuture<'_, Replay>;

    /// Forgets all events of a session.
    fn forget(&self, session: Digest) -> StoreFuture<'_, ()>;
}

/// Events in memory.
#[derive(Default)]
pub struct MemoryEventLog {
    limits: EventLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<Digest, SessionEvents>,
    total: usize,
}

#[derive(Default)]
struct SessionEvents {
    /// Events of all streams, in order of arrival.
    events: VecDeque<(u64, Event)>,
    bytes: usize,
    /// The number of the last event that was dropped, by stream.
    dropped: HashMap<u64, u64>,
}

impl SessionEvents {
    /// Drops the oldest event and returns its length.
    fn drop_oldest(&mut self) -> Option<usize> {
        let (stream, event) = self.events.pop_front()?;
        self.bytes -= event.data.len();
        if self.dropped.len() >= MAX_DROPPED {
            self.dropped.clear();
        }
        self.dropped.insert(stream, event.number);
        Some(event.data.len())
    }
}

impl MemoryEventLog {
    /// Creates a log with other limits.
    pub fn with_limits(limits: EventLimits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    fn add(&self, session: Digest, stream: u64, event: Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { sessions, total } = &mut *state;
        let kept = sessions.entry(session).or_default();
        *total += event.data.len();
        kept.bytes += event.data.len();
        kept.events.push_back((stream, event));
        while kept.events.len() > self.limits.events || kept.bytes > self.limits.bytes {
            *total -= kept.drop_oldest().unwrap_or_default();
        }
        // Over the total, the session that uses the most gives way.
        while *total > self.limits.total_bytes {
            let Some(largest) = sessions.values_mut().max_by_key(|kept| kept.bytes) else {
                break;
            };
            let Some(freed) = largest.drop_oldest() else {
                break;
            };
            *total -= freed;
        }
    }
}

impl EventLog for MemoryEventLog {
    fn append(&self, session: Digest, stream: u64, event: Event) -> StoreFuture<'_, ()> {
        self.add(session, stream, event);
        Box::pin(async { Ok(()) })
    }

    fn after(&self, session: Digest, stream: u64, after: u64) -> StoreFuture<'_, Replay> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let replay = match state.sessions.get(&session) {
            None => Replay::Events(Vec::new()),
            Some(kept) if kept.dropped.get(&stream).is_some_and(|last| *last > after) => {
                Replay::Incomplete
            }
            Some(kept) => {
                let of_stream = kept.events.iter().filter(|(of, _)| *of == stream);
                let later = of_stream.filter(|(_, event)| event.number > after);
                Replay::checked(after, later.map(|(_, event)| event.clone()).collect())
            }
        };
        Box::pin(async { Ok(replay) })
    }

    fn forget(&self, session: Digest) -> StoreFuture<'_, ()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = state.sessions.remove(&session) {
            state.total -= kept.bytes;
        }
        Box::pin(async { Ok(()) })
    }
}
