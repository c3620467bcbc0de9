//! Streamable HTTP (TRN-1, http), in both protocol eras.
//!
//! Every message is a POST of its own. All of them run inside the receiving half: one task sends,
//! waits and reads for the whole link.

mod exchange;
mod listen;
mod session;

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use trunkline_wire::transport::{
    Closed, DeliveryError, DeliveryErrorKind, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};
use url::Url;

use self::session::{Session, is_modern};
use super::credentials::Credentials;
use super::exchange_loop::{ExchangeLoop, Exchanges, MAX_NOTIFICATIONS, Outbox};
use super::headers;
use super::headers_helper::HeadersHelper;
use super::http_client::HttpClient;
use super::inbound_queue::InboundQueue;
use crate::net::{Dialer, TlsFiles, url_headers};

/// The most requests in flight; each takes a connection over HTTP/1.1.
pub const MAX_IN_FLIGHT: usize = 128;

/// How long calls wait for the GET stream to open: requests of the server may come on it.
const STREAM_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for the response to `notifications/initialized`.
pub(super) const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for ending the session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often idle connections are pruned.
const PRUNE_INTERVAL: Duration = Duration::from_secs(15);

/// A server to connect to over HTTP.
#[derive(Clone)]
pub struct HttpServer {
    /// Its URL.
    pub url: Url,
    /// Headers of every request; their values are secret.
    pub headers: Vec<(String, String)>,
    /// Certificate files for TLS.
    pub tls_files: TlsFiles,
    /// The source of bearer tokens.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// The command that prints more headers.
    pub helper: Option<Arc<HeadersHelper>>,
}

/// Shows no secrets (SEC-1).
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
    /// A server with the default options.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            headers: Vec::new(),
            tls_files: TlsFiles::default(),
            credentials: None,
            helper: None,
        }
    }

    pub(super) fn http_client(
        &self,
        dialer: &Dialer,
    ) -> Result<(HttpClient, http::HeaderMap), DeliveryError> {
        let mut entry_headers = headers::from_entry(&self.headers).map_err(|error| {
            DeliveryError::new(DeliveryErrorKind::Unreachable, error.to_string(), false)
        })?;
        if let Some(basic) = url_headers::basic_auth(&self.url) {
            let authorization = entry_headers.entry(http::header::AUTHORIZATION);
            authorization.or_insert(basic);
        }
        // An `Authorization` header in the entry replaces the credentials.
        let credentials = self.credentials.clone();
        let credentials =
            credentials.filter(|_| !entry_headers.contains_key(http::header::AUTHORIZATION));
        let http_client = HttpClient::new(
            dialer,
            &self.url,
            self.tls_files.clone(),
            credentials,
            self.helper.clone(),
        )?;
        Ok((http_client, entry_headers))
    }

    /// Creates a Streamable HTTP transport. Nothing is sent yet.
    pub fn streamable(&self, dialer: &Dialer) -> Result<StreamableTransport, DeliveryError> {
        let (http_client, entry_headers) = self.http_client(dialer)?;
        let session = Arc::new(Session::new(http_client, entry_headers));
        let (outbox, exchanges) = Exchanges::new();
        Ok(StreamableTransport {
            sender: StreamableSender {
                outbox,
                session: Arc::clone(&session),
            },
            receiver: StreamableReceiver {
                session,
                exchanges,
                in_flight: HashMap::new(),
                notifications: 0,
                phase: Phase::Open,
                prune: None,
            },
        })
    }
}

/// The Streamable HTTP transport.
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

/// The sending half: queues messages, and ends the session.
pub struct StreamableSender {
    outbox: Outbox,
    session: Arc<Session>,
}

impl SendHalf for StreamableSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        self.outbox.send(batch)
    }

    async fn close(self) {
        let _ = tokio::time::timeout(DELETE_TIMEOUT, self.session.delete()).await;
    }
}

/// The receiving half, which runs all exchanges.
pub struct StreamableReceiver {
    session: Arc<Session>,
    exchanges: Exchanges<Completed>,
    /// Requests without a response.
    in_flight: HashMap<u64, InFlight>,
    /// Notifications and responses that are being sent.
    notifications: usize,
    phase: Phase,
    prune: Option<Pin<Box<Sleep>>>,
}

struct InFlight {
    exchange: AbortHandle,
    /// A modern server takes the end of the stream for a cancellation.
    modern: bool,
}

pub(super) enum Completed {
    Request(u64),
    Notification,
    Initialized,
    /// The GET stream is open or will not come.
    StreamSettled,
    StreamEnded,
}

/// The phase of the handshake, which restricts what may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing may be sent before the server has `notifications/initialized`.
    Initializing,
    /// Nothing is called before the GET stream is open.
    OpeningStream,
}

impl ReceiveHalf for StreamableReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        poll_fn(|context| self.poll_receive(context)).await
    }
}

impl ExchangeLoop for StreamableReceiver {
    type Completed = Completed;

    fn exchanges(&mut self) -> &mut Exchanges<Completed> {
        &mut self.exchanges
    }

    fn inbound(&self) -> &InboundQueue {
        &self.session.inbound
    }

