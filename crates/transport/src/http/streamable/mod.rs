//! Streamable HTTP (TRN-1, http), both eras.
//!
//! Every message is a POST of its own. All of them run inside the receiving half: one task sends, waits and reads for the
//! whole link, and no answer changes hands between tasks before it reaches the peer.

mod exchange;
mod link;
mod listen;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable, Aborted};
use futures_util::stream::{FuturesUnordered, Stream as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep};
use trunkline_wire::transport::{
    CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming, Outgoing, ReceiveHalf,
    SendHalf, Transport,
};
use url::Url;

use self::link::{Link, is_modern};
use super::courier::Courier;
use super::credentials::Credentials;
use super::headers;
use super::helper::HeadersHelper;
use super::inlet::END_GRACE;
use crate::net::{Dialer, TlsFiles};

/// How many requests may wait for their answers at once; each takes a connection over HTTP/1.1.
pub const MAX_IN_FLIGHT: usize = 128;

/// How many answers and notifications may be on their way at once, and how many may wait. A server that asks without end and does
/// not take our answers must not cost more than that; what it will not hear is dropped.
pub(super) const MAX_TELLING: usize = 8;
const MAX_UNTOLD: usize = 4096;

/// How long a call waits for the server's own stream to be open: what the server asks during the call may come on that.
const STREAM_PATIENCE: Duration = Duration::from_secs(1);

/// How long a server may take to accept that we are ready.
pub(super) const READY_LIMIT: Duration = Duration::from_secs(5);

/// How long ending the session may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// How often unused connections are looked through.
const PRUNE_EVERY: Duration = Duration::from_secs(15);

/// A server behind HTTP.
#[derive(Clone)]
pub struct HttpServer {
    /// Where it is.
    pub url: Url,
    /// Headers to send with every request; their values are secret.
    pub headers: Vec<(String, String)>,
    /// How to trust it, and how it trusts us.
    pub files: TlsFiles,
    /// Who we are.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// A command that prints more headers.
    pub helper: Option<Arc<HeadersHelper>>,
}

/// Shows no secret (SEC-1).
impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpServer")
            .field("host", &self.url.host_str())
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

impl HttpServer {
    /// A server at that URL, with nothing else to say about it.
    pub fn at(url: Url) -> Self {
        Self {
            url,
            headers: Vec::new(),
            files: TlsFiles::default(),
            credentials: None,
            helper: None,
        }
    }

    pub(super) fn courier(
        &self,
        dialer: &Dialer,
    ) -> Result<(Courier, http::HeaderMap), DeliveryError> {
        let mut own = headers::own(&self.headers).map_err(|error| {
            DeliveryError::new(DeliveryErrorKind::Unreachable, error.to_string(), false)
        })?;
        if let Some(basic) = headers::basic(&self.url) {
            own.entry(http::header::AUTHORIZATION).or_insert(basic);
        }
        // Who writes down a header of their own does not want ours.
        let credentials = self
            .credentials
            .clone()
            .filter(|_| !own.contains_key(http::header::AUTHORIZATION));
        let courier = Courier::new(
            dialer,
            &self.url,
            self.files.clone(),
            credentials,
            self.helper.clone(),
        )?;
        Ok((courier, own))
    }

    /// A link to it by Streamable HTTP. Nothing is sent yet.
    pub fn streamable(&self, dialer: &Dialer) -> Result<StreamableTransport, DeliveryError> {
        let (courier, own) = self.courier(dialer)?;
        let link = Arc::new(Link::new(courier, own));
        let (outbox, inbox) = mpsc::unbounded_channel();
        Ok(StreamableTransport {
            sender: StreamableSender {
                outbox,
                link: Arc::clone(&link),
            },
            receiver: StreamableReceiver {
                link,
                inbox,
                exchanges: FuturesUnordered::new(),
                under_way: HashMap::new(),
                held: VecDeque::new(),
                untold: VecDeque::new(),
                telling: 0,
                gate: Gate::Open,
                prune: None,
                grace: None,
            },
        })
    }
}

/// A link by Streamable HTTP.
pub struct StreamableTransport {
    sender: StreamableSender,
    receiver: StreamableReceiver,
}

impl Transport for StreamableTransport {
    type Sender = StreamableSender;
    type Receiver = StreamableReceiver;

    const USES_ROUTING: bool = true;

    fn split(self) -> (StreamableSender, StreamableReceiver) {
        (self.sender, self.receiver)
    }
}

/// The half that hands messages over, and that ends the session.
pub struct StreamableSender {
    outbox: mpsc::UnboundedSender<Outgoing>,
    link: Arc<Link>,
}

