//! A JSON-RPC peer: matches responses to requests over a transport, in both directions.
//!
//! A peer runs three tasks. The *reader* delivers incoming messages. The *writer* sends all queued
//! messages in one write. The *clock* ends calls at their deadlines, so that a call needs no timer
//! and times out even if the writer is blocked. No task waits for a caller, and no caller waits for
//! another.

mod flow_control;
mod handler;
mod shared;
mod slot;
mod tasks;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

pub use handler::{DefaultHandler, Handler, PeerRole, ResponseFuture};
use shared::{Phase, Shared};
pub use slot::CallStatus;
use slot::{Event, Slot};

use crate::json::Json;
use crate::rpc_error::RpcError;
use crate::transport::{CloseReason, Closed, DeliveryError, Outgoing, Routing, Transport};

/// The progress updates delivered before other tasks run.
const PROGRESS_PER_TURN: usize = 32;

/// One end of a JSON-RPC connection. Clones share it. It closes when the last clone is dropped, or
/// with [`Peer::close`].
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
    tokens: Arc<AtomicU64>,
    routed: bool,
    _last: Arc<CloseOnDrop>,
}

struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.fail_all(&Closed::new(CloseReason::ByUs));
    }
}

/// Options for a single request.
#[derive(Clone)]
pub struct RequestOptions {
    /// The deadline.
    pub deadline: Option<Instant>,
    /// The idle timeout: the longest time without any incoming message.
    pub idle: Option<Duration>,
    /// The progress token of the request; see [`Peer::progress_token`].
    pub progress_token: Option<u64>,
    /// Whether the peer is notified when the request is cancelled.
    pub cancellable: bool,
    /// Information for the transport, outside the body.
    pub routing: Routing,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            idle: None,
            progress_token: None,
            cancellable: true,
            routing: Routing::default(),
        }
    }
}

/// A progress update.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The progress so far.
    pub progress: f64,
    /// The total, if known.
    pub total: Option<f64>,
    /// A message. Untrusted text.
    pub message: Option<String>,
}

/// The reason that a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// The peer responded with an error.
    #[error("{0}")]
    Rpc(RpcError),
    /// The deadline passed.
    #[error("no answer after {}", format_duration(*after))]
    Timeout {
        /// The time waited.
        after: Duration,
        /// Whether the transport has taken the request.
        sent: bool,
    },
    /// The idle timeout passed.
    #[error("the server has sent nothing for {}", format_duration(*after))]
    Idle {
        /// The time without any incoming message.
        after: Duration,
        /// Whether the transport has taken the request.
        sent: bool,
    },
    /// The connection closed.
    #[error("{cause}")]
    Closed {
        /// The reason.
        cause: Closed,
        /// Whether the transport has taken the request.
        sent: bool,
    },
    /// The transport could not deliver this request or its response. Other requests are unaffected.
    #[error("{0}")]
    Delivery(DeliveryError),
    /// The response is invalid.
    #[error("invalid response from the server: {0}")]
    Malformed(String),
}

impl RequestError {
    /// Marks the request as sent.
    pub(crate) fn after_sending(mut self) -> Self {
        if let Self::Timeout { sent, .. } | Self::Idle { sent, .. } | Self::Closed { sent, .. } =
            &mut self
        {
            *sent = true;
        }
        if let Self::Delivery(failure) = &mut self {
            failure.may_have_run = true;
        }
        self
    }

    /// Returns true if the peer may have acted on the request.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Rpc(error) => !error.is_refusal(),
            Self::Timeout { sent, .. } | Self::Idle { sent, .. } | Self::Closed { sent, .. } => {
                *sent
            }
            Self::Delivery(failure) => failure.may_have_run,
            Self::Malformed(_) => true,
        }
    }
}

/// Formats a duration for people: `30 s`, `250 ms`.
fn format_duration(duration: Duration) -> String {
    if duration >= Duration::from_secs(1) {
        let seconds = duration.as_secs_f64();
        format!("{} s", (seconds * 10.0).round() / 10.0)
    } else {
        format!("{} ms", duration.as_millis())
    }
}

impl Peer {
    /// Starts a peer on the current Tokio runtime.
    pub fn start<T: Transport>(transport: T, handler: Arc<dyn Handler>) -> Self {
        let shared = Arc::new(Shared::new(handler.peer_role()));
        tasks::start(transport, &shared, handler);
        Self {
            tokens: Arc::default(),
            routed: T::USES_ROUTING,
            _last: Arc::new(CloseOnDrop(Arc::clone(&shared))),
            shared,
        }
    }

    /// Returns a progress token that is unique on this connection.
    pub fn progress_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns true if the transport uses [`RequestOptions::routing`].
    pub fn uses_routing(&self) -> bool {
        self.routed
    }

    /// Sends a request and waits for the response. Dropping the future cancels the request.
    pub async fn request(
        &self,
        method: &'static str,
        params: Json,
        options: RequestOptions,
    ) -> Result<Json, RequestError> {
        self.request_with_progress(method, params, options, |_| {})
            .await
    }

