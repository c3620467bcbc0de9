//! The state that a peer's handles and tasks share: the send queue and the table of pending calls.
//!
//! One lock guards both; it is never held across an await. A request gets its id when it enters the
//! queue, so ids are sent in order, and one watermark (`last_sent`) tells for each call whether it
//! may have reached the server.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::handler::PeerRole;
use super::slot::{CallStatus, Slot};
use super::{Progress, RequestError, RequestOptions};
use crate::json::Json;
use crate::transport::{CloseReason, Closed, Outgoing};

/// The number of queued messages at which callers have to wait.
pub(super) const MAX_QUEUED: usize = 1024;

/// The capacity of the queue. Responses and cancellations do not wait for a permit, because no
/// caller could wait with them. Beyond this number the peer floods us without reading, and they are
/// dropped.
const MAX_QUEUED_TOTAL: usize = 4 * MAX_QUEUED;

/// The maximum size of the responses that a client has not read. A single one may be longer.
const MAX_UNREAD_BYTES: usize = 256 * 1024 * 1024;

/// The maximum number of messages, and the approximate number of bytes, in one write.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 256 * 1024;

/// The progress of closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    Open,
    Closing,
    Closed,
}

pub(super) struct Shared {
    role: PeerRole,
    state: Mutex<State>,
    /// Permits for callers to queue a message.
    pub(super) permits: Semaphore,
    /// Notified when a message is queued.
    pub(super) outgoing: Notify,
    /// Notified when a deadline earlier than `armed` is set.
    pub(super) deadline: Notify,
    pub(super) phase: watch::Sender<Phase>,
    started: Instant,
    /// Milliseconds from `started` to the last incoming message.
    last_received: AtomicU64,
}

struct State {
    next_id: u64,
    /// The last request id that the transport has taken.
    last_sent: u64,
    queue: VecDeque<Outgoing>,
    /// The approximate size of `queue`.
    queued_bytes: usize,
    pending: HashMap<u64, Pending, IdHashBuilder>,
    /// Calls with a progress token.
    progress: HashMap<u64, Arc<Slot>, IdHashBuilder>,
    /// Requests from the peer that are being handled, by id.
    serving: HashMap<Json, AbortHandle>,
    /// The next wake-up of the clock task.
    armed: Option<Instant>,
    /// The number of open user prompts, and the time at which the first one opened.
    open_prompts: usize,
    prompted_since: Option<Instant>,
    closed: Option<Closed>,
}

/// Hashes ids that we assign ourselves, which need no protection against chosen keys.
type IdHashBuilder = BuildHasherDefault<IdHasher>;

#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing spreads consecutive ids over the whole range.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Keeps the timeouts of pending calls paused until it is dropped.
pub(super) struct DeadlinePause(Arc<Shared>);

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        self.0.resume();
    }
}

struct Pending {
    slot: Arc<Slot>,
    options: RequestOptions,
    since: Instant,
    /// The arrival of the last data for this request alone.
    last_received_for: Instant,
}

impl Pending {
    /// Returns the time at which the call expires if nothing else arrives.
    fn deadline_after(&self, last_received: Instant) -> Option<Instant> {
        self.options
            .deadline_after(self.since, last_received.max(self.last_received_for))
    }
}

impl RequestOptions {
    /// Returns the time at which a request that has waited since `since` expires if nothing else
    /// arrives.
    fn deadline_after(&self, since: Instant, last_received: Instant) -> Option<Instant> {
        let idle = self
            .idle
            .and_then(|idle| since.max(last_received).checked_add(idle));
        match (self.deadline, idle) {
            (Some(deadline), Some(idle)) => Some(deadline.min(idle)),
            (one, other) => one.or(other),
        }
    }

    /// Returns the error of an expired request.
    fn timeout_error(&self, since: Instant, now: Instant, sent: bool) -> RequestError {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            let after = now - since;
            RequestError::Timeout { after, sent }
        } else {
            let after = self.idle.unwrap_or_default();
            RequestError::Idle { after, sent }
        }
    }
}

