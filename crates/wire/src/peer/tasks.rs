//! The three tasks of a peer: reader, writer and clock.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::flow_control::{FlowControl, MAX_REPORTED_JUNK, MessageClass};
use super::handler::{Handler, PeerRole};
use super::shared::{Phase, Shared};
use super::{Progress, RequestError};
use crate::envelope::{self, Frame, Message};
use crate::json::Json;
use crate::offload::{LONG, OffloadError, offload};
use crate::rpc_error::RpcError;
use crate::transport::{CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport};

/// The maximum length of the id or the method of a request (SEC-4).
const MAX_ID_OR_METHOD: usize = 1024;

pub(super) fn start<T: Transport>(transport: T, shared: &Arc<Shared>, handler: Arc<dyn Handler>) {
    let (sender, receiver) = transport.split();
    let reader = tokio::spawn(read(receiver, Arc::clone(shared), handler));
    let clock = tokio::spawn(run_deadlines(Arc::clone(shared)));
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        write(sender, &shared).await;
        // The reader runs until here, so that messages sent during shutdown still arrive.
        reader.abort();
        clock.abort();
        shared.phase.send_replace(Phase::Closed);
    });
}

async fn write<S: SendHalf>(mut sender: S, shared: &Shared) {
    let mut phase = shared.phase.subscribe();
    let mut batch = Vec::new();
    while shared.take_batch(&mut batch) {
        if batch.is_empty() {
            shared.outgoing.notified().await;
            continue;
        }
        // A server that has stopped reading must not block closing.
        let outcome = tokio::select! {
            biased;
            outcome = sender.send(&mut batch) => outcome,
            _ = phase.wait_for(|phase| *phase != Phase::Open) => break,
        };
        if let Err(cause) = outcome {
            shared.fail_all(&cause);
            break;
        }
        batch.clear();
    }
    sender.close().await;
}

