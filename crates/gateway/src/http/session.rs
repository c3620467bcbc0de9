//! One session of a legacy client: its streams, its running requests, its questions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::task::AbortHandle;
use trunkline_wire::transport::Outgoing;
use trunkline_wire::{ByteString, Json, RpcError};

use super::calls::CallTimer;
use super::link::{Questions, StreamLink, encode};
use super::stream::{EventStream, Overflow, Weight};
use crate::client::View;
use crate::session::{ClientRequest, ClientSession};
use crate::store::{Digest, now_millis};

/// The stream of a GET, which belongs to no request.
pub(super) const STANDING: u64 = 0;

/// The maximum number of streams that wait to be resumed (SEC-4).
const MAX_STREAMS: usize = 1024;

/// How long an answer that its client has not read can be fetched, and the size of all such
/// answers of a session (SEC-4).
const ABANDONED_FOR: Duration = Duration::from_mins(5);
const MAX_ABANDONED_BYTES: usize = 16 * 1024 * 1024;

/// How a client receives its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Streamable HTTP: each POST has its answer.
    Streamable,
    /// HTTP+SSE: all answers are on the standing stream, and the session ends with it.
    Sse,
}

/// A session.
pub(super) struct HttpSession {
    pub(super) key: Digest,
    pub(super) owner: String,
    pub(super) view: View,
    pub(super) kind: Kind,
    pub(super) client: Arc<ClientSession>,
    pub(super) standing: Arc<EventStream>,
    pub(super) questions: Arc<Questions>,
    /// The negotiated protocol version.
    version: Mutex<String>,
    streams: Mutex<HashMap<u64, Arc<EventStream>>>,
    running: Mutex<HashMap<Json, AbortHandle>>,
    next_stream: AtomicU64,
    active: AtomicUsize,
    last_used: AtomicU64,
    closed: AtomicBool,
}

