//! The messages for a client that one stream carries: the answer to a POST, or the stream of a GET.
//!
//! Messages are queued without waiting, within limits; one reader at a time takes them out. A
//! stream outlives its connection, so that a legacy client can resume it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::store::Event;

/// The maximum number of messages that wait for the client, and of their bytes (SEC-4).
const MAX_EVENTS: usize = 1024;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Whether a message may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// The next one replaces it, or it only informs.
    Expendable,
    /// Without it, the client is out of sync.
    Needed,
}

/// The client does not read, and a message that it needs has no room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// A stream of messages.
pub(super) struct EventStream {
    /// The number of the stream within its session.
    pub(super) id: u64,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    queue: VecDeque<Event>,
    bytes: usize,
    /// The number of the last event.
    last: u64,
    /// The number before that of the first event.
    start: u64,
    /// The status of the answer, if it is the only event.
    status: StatusCode,
    ended: bool,
    /// The time of its end.
    ended_at: Option<Instant>,
    /// The current reader. A later one takes over.
    reader: u64,
    /// Whether the current reader is there.
    is_read: bool,
    /// A reader has taken an event and not logged it yet.
    logging: bool,
}

/// The beginning of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// One message and nothing else.
    Only(StatusCode, Bytes),
    /// Several messages, or none yet.
    Stream,
    /// The end, without a message.
    Nothing,
}

impl EventStream {
    /// Creates a stream whose first event has the number after `start`.
    pub(super) fn new(id: u64, start: u64) -> Self {
        Self {
            id,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                bytes: 0,
                last: start,
                start,
                status: StatusCode::OK,
                ended: false,
                ended_at: None,
                reader: 0,
                is_read: false,
                logging: false,
            }),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message.
    pub(super) fn push(&self, data: Bytes, weight: Weight) -> Result<(), Overflow> {
        let mut state = self.lock();
        if state.ended {
            return Ok(());
        }
        let full = state.queue.len() >= MAX_EVENTS || state.bytes + data.len() > MAX_BYTES;
        // A single message of any length is welcome.
        if full && !state.queue.is_empty() {
            return match weight {
                Weight::Expendable => Ok(()),
                Weight::Needed => Err(Overflow),
            };
        }
        state.push(data);
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Queues the last message, for which there is always room, and ends the stream.
    pub(super) fn finish(&self, data: Bytes, status: StatusCode) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        state.push(data);
        state.status = status;
        state.end();
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the stream without another message.
    pub(super) fn end(&self) {
        self.lock().end();
        self.changed.notify_waiters();
    }

    /// Reports that a reader has left.
    pub(super) fn left(&self, reader: u64) {
        let mut state = self.lock();
        if state.reader == reader {
            state.is_read = false;
        }
    }

    /// Returns the bytes of an ended stream that nobody reads, and the time since its end.
    pub(super) fn abandoned(&self) -> Option<(usize, Duration)> {
        let state = self.lock();
        let ended = state.ended_at.filter(|_| !state.is_read)?;
        Some((state.bytes, ended.elapsed()))
    }

    /// Returns true if nothing is left to read.
    pub(super) fn is_drained(&self) -> bool {
        let state = self.lock();
        state.ended && state.queue.is_empty()
    }

    /// Waits for the first message, at most for `patience`.
    pub(super) async fn begin(&self, patience: Duration) -> Beginning {
        let first = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if let Some(beginning) = self.lock().beginning() {
                    return beginning;
                }
                changed.await;
            }
        };
        // The answer is often there already; then no timer is needed.
        let mut first = pin!(first);
        if let std::task::Poll::Ready(beginning) = futures_util::poll!(first.as_mut()) {
            return beginning;
        }
        let first = tokio::time::timeout(patience, first);
        first.await.unwrap_or(Beginning::Stream)
    }

    /// Makes the caller the reader of the stream. The previous one finds the end.
    pub(super) fn take_over(&self) -> u64 {
        let mut state = self.lock();
        state.reader += 1;
        state.is_read = true;
        let reader = state.reader;
        drop(state);
        self.changed.notify_waiters();
        reader
    }

    /// Reports that the event that was taken last is in the log.
    pub(super) fn logged(&self) {
        self.lock().logging = false;
        self.changed.notify_waiters();
    }

    /// Waits until the previous reader has logged its last event, unless it is stuck.
    pub(super) async fn settled(&self, patience: Duration) {
        let settled = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if !self.lock().logging {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(patience, settled).await;
    }

    /// Waits for the next event. Returns `None` at the end, or when another reader took over.
    pub(super) async fn next(&self, reader: u64) -> Option<Event> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                if state.reader != reader {
                    return None;
                }
                if let Some(event) = state.pop() {
                    state.logging = true;
                    return Some(event);
                }
                if state.ended {
                    return None;
                }
            }
            changed.await;
        }
    }
}

