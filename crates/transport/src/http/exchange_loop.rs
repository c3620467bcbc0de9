//! The receiving half of both HTTP transports: it runs the exchanges of a link in one task.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::Aborted;
use futures_util::stream::{FuturesUnordered, Stream as _};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use trunkline_wire::transport::{CloseReason, Closed, Incoming, Outgoing};

use super::inbound_queue::{CLOSE_GRACE, InboundQueue};

/// The most notifications and responses that are sent at once, and that wait. A server that asks
/// without end and does not accept our responses must not cost more; the surplus is dropped.
pub(super) const MAX_NOTIFICATIONS: usize = 8;
const MAX_WAITING_NOTIFICATIONS: usize = 4096;

/// An exchange in flight; its output says which kind has completed.
pub(super) type Exchange<C> = Pin<Box<dyn Future<Output = Result<C, Aborted>> + Send>>;

/// The sending side of a link's outbox.
pub(super) struct Outbox(mpsc::UnboundedSender<Outgoing>);

impl Outbox {
    pub(super) fn send(&self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        for message in batch.drain(..) {
            let sent = self.0.send(message);
            sent.map_err(|_| Closed::new(CloseReason::ByPeer))?;
        }
        Ok(())
    }
}

/// The outgoing messages and the exchanges of one link.
pub(super) struct Exchanges<C> {
    outbox: mpsc::UnboundedReceiver<Outgoing>,
    running: FuturesUnordered<Exchange<C>>,
    waiting_requests: VecDeque<Outgoing>,
    /// Notifications and responses wait apart from requests: the server may need our response
    /// before it sends its own.
    waiting_notifications: VecDeque<Outgoing>,
    /// Set once the link has closed: the time limit for exchanges in flight.
    grace: Option<Pin<Box<Sleep>>>,
}

impl<C> Exchanges<C> {
    pub(super) fn new() -> (Outbox, Self) {
        let (sender, outbox) = mpsc::unbounded_channel();
        let exchanges = Self {
            outbox,
            running: FuturesUnordered::new(),
            waiting_requests: VecDeque::new(),
            waiting_notifications: VecDeque::new(),
            grace: None,
        };
        (Outbox(sender), exchanges)
    }

    pub(super) fn run(&mut self, exchange: Exchange<C>) {
        self.running.push(exchange);
    }

    /// Queues a notification, behind those that wait.
    pub(super) fn hold_notification(&mut self, message: Outgoing) {
        self.waiting_notifications.push_back(message);
    }

    /// Removes a request that was not sent yet; true if there was one.
    fn forget_request(&mut self, cancelled: u64) -> bool {
        let mut waiting = self.waiting_requests.iter();
        let at = waiting.position(|message| match message {
            Outgoing::Request { id, .. } => *id == cancelled,
            _ => false,
        });
        at.is_some_and(|at| self.waiting_requests.remove(at).is_some())
    }
}

/// A receiving half: decides which messages may be sent, and sends them.
pub(super) trait ExchangeLoop {
    /// The kinds of exchanges that complete.
    type Completed;

    fn exchanges(&mut self) -> &mut Exchanges<Self::Completed>;

    fn inbound(&self) -> &InboundQueue;

    fn may_send(&self, message: &Outgoing) -> bool;

    /// Whether a request may be sent before one that waits.
    fn may_overtake(&self) -> bool {
        false
    }

    /// Starts the exchange of a message.
    fn start(&mut self, message: Outgoing);

    fn complete(&mut self, completed: Self::Completed);

    /// Cancels a request that was sent; `message` tells the server.
    fn cancel(&mut self, id: u64, message: Outgoing);

    /// Whether exchanges are in flight that a closing link waits for.
    fn is_busy(&self) -> bool;

    /// Called when there is nothing else to do.
    fn poll_idle(&mut self, _context: &mut Context) {}

    /// Runs the exchanges until something arrives.
    fn poll_receive(&mut self, context: &mut Context) -> Poll<Result<Incoming, Closed>> {
        loop {
            if let Some(incoming) = self.inbound().pop() {
                return Poll::Ready(Ok(incoming));
            }
            self.inbound().mark_drained();
            if let Some(closed) = self.inbound().closed() {
                return self.poll_close(closed, context);
            }
            while let Poll::Ready(message) = self.exchanges().outbox.poll_recv(context) {
                match message {
                    Some(message) => self.accept(message),
                    // The peer has dropped the sending half.
                    None => return Poll::Ready(Err(Closed::new(CloseReason::ByUs))),
                }
            }
            match Pin::new(&mut self.exchanges().running).poll_next(context) {
                Poll::Ready(Some(Ok(completed))) => {
                    self.complete(completed);
                    self.send_waiting();
                }
                Poll::Ready(Some(Err(Aborted))) => {}
                Poll::Ready(None) | Poll::Pending => {
                    if let Some(incoming) = self.inbound().pop() {
                        return Poll::Ready(Ok(incoming));
                    }
                    if self.inbound().closed().is_none() {
                        self.poll_idle(context);
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Fails the messages that were not sent, and gives those in flight a little time: each learns
    /// for itself whether the server has refused it.
    fn poll_close(
        &mut self,
        closed: Closed,
        context: &mut Context,
    ) -> Poll<Result<Incoming, Closed>> {
        while let Poll::Ready(Some(message)) = self.exchanges().outbox.poll_recv(context) {
            self.exchanges().waiting_requests.push_back(message);
        }
        for message in std::mem::take(&mut self.exchanges().waiting_requests) {
            self.inbound().reject(&message, &closed);
        }
        self.exchanges().waiting_notifications.clear();
        while let Poll::Ready(Some(completed)) =
            Pin::new(&mut self.exchanges().running).poll_next(context)
        {
            if let Ok(completed) = completed {
                self.complete(completed);
            }
        }
        if let Some(incoming) = self.inbound().pop() {
            return Poll::Ready(Ok(incoming));
        }
        let grace = self.exchanges().grace.get_or_insert_with(|| {
            let grace = tokio::time::sleep(CLOSE_GRACE);
            Box::pin(grace)
        });
        let expired = grace.as_mut().poll(context).is_ready();
        if expired || !self.is_busy() {
            return Poll::Ready(Err(closed));
        }
        Poll::Pending
    }

    /// Sends a message, or holds it while it must wait.
    fn accept(&mut self, message: Outgoing) {
        match message {
            Outgoing::Cancel { id, .. } => {
                if !self.exchanges().forget_request(id) {
                    self.cancel(id, message);
                }
            }
            message if self.may_send(&message) => self.start(message),
            message @ Outgoing::Request { .. } => {
                self.exchanges().waiting_requests.push_back(message);
            }
            message => {
                let waiting = &mut self.exchanges().waiting_notifications;
                if waiting.len() < MAX_WAITING_NOTIFICATIONS {
                    waiting.push_back(message);
                }
            }
        }
    }

    /// Sends the waiting messages that may be sent now.
    fn send_waiting(&mut self) {
        while let Some(message) = self.exchanges().waiting_notifications.pop_front() {
            if !self.may_send(&message) {
                self.exchanges().waiting_notifications.push_front(message);
                break;
            }
            self.start(message);
        }
        for _ in 0..self.exchanges().waiting_requests.len() {
            let Some(message) = self.exchanges().waiting_requests.pop_front() else {
                return;
            };
            if self.may_send(&message) {
                self.start(message);
            } else if self.may_overtake() {
                self.exchanges().waiting_requests.push_back(message);
            } else {
                self.exchanges().waiting_requests.push_front(message);
                return;
            }
        }
    }
}