    fn may_send(&self, message: &Outgoing) -> bool {
        let has_room = self.in_flight.len() < MAX_IN_FLIGHT;
        match (self.phase, message) {
            (Phase::Initializing, _) => false,
            (Phase::OpeningStream, Outgoing::Request { method, .. }) => {
                has_room && method.ends_with("/list")
            }
            // A stream that stays open takes no room from requests that end.
            (_, Outgoing::Request { method, .. }) => has_room || *method == "subscriptions/listen",
            _ => self.notifications < MAX_NOTIFICATIONS,
        }
    }

    fn may_overtake(&self) -> bool {
        self.phase != Phase::Open
    }

    fn start(&mut self, message: Outgoing) {
        match &message {
            Outgoing::Request { id, routing, .. } => {
                let (id, modern) = (*id, is_modern(routing.version));
                self.start_request(id, modern, message);
            }
            Outgoing::Notification {
                method: "notifications/initialized",
                ..
            } => {
                self.phase = Phase::Initializing;
                let session = Arc::clone(&self.session);
                self.run(async move {
                    let sent = exchange::notify(&session, &message);
                    // A server that does not respond to this may still respond to requests.
                    if let Ok(Err(error)) = tokio::time::timeout(INITIALIZED_TIMEOUT, sent).await {
                        session.inbound.fail_notification(&error);
                    }
                    Completed::Initialized
                });
            }
            _ => {
                self.notifications += 1;
                let session = Arc::clone(&self.session);
                self.run(async move {
                    if let Err(error) = exchange::notify(&session, &message).await {
                        session.inbound.fail_notification(&error);
                    }
                    Completed::Notification
                });
            }
        }
    }

    fn complete(&mut self, completed: Completed) {
        match completed {
            Completed::Request(id) => {
                if self.in_flight.remove(&id).is_some() {
                    self.session.inbound.request_finished();
                }
            }
            Completed::Notification => self.notifications -= 1,
            Completed::Initialized if self.session.inbound.closed().is_none() => {
                self.phase = Phase::OpeningStream;
                self.open_stream();
            }
            Completed::StreamSettled => self.phase = Phase::Open,
            Completed::Initialized | Completed::StreamEnded => {}
        }
    }

    fn cancel(&mut self, id: u64, message: Outgoing) {
        let Some(InFlight { exchange, modern }) = self.in_flight.remove(&id) else {
            return;
        };
        exchange.abort();
        self.session.inbound.request_finished();
        if !modern {
            self.exchanges.hold_notification(message);
        }
        self.send_waiting();
    }

    fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    fn poll_idle(&mut self, context: &mut Context) {
        let prune = self
            .prune
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(PRUNE_INTERVAL)));
        while prune.as_mut().poll(context).is_ready() {
            self.session.http_client.pool.prune();
            prune.as_mut().reset(Instant::now() + PRUNE_INTERVAL);
        }
    }
}

impl StreamableReceiver {
    fn start_request(&mut self, id: u64, modern: bool, message: Outgoing) {
        self.session.inbound.request_started();
        let session = Arc::clone(&self.session);
        let (handle, exchange) = abortable_request(session, id, modern, message);
        let in_flight = InFlight {
            exchange: handle,
            modern,
        };
        self.in_flight.insert(id, in_flight);
        self.exchanges.run(Box::pin(exchange));
    }

    fn open_stream(&mut self) {
        let (settled, mut is_settled) = watch::channel(false);
        let session = Arc::clone(&self.session);
        self.run(async move {
            listen::listen(&session, &settled).await;
            Completed::StreamEnded
        });
        self.run(async move {
            let settled = is_settled.wait_for(|settled| *settled);
            let _ = tokio::time::timeout(STREAM_TIMEOUT, settled).await;
            Completed::StreamSettled
        });
    }

    fn run(&mut self, exchange: impl Future<Output = Completed> + Send + 'static) {
        self.exchanges
            .run(Box::pin(async move { Ok(exchange.await) }));
    }
}

fn abortable_request(
    session: Arc<Session>,
    id: u64,
    modern: bool,
    message: Outgoing,
) -> (
    AbortHandle,
    Abortable<impl Future<Output = Completed> + Send>,
) {
    let exchange = async move {
        if let Err(error) = exchange::request(&session, &message).await {
            let timed_out = error.kind == DeliveryErrorKind::Timeout;
            session.inbound.fail_request(id, error);
            if timed_out && !modern {
                Box::pin(exchange::cancel_timed_out(&session, id)).await;
            }
        }
        Completed::Request(id)
    };
    let (handle, registration) = AbortHandle::new_pair();
    (handle, Abortable::new(exchange, registration))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// glibc allocates up to this size from a per-thread cache.
    const MAX_CACHED: usize = 1032;

    #[test]
    fn the_future_of_a_request_fits_the_allocation_cache() {
        let server = HttpServer::new(Url::parse("http://127.0.0.1/mcp").unwrap());
        let transport = server.streamable(&Dialer::with_vars(|_| None)).unwrap();
        let session = Arc::clone(&transport.receiver.session);
        let message = Outgoing::Notification {
            method: "n",
            params: None,
            version: None,
        };
        let (_, exchange) = abortable_request(session, 1, true, message);
        let size = size_of_val(&exchange);
        assert!(size <= MAX_CACHED, "{size} bytes");
    }
}
