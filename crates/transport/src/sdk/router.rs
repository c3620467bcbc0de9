//! The requests in flight in both directions, and the links to the servers. One lock guards them,
//! never held across an await.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use trunkline_wire::Json;
use trunkline_wire::transport::{
    CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming, Outgoing,
};

use super::control::OutboundId;
use super::inquiry::{CancelSignal, Inquiry};
use super::output_lines::{MessageTag, OutputLines};
use super::{RequestFailure, codes};
use crate::MAX_MESSAGE_BYTES;

/// The most requests of the embedding program in flight.
pub(super) const MAX_INBOUND: usize = 4096;

/// The most unread messages of one server, besides responses.
const MAX_UNREAD: usize = 8192;

/// The most bytes of such messages; a single one may be longer (SEC-4).
const MAX_UNREAD_BYTES: usize = MAX_MESSAGE_BYTES;

/// A delivery to one link; an `Err` closes it.
pub(super) type Delivery = Result<Incoming, Closed>;

/// A command for the writer.
pub(super) enum WriteCommand {
    Lines(OutputLines),
    /// Notify once everything before is written.
    Flush(oneshot::Sender<()>),
}

/// Called with invalid lines.
pub(super) type Report = Box<dyn Fn(&str, &[u8]) + Send + Sync>;

pub(super) struct Router {
    state: Mutex<State>,
    written: mpsc::Sender<WriteCommand>,
    notifications: AtomicU64,
    pub(super) closed: watch::Sender<Option<Closed>>,
    pub(super) report: Report,
}

#[derive(Default)]
pub(super) struct State {
    /// The last id of a link or of a bridge request.
    next: u64,
    /// Our requests in flight.
    pub(super) pending: HashMap<OutboundId, PendingRequest>,
    /// The newest link to each server.
    pub(super) links: HashMap<Arc<str>, Arc<ServerLink>>,
    /// Requests of the embedding program, by control request id.
    pub(super) inbound: HashMap<Json, InboundRequest>,
    /// Maps the link and the MCP id of a server's request to its control request id.
    pub(super) message_ids: HashMap<(u64, Json), Json>,
    pub(super) inquiries: Option<mpsc::Sender<Inquiry>>,
}

/// The consumer of the response to our request.
pub(super) enum PendingRequest {
    Call(Arc<ServerLink>),
    Bridge(oneshot::Sender<Result<Json, RequestFailure>>),
}

/// The handler of a request of the embedding program.
pub(super) enum InboundRequest {
    Inquiry(CancelSignal),
    Message { link: Arc<ServerLink>, id: Json },
}

/// The link to one server's transport.
pub(super) struct ServerLink {
    pub(super) number: u64,
    name: Arc<str>,
    /// The name as JSON.
    pub(super) quoted: Json,
    pub(super) inbox: mpsc::UnboundedSender<Delivery>,
    unread: AtomicUsize,
    unread_bytes: AtomicUsize,
}

impl ServerLink {
    /// Delivers a request or notification; false when too many are unread.
    pub(super) fn deliver(&self, frame: Bytes) -> bool {
        let bytes = frame.len();
        let unread = self.unread.fetch_add(1, Ordering::Relaxed);
        let before = self.unread_bytes.fetch_add(bytes, Ordering::Relaxed);
        if unread >= MAX_UNREAD || before > 0 && before + bytes > MAX_UNREAD_BYTES {
            self.mark_read(bytes);
            return false;
        }
        let _ = self.inbox.send(Ok(Incoming::Frame(frame)));
        true
    }