/// A request of a client.
pub(super) struct Request {
    pub(super) id: Json,
    pub(super) method: ByteString,
    pub(super) params: Option<Json>,
    pub(super) timer: Option<CallTimer>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpSession {
    pub(super) fn new(
        key: Digest,
        owner: String,
        view: View,
        kind: Kind,
        client: Arc<ClientSession>,
    ) -> Arc<Self> {
        let now = now_millis();
        // Numbers go on after a restart, so that no event has the place of an earlier one.
        let standing = Arc::new(EventStream::new(STANDING, now));
        let session = Arc::new(Self {
            key,
            owner,
            view,
            kind,
            client,
            standing,
            questions: Arc::default(),
            version: Mutex::default(),
            streams: Mutex::default(),
            running: Mutex::default(),
            next_stream: AtomicU64::new(now << 8),
            active: AtomicUsize::new(0),
            last_used: AtomicU64::new(now),
            closed: AtomicBool::new(false),
        });
        let link = session.link(&session.standing);
        session.client.attach(link);
        session
    }

    /// Returns the way back over a stream. A client that does not read it loses the session.
    fn link(self: &Arc<Self>, stream: &Arc<EventStream>) -> Arc<StreamLink> {
        let session = Arc::downgrade(self);
        let overflow = move || {
            if let Some(session) = session.upgrade() {
                tracing::warn!(
                    target: "trunkline",
                    client = session.client.info().label,
                    "the client does not read its messages; its session ends",
                );
                session.close();
            }
        };
        let questions = Some(Arc::clone(&self.questions));
        Arc::new(StreamLink::new(Arc::clone(stream), questions, overflow))
    }

    /// Sets the negotiated version, from the result of `initialize`.
    pub(super) fn initialized(&self, result: &Json) {
        if let Some(version) = result.field("protocolVersion") {
            *lock(&self.version) = version;
        }
    }

    /// Returns true after a successful handshake.
    pub(super) fn is_initialized(&self) -> bool {
        !lock(&self.version).is_empty()
    }

    /// Returns true if the client expects an event without a message at the start of a stream.
    pub(super) fn wants_priming(&self) -> bool {
        self.kind == Kind::Streamable && lock(&self.version).as_str() >= "2025-11-25"
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the time since which nothing uses the session.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let idle = self.active.load(Ordering::Acquire) == 0;
        idle.then(|| self.last_used.load(Ordering::Acquire))
    }

    /// Returns the time of the last use.
    pub(super) fn last_used(&self) -> u64 {
        match self.active.load(Ordering::Acquire) {
            0 => self.last_used.load(Ordering::Acquire),
            _ => now_millis(),
        }
    }

    /// Keeps the session from being idle.
    pub(super) fn activity(self: &Arc<Self>) -> Activity {
        self.active.fetch_add(1, Ordering::AcqRel);
        Activity(Arc::clone(self))
    }

    /// Returns a stream that may still have events.
    pub(super) fn stream(&self, id: u64) -> Option<Arc<EventStream>> {
        if id == STANDING {
            return Some(Arc::clone(&self.standing));
        }
        lock(&self.streams).get(&id).cloned()
    }

    /// Opens the stream of a POST.
    pub(super) fn open_stream(&self) -> Arc<EventStream> {
        let id = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new(EventStream::new(id, 0));
        let mut streams = lock(&self.streams);
        if streams.len() >= MAX_STREAMS {
            streams.retain(|_, stream| !stream.is_drained());
        }
        if streams.len() < MAX_STREAMS {
            streams.insert(id, Arc::clone(&stream));
        }
        stream
    }

    /// Forgets answers that nobody has fetched for a while, and the oldest beyond a size.
    pub(super) fn forget_abandoned(&self) {
        forget_abandoned(&mut lock(&self.streams));
    }

    /// Forgets a stream that nobody can resume.
    pub(super) fn close_stream(&self, id: u64) {
        lock(&self.streams).remove(&id);
    }

    /// Runs a request. Its messages go to `stream`; `pending` counts the answers that the stream
    /// still waits for, and `held` is dropped at the end.
    pub(super) fn start(
        self: &Arc<Self>,
        request: Request,
        stream: &Arc<EventStream>,
        pending: &Arc<AtomicUsize>,
        held: impl Send + 'static,
    ) -> Result<(), RpcError> {
        let Request {
            id,
            method,
            params,
            mut timer,
        } = request;
        let mut running = lock(&self.running);
        if running.contains_key(&id) {
            let text = format!("the request id {id} is in use");
            return Err(RpcError::new(RpcError::INVALID_REQUEST, text));
        }
        let answer = Answer {
            session: Arc::clone(self),
            id: id.clone(),
            stream: Arc::clone(stream),
            pending: Arc::clone(pending),
            activity: Some(self.activity()),
        };
        let handles_version = &*method == "initialize";
        let request = ClientRequest {
            id: id.clone(),
            method,
            params,
        };
        let future = self.client.request(request, self.link(stream));
        let task = tokio::spawn(async move {
            let _held = held;
            let outcome = future.await;
            if let Some(timer) = &mut timer {
                timer.ended(&outcome);
            }
            drop(timer);
            if handles_version && let Ok(result) = &outcome {
                answer.session.initialized(result);
            }
            answer.send(outcome);
        });
        running.insert(id, task.abort_handle());
        drop(running);
        // Closed meanwhile: the task was not in the table yet.
        if self.is_closed() {
            task.abort();
        }
        Ok(())
    }

    /// Handles a notification.
    pub(super) fn notification(&self, method: &str, params: Option<Json>) {
        if method == "notifications/cancelled"
            && let Some(id) = params.as_ref().and_then(|params| params.get("requestId"))
            && let Some(task) = lock(&self.running).get(&id)
        {
            task.abort();
        }
        self.client.notification(method, params);
    }

    /// Ends the requests, streams and questions of the session.
    pub(super) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let running: Vec<AbortHandle> = lock(&self.running).values().cloned().collect();
        for task in running {
            task.abort();
        }
        self.questions.close();
        self.end_streams();
        self.client.close();
    }

