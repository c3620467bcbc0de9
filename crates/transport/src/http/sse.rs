//! HTTP+SSE (TRN-1, sse): an event stream for everything that arrives, and an endpoint, announced
//! on the stream, for everything that is sent.
//!
//! The stream is the session: the link closes with it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use trunkline_wire::transport::{
    CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming, Outgoing, ReceiveHalf,
    SendHalf, Transport,
};
use url::Url;

use super::body::Body;
use super::events::{EventDecoder, Step};
use super::exchange_loop::{Exchange, ExchangeLoop, Exchanges, MAX_NOTIFICATIONS, Outbox};
use super::headers::{self, EVENTS};
use super::http_client::{HttpClient, RESPONSE_TIMEOUT, status_error};
use super::inbound_queue::InboundQueue;
use super::request::{HttpRequest, PreparedHeaders, RequestTarget};
use super::streamable::{HttpServer, INITIALIZED_TIMEOUT, MAX_IN_FLIGHT};
use crate::MAX_MESSAGE_BYTES;
use crate::net::Dialer;

/// The most other events, or batches of lines, before the endpoint.
const MAX_STEPS: usize = 1000;

impl HttpServer {
    /// Connects by HTTP+SSE: opens the stream and waits for the endpoint.
    pub async fn sse(&self, dialer: &Dialer) -> Result<SseTransport, DeliveryError> {
        let (http_client, entry_headers) = self.http_client(dialer)?;
        let mut request = HttpRequest {
            method: Method::GET,
            target: &http_client.target,
            headers: Arc::new(headers::for_get(&entry_headers).into()),
            extra: Vec::new(),
            token: None,
            body: Bytes::new(),
            timeout: None,
        };
        let mut response = http_client.send(&mut request).await?;
        let kind = DeliveryErrorKind::Status(response.status.as_u16());
        if !response.status.is_success() {
            return Err(status_error(&mut response, kind, false).await);
        }
        if !headers::has_content_type(&response.headers, EVENTS) {
            let text = "the response is not an event stream; is the URL right?";
            return Err(DeliveryError::new(kind, text, false));
        }
        let mut events = EventDecoder::new(MAX_MESSAGE_BYTES);
        let endpoint = read_endpoint(&mut response.body, &mut events).await?;
        let endpoint = resolve_endpoint(&self.url, &endpoint)?;
        let link = Arc::new(SseLink {
            http_client,
            endpoint,
            headers: Mutex::new(Arc::new(headers::for_post(&entry_headers).into())),
            inbound: InboundQueue::default(),
        });
        let (outbox, mut exchanges) = Exchanges::new();
        exchanges.run(read_stream(Arc::clone(&link), response.body, events));
        Ok(SseTransport {
            sender: SseSender(outbox),
            receiver: SseReceiver {
                link,
                exchanges,
                requests: 0,
                notifications: 0,
                initializing: false,
            },
        })
    }
}

/// Reads the stream up to the event with the endpoint.
async fn read_endpoint(body: &mut Body, events: &mut EventDecoder) -> Result<Bytes, DeliveryError> {
    let broken = |text: &str| Err(DeliveryError::new(DeliveryErrorKind::Broken, text, false));
    let mut steps = 0;
    loop {
        match events.step() {
            Step::Event(event) if event.event_type.as_deref() == Some(b"endpoint") => {
                return Ok(event.data);
            }
            Step::Event(_) | Step::Lines(_) => {
                steps += 1;
                if steps > MAX_STEPS {
                    return broken("the server sends no endpoint");
                }
                tokio::task::yield_now().await;
                continue;
            }
            Step::NeedMore if !events.is_skipping() => {}
            Step::NeedMore | Step::TooLong(_) => {
                return broken("the first event of the server is too long");
            }
        }
        match body.next_chunk().await {
            Ok(Some(chunk)) => events.push(chunk),
            Ok(None) => return broken("the stream ended before the endpoint"),
            Err(error) => return broken(&error.to_string()),
        }
    }
}

/// Resolves the endpoint. It must have the origin of the stream, so that no secret leaves it.
fn resolve_endpoint(url: &Url, endpoint: &[u8]) -> Result<RequestTarget, DeliveryError> {
    let refuse = |text: &str| DeliveryError::new(DeliveryErrorKind::Redirected, text, false);
    let text = String::from_utf8_lossy(endpoint);
    let joined = url.join(text.trim());
    let joined = joined.map_err(|_| refuse("the endpoint is not a valid URL"))?;
    if joined.origin() != url.origin() {
        return Err(refuse("the endpoint has another origin than the stream"));
    }
    RequestTarget::new(&joined).map_err(|_| refuse("the endpoint is not a valid URL"))
}

/// State shared by the exchanges of one link.
struct SseLink {
    http_client: HttpClient,
    endpoint: RequestTarget,
    headers: Mutex<Arc<PreparedHeaders>>,
    inbound: InboundQueue,
}

