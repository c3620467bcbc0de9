//! Who waits for what: the requests under way in both directions, and the links to the servers. One lock guards it all, and it
//! is never held across an await.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use trunkline_wire::Json;
use trunkline_wire::transport::{
    CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming, Outgoing,
};

use super::control::Ours;
use super::inquiry::{Inquiry, Withdrawn};
use super::lines::{Lines, Tag};
use super::{RequestFailure, codes};
use crate::MAX_MESSAGE_BYTES;

/// How many requests of the embedding program may be under way at once.
pub(super) const MAX_SERVING: usize = 4096;

/// How many messages that nobody asked for may wait for one server's reader.
const MAX_UNREAD: usize = 8192;

/// How many bytes of such messages may wait; a single one may be longer (SEC-4).
const MAX_UNREAD_BYTES: usize = MAX_MESSAGE_BYTES;

/// What arrives for one link; an `Err` ends it.
pub(super) type Delivery = Result<Incoming, Closed>;

/// What the writer is handed.
pub(super) enum Written {
    Lines(Lines),
    /// Tell when everything before this has been written.
    Flush(oneshot::Sender<()>),
}

/// Hears of lines that are of no use to anyone.
pub(super) type Report = Box<dyn Fn(&str, &[u8]) + Send + Sync>;

pub(super) struct Router {
    state: Mutex<State>,
    written: mpsc::Sender<Written>,
    told: AtomicU64,
    pub(super) closed: watch::Sender<Option<Closed>>,
    pub(super) report: Report,
}

#[derive(Default)]
pub(super) struct State {
    /// Counts links, and requests of the bridge itself.
    next: u64,
    /// Our requests.
    pub(super) waiting: HashMap<Ours, Waiting>,
    /// The newest link to each server.
    pub(super) links: HashMap<Arc<str>, Arc<Link>>,
    /// The embedding program's requests, by the id of the control request.
    pub(super) serving: HashMap<Json, Serving>,
    /// Of those, the ones that servers are to be answered: the link and the message's own id lead to the control request's.
    pub(super) asked: HashMap<(u64, Json), Json>,
    pub(super) inquiries: Option<mpsc::Sender<Inquiry>>,
}

/// Who waits for the answer to our request.
pub(super) enum Waiting {
    Call(Arc<Link>),
    Request(oneshot::Sender<Result<Json, RequestFailure>>),
}

/// Who answers the embedding program.
pub(super) enum Serving {
    Inquiry(Withdrawn),
    Message { link: Arc<Link>, id: Json },
}

/// The way to the reader of one server's connection.
pub(super) struct Link {
    pub(super) number: u64,
    name: Arc<str>,
    /// The name as JSON.
    pub(super) quoted: Json,
    pub(super) inbox: mpsc::UnboundedSender<Delivery>,
    unread: AtomicUsize,
    unread_bytes: AtomicUsize,
}

impl Link {
    /// Delivers a message that nobody asked for; false when too many are unread.
    pub(super) fn deliver(&self, frame: Bytes) -> bool {
        let bytes = frame.len();
        let unread = self.unread.fetch_add(1, Ordering::Relaxed);
        let before = self.unread_bytes.fetch_add(bytes, Ordering::Relaxed);
        if unread >= MAX_UNREAD || before > 0 && before + bytes > MAX_UNREAD_BYTES {
            self.taken(bytes);
            return false;
        }
        let _ = self.inbox.send(Ok(Incoming::Frame(frame)));
        true
    }