impl Shared {
    pub(super) fn new(role: PeerRole) -> Self {
        Self {
            role,
            state: Mutex::new(State {
                next_id: 0,
                last_sent: 0,
                queue: VecDeque::new(),
                queued_bytes: 0,
                pending: HashMap::default(),
                progress: HashMap::default(),
                serving: HashMap::new(),
                armed: None,
                open_prompts: 0,
                prompted_since: None,
                closed: None,
            }),
            permits: Semaphore::new(MAX_QUEUED),
            outgoing: Notify::new(),
            deadline: Notify::new(),
            phase: watch::Sender::new(Phase::Open),
            started: Instant::now(),
            last_received: AtomicU64::new(0),
        }
    }

    /// Waits for a permit to queue a message, until the request expires.
    pub(super) async fn reserve(
        &self,
        since: Instant,
        options: &RequestOptions,
    ) -> Result<(), RequestError> {
        if let Ok(permit) = self.permits.try_acquire() {
            permit.forget();
            return Ok(());
        }
        loop {
            let deadline = options.deadline_after(since, self.last_received());
            let permit = match deadline {
                None => self.permits.acquire().await,
                Some(deadline) => {
                    match tokio::time::timeout_at(deadline, self.permits.acquire()).await {
                        Ok(permit) => permit,
                        // A message may have arrived meanwhile and extended the idle timeout.
                        Err(_)
                            if options.deadline_after(since, self.last_received())
                                > Some(Instant::now()) =>
                        {
                            continue;
                        }
                        Err(_) => return Err(options.timeout_error(since, Instant::now(), false)),
                    }
                }
            };
            return permit
                .map(SemaphorePermit::forget)
                .map_err(|_| RequestError::Closed {
                    cause: self.closed(),
                    sent: false,
                });
        }
    }

    /// Sends a notification. Waits if the queue is full.
    pub(super) async fn notify(
        &self,
        method: &'static str,
        params: Option<Json>,
        version: Option<&'static str>,
    ) -> Result<(), RequestError> {
        self.reserve(Instant::now(), &RequestOptions::default())
            .await?;
        self.enqueue(Outgoing::Notification {
            method,
            params,
            version,
        })
        .map_err(|cause| RequestError::Closed { cause, sent: false })
    }

    /// Queues a request, for which the caller holds a permit.
    pub(super) fn enqueue_request(
        &self,
        method: &'static str,
        params: Json,
        mut options: RequestOptions,
        since: Instant,
    ) -> Result<(u64, Arc<Slot>), Closed> {
        let routing = std::mem::take(&mut options.routing);
        let slot = Arc::new(Slot::default());
        let deadline = options.deadline_after(since, since);
        let (id, rearm) = {
            let mut state = self.lock();
            if let Some(closed) = &state.closed {
                return Err(closed.clone());
            }
            state.next_id += 1;
            let id = state.next_id;
            if let Some(token) = options.progress_token {
                state.progress.insert(token, Arc::clone(&slot));
            }
            let pending = Pending {
                slot: Arc::clone(&slot),
                options,
                since,
                last_received_for: since,
            };
            state.pending.insert(id, pending);
            let request = Outgoing::Request {
                id,
                method,
                params,
                routing,
                call: CallStatus(Arc::clone(&slot)),
            };
            state.queued_bytes += request.size_hint();
            state.queue.push_back(request);
            let rearm =
                deadline.is_some_and(|deadline| state.armed.is_none_or(|armed| deadline < armed));
            if rearm {
                state.armed = deadline;
            }
            (id, rearm)
        };
        if rearm {
            self.deadline.notify_one();
        }
        self.outgoing.notify_one();
        Ok((id, slot))
    }

    /// Queues a response, a cancellation, or a notification for which the caller holds a permit.
    pub(super) fn enqueue(&self, message: Outgoing) -> Result<(), Closed> {
        {
            let mut state = self.lock();
            if let Some(closed) = &state.closed {
                return Err(closed.clone());
            }
            if self.role == PeerRole::Server || state.has_room(&message) {
                state.push(message);
            } else {
                // Without a response, the client would wait for ever.
                drop(state);
                let reason = "the client does not read its responses".to_owned();
                let cause = Closed::new(CloseReason::Io(reason));
                self.fail_all(&cause);
                return Err(cause);
            }
        }
        self.outgoing.notify_one();
        Ok(())
    }