    /// Ends all streams. Their requests go on.
    pub(super) fn end_streams(&self) {
        self.standing.end();
        for stream in lock(&self.streams).values() {
            stream.end();
        }
    }
}

fn forget_abandoned(streams: &mut HashMap<u64, Arc<EventStream>>) {
    let mut abandoned: Vec<(u64, usize)> = Vec::new();
    streams.retain(|id, stream| match stream.abandoned() {
        Some((_, since)) if since >= ABANDONED_FOR => false,
        Some((bytes, _)) => {
            abandoned.push((*id, bytes));
            true
        }
        None => true,
    });
    let mut kept: usize = abandoned.iter().map(|(_, bytes)| bytes).sum();
    abandoned.sort_unstable();
    for (id, bytes) in abandoned {
        if kept <= MAX_ABANDONED_BYTES {
            break;
        }
        kept -= bytes;
        streams.remove(&id);
    }
}

/// A use of a session.
pub(super) struct Activity(Arc<HttpSession>);

impl Drop for Activity {
    fn drop(&mut self) {
        self.0.last_used.store(now_millis(), Ordering::Release);
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The answer that a running request owes to its stream.
struct Answer {
    session: Arc<HttpSession>,
    id: Json,
    stream: Arc<EventStream>,
    pending: Arc<AtomicUsize>,
    /// `None` once the request has ended.
    activity: Option<Activity>,
}

impl Answer {
    fn send(mut self, outcome: Result<Json, RpcError>) {
        self.end();
        let message = encode(&Outgoing::Response {
            id: self.id.clone(),
            outcome,
        });
        deliver(&self.session, &self.stream, &self.pending, message);
    }

    /// Frees the id, before the client can know of the answer.
    fn end(&mut self) -> bool {
        let ended = self.activity.is_some();
        if ended {
            lock(&self.session.running).remove(&self.id);
            self.activity = None;
        }
        ended
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Cancelled, or failed badly: the stream must not wait for an answer.
        if self.end()
            && self.stream.id != STANDING
            && self.pending.fetch_sub(1, Ordering::AcqRel) == 1
        {
            self.stream.end();
        }
    }
}

/// Sends an answer, and ends the stream after the last one.
pub(super) fn deliver(
    session: &HttpSession,
    stream: &EventStream,
    pending: &AtomicUsize,
    message: Bytes,
) {
    if stream.id != STANDING && pending.fetch_sub(1, Ordering::AcqRel) == 1 {
        stream.finish(message, StatusCode::OK);
        session.forget_abandoned();
    } else if stream.push(message, Weight::Needed) == Err(Overflow) {
        session.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn answered(id: u64, bytes: usize) -> (u64, Arc<EventStream>) {
        let stream = Arc::new(EventStream::new(id, 0));
        stream.finish(vec![b'x'; bytes].into(), StatusCode::OK);
        (id, stream)
    }

    fn kept(streams: &mut HashMap<u64, Arc<EventStream>>) -> Vec<u64> {
        forget_abandoned(streams);
        let mut ids: Vec<u64> = streams.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_fetches_is_forgotten() {
        let running = (9, Arc::new(EventStream::new(9, 0)));
        let read = answered(8, 1);
        read.1.take_over();
        let mut streams = HashMap::from([answered(1, 1), read, running]);
        tokio::time::advance(ABANDONED_FOR / 2).await;
        assert_eq!(kept(&mut streams), [1, 8, 9]);
        tokio::time::advance(ABANDONED_FOR / 2).await;
        assert_eq!(kept(&mut streams), [8, 9]);
        // Its reader leaves without it.
        streams[&8].left(1);
        assert_eq!(kept(&mut streams), [9]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_many_long_answers_are_forgotten() {
        let mut streams: HashMap<_, _> = (1..=5).map(|id| answered(id, 5 * MIB)).collect();
        assert_eq!(kept(&mut streams), [3, 4, 5]);
    }
}