    /// One such message has been taken.
    pub(super) fn taken(&self, bytes: usize) {
        self.unread.fetch_sub(1, Ordering::Relaxed);
        self.unread_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn lose(&self, number: u64, kind: DeliveryErrorKind, why: &str) {
        // The embedding program had the request, so there is no telling how far it got.
        let failure = DeliveryError::new(kind, why, true);
        let to = number;
        let _ = self
            .inbox
            .send(Ok(Incoming::DeliveryFailed { to, failure }));
    }
}

impl Router {
    pub(super) fn new(
        written: mpsc::Sender<Written>,
        inquiries: mpsc::Sender<Inquiry>,
        report: Report,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                inquiries: Some(inquiries),
                ..State::default()
            }),
            written,
            told: AtomicU64::new(0),
            closed: watch::Sender::new(None),
            report,
        }
    }

    /// Hands whole lines to the writer, waiting for room.
    pub(super) async fn write(&self, lines: Lines) -> Result<(), Closed> {
        let mut closed = self.closed.subscribe();
        let closed = closed.wait_for(Option::is_some);
        tokio::select! {
            biased;
            _ = closed => {}
            () = std::future::ready(()), if lines.is_empty() => return Ok(()),
            sent = self.written.send(Written::Lines(lines)) => if sent.is_ok() {
                return Ok(());
            }
        }
        Err(self.why_closed())
    }

    /// The same for what nobody can wait with: lost when there is no room.
    pub(super) fn write_now(&self, lines: Lines) {
        let _ = self.written.try_send(Written::Lines(lines));
    }

    /// Waits until what is queued has been written.
    pub(super) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.written.send(Written::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    /// A new link to a server; an older one of the same name is ended.
    pub(super) fn link(
        self: &Arc<Self>,
        name: &str,
    ) -> (Arc<Link>, mpsc::UnboundedReceiver<Delivery>) {
        let (inbox, receiver) = mpsc::unbounded_channel();
        let name: Arc<str> = name.into();
        let mut state = self.lock();
        state.next += 1;
        let link = Arc::new(Link {
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

    /// Ends a link: what it waits for is withdrawn, and who waits for it is told.
    pub(super) fn unlink(&self, link: &Arc<Link>, why: &Closed) {
        let mut lines = Lines::default();
        let mut state = self.lock();
        if state
            .links
            .get(&link.name)
            .is_some_and(|newest| Arc::ptr_eq(newest, link))
        {
            state.links.remove(&link.name);
        }
        state.waiting.retain(|ours, _| {
            let keep = ours.link != link.number;
            if !keep {
                lines.cancel(*ours);
            }
            keep
        });
        state.asked.retain(|(of, _), _| *of != link.number);
        state.serving.retain(|id, serving| match serving {
            Serving::Message { link: of, .. } if of.number == link.number => {
                let error = format!("the connection to the server \"{}\" has ended", link.name);
                lines.error(id, codes::NOT_CONNECTED, &error, None);
                false
            }
            _ => true,
        });
        drop(state);
        if !lines.is_empty() {
            self.write_now(lines);
        }
        let _ = link.inbox.send(Err(why.clone()));
    }

    /// Writes a message of one of the links, and remembers what it waits for.
    pub(super) fn outgoing(&self, link: &Arc<Link>, message: &Outgoing, lines: &mut Lines) {
        let ours = |number| Ours {
            link: link.number,
            number,
        };
        match message {
            Outgoing::Request { id, .. } => {
                let call = Waiting::Call(Arc::clone(link));
                self.lock().waiting.insert(ours(*id), call);
                lines.message(Tag::Asked(ours(*id)), &link.quoted, message);
            }
            Outgoing::Notification { .. } => lines.message(self.tell(), &link.quoted, message),
            Outgoing::Cancel { id, .. } => {
                // The server is told in its own words, then the request itself is withdrawn.
                if self.lock().waiting.remove(&ours(*id)).is_some() {
                    lines.message(self.tell(), &link.quoted, message);
                    lines.cancel(ours(*id));
                }
            }
            Outgoing::Response { id, .. } => {
                let mut state = self.lock();
                // Withdrawn meanwhile: then nobody wants it.
                let Some(control) = state.asked.remove(&(link.number, id.clone())) else {
                    return;
                };
                state.serving.remove(&control);
                lines.message_answer(&control, message);
            }
        }
    }

    fn tell(&self) -> Tag {
        Tag::Told(self.told.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers a request of the bridge itself.
    pub(super) fn ask(
        &self,
    ) -> Result<(Ours, oneshot::Receiver<Result<Json, RequestFailure>>), Closed> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        if let Some(closed) = &*self.closed.borrow() {
            return Err(closed.clone());
        }
        state.next += 1;
        let ours = Ours {
            link: 0,
            number: state.next,
        };
        state.waiting.insert(ours, Waiting::Request(answer));
        Ok((ours, answered))
    }

    /// Withdraws a request of the bridge itself, unless it has been answered.
    pub(super) fn withdraw(&self, ours: Ours) {
        if self.lock().waiting.remove(&ours).is_some() {
            let mut lines = Lines::default();
            lines.cancel(ours);
            self.write_now(lines);
        }
    }

    /// Ends a request of the embedding program; false when it has been withdrawn.
    pub(super) fn served(&self, id: &Json) -> bool {
        self.lock().serving.remove(id).is_some()
    }

    /// Ends everything. The first reason counts.
    pub(super) fn close(&self, why: &Closed) {
        let (links, waiting, serving) = {
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
            state.asked.clear();
            (
                std::mem::take(&mut state.links),
                std::mem::take(&mut state.waiting),
                std::mem::take(&mut state.serving),
            )
        };
        for link in links.into_values() {
            let _ = link.inbox.send(Err(why.clone()));
        }
        for waiting in waiting.into_values() {
            if let Waiting::Request(answer) = waiting {
                let _ = answer.send(Err(RequestFailure::Closed(why.clone())));
            }
        }
        for serving in serving.into_values() {
            if let Serving::Inquiry(withdrawn) = serving {
                withdrawn.withdraw();
            }
        }
    }

    pub(super) fn why_closed(&self) -> Closed {
        let closed = self.closed.borrow().clone();
        closed.unwrap_or_else(|| Closed::new(CloseReason::ByUs))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