impl SendHalf for StreamableSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        for message in batch.drain(..) {
            let sent = self.outbox.send(message);
            sent.map_err(|_| Closed::new(CloseReason::ByPeer))?;
        }
        Ok(())
    }

    async fn close(self) {
        let _ = tokio::time::timeout(GOODBYE, self.link.delete()).await;
    }
}

/// The half in which everything happens.
pub struct StreamableReceiver {
    link: Arc<Link>,
    inbox: mpsc::UnboundedReceiver<Outgoing>,
    exchanges: FuturesUnordered<Exchange>,
    /// The requests that wait for their answers.
    under_way: HashMap<u64, UnderWay>,
    /// Requests that have to wait for something.
    held: VecDeque<Outgoing>,
    /// Answers and notifications that have to wait, apart from requests: a request may wait for one of them.
    untold: VecDeque<Outgoing>,
    telling: usize,
    gate: Gate,
    prune: Option<Pin<Box<Sleep>>>,
    /// Set once the link has ended: how long what is under way may still take.
    grace: Option<Pin<Box<Sleep>>>,
}

type Exchange = Pin<Box<dyn Future<Output = Result<Done, Aborted>> + Send>>;

/// A request that waits for its answer.
struct UnderWay {
    exchange: AbortHandle,
    /// To a modern server, closing the stream says that the answer is no longer wanted.
    modern: bool,
}

/// What has come to an end.
enum Done {
    Request(u64),
    /// The server knows that we are ready.
    Ready,
    /// The server's own stream is open, or will not come.
    Settled,
    /// A message that is not answered was sent.
    Told,
    Other,
}

/// What messages wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// The server must know that we are ready before it hears anything else.
    Ready,
    /// The server's own stream should be open before anything is called.
    Stream,
}

impl ReceiveHalf for StreamableReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        poll_fn(|context| self.poll(context)).await
    }
}

impl StreamableReceiver {
    fn poll(&mut self, context: &mut Context) -> Poll<Result<Incoming, Closed>> {
        loop {
            if let Some(incoming) = self.link.inlet.take() {
                return Poll::Ready(Ok(incoming));
            }
            self.link.inlet.is_empty_now();
            if let Some(closed) = self.link.inlet.ended() {
                return self.poll_end(&closed, context);
            }
            while let Poll::Ready(message) = self.inbox.poll_recv(context) {
                match message {
                    Some(message) => self.take(message),
                    // The peer has let go of the other half.
                    None => return Poll::Ready(Err(Closed::new(CloseReason::ByUs))),
                }
            }
            match Pin::new(&mut self.exchanges).poll_next(context) {
                Poll::Ready(Some(Ok(done))) => self.done(&done),
                Poll::Ready(Some(Err(Aborted))) => {}
                Poll::Ready(None) | Poll::Pending => {
                    if let Some(incoming) = self.link.inlet.take() {
                        return Poll::Ready(Ok(incoming));
                    }
                    if self.link.inlet.ended().is_some() {
                        continue;
                    }
                    self.poll_prune(context);
                    return Poll::Pending;
                }
            }
        }
    }