async fn run_deadlines(shared: Arc<Shared>) {
    loop {
        let deadline = shared.expire(Instant::now());
        tokio::select! {
            () = shared.deadline.notified() => {}
            () = sleep_until(deadline) => {}
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn read<R: ReceiveHalf>(mut receiver: R, shared: Arc<Shared>, handler: Arc<dyn Handler>) {
    let mut reader = Reader {
        shared: FailOnDrop(shared),
        role: handler.peer_role(),
        serving: Arc::new(Semaphore::new(handler.max_concurrent_requests())),
        handler,
        flow: FlowControl::default(),
    };
    let cause = loop {
        let outcome = {
            let mut receiving = pin!(receiver.receive());
            poll_fn(|context| {
                let polled = receiving.as_mut().poll(context);
                if polled.is_pending() {
                    reader.flow.start_turn();
                }
                polled
            })
            .await
        };
        let last_sent = match outcome {
            Ok(incoming) => reader.incoming(incoming).await,
            Err(cause) => break cause,
        };
        if let Err(reason) = last_sent {
            break Closed::new(CloseReason::Io(reason));
        }
    };
    reader.shared.0.fail_all(&cause);
}

/// Closes the connection if a panicking handler ends the reader, because without a reader no call
/// would ever complete.
struct FailOnDrop(Arc<Shared>);

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        let reason = CloseReason::Io("the message handler panicked".to_owned());
        self.0.fail_all(&Closed::new(reason));
    }
}

/// Responds to a request even if its handler panics, so that the peer does not wait forever.
struct RespondOnDrop {
    shared: Arc<Shared>,
    id: Json,
    done: bool,
}

impl RespondOnDrop {
    /// Responds, unless the request was cancelled.
    fn answer(&mut self, outcome: Result<Json, RpcError>) {
        if !std::mem::replace(&mut self.done, true) && self.shared.take_served(&self.id).is_some() {
            // On a closed connection, nobody waits for the response.
            let _ = self.shared.enqueue(Outgoing::Response {
                id: self.id.clone(),
                outcome,
            });
        }
    }
}

impl Drop for RespondOnDrop {
    fn drop(&mut self) {
        self.answer(Err(RpcError::new(
            RpcError::INTERNAL_ERROR,
            "the request handler failed",
        )));
    }
}

struct Reader {
    shared: FailOnDrop,
    handler: Arc<dyn Handler>,
    role: PeerRole,
    serving: Arc<Semaphore>,
    flow: FlowControl,
}

impl Reader {
    /// Processes an incoming item, and lets other tasks run when a turn ends. Fails if the
    /// connection must be closed.
    async fn incoming(&mut self, incoming: Incoming) -> Result<(), String> {
        match incoming {
            Incoming::Frame(frame) => {
                self.shared.0.received();
                self.frame(frame, None).await?;
            }
            Incoming::Reply { to, frame } => {
                self.shared.0.received_for(to);
                self.frame(frame, Some(to)).await?;
            }
            Incoming::DeliveryFailed { to, failure } => {
                // The call may have completed or been cancelled.
                let _ = self
                    .shared
                    .0
                    .complete(to, Err(RequestError::Delivery(failure)));
                self.flow.charge(0);
            }
            Incoming::Activity { to } => {
                match to {
                    Some(to) => self.shared.0.received_for(to),
                    None => self.shared.0.received(),
                }
                self.flow.charge(0);
            }
            Incoming::Partial { bytes } => {
                self.flow.charge(bytes);
                self.flow.count_partial(bytes);
            }
            Incoming::Noise { frames, bytes } => {
                self.flow.charge(bytes);
                self.flow.add_junk(u64::from(frames), bytes as u64);
            }
            Incoming::Oversize {
                bytes,
                limit,
                head,
                tail,
            } => {
                self.shared.0.received();
                let what = format!("a message of {bytes} bytes is over the limit of {limit}");
                let id = envelope::recover_id(&head, &tail);
                let class = self.fail_or_report(id.as_ref(), &what, &head);
                self.refuse(class, id, &what);
                self.flow.charge(head.len());
                match class {
                    MessageClass::Solicited => self.flow.credit(bytes),
                    class => self.flow.count(class, head.len()),
                }
            }
        }
        self.throttle_if_needed().await
    }

    async fn throttle_if_needed(&mut self) -> Result<(), String> {
        if self.flow.needs_throttling() {
            self.flow.throttle().await?;
        }
        Ok(())
    }

    /// Processes a frame, which may answer our request `to`.
    async fn frame(&mut self, frame: Bytes, to: Option<u64>) -> Result<(), String> {
        let bytes = frame.len();
        let decoded = if bytes <= LONG {
            envelope::decode(&frame)
        } else {
            let frame = frame.clone();
            let decoded = offload(bytes, move || envelope::decode(&frame)).await;
            decoded.map_err(|error| error.to_string())?
        };
        match decoded {
            Frame::Single(message) => {
                let class = self.message(message, &frame, to).await;
                self.flow.charge(bytes);
                self.flow.count(class, bytes);
            }
            Frame::Batch(messages) => {
                let each = bytes / messages.len().max(1);
                if messages.is_empty() {
                    self.refuse(MessageClass::Junk, None, "an empty batch");
                    self.flow.add_junk(1, bytes as u64);
                }
                for message in messages {
                    let class = self.message(message, &frame, to).await;
                    self.flow.charge(each);
                    self.flow.count(class, each);
                    self.throttle_if_needed().await?;
                }
            }
        }
        Ok(())
    }

    async fn message(&mut self, message: Message, frame: &[u8], to: Option<u64>) -> MessageClass {
        match message {
            Message::Response { id, outcome } => {
                let number = id.as_ref().and_then(envelope::parse_request_id);
                let outcome = outcome.map_err(RequestError::Rpc);
                // Some servers respond with another id if they cannot read the request.
                let meant = number.or(to);
                if meant.is_some_and(|number| self.shared.0.complete(number, outcome)) {
                    return MessageClass::Solicited;
                }
                let what = match id {
                    Some(_) => "a response to a request that is not pending",
                    None => "a response without an id",
                };
                self.report(what, frame);
                // A late response is not junk.
                match number {
                    Some(number) if self.shared.0.is_known_id(number) => MessageClass::Unsolicited,
                    _ => MessageClass::Junk,
                }
            }
            Message::Malformed { id, reason } => {
                let class = self.fail_or_report(id.as_ref(), &reason, frame);
                self.refuse(class, id, &reason);
                class
            }
            Message::Request { id, method, params } => self.serve(&id, method, params),
            Message::Notification { method, params } => {
                let shared = Arc::clone(&self.shared.0);
                let handler = Arc::clone(&self.handler);
                let bytes = params.as_ref().map_or(0, |params| params.as_str().len());
                let delivery = offload(bytes, move || {
                    notification(&shared, &*handler, &method, params);
                });
                // A handler that panics on a long notification loses only that.
                let _: Result<(), OffloadError> = delivery.await;
                MessageClass::Unsolicited
            }
        }
    }

    /// Reports a junk message, or a sample of them after the first few.
    fn report(&mut self, what: &str, frame: &[u8]) {
        match self.flow.sample_junk() {
            None => {}
            Some(number) if number > MAX_REPORTED_JUNK => {
                let what = format!("{what} (unusable message {number} of this connection)");
                self.handler.invalid_message(&what, frame);
            }
            Some(_) => self.handler.invalid_message(what, frame),
        }
    }

    /// Fails the call that an invalid message answers, or reports the message if there is none.
    fn fail_or_report(&mut self, id: Option<&Json>, what: &str, frame: &[u8]) -> MessageClass {
        let number = id.and_then(envelope::parse_request_id);
        let delivered = number.is_some_and(|number| {
            self.shared
                .0
                .complete(number, Err(RequestError::Malformed(what.to_owned())))
        });
        if delivered {
            return MessageClass::Solicited;
        }
        self.report(what, frame);
        MessageClass::Junk
    }

    /// Answers a message of a client that cannot be read, with its id if it has one.
    fn refuse(&self, class: MessageClass, id: Option<Json>, reason: &str) {
        if self.role != PeerRole::Client || class != MessageClass::Junk {
            return;
        }
        let code = if reason.contains("JSON") {
            RpcError::PARSE_ERROR
        } else {
            RpcError::INVALID_REQUEST
        };
        let error = RpcError::new(code, format!("the message is invalid: {reason}"));
        let id = id.filter(|id| id.as_str().len() <= MAX_ID_OR_METHOD);
        let id = id.map_or_else(Json::null, |id| id.to_unshared());
        self.answer(id, Err(error));
    }

    fn serve(
        &mut self,
        id: &Json,
        method: bytestring::ByteString,
        params: Option<Json>,
    ) -> MessageClass {
        if id.as_str().len() > MAX_ID_OR_METHOD || method.len() > MAX_ID_OR_METHOD {
            let what = "a request whose id or method is too long";
            self.report(what, method.as_bytes());
            self.refuse(MessageClass::Junk, None, what);
            return MessageClass::Junk;
        }
        // A copy, so that a queued response does not keep the whole message in memory.
        let id = id.to_unshared();
        let handled = match self.role {
            PeerRole::Server => MessageClass::Request,
            PeerRole::Client => MessageClass::Served,
        };
        if &*method == "ping" && self.role == PeerRole::Server {
            self.answer(id, Ok(Json::empty_object()));
            return handled;
        }
        let Ok(permit) = Arc::clone(&self.serving).try_acquire_owned() else {
            let error = RpcError::new(RpcError::INTERNAL_ERROR, "too many requests at once");
            self.answer(id, Err(error));
            return MessageClass::Request;
        };
        let asks = self.handler.prompts_user(&method);
        let work = self.handler.request_with_id(&id, method, params);
        let shared = Arc::clone(&self.shared.0);
        let answered = id.clone();
        // The task starts after it is registered; otherwise a fast response could miss its own
        // entry.
        let (entered, start) = oneshot::channel::<()>();
        let accepted = self.shared.0.serve(&id, || {
            tokio::spawn(async move {
                let _permit = permit;
                if start.await.is_err() {
                    return;
                }
                let _pause = asks.then(|| shared.pause_deadlines());
                let mut answer = RespondOnDrop {
                    shared,
                    id: answered,
                    done: false,
                };
                answer.answer(work.await);
            })
            .abort_handle()
        });
        if accepted {
            let _ = entered.send(());
        } else if !self.shared.0.is_closed() {
            let what = "a request with an id that is already in use";
            self.report(what, id.as_str().as_bytes());
            return MessageClass::Junk;
        }
        handled
    }

    fn answer(&self, id: Json, outcome: Result<Json, RpcError>) {
        let _: Result<(), Closed> = self.shared.0.enqueue(Outgoing::Response { id, outcome });
    }
}

/// Delivers a notification.
fn notification(shared: &Shared, handler: &dyn Handler, method: &str, params: Option<Json>) {
    match (method, params) {
        ("notifications/progress", Some(params)) => progress(shared, &params),
        ("notifications/cancelled", params) => {
            let id = params.as_ref().and_then(|params| params.get("requestId"));
            match id.and_then(|id| shared.take_served(&id)) {
                Some(task) => task.abort(),
                None => handler.notification(method, params),
            }
        }
        (_, params) => handler.notification(method, params),
    }
}

fn progress(shared: &Shared, params: &Json) {
    let token = params
        .get("progressToken")
        .and_then(|token| envelope::parse_request_id(&token));
    let Some(token) = token else {
        return;
    };
    shared.progress(token, || Progress {
        progress: params.field("progress").unwrap_or_default(),
        total: params.field("total"),
        message: params
            .get("message")
            .and_then(|message| message.as_string())
            .map(String::from),
    });
}