impl State {
    fn end(&mut self) {
        self.ended = true;
        self.ended_at.get_or_insert_with(Instant::now);
    }

    fn push(&mut self, data: Bytes) {
        self.last += 1;
        self.bytes += data.len();
        self.queue.push_back(Event {
            number: self.last,
            data,
        });
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.queue.pop_front()?;
        self.bytes -= event.data.len();
        Some(event)
    }

    fn beginning(&mut self) -> Option<Beginning> {
        if !self.ended {
            return (!self.queue.is_empty()).then_some(Beginning::Stream);
        }
        if self.last == self.start {
            return Some(Beginning::Nothing);
        }
        if self.last == self.start + 1
            && let Some(event) = self.pop()
        {
            return Some(Beginning::Only(self.status, event.data));
        }
        Some(Beginning::Stream)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn an_answer_alone_needs_no_stream() {
        let stream = Arc::new(EventStream::new(1, 0));
        let later = Arc::clone(&stream);
        tokio::spawn(async move { later.finish("answer".into(), StatusCode::NOT_FOUND) });
        let beginning = stream.begin(Duration::from_mins(1)).await;
        assert_eq!(
            beginning,
            Beginning::Only(StatusCode::NOT_FOUND, "answer".into())
        );
        let silent = EventStream::new(1, 0);
        silent.end();
        let beginning = silent.begin(Duration::from_mins(1)).await;
        assert_eq!(beginning, Beginning::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_before_the_answer_or_a_long_wait_begins_a_stream() {
        let stream = EventStream::new(1, 0);
        assert_eq!(
            stream.begin(Duration::from_secs(1)).await,
            Beginning::Stream
        );
        stream.push("progress".into(), Weight::Expendable).unwrap();
        stream.finish("answer".into(), StatusCode::OK);
        assert_eq!(
            stream.begin(Duration::from_secs(1)).await,
            Beginning::Stream
        );
        let reader = stream.take_over();
        let first = stream.next(reader).await.unwrap();
        assert_eq!((first.number, &first.data[..]), (1, &b"progress"[..]));
        assert_eq!(stream.next(reader).await.unwrap().number, 2);
        assert_eq!(stream.next(reader).await, None);
        assert!(stream.is_drained());
    }

    #[tokio::test]
    async fn a_full_stream_drops_what_it_may_and_reports_the_rest() {
        let stream = EventStream::new(1, 0);
        for _ in 0..2 * MAX_EVENTS {
            stream.push("p".into(), Weight::Expendable).unwrap();
        }
        assert_eq!(stream.push("n".into(), Weight::Needed), Err(Overflow));
        stream.finish("answer".into(), StatusCode::OK);
        let reader = stream.take_over();
        let mut last = None;
        while let Some(event) = stream.next(reader).await {
            last = Some(event);
        }
        let last = last.unwrap();
        assert_eq!(last.number, MAX_EVENTS as u64 + 1);
        assert_eq!(&last.data[..], b"answer");
    }

    #[tokio::test]
    async fn a_second_reader_ends_the_first() {
        let stream = Arc::new(EventStream::new(1, 0));
        let first = stream.take_over();
        let waiting = tokio::spawn({
            let stream = Arc::clone(&stream);
            async move { stream.next(first).await }
        });
        tokio::task::yield_now().await;
        let second = stream.take_over();
        assert_eq!(waiting.await.unwrap(), None);
        stream.push("m".into(), Weight::Needed).unwrap();
        assert_eq!(stream.next(first).await, None);
        assert!(stream.next(second).await.is_some());
    }
}