    /// The link is over. What was never sent says so; what is under way gets a little time, because each of those requests is about to
    /// learn for itself whether it was turned down.
    fn poll_end(
        &mut self,
        closed: &Closed,
        context: &mut Context,
    ) -> Poll<Result<Incoming, Closed>> {
        while let Poll::Ready(Some(message)) = self.inbox.poll_recv(context) {
            self.held.push_back(message);
        }
        for message in self.held.drain(..) {
            self.link.inlet.refuse(&message, closed);
        }
        self.untold.clear();
        while let Poll::Ready(Some(done)) = Pin::new(&mut self.exchanges).poll_next(context) {
            if let Ok(Done::Request(id)) = done
                && self.under_way.remove(&id).is_some()
            {
                self.link.inlet.one_less();
            }
        }
        if let Some(incoming) = self.link.inlet.take() {
            return Poll::Ready(Ok(incoming));
        }
        let grace = self
            .grace
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(END_GRACE)));
        if self.under_way.is_empty() || grace.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(closed.clone()));
        }
        Poll::Pending
    }

    /// Sends a message, or holds it back for as long as it must wait.
    fn take(&mut self, message: Outgoing) {
        match message {
            Outgoing::Cancel { id, .. } => self.cancel(id, message),
            message if self.may_go(&message) => self.start(message),
            message @ Outgoing::Request { .. } => self.held.push_back(message),
            message if self.untold.len() < MAX_UNTOLD => self.untold.push_back(message),
            _ => {}
        }
    }

    fn may_go(&self, message: &Outgoing) -> bool {
        let room = self.under_way.len() < MAX_IN_FLIGHT;
        match (self.gate, message) {
            (Gate::Ready, _) => false,
            (Gate::Stream, Outgoing::Request { method, .. }) => room && method.ends_with("/list"),
            // A stream that stays open takes no room from what ends.
            (_, Outgoing::Request { method, .. }) => room || *method == "subscriptions/listen",
            _ => self.telling < MAX_TELLING,
        }
    }

    fn release(&mut self) {
        while self
            .untold
            .front()
            .is_some_and(|message| self.may_go(message))
        {
            if let Some(message) = self.untold.pop_front() {
                self.start(message);
            }
        }
        for _ in 0..self.held.len() {
            let Some(message) = self.held.pop_front() else {
                return;
            };
            if self.may_go(&message) {
                self.start(message);
            } else if self.gate == Gate::Open {
                // No room; none behind it has any.
                self.held.push_front(message);
                return;
            } else {
                self.held.push_back(message);
            }
        }
    }

    fn cancel(&mut self, id: u64, message: Outgoing) {
        if let Some(at) = self
            .held
            .iter()
            .position(|held| matches!(held, Outgoing::Request { id: held, .. } if *held == id))
        {
            self.held.remove(at);
            return;
        }
        let Some(UnderWay { exchange, modern }) = self.under_way.remove(&id) else {
            return;
        };
        // To a modern server this says it all.
        exchange.abort();
        self.link.inlet.one_less();
        if !modern {
            self.untold.push_back(message);
        }
        self.release();
    }

    fn start(&mut self, message: Outgoing) {
        let link = Arc::clone(&self.link);
        match &message {
            Outgoing::Request { id, routing, .. } => {
                let id = *id;
                let modern = is_modern(routing.version);
                link.inlet.one_more();
                let (exchange, registration) = AbortHandle::new_pair();
                self.under_way.insert(id, UnderWay { exchange, modern });
                let exchange = async move {
                    let unheard = exchange::request(&link, &message)
                        .await
                        .is_err_and(|failure| {
                            let unheard = failure.kind == DeliveryErrorKind::Timeout && !modern;
                            link.inlet.fail(id, failure);
                            unheard
                        });
                    if unheard {
                        Box::pin(exchange::give_up(&link, id)).await;
                    }
                    Done::Request(id)
                };
                self.exchanges
                    .push(Box::pin(Abortable::new(exchange, registration)));
            }
            Outgoing::Notification {
                method: "notifications/initialized",
                ..
            } => {
                self.gate = Gate::Ready;
                self.run(async move {
                    let told = exchange::tell(&link, &message);
                    // One that does not answer this may still answer the rest.
                    if let Ok(Err(failure)) = tokio::time::timeout(READY_LIMIT, told).await {
                        link.inlet.note(&failure);
                    }
                    Done::Ready
                });
            }
            _ => {
                self.telling += 1;
                self.run(async move {
                    if let Err(failure) = exchange::tell(&link, &message).await {
                        link.inlet.note(&failure);
                    }
                    Done::Told
                });
            }
        }
    }

    fn run(&mut self, exchange: impl Future<Output = Done> + Send + 'static) {
        self.exchanges
            .push(Box::pin(async move { Ok(exchange.await) }));
    }

    fn done(&mut self, done: &Done) {
        match done {
            Done::Request(id) => {
                if self.under_way.remove(id).is_some() {
                    self.link.inlet.one_less();
                }
            }
            Done::Ready => {
                self.gate = Gate::Stream;
                let (settled, mut is_settled) = watch::channel(false);
                let link = Arc::clone(&self.link);
                self.run(async move {
                    listen::listen(&link, &settled).await;
                    Done::Other
                });
                self.run(async move {
                    let settled = is_settled.wait_for(|settled| *settled);
                    let _ = tokio::time::timeout(STREAM_PATIENCE, settled).await;
                    Done::Settled
                });
            }
            Done::Settled => self.gate = Gate::Open,
            Done::Told => self.telling -= 1,
            Done::Other => return,
        }
        if !self.held.is_empty() || !self.untold.is_empty() {
            self.release();
        }
    }

    fn poll_prune(&mut self, context: &mut Context) {
        let prune = self
            .prune
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(PRUNE_EVERY)));
        while prune.as_mut().poll(context).is_ready() {
            self.link.courier.client.prune();
            prune.as_mut().reset(Instant::now() + PRUNE_EVERY);
        }
    }
}
