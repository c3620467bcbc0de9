//! The peer: pairs requests with answers over a transport, in both directions.
//!
//! Three tasks work for a peer. The *reader* takes what arrives and delivers it. The *writer* takes all that is queued
//! and sends it in one go. The *clock* ends calls whose time is up, so that a call costs no timer of its own and ends on
//! time even while the writer is stuck. None of them waits for a caller, and no caller waits for another.

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

pub use handler::{DefaultHandler, Handler, ResponseFuture};
use shared::{Phase, Shared};
pub use slot::CallStatus;
use slot::{Event, Slot};

use crate::json::Json;
use crate::rpc_error::RpcError;
use crate::transport::{CloseReason, Closed, DeliveryError, Routing, Transport};

/// Steps of progress that are passed on before other tasks get to run.
const PROGRESS_PER_TURN: usize = 32;

/// One end of a JSON-RPC link. Clones share the link; it closes when the last of them is dropped, or by [`Peer::close`].
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

/// How one request is to be made.
#[derive(Clone)]
pub struct RequestOptions {
    /// When to give up.
    pub deadline: Option<Instant>,
    /// How long nothing at all may arrive from the other side while this request waits.
    pub idle: Option<Duration>,
    /// The token under which progress for this request arrives; see [`Peer::progress_token`].
    pub progress_token: Option<u64>,
    /// Whether the other side is told when we give up.
    pub cancellable: bool,
    /// What the transport may have to say of it outside its text.
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

/// One step of a long call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How far it has come.
    pub progress: f64,
    /// How far there is to go, where known.
    pub total: Option<f64>,
    /// What it is doing; untrusted text.
    pub message: Option<String>,
}

/// Why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// The other side answered with an error.
    #[error("{0}")]
    Rpc(RpcError),
    /// No answer in time.
    #[error("no answer after {}", format_duration(*after))]
    Timeout {
        /// How long we waited.
        after: Duration,
        /// Whether the request had been handed to the transport.
        sent: bool,
    },
    /// Nothing at all arrived for too long.
    #[error("the server has sent nothing for {}", format_duration(*after))]
    Idle {
        /// How long nothing arrived.
        after: Duration,
        /// Whether the request had been handed to the transport.
        sent: bool,
    },
    /// The link ended first.
    #[error("{cause}")]
    Closed {
        /// What ended it.
        cause: Closed,
        /// Whether the request had been handed to the transport.
        sent: bool,
    },
    /// The transport could not bring the answer to this request; others are not touched.
    #[error("{0}")]
    Delivery(DeliveryError),
    /// The answer made no sense.
    #[error("the server's answer cannot be read: {0}")]
    Malformed(String),
}

impl RequestError {
    /// The same error of a request that had been sent.
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

    /// Whether the other side may have acted on the request.
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

/// A duration for people: `30 s`, `250 ms`.
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
        let shared = Arc::new(Shared::new());
        tasks::start(transport, &shared, handler);
        Self {
            tokens: Arc::default(),
            routed: T::USES_ROUTING,
            _last: Arc::new(CloseOnDrop(Arc::clone(&shared))),
            shared,
        }
    }

    /// A token for the progress of one request, unique on this link.
    pub fn progress_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the transport has a use for the names and parameters in [`RequestOptions::routing`].
    pub fn uses_routing(&self) -> bool {
        self.routed
    }

    /// Sends a request and waits for the answer. Dropping the future cancels the request on the other side.
    pub async fn request(
        &self,
        method: &'static str,
        params: Json,
        options: RequestOptions,
    ) -> Result<Json, RequestError> {
        self.request_with_progress(method, params, options, |_| {})
            .await
    }

    /// As [`Peer::request`]; `on_progress` is called on the caller's task, in order, before the answer is returned.
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

    /// Sends a request whose answer nobody needs, without waiting: it is left out where the queue is full or the link has ended.
    pub fn request_detached(&self, method: &'static str, params: Json, options: RequestOptions) {
        if let Ok(permit) = self.shared.permits.try_acquire() {
            permit.forget();
            let since = Instant::now();
            let _ = self.shared.enqueue_request(method, params, options, since);
        }
    }

    /// Takes the progress that arrives under a token, for longer than one request lasts.
    pub fn subscribe_progress(&self, token: u64) -> ProgressStream {
        let slot = Arc::new(Slot::default());
        self.shared.subscribe_progress(token, Arc::clone(&slot));
        ProgressStream {
            shared: Arc::clone(&self.shared),
            token,
            slot,
        }
    }

    /// Sends a notification, waiting for room in the queue if it is full.
    pub async fn notify(
        &self,
        method: &'static str,
        params: Option<Json>,
    ) -> Result<(), RequestError> {
        self.shared.notify(method, params, None).await
    }

    /// As [`Peer::notify`], in a protocol version that was agreed on.
    pub async fn notify_with_version(
        &self,
        version: &'static str,
        method: &'static str,
        params: Option<Json>,
    ) -> Result<(), RequestError> {
        self.shared.notify(method, params, Some(version)).await
    }

    /// A way to send notifications that does not keep the link open.
    pub fn notifier(&self) -> Notifier {
        Notifier(Arc::clone(&self.shared))
    }

    /// Waits until the link has ended, for whatever reason, and says why.
    pub async fn closed(&self) -> Closed {
        let mut phase = self.shared.phase.subscribe();
        // The sender lives in `shared`, so waiting cannot fail.
        let _ = phase.wait_for(|phase| *phase != Phase::Open).await;
        self.shared.closed()
    }

    /// True once the link has ended.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Ends the link: fails what is pending, and waits until the transport has taken down what it opened.
    pub async fn close(&self) {
        self.shared.fail_all(&Closed::new(CloseReason::ByUs));
        let mut phase = self.shared.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Closed).await;
    }
}

/// Sends notifications on a link without keeping it open.
#[derive(Clone)]
pub struct Notifier(Arc<Shared>);

impl Notifier {
    /// Sends a notification, waiting for room in the queue if it is full.
    pub async fn notify(
        &self,
        method: &'static str,
        params: Option<Json>,
    ) -> Result<(), RequestError> {
        self.0.notify(method, params, None).await
    }
}

/// The progress that arrives under one token, until this is dropped. It does not keep the link open.
pub struct ProgressStream {
    shared: Arc<Shared>,
    token: u64,
    slot: Arc<Slot>,
}

impl ProgressStream {
    /// The next step.
    pub async fn next(&self) -> Progress {
        poll_fn(|context| match self.slot.poll(context) {
            Poll::Ready(Event::Progress(progress)) => Poll::Ready(progress),
            // Nothing ever ends this slot.
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

/// A call that is waiting; dropping it before it is done cancels it.
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