    /// Like [`Peer::request`]. Calls `on_progress` in order, on the task of the caller, before it
    /// returns.
    pub async fn request_with_progress(
        &self,
        method: &'static str,
        params: Json,
        options: RequestOptions,
        mut on_progress: impl FnMut(Progress) + Send,
    ) -> Result<Json, RequestError> {
        let since = Instant::now();
        self.shared.reserve(since, &options).await?;
        let (id, slot) = self
            .shared
            .enqueue_request(method, params, options, since)
            .map_err(|cause| RequestError::Closed { cause, sent: false })?;
        let mut waiting = Waiting {
            shared: &self.shared,
            id,
            slot,
            done: false,
        };
        let mut steps = 0_usize;
        loop {
            match poll_fn(|context| waiting.slot.poll(context)).await {
                Event::Progress(progress) => {
                    on_progress(progress);
                    steps += 1;
                    if steps.is_multiple_of(PROGRESS_PER_TURN) {
                        tokio::task::yield_now().await;
                    }
                }
                Event::Done(outcome) => {
                    waiting.done = true;
                    return outcome;
                }
            }
        }
    }

    /// Sends a request without waiting for the response. Drops the request if the queue is full or
    /// the connection is closed.
    pub fn request_detached(&self, method: &'static str, params: Json, options: RequestOptions) {
        if let Ok(permit) = self.shared.permits.try_acquire() {
            permit.forget();
            let since = Instant::now();
            let _ = self.shared.enqueue_request(method, params, options, since);
        }
    }

    /// Subscribes to the progress updates for a token, beyond the lifetime of one request.
    pub fn subscribe_progress(&self, token: u64) -> ProgressStream {
        let slot = Arc::new(Slot::default());
        self.shared.subscribe_progress(token, Arc::clone(&slot));
        ProgressStream {
            shared: Arc::clone(&self.shared),
            token,
            slot,
        }
    }

    /// Sends a notification. Waits if the queue is full.
    pub async fn notify(
        &self,
        method: &'static str,
        params: Option<Json>,
    ) -> Result<(), RequestError> {
        self.shared.notify(method, params, None).await
    }

    /// Sends a notification without waiting. Returns false, and drops it, if the queue is full or
    /// the connection is closed.
    pub fn try_notify(&self, method: &'static str, params: Option<Json>) -> bool {
        let Ok(permit) = self.shared.permits.try_acquire() else {
            return false;
        };
        permit.forget();
        let notification = Outgoing::Notification {
            method,
            params,
            version: None,
        };
        self.shared.enqueue(notification).is_ok()
    }

    /// Like [`Peer::notify`], with the negotiated protocol version.
    pub async fn notify_with_version(
        &self,
        version: &'static str,
        method: &'static str,
        params: Option<Json>,
    ) -> Result<(), RequestError> {
        self.shared.notify(method, params, Some(version)).await
    }

    /// Returns a sender of notifications that does not keep the connection open.
    pub fn notifier(&self) -> Notifier {
        Notifier(Arc::clone(&self.shared))
    }

    /// Waits until the connection has closed, and returns the reason.
    pub async fn closed(&self) -> Closed {
        let mut phase = self.shared.phase.subscribe();
        // The sender lives in `shared`, so waiting cannot fail.
        let _ = phase.wait_for(|phase| *phase != Phase::Open).await;
        self.shared.closed()
    }

    /// Returns true if the connection has closed.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Starts to close the connection: fails the pending calls. [`Peer::close`] also waits.
    pub fn start_closing(&self) {
        self.shared.fail_all(&Closed::new(CloseReason::ByUs));
    }

    /// Closes the connection: fails the pending calls and waits until the transport has released
    /// its resources.
    pub async fn close(&self) {
        self.shared.fail_all(&Closed::new(CloseReason::ByUs));
        let mut phase = self.shared.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Closed).await;
    }
}

/// Sends notifications without keeping the connection open.
#[derive(Clone)]
pub struct Notifier(Arc<Shared>);

impl Notifier {
    /// Sends a notification. Waits if the queue is full.
    pub async fn notify(
        &self,
        method: &'static str,
        params: Option<Json>,
    ) -> Result<(), RequestError> {
        self.0.notify(method, params, None).await
    }
}

/// The progress updates for one token. Does not keep the connection open.
pub struct ProgressStream {
    shared: Arc<Shared>,
    token: u64,
    slot: Arc<Slot>,
}

impl ProgressStream {
    /// Waits for the next update.
    pub async fn next(&self) -> Progress {
        poll_fn(|context| match self.slot.poll(context) {
            Poll::Ready(Event::Progress(progress)) => Poll::Ready(progress),
            // Nothing completes this slot.
            Poll::Ready(Event::Done(_)) | Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl Drop for ProgressStream {
    fn drop(&mut self) {
        self.shared.unsubscribe_progress(self.token);
    }
}

/// Cancels a call if it is dropped before the call has completed.
struct Waiting<'a> {
    shared: &'a Shared,
    id: u64,
    slot: Arc<Slot>,
    done: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.shared.cancel(self.id, "no longer wanted");
        }
    }
}
