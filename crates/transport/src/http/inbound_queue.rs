//! The queue between the exchanges of a link and its receiving half.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use trunkline_wire::transport::{
    CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming, Outgoing,
};

use super::body::BufferBudget;
use super::events::{EventDecoder, Step, TooLong};

/// Time limit for exchanges in flight once the link has closed.
pub(super) const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Messages and bytes that one exchange delivers before it waits for the peer.
const EVENTS_PER_TURN: usize = 8;
const BYTES_PER_TURN: usize = 64 * 1024;

/// Lines without data that count as one frame of noise.
const LINES_PER_FRAME: usize = 16;

/// The incoming messages of one link.
#[derive(Default)]
pub(super) struct InboundQueue {
    arrived: Mutex<VecDeque<Incoming>>,
    closed: Mutex<Option<Closed>>,
    /// Requests without a response.
    in_flight: AtomicUsize,
    /// Incremented when the queue has been drained while someone waited for that.
    drains: AtomicUsize,
    waiters: Mutex<Vec<Waker>>,
    /// Counts the bytes of messages that are still arriving.
    pub(super) budget: BufferBudget,
}

impl InboundQueue {
    /// Queues something for the peer. [`InboundQueue::drained`] waits for its effect.
    pub(super) fn push(&self, incoming: Incoming) {
        lock(&self.arrived).push_back(incoming);
    }

    /// Reports progress on a request; consecutive reports are merged.
    pub(super) fn push_activity(&self, id: u64) {
        let mut arrived = lock(&self.arrived);
        let known =
            matches!(arrived.back(), Some(Incoming::Activity { to: Some(to) }) if *to == id);
        if !known {
            arrived.push_back(Incoming::Activity { to: Some(id) });
        }
    }

    /// Delivers the events that have arrived on a stream, a few at a time; true if there were
    /// messages.
    pub(super) async fn deliver_events(
        &self,
        events: &mut EventDecoder,
        incoming: impl Fn(Bytes) -> Incoming,
    ) -> Result<bool, TooLong> {
        let mut messages = false;
        let (mut count, mut bytes) = (0, 0);
        loop {
            match events.step() {
                Step::Event(event) if event.is_message() && !event.data.is_empty() => {
                    messages = true;
                    bytes += event.data.len();
                    self.push(incoming(event.data));
                }
                Step::Event(event) => {
                    let bytes = event.data.len();
                    self.push(Incoming::Noise { frames: 1, bytes });
                }
                Step::Lines(lines) => {
                    let frames = lines.idle / LINES_PER_FRAME;
                    let frames = u32::try_from(frames).unwrap_or(u32::MAX);
                    if frames > 0 {
                        self.push(Incoming::Noise { frames, bytes: 0 });
                    }
                    // Lines of a long message are not noise.
                    let bytes = lines.bytes;
                    self.push(Incoming::Partial { bytes });
                    // Reading these lines took as long as many events.
                    count = EVENTS_PER_TURN;
                }
                Step::TooLong(skipped) => return Err(skipped),
                Step::NeedMore => return Ok(messages),
            }
            count += 1;
            if count >= EVENTS_PER_TURN || bytes >= BYTES_PER_TURN {
                (count, bytes) = (0, 0);
                self.drained().await;
            }
        }
    }

    /// Delivers the messages that have arrived on a stream and reports those that are too long;
    /// true if there were messages.
    pub(super) async fn deliver_messages(&self, events: &mut EventDecoder) -> bool {
        loop {
            match self.deliver_events(events, Incoming::Frame).await {
                Ok(messages) => return messages,
                Err(skipped) => self.push(skipped.report()),
            }
        }
    }

    pub(super) fn pop(&self) -> Option<Incoming> {
        lock(&self.arrived).pop_front()
    }

    /// Waits until the peer has received everything and acted on it.
    pub(super) fn drained(&self) -> impl Future<Output = ()> {
        let since = self.drains.load(Ordering::Relaxed);
        // An empty queue is never polled for being drained.
        let nothing = lock(&self.arrived).is_empty();
        poll_fn(move |context| {
            if nothing || self.drains.load(Ordering::Relaxed) != since {
                return Poll::Ready(());
            }
            lock(&self.waiters).push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Wakes the waiters of [`InboundQueue::drained`]: the peer asks for more, so it has acted on
    /// all.
    pub(super) fn mark_drained(&self) {
        let waiters = std::mem::take(&mut *lock(&self.waiters));
        if !waiters.is_empty() {
            self.drains.fetch_add(1, Ordering::Relaxed);
            waiters.into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn request_started(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn request_finished(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Fails one request. Some errors close the whole link.
    pub(super) fn fail_request(&self, id: u64, failure: DeliveryError) {
        // With other requests in flight, the server may only be short of connections.
        let alone = self.in_flight() <= 1;
        let reason = close_reason(&failure, alone);
        self.push(Incoming::DeliveryFailed { to: id, failure });
        if let Some(reason) = reason {
            self.close(reason);
        }
    }

    /// Records a failed notification or response. Some errors close the whole link.
    pub(super) fn fail_notification(&self, failure: &DeliveryError) {
        if let Some(reason) = close_reason(failure, false) {
            self.close(reason);
        }
    }

    /// Fails a message that was not sent before the link closed.
    pub(super) fn reject(&self, message: &Outgoing, closed: &Closed) {
        if let Outgoing::Request { id, .. } = message {
            let kind = match closed.reason() {
                CloseReason::SessionExpired => DeliveryErrorKind::SessionExpired,
                CloseReason::Unauthorized { challenge } => DeliveryErrorKind::Unauthorized {
                    challenge: challenge.clone(),
                },
                _ => DeliveryErrorKind::Broken,
            };
            let failure = DeliveryError::new(kind, closed.to_string(), false);
            self.push(Incoming::DeliveryFailed { to: *id, failure });
        }
    }

    /// Closes the link; the first reason counts.
    pub(super) fn close(&self, reason: CloseReason) {
        lock(&self.closed).get_or_insert_with(|| Closed::new(reason));
    }

    pub(super) fn closed(&self) -> Option<Closed> {
        lock(&self.closed).clone()
    }
}

/// The reason to close the link, if this error concerns all of it.
fn close_reason(failure: &DeliveryError, alone: bool) -> Option<CloseReason> {
    match &failure.kind {
        DeliveryErrorKind::SessionExpired => Some(CloseReason::SessionExpired),
        DeliveryErrorKind::Unauthorized { challenge } => Some(CloseReason::Unauthorized {
            challenge: challenge.clone(),
        }),
        DeliveryErrorKind::Unreachable if alone => Some(CloseReason::Io(failure.to_string())),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