    /// Counts such a message as read.
    pub(super) fn mark_read(&self, bytes: usize) {
        self.unread.fetch_sub(1, Ordering::Relaxed);
        self.unread_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn fail(&self, number: u64, kind: DeliveryErrorKind, why: &str) {
        // The embedding program had the request, so it may have run.
        let failure = DeliveryError::new(kind, why, true);
        let to = number;
        let _ = self
            .inbox
            .send(Ok(Incoming::DeliveryFailed { to, failure }));
    }
}

impl Router {
    pub(super) fn new(
        written: mpsc::Sender<WriteCommand>,
        inquiries: mpsc::Sender<Inquiry>,
        report: Report,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                inquiries: Some(inquiries),
                ..State::default()
            }),
            written,
            notifications: AtomicU64::new(0),
            closed: watch::Sender::new(None),
            report,
        }
    }

    /// Queues lines for the writer, waiting for room.
    pub(super) async fn write(&self, lines: OutputLines) -> Result<(), Closed> {
        let mut closed = self.closed.subscribe();
        let closed = closed.wait_for(Option::is_some);
        tokio::select! {
            biased;
            _ = closed => {}
            () = std::future::ready(()), if lines.is_empty() => return Ok(()),
            sent = self.written.send(WriteCommand::Lines(lines)) => if sent.is_ok() {
                return Ok(());
            }
        }
        Err(self.close_reason())
    }

    /// Queues lines without waiting; they are dropped when there is no room.
    pub(super) fn try_write(&self, lines: OutputLines) {
        let _ = self.written.try_send(WriteCommand::Lines(lines));
    }

    /// Waits until the queue is written.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.written.send(WriteCommand::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    /// Creates a link to a server and closes an older one.
    pub(super) fn link(
        self: &Arc<Self>,
        name: &str,
    ) -> (Arc<ServerLink>, mpsc::UnboundedReceiver<Delivery>) {
        let (inbox, receiver) = mpsc::unbounded_channel();
        let name: Arc<str> = name.into();
        let mut state = self.lock();
        state.next += 1;
        let link = Arc::new(ServerLink {
            number: state.next,
            quoted: Json::encode(&*name).unwrap_or_else(|_| Json::null()),
            name: Arc::clone(&name),
            inbox,
            unread: AtomicUsize::new(0),
            unread_bytes: AtomicUsize::new(0),
        });
        let old = match &*self.closed.borrow() {
            Some(closed) => {
                let _ = link.inbox.send(Err(closed.clone()));
                None
            }
            None => state.links.insert(name, Arc::clone(&link)),
        };
        drop(state);
        if let Some(old) = old {
            self.unlink(&old, &Closed::new(CloseReason::ByUs));
        }
        (link, receiver)
    }

    /// Closes a link: cancels its requests and fails those that wait for it.
    pub(super) fn unlink(&self, link: &Arc<ServerLink>, why: &Closed) {
        let mut lines = OutputLines::default();
        let mut state = self.lock();
        if state
            .links
            .get(&link.name)
            .is_some_and(|newest| Arc::ptr_eq(newest, link))
        {
            state.links.remove(&link.name);
        }
        state.pending.retain(|request_id, _| {
            let keep = request_id.link != link.number;
            if !keep {
                lines.cancel(*request_id);
            }
            keep
        });
        state.message_ids.retain(|(of, _), _| *of != link.number);
        state.inbound.retain(|id, inbound| match inbound {
            InboundRequest::Message { link: of, .. } if of.number == link.number => {
                let error = format!("the connection to the server \"{}\" has ended", link.name);
                lines.error(id, codes::NOT_CONNECTED, &error, None);
                false
            }
            _ => true,
        });
        drop(state);
        if !lines.is_empty() {
            self.try_write(lines);
        }
        let _ = link.inbox.send(Err(why.clone()));
    }

    /// Encodes a message of a link and registers the request.
    pub(super) fn encode_outgoing(
        &self,
        link: &Arc<ServerLink>,
        message: &Outgoing,
        lines: &mut OutputLines,
    ) {
        let request_id = |number| OutboundId {
            link: link.number,
            number,
        };
        match message {
            Outgoing::Request { id, .. } => {
                let call = PendingRequest::Call(Arc::clone(link));
                self.lock().pending.insert(request_id(*id), call);
                lines.message(MessageTag::Request(request_id(*id)), &link.quoted, message);
            }
            Outgoing::Notification { .. } => {
                lines.message(self.notification_tag(), &link.quoted, message);
            }
            Outgoing::Cancel { id, .. } => {
                // Cancel the MCP request, then the control request.
                if self.lock().pending.remove(&request_id(*id)).is_some() {
                    lines.message(self.notification_tag(), &link.quoted, message);
                    lines.cancel(request_id(*id));
                }
            }
            Outgoing::Response { id, .. } => {
                let mut state = self.lock();
                // It was cancelled meanwhile.
                let Some(control) = state.message_ids.remove(&(link.number, id.clone())) else {
                    return;
                };
                state.inbound.remove(&control);
                lines.message_answer(&control, message);
            }
        }
    }

    fn notification_tag(&self) -> MessageTag {
        MessageTag::Notification(self.notifications.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers a bridge request.
    pub(super) fn register_request(
        &self,
    ) -> Result<(OutboundId, oneshot::Receiver<Result<Json, RequestFailure>>), Closed> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        if let Some(closed) = &*self.closed.borrow() {
            return Err(closed.clone());
        }
        state.next += 1;
        let request_id = OutboundId {
            link: 0,
            number: state.next,
        };
        state
            .pending
            .insert(request_id, PendingRequest::Bridge(answer));
        Ok((request_id, answered))
    }

    /// Cancels a bridge request, unless it has a response.
    pub(super) fn cancel_request(&self, request_id: OutboundId) {
        if self.lock().pending.remove(&request_id).is_some() {
            let mut lines = OutputLines::default();
            lines.cancel(request_id);
            self.try_write(lines);
        }
    }

    /// Removes a request of the embedding program; false when it was cancelled.
    pub(super) fn remove_inbound(&self, id: &Json) -> bool {
        self.lock().inbound.remove(id).is_some()
    }

    /// Closes everything. The first reason counts.
    pub(super) fn close(&self, why: &Closed) {
        let (links, pending, inbound) = {
            let mut state = self.lock();
            let first = self.closed.send_if_modified(|closed| {
                let first = closed.is_none();
                closed.get_or_insert_with(|| why.clone());
                first
            });
            if !first {
                return;
            }
            state.inquiries = None;
            state.message_ids.clear();
            (
                std::mem::take(&mut state.links),
                std::mem::take(&mut state.pending),
                std::mem::take(&mut state.inbound),
            )
        };
        for link in links.into_values() {
            let _ = link.inbox.send(Err(why.clone()));
        }
        for pending in pending.into_values() {
            if let PendingRequest::Bridge(answer) = pending {
                let _ = answer.send(Err(RequestFailure::Closed(why.clone())));
            }
        }
        for inbound in inbound.into_values() {
            if let InboundRequest::Inquiry(withdrawn) = inbound {
                withdrawn.cancel();
            }
        }
    }

    pub(super) fn close_reason(&self) -> Closed {
        let closed = self.closed.borrow().clone();
        closed.unwrap_or_else(|| Closed::new(CloseReason::ByUs))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