    /// Moves the next messages into `batch`. Returns false if the connection has closed.
    pub(super) fn take_batch(&self, batch: &mut Vec<Outgoing>) -> bool {
        let mut freed = 0;
        {
            let mut state = self.lock();
            if state.closed.is_some() {
                return false;
            }
            let mut bytes = 0;
            while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
                let Some(message) = state.queue.pop_front() else {
                    break;
                };
                let size = message.size_hint();
                bytes += size;
                state.queued_bytes = state.queued_bytes.saturating_sub(size);
                if let Outgoing::Request { id, .. } = message {
                    state.last_sent = id;
                }
                freed += usize::from(holds_permit(&message));
                batch.push(message);
            }
        }
        if freed > 0 {
            self.permits.add_permits(freed);
        }
        true
    }

    /// Completes a call. Returns false if no call with this id is waiting.
    pub(super) fn complete(&self, id: u64, outcome: Result<Json, RequestError>) -> bool {
        let Some(pending) = self.lock().remove(id) else {
            return false;
        };
        pending.slot.finish(outcome);
        true
    }

    /// Records incoming data for this request alone.
    pub(super) fn received_for(&self, id: u64) {
        if let Some(pending) = self.lock().pending.get_mut(&id) {
            // Without an idle timeout, the clock need not be read.
            if pending.options.idle.is_some() {
                pending.last_received_for = Instant::now();
            }
        }
    }

    /// Delivers a progress update.
    pub(super) fn progress(&self, token: u64, progress: impl FnOnce() -> Progress) {
        let slot = self.lock().progress.get(&token).cloned();
        if let Some(slot) = slot {
            slot.progress(progress());
        }
    }

    /// Returns true if one of our requests had this id.
    pub(super) fn is_known_id(&self, id: u64) -> bool {
        (1..=self.lock().next_id).contains(&id)
    }

    /// Sends the progress updates for this token to `slot`.
    pub(super) fn subscribe_progress(&self, token: u64, slot: Arc<Slot>) {
        self.lock().progress.insert(token, slot);
    }

    pub(super) fn unsubscribe_progress(&self, token: u64) {
        self.lock().progress.remove(&token);
    }

    /// Cancels a call. An unsent request is removed from the queue; for a sent one, the server is
    /// notified.
    pub(super) fn cancel(&self, id: u64, reason: &'static str) {
        self.withdraw(&mut self.lock(), id, reason);
    }

    fn withdraw(&self, state: &mut State, id: u64, reason: &'static str) -> Option<Pending> {
        let pending = state.remove(id)?;
        pending.slot.abandon();
        if id <= state.last_sent {
            if pending.options.cancellable && state.closed.is_none() {
                state.push(Outgoing::Cancel { id, reason });
                self.outgoing.notify_one();
            }
        } else if let Some(at) = state.queue.iter().position(
            |message| matches!(message, Outgoing::Request { id: queued, .. } if *queued == id),
        ) {
            state.queue.remove(at);
            self.permits.add_permits(1);
        }
        Some(pending)
    }

    /// Times out the expired calls, and returns the next time to check.
    pub(super) fn expire(&self, now: Instant) -> Option<Instant> {
        let last_received = self.last_received();
        let mut state = self.lock();
        if state.open_prompts > 0 {
            state.armed = None;
            return None;
        }
        let deadline: Vec<u64> = state
            .pending
            .iter()
            .filter(|(_, pending)| {
                pending
                    .deadline_after(last_received)
                    .is_some_and(|deadline| deadline <= now)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in deadline {
            let sent = id <= state.last_sent;
            if let Some(pending) = self.withdraw(&mut state, id, "timed out") {
                let error = pending.options.timeout_error(pending.since, now, sent);
                pending.slot.finish(Err(error));
            }
        }
        state.armed = state
            .pending
            .values()
            .filter_map(|pending| pending.deadline_after(last_received))
            .min();
        state.armed
    }

    /// Pauses the timeouts of all pending calls until the guard is dropped.
    pub(super) fn pause_deadlines(self: &Arc<Self>) -> DeadlinePause {
        let mut state = self.lock();
        state.open_prompts += 1;
        state.prompted_since.get_or_insert_with(Instant::now);
        DeadlinePause(Arc::clone(self))
    }

    fn resume(&self) {
        {
            let mut state = self.lock();
            state.open_prompts = state.open_prompts.saturating_sub(1);
            if state.open_prompts > 0 {
                return;
            }
            let Some(since) = state.prompted_since.take() else {
                return;
            };
            let now = Instant::now();
            for pending in state.pending.values_mut() {
                let paused = now - since.max(pending.since);
                if let Some(deadline) = &mut pending.options.deadline {
                    *deadline = deadline.checked_add(paused).unwrap_or(*deadline);
                }
                pending.last_received_for = now;
            }
        }
        self.deadline.notify_one();
    }

    /// Closes the connection: every pending call fails with the cause, and no new one is accepted.
    pub(super) fn fail_all(&self, cause: &Closed) {
        let (pending, serving) = {
            let mut state = self.lock();
            if state.closed.is_some() {
                return;
            }
            state.closed = Some(cause.clone());
            state.queue.clear();
            state.queued_bytes = 0;
            state.progress.clear();
            let last_sent = state.last_sent;
            let pending: Vec<_> = state
                .pending
                .drain()
                .map(|(id, pending)| (pending, id <= last_sent))
                .collect();
            let serving: Vec<_> = state.serving.drain().map(|(_, task)| task).collect();
            (pending, serving)
        };
        for (pending, sent) in pending {
            pending.slot.finish(Err(RequestError::Closed {
                cause: cause.clone(),
                sent,
            }));
        }
        for task in serving {
            task.abort();
        }
        self.permits.close();
        self.outgoing.notify_one();
        self.phase.send_if_modified(|phase| {
            let open = *phase == Phase::Open;
            if open {
                *phase = Phase::Closing;
            }
            open
        });
    }

    pub(super) fn closed(&self) -> Closed {
        let closed = self.lock().closed.clone();
        closed.unwrap_or_else(|| Closed::new(CloseReason::ByUs))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Registers the task that handles request `id` from the peer. Returns false if that id is
    /// already in use.
    pub(super) fn serve(&self, id: &Json, start: impl FnOnce() -> AbortHandle) -> bool {
        let mut state = self.lock();
        if state.closed.is_some() || state.serving.contains_key(id) {
            return false;
        }
        state.serving.insert(id.clone(), start());
        true
    }

    pub(super) fn take_served(&self, id: &Json) -> Option<AbortHandle> {
        self.lock().serving.remove(id)
    }

    pub(super) fn received(&self) {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_received.store(elapsed, Ordering::Relaxed);
    }

    fn last_received(&self) -> Instant {
        self.started + Duration::from_millis(self.last_received.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true for messages that were queued with a permit.
fn holds_permit(message: &Outgoing) -> bool {
    matches!(
        message,
        Outgoing::Request { .. } | Outgoing::Notification { .. }
    )
}

impl State {
    fn push(&mut self, message: Outgoing) {
        if holds_permit(&message) || self.queue.len() < MAX_QUEUED_TOTAL {
            self.queued_bytes += message.size_hint();
            self.queue.push_back(message);
        }
    }

    /// Whether a client may leave another message unread.
    fn has_room(&self, message: &Outgoing) -> bool {
        let bytes = self.queued_bytes + message.size_hint();
        let fits = self.queue.len() < MAX_QUEUED_TOTAL && bytes <= MAX_UNREAD_BYTES;
        holds_permit(message) || self.queue.is_empty() || fits
    }

    fn remove(&mut self, id: u64) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        if let Some(token) = pending.options.progress_token {
            self.progress.remove(&token);
        }
        Some(pending)
    }
}