impl SseLink {
    async fn post(&self, message: &Outgoing) -> Result<(), DeliveryError> {
        let mut text = Vec::with_capacity(message.size_hint());
        message.encode(&mut text);
        let mut request = HttpRequest {
            method: Method::POST,
            target: &self.endpoint,
            headers: self.headers(message),
            extra: Vec::new(),
            token: None,
            body: text.into(),
            timeout: Some(RESPONSE_TIMEOUT),
        };
        let mut response = self.http_client.send(&mut request).await?;
        let status = response.status;
        if status.is_success() {
            // MCP responses come on the stream.
            self.http_client.pool.drain(&mut response.body).await;
            return Ok(());
        }
        // The endpoint ends with the session.
        let kind = match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => DeliveryErrorKind::SessionExpired,
            status => DeliveryErrorKind::Status(status.as_u16()),
        };
        Err(status_error(&mut response, kind, status.is_server_error()).await)
    }

    /// The headers, with the protocol version once it is negotiated.
    fn headers(&self, message: &Outgoing) -> Arc<PreparedHeaders> {
        let version = match message {
            Outgoing::Request {
                routing, method, ..
            } if *method != "server/discover" => routing.version,
            Outgoing::Notification { version, .. } => *version,
            _ => None,
        };
        let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = version.map(HeaderValue::from_static)
            && headers.map.get(headers::VERSION) != Some(&version)
        {
            let mut map = headers.map.clone();
            map.insert(headers::VERSION, version);
            *headers = Arc::new(map.into());
        }
        Arc::clone(&headers)
    }
}

/// The HTTP+SSE transport.
pub struct SseTransport {
    sender: SseSender,
    receiver: SseReceiver,
}

impl Transport for SseTransport {
    type Sender = SseSender;
    type Receiver = SseReceiver;

    fn split(self) -> (SseSender, SseReceiver) {
        (self.sender, self.receiver)
    }
}

/// The sending half, which queues messages.
pub struct SseSender(Outbox);

impl SendHalf for SseSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        self.0.send(batch)
    }

    async fn close(self) {}
}

/// The receiving half, which runs all exchanges.
pub struct SseReceiver {
    link: Arc<SseLink>,
    exchanges: Exchanges<Completed>,
    /// Requests that are being sent.
    requests: usize,
    /// Notifications and responses that are being sent.
    notifications: usize,
    /// Nothing may be sent before the server has `notifications/initialized`.
    initializing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Completed {
    Request,
    Notification,
    Initialized,
    StreamEnded,
}

impl ReceiveHalf for SseReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        poll_fn(|context| self.poll_receive(context)).await
    }
}

impl ExchangeLoop for SseReceiver {
    type Completed = Completed;

    fn exchanges(&mut self) -> &mut Exchanges<Completed> {
        &mut self.exchanges
    }

    fn inbound(&self) -> &InboundQueue {
        &self.link.inbound
    }

    fn may_send(&self, message: &Outgoing) -> bool {
        match message {
            _ if self.initializing => false,
            Outgoing::Request { .. } => self.requests < MAX_IN_FLIGHT,
            _ => self.notifications < MAX_NOTIFICATIONS,
        }
    }

    fn start(&mut self, message: Outgoing) {
        let completed = match &message {
            Outgoing::Request { .. } => Completed::Request,
            Outgoing::Notification {
                method: "notifications/initialized",
                ..
            } => Completed::Initialized,
            _ => Completed::Notification,
        };
        match completed {
            Completed::Request => self.requests += 1,
            _ => self.notifications += 1,
        }
        self.initializing |= completed == Completed::Initialized;
        let link = Arc::clone(&self.link);
        self.exchanges.run(Box::pin(async move {
            let posted = link.post(&message);
            let posted = if completed == Completed::Initialized {
                // A server that does not respond to this may still respond to requests.
                let limited = tokio::time::timeout(INITIALIZED_TIMEOUT, posted).await;
                limited.unwrap_or(Ok(()))
            } else {
                posted.await
            };
            match (posted, message) {
                (Ok(()), _) => {}
                (Err(error), Outgoing::Request { id, .. }) => link.inbound.fail_request(id, error),
                (Err(error), _) => link.inbound.fail_notification(&error),
            }
            Ok(completed)
        }));
    }

    fn complete(&mut self, completed: Completed) {
        match completed {
            Completed::Request => self.requests -= 1,
            Completed::Notification => self.notifications -= 1,
            Completed::Initialized => {
                self.notifications -= 1;
                self.initializing = false;
            }
            Completed::StreamEnded => {}
        }
    }

    fn cancel(&mut self, _: u64, message: Outgoing) {
        if self.may_send(&message) {
            self.start(message);
        } else {
            self.exchanges.hold_notification(message);
        }
    }

    fn is_busy(&self) -> bool {
        self.requests + self.notifications > 0
    }
}

/// Delivers the messages of the stream; the link closes at its end.
fn read_stream(
    link: Arc<SseLink>,
    mut body: Body,
    mut events: EventDecoder,
) -> Exchange<Completed> {
    Box::pin(async move {
        let reason = loop {
            link.inbound.deliver_messages(&mut events).await;
            link.inbound.drained().await;
            match body.next_chunk().await {
                Ok(Some(chunk)) => {
                    events.push(chunk);
                    link.inbound.push(Incoming::Activity { to: None });
                }
                Ok(None) => break CloseReason::ByPeer,
                Err(error) => break CloseReason::Io(error.to_string()),
            }
        };
        link.inbound.close(reason);
        Ok(Completed::StreamEnded)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_must_have_the_origin_of_the_stream() {
        let url = Url::parse("http://host:1/sse?key=x").unwrap();
        for good in ["/message?id=1", "message", "http://host:1/other", " /x "] {
            assert!(resolve_endpoint(&url, good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "http://host:2/",
            "https://host:1/",
            "//evil/x",
            "http://host.evil:1/",
            "http://[",
        ] {
            assert!(resolve_endpoint(&url, bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
