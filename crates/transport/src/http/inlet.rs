//! Where the exchanges of one link put what arrives, and where the receiving half takes it.

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

use super::body::Held;
use super::events::{EventDecoder, Step, TooLong};

/// How long what is under way may take once the link has ended.
pub(super) const END_GRACE: Duration = Duration::from_secs(2);

/// Messages and bytes that one exchange delivers before it waits for the peer to take them.
const EVENTS_AT_ONCE: usize = 8;
const BYTES_AT_ONCE: usize = 64 * 1024;

/// Lines of a stream that carry no data, and count for one message of noise.
const LINES_PER_FRAME: usize = 16;

/// What has arrived on one link.
#[derive(Default)]
pub(super) struct Inlet {
    arrived: Mutex<VecDeque<Incoming>>,
    ended: Mutex<Option<Closed>>,
    /// How many requests wait for their answers.
    waiting: AtomicUsize,
    /// Counts how often everything had been taken while somebody waited for that.
    emptied: AtomicUsize,
    waiters: Mutex<Vec<Waker>>,
    /// What is held of messages that are still arriving.
    pub(super) held: Held,
}

impl Inlet {
    /// Hands something to the peer. Whoever needs to know what became of it waits for [`Inlet::taken`].
    pub(super) fn deliver(&self, incoming: Incoming) {
        lock(&self.arrived).push_back(incoming);
    }

    /// Something has come for a request that is no message; once is as good as many times.
    pub(super) fn alive(&self, id: u64) {
        let mut arrived = lock(&self.arrived);
        let known =
            matches!(arrived.back(), Some(Incoming::Activity { to: Some(to) }) if *to == id);
        if !known {
            arrived.push_back(Incoming::Activity { to: Some(id) });
        }
    }

    /// Delivers the events that have arrived on a stream, a few at a time; true if messages were among them.
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
                    self.deliver(incoming(event.data));
                }
                Step::Event(event) => {
                    let bytes = event.data.len();
                    self.deliver(Incoming::Noise { frames: 1, bytes });
                }
                Step::Lines(lines) => {
                    let frames = lines.idle / LINES_PER_FRAME;
                    let frames = u32::try_from(frames).unwrap_or(u32::MAX);
                    if frames > 0 {
                        self.deliver(Incoming::Noise { frames, bytes: 0 });
                    }
                    // A message on many lines is no noise.
                    let bytes = lines.bytes;
                    self.deliver(Incoming::Partial { bytes });
                    // As much work as many events.
                    count = EVENTS_AT_ONCE;
                }
                Step::TooLong(skipped) => return Err(skipped),
                Step::NeedsMore => return Ok(messages),
            }
            count += 1;
            if count >= EVENTS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                (count, bytes) = (0, 0);
                self.taken().await;
            }
        }
    }

    pub(super) fn take(&self) -> Option<Incoming> {
        lock(&self.arrived).pop_front()
    }

    /// Waits until the peer has taken all that was delivered, and has acted on it.
    pub(super) fn taken(&self) -> impl Future<Output = ()> {
        let since = self.emptied.load(Ordering::Relaxed);
        // With nothing delivered nobody would come to empty it.
        let nothing = lock(&self.arrived).is_empty();
        poll_fn(move |context| {
            if nothing || self.emptied.load(Ordering::Relaxed) != since {
                return Poll::Ready(());
            }
            lock(&self.waiters).push(context.waker().clone());
            Poll::Pending
        })
    }

    /// The receiving half is asked for more, and there is nothing: the peer has acted on all that was delivered.
    pub(super) fn is_empty_now(&self) {
        let waiters = std::mem::take(&mut *lock(&self.waiters));
        if !waiters.is_empty() {
            self.emptied.fetch_add(1, Ordering::Relaxed);
            waiters.into_iter().for_each(Waker::wake);
        }
    }

    /// One request more waits for its answer.
    pub(super) fn one_more(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// One request less.
    pub(super) fn one_less(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// One request will not be answered. Some reasons concern the whole link.
    pub(super) fn fail(&self, id: u64, failure: DeliveryError) {
        // With other requests under way it may only be short of something.
        let alone = self.waiting() <= 1;
        let end = concerns_all(&failure, alone);
        self.deliver(Incoming::DeliveryFailed { to: id, failure });
        if let Some(reason) = end {
            self.end(reason);
        }
    }

    /// A message that nobody waits for got lost. That may still concern the whole link.
    pub(super) fn note(&self, failure: &DeliveryError) {
        if let Some(reason) = concerns_all(failure, false) {
            self.end(reason);
        }
    }

    /// The link has ended before this message was sent.
    pub(super) fn refuse(&self, message: &Outgoing, closed: &Closed) {
        if let Outgoing::Request { id, .. } = message {
            let kind = match closed.reason() {
                CloseReason::SessionExpired => DeliveryErrorKind::SessionExpired,
                CloseReason::Unauthorized { challenge } => DeliveryErrorKind::Unauthorized {
                    challenge: challenge.clone(),
                },
                _ => DeliveryErrorKind::Broken,
            };
            let failure = DeliveryError::new(kind, closed.to_string(), false);
            self.deliver(Incoming::DeliveryFailed { to: *id, failure });
        }
    }

    /// Ends the link; the first reason counts.
    pub(super) fn end(&self, reason: CloseReason) {
        lock(&self.ended).get_or_insert_with(|| Closed::new(reason));
    }

    pub(super) fn ended(&self) -> Option<Closed> {
        lock(&self.ended).clone()
    }
}

/// Why a failure of one request is the end of the link, if it is.
fn concerns_all(failure: &DeliveryError, alone: bool) -> Option<CloseReason> {
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
