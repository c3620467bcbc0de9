//! The three tasks behind a peer: reader, writer and clock.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use super::flow::{Flow, REPORTED, Worth};
use super::handler::Handler;
use super::shared::{Phase, Shared};
use super::{Progress, RequestError};
use crate::envelope::{self, Frame, Message};
use crate::json::Json;
use crate::rpc_error::RpcError;
use crate::transport::{CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport};

/// How long the id or the method of a request may be (SEC-4).
const MAX_NAME: usize = 1024;

/// Frames longer than this are decoded on a thread of their own, so that no other task waits for it.
const LONG_FRAME: usize = 256 * 1024;

pub(super) fn start<T: Transport>(transport: T, shared: &Arc<Shared>, handler: Arc<dyn Handler>) {
    let (sender, receiver) = transport.split();
    let reader = tokio::spawn(read(receiver, Arc::clone(shared), handler));
    let clock = tokio::spawn(keep_time(Arc::clone(shared)));
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        write(sender, &shared).await;
        // The reader went on until here, so that a server's last words were heard while it was shut down.
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
        // A server that has stopped reading must not keep us from closing.
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

async fn keep_time(shared: Arc<Shared>) {
    loop {
        let due = shared.expire(Instant::now());
        tokio::select! {
            () = shared.deadline.notified() => {}
            () = sleep_until(due) => {}
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn read<R: ReceiveHalf>(mut receiver: R, shared: Arc<Shared>, handler: Arc<dyn Handler>) {
    let mut reader = Reader {
        shared: FailOnDrop(shared),
        serving: Arc::new(Semaphore::new(handler.max_serving())),
        handler,
        flow: Flow::default(),
    };
    let cause = loop {
        let outcome = {
            let mut receiving = pin!(receiver.receive());
            poll_fn(|context| {
                let polled = receiving.as_mut().poll(context);
                if polled.is_pending() {
                    reader.flow.wait();
                }
                polled
            })
            .await
        };
        let taken = match outcome {
            Ok(incoming) => reader.incoming(incoming).await,
            Err(cause) => break cause,
        };
        if let Err(reason) = taken {
            break Closed::new(CloseReason::Io(reason));
        }
    };
    reader.shared.0.fail_all(&cause);
}

/// Without a reader no call would ever end: if a handler's panic takes it down, the link goes down with it.
struct FailOnDrop(Arc<Shared>);

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        let reason = CloseReason::Io("the handler of its messages failed".to_owned());
        self.0.fail_all(&Closed::new(reason));
    }
}

/// Answers a request whose handler panicked, so that the other side does not wait for ever.
struct AnswerOnDrop {
    shared: Arc<Shared>,
    id: Json,
    done: bool,
}

impl AnswerOnDrop {
    /// Answers, unless the request was cancelled meanwhile.
    fn answer(&mut self, outcome: Result<Json, RpcError>) {
        if !std::mem::replace(&mut self.done, true) && self.shared.served(&self.id).is_some() {
            // The link may have ended meanwhile; then nobody waits for this.
            let _ = self.shared.enqueue(Outgoing::Response {
                id: self.id.clone(),
                outcome,
            });
        }
    }
}

impl Drop for AnswerOnDrop {
    fn drop(&mut self) {
        self.answer(Err(RpcError::new(
            RpcError::INTERNAL_ERROR,
            "the request could not be answered",
        )));
    }
}

struct Reader {
    shared: FailOnDrop,
    handler: Arc<dyn Handler>,
    serving: Arc<Semaphore>,
    flow: Flow,
}

impl Reader {
    /// Takes what has arrived, and lets other tasks run when it is their turn. Fails once the link is
    /// not worth keeping.
    async fn incoming(&mut self, incoming: Incoming) -> Result<(), String> {
        match incoming {
            Incoming::Frame(frame) => {
                self.shared.0.received();
                self.frame(frame, None).await?;
            }
            Incoming::Reply { to, frame } => {
                self.shared.0.heard_for(to);
                self.frame(frame, Some(to)).await?;
            }
            Incoming::DeliveryFailed { to, failure } => {
                // It may have been answered or given up meanwhile.
                let _ = self
                    .shared
                    .0
                    .complete(to, Err(RequestError::Delivery(failure)));
                self.flow.charge(0);
            }
            Incoming::Alive { to } => {
                match to {
                    Some(to) => self.shared.0.heard_for(to),
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
                let id = envelope::salvage_id(&head, &tail);
                let worth = self.fail_or_report(id.as_ref(), &what, &head);
                self.flow.charge(head.len());
                match worth {
                    Worth::Solicited => self.flow.forgive(bytes),
                    worth => self.flow.count(worth, head.len()),
                }
            }
        }
        self.rest_if_due().await
    }

    async fn rest_if_due(&mut self) -> Result<(), String> {
        if self.flow.is_due() {
            self.flow.rest().await?;
        }
        Ok(())
    }

    /// Takes a frame, which may have come in answer to our request `to`.
    async fn frame(&mut self, frame: Bytes, to: Option<u64>) -> Result<(), String> {
        let bytes = frame.len();
        let decoded = if bytes <= LONG_FRAME {
            envelope::decode(&frame)
        } else {
            let frame = frame.clone();
            let decoded = tokio::task::spawn_blocking(move || envelope::decode(&frame)).await;
            decoded.map_err(|_| "a long message could not be decoded".to_owned())?
        };
        match decoded {
            Frame::Single(message) => {
                let worth = self.message(message, &frame, to);
                self.flow.charge(bytes);
                self.flow.count(worth, bytes);
            }
            Frame::Batch(messages) => {
                let each = bytes / messages.len().max(1);
                if messages.is_empty() {
                    self.flow.add_junk(1, bytes as u64);
                }
                for message in messages {
                    let worth = self.message(message, &frame, to);
                    self.flow.charge(each);
                    self.flow.count(worth, each);
                    self.rest_if_due().await?;
                }
            }
        }
        Ok(())
    }

    fn message(&mut self, message: Message, frame: &[u8], to: Option<u64>) -> Worth {
        match message {
            Message::Response { id, outcome } => {
                let number = id.as_ref().and_then(envelope::request_number);
                let outcome = outcome.map_err(RequestError::Rpc);
                // Some servers answer what they cannot read with an id of their own.
                let meant = number.or(to);
                if meant.is_some_and(|number| self.shared.0.complete(number, outcome)) {
                    return Worth::Solicited;
                }
                let what = match id {
                    Some(_) => "an answer to a request that is not waiting",
                    None => "an answer without an id",
                };
                self.report(what, frame);
                // A late answer is no junk.
                match number {
                    Some(number) if self.shared.0.has_asked(number) => Worth::Unsolicited,
                    _ => Worth::Junk,
                }
            }
            Message::Malformed { id, reason } => self.fail_or_report(id.as_ref(), &reason, frame),
            Message::Request { id, method, params } => self.serve(&id, method, params),
            Message::Notification { method, params } => {
                self.notification(&method, params);
                Worth::Unsolicited
            }
        }
    }

    fn notification(&self, method: &str, params: Option<Json>) {
        match (method, params) {
            ("notifications/progress", Some(params)) => self.progress(&params),
            ("notifications/cancelled", params) => {
                let id = params.as_ref().and_then(|params| params.get("requestId"));
                match id.and_then(|id| self.shared.0.served(&id)) {
                    Some(task) => task.abort(),
                    None => self.handler.notification(method, params),
                }
            }
            (_, params) => self.handler.notification(method, params),
        }
    }

    /// Reports junk: the first few messages one by one, later ones now and then.
    fn report(&mut self, what: &str, frame: &[u8]) {
        match self.flow.sample() {
            None => {}
            Some(number) if number > REPORTED => {
                let what = format!("{what} (unusable message {number} of this connection)");
                self.handler.nonsense(&what, frame);
            }
            Some(_) => self.handler.nonsense(what, frame),
        }
    }

    /// Fails the call that a broken message was the answer to, or reports it where there is none.
    fn fail_or_report(&mut self, id: Option<&Json>, what: &str, frame: &[u8]) -> Worth {
        let number = id.and_then(envelope::request_number);
        let delivered = number.is_some_and(|number| {
            self.shared
                .0
                .complete(number, Err(RequestError::Malformed(what.to_owned())))
        });
        if delivered {
            return Worth::Solicited;
        }
        self.report(what, frame);
        Worth::Junk
    }

    fn progress(&self, params: &Json) {
        let token = params
            .get("progressToken")
            .and_then(|token| envelope::request_number(&token));
        let Some(token) = token else {
            return;
        };
        self.shared.0.progress(token, || Progress {
            progress: params.field("progress").unwrap_or_default(),
            total: params.field("total"),
            message: params
                .get("message")
                .and_then(|message| message.as_string())
                .map(String::from),
        });
    }

    fn serve(&mut self, id: &Json, method: bytestring::ByteString, params: Option<Json>) -> Worth {
        if id.as_str().len() > MAX_NAME || method.len() > MAX_NAME {
            let what = "a request whose id or method is too long";
            self.report(what, method.as_bytes());
            return Worth::Junk;
        }
        // A copy: an answer that waits to be sent must not keep the whole message alive.
        let id = id.to_owned_text();
        if &*method == "ping" {
            self.answer(id, Ok(Json::empty_object()));
            return Worth::Request;
        }
        let Ok(permit) = Arc::clone(&self.serving).try_acquire_owned() else {
            let error = RpcError::new(RpcError::INTERNAL_ERROR, "too many requests at once");
            self.answer(id, Err(error));
            return Worth::Request;
        };
        let asks = self.handler.asks_person(&method);
        let work = self.handler.request(method, params);
        let shared = Arc::clone(&self.shared.0);
        let answered = id.clone();
        // The task starts only once it stands in the table: otherwise a quick answer could miss its own entry.
        let (entered, start) = oneshot::channel::<()>();
        let accepted = self.shared.0.serve(&id, || {
            tokio::spawn(async move {
                let _permit = permit;
                if start.await.is_err() {
                    return;
                }
                let _pause = asks.then(|| shared.pause());
                let mut answer = AnswerOnDrop {
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
            let what = "a second request with an id that is being answered";
            self.report(what, id.as_str().as_bytes());
            return Worth::Junk;
        }
        Worth::Request
    }

    fn answer(&self, id: Json, outcome: Result<Json, RpcError>) {
        let _: Result<(), Closed> = self.shared.0.enqueue(Outgoing::Response { id, outcome });
    }
}
