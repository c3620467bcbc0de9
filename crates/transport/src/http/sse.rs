//! HTTP+SSE (TRN-1, sse): one stream on which everything comes, and a place to send to that the stream names first.
//!
//! The session is the stream: when it ends, the link has ended, and whoever keeps the connection makes a new one.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, Stream as _};
use http::{HeaderValue, Method, StatusCode};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use trunkline_wire::transport::{
    CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming, Outgoing, ReceiveHalf,
    SendHalf, Transport,
};
use url::Url;

use super::body::Body;
use super::client::Place;
use super::courier::{ANSWER_LIMIT, Courier, Errand, said};
use super::events::{EventDecoder, Step};
use super::headers::{self, EVENTS};
use super::inlet::{END_GRACE, Inlet};
use super::letter::Prepared;
use super::streamable::{HttpServer, MAX_IN_FLIGHT, MAX_TELLING, READY_LIMIT};
use crate::MAX_MESSAGE_BYTES;
use crate::net::Dialer;

/// Events of another kind, or batches of lines, that may come before the endpoint.
const MAX_STEPS: usize = 1000;

/// How many answers and notifications may wait to be sent before more are dropped.
const MAX_UNTOLD: usize = 4096;

impl HttpServer {
    /// A link to it by HTTP+SSE: opens the stream and waits until it says where to send to.
    pub async fn sse(&self, dialer: &Dialer) -> Result<SseTransport, DeliveryError> {
        let (courier, own) = self.courier(dialer)?;
        let errand = Errand {
            method: Method::GET,
            place: &courier.place,
            headers: Arc::new(headers::get(&own).into()),
            more: Vec::new(),
            body: Bytes::new(),
            limit: None,
        };
        let mut answer = courier.send(&errand).await?;
        let status = answer.status.as_u16();
        if !answer.status.is_success() {
            let text = format!(
                "the server answered with status {status}{}",
                said(&mut answer).await
            );
            return Err(DeliveryError::new(
                DeliveryErrorKind::Status(status),
                text,
                false,
            ));
        }
        if !headers::is(&answer.headers, EVENTS) {
            let text = "the server does not answer with a stream of events; is the URL right?";
            return Err(DeliveryError::new(
                DeliveryErrorKind::Status(status),
                text,
                false,
            ));
        }
        let mut events = EventDecoder::new(MAX_MESSAGE_BYTES);
        let endpoint = endpoint(&mut answer.body, &mut events).await?;
        let endpoint = place(&self.url, &endpoint)?;
        let link = Arc::new(Link {
            courier,
            endpoint,
            headers: Mutex::new(Arc::new(headers::post(&own).into())),
            inlet: Inlet::default(),
        });
        let (outbox, inbox) = mpsc::unbounded_channel();
        let exchanges = FuturesUnordered::new();
        exchanges.push(stream(Arc::clone(&link), answer.body, events));
        Ok(SseTransport {
            sender: SseSender(outbox),
            receiver: SseReceiver {
                link,
                inbox,
                exchanges,
                held: VecDeque::new(),
                untold: VecDeque::new(),
                asking: 0,
                telling: 0,
                gate: false,
                grace: None,
            },
        })
    }
}

/// Reads the stream up to the event that says where to send to.
async fn endpoint(body: &mut Body, events: &mut EventDecoder) -> Result<Bytes, DeliveryError> {
    let broken = |text: String| DeliveryError::new(DeliveryErrorKind::Broken, text, false);
    let mut steps = 0;
    loop {
        match events.step() {
            Step::Event(event) if event.kind.as_deref() == Some(b"endpoint") => {
                return Ok(event.data);
            }
            Step::Event(_) | Step::Lines(_) => {
                steps += 1;
                if steps > MAX_STEPS {
                    let text = "the server does not say where to send to";
                    return Err(broken(text.to_owned()));
                }
                tokio::task::yield_now().await;
                continue;
            }
            Step::NeedsMore if !events.is_skipping() => {}
            Step::NeedsMore | Step::TooLong(_) => {
                return Err(broken("the server's first event is too long".to_owned()));
            }
        }
        match body.piece().await {
            Ok(Some(piece)) => events.push(piece),
            Ok(None) => {
                return Err(broken(
                    "the stream ended before it said where to send to".to_owned(),
                ));
            }
            Err(error) => return Err(broken(error.to_string())),
        }
    }
}

/// Where to send to; it must be where the stream is, so that nothing of ours goes elsewhere.
fn place(url: &Url, endpoint: &[u8]) -> Result<Place, DeliveryError> {
    let refuse = |text: &str| DeliveryError::new(DeliveryErrorKind::Redirected, text, false);
    let text = String::from_utf8_lossy(endpoint);
    let joined = url.join(text.trim());
    let joined = joined.map_err(|_| refuse("the server names no URL to send to"))?;
    if joined.origin() != url.origin() {
        return Err(refuse(
            "the server wants messages to be sent to another place than its own",
        ));
    }
    Place::new(&joined).map_err(|_| refuse("the server names no URL to send to"))
}

struct Link {
    courier: Courier,
    endpoint: Place,
    headers: Mutex<Arc<Prepared>>,
    inlet: Inlet,
}

impl Link {
    async fn post(&self, message: &Outgoing) -> Result<(), DeliveryError> {
        let mut text = Vec::with_capacity(message.size_hint());
        message.encode(&mut text);
        let errand = Errand {
            method: Method::POST,
            place: &self.endpoint,
            headers: self.headers(message),
            more: Vec::new(),
            body: text.into(),
            limit: Some(ANSWER_LIMIT),
        };
        let mut answer = self.courier.send(&errand).await?;
        let status = answer.status;
        if status.is_success() {
            // It is of no use; what is asked is answered on the stream.
            self.courier.client.finish(&mut answer.body).await;
            return Ok(());
        }
        let text = format!(
            "the server answered with status {}{}",
            status.as_u16(),
            said(&mut answer).await
        );
        // The place belongs to the stream, and is gone with what the server knew of it.
        let kind = match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => DeliveryErrorKind::SessionExpired,
            status => DeliveryErrorKind::Status(status.as_u16()),
        };
        Err(DeliveryError::new(kind, text, status.is_server_error()))
    }

    /// The headers, with the version once one is agreed.
    fn headers(&self, message: &Outgoing) -> Arc<Prepared> {
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

/// A link by HTTP+SSE.
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

/// The half that hands messages over.
pub struct SseSender(mpsc::UnboundedSender<Outgoing>);

impl SendHalf for SseSender {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        for message in batch.drain(..) {
            let sent = self.0.send(message);
            sent.map_err(|_| Closed::new(CloseReason::ByPeer))?;
        }
        Ok(())
    }

    async fn close(self) {}
}

/// The half in which everything happens.
pub struct SseReceiver {
    link: Arc<Link>,
    inbox: mpsc::UnboundedReceiver<Outgoing>,
    exchanges: FuturesUnordered<Exchange>,
    /// Requests that have to wait.
    held: VecDeque<Outgoing>,
    /// Answers and notifications that have to wait. They never wait for requests: the server may take
    /// the answer to its question before it answers ours.
    untold: VecDeque<Outgoing>,
    /// How many requests are being sent.
    asking: usize,
    /// How many answers and notifications are being sent.
    telling: usize,
    /// The server must know that we are ready before it hears anything else.
    gate: bool,
    /// Set once the link has ended: how long what is being sent may still take.
    grace: Option<Pin<Box<Sleep>>>,
}

type Exchange = Pin<Box<dyn Future<Output = Done> + Send>>;

enum Done {
    Asked,
    Told,
    Ready,
    StreamEnded,
}

impl ReceiveHalf for SseReceiver {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        poll_fn(|context| self.poll(context)).await
    }
}

impl SseReceiver {
    fn poll(&mut self, context: &mut Context) -> Poll<Result<Incoming, Closed>> {
        loop {
            if let Some(incoming) = self.link.inlet.take() {
                return Poll::Ready(Ok(incoming));
            }
            self.link.inlet.is_empty_now();
            if let Some(closed) = self.link.inlet.ended() {
                return self.poll_end(closed, context);
            }
            while let Poll::Ready(message) = self.inbox.poll_recv(context) {
                match message {
                    Some(message) => self.take(message),
                    None => return Poll::Ready(Err(Closed::new(CloseReason::ByUs))),
                }
            }
            self.release();
            match Pin::new(&mut self.exchanges).poll_next(context) {
                Poll::Ready(Some(done)) => self.done(&done),
                Poll::Ready(None) | Poll::Pending => {
                    if let Some(incoming) = self.link.inlet.take() {
                        return Poll::Ready(Ok(incoming));
                    }
                    if self.link.inlet.ended().is_none() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// The link is over. What was never sent says so; what is being sent gets a little time to learn whether it was turned down.
    fn poll_end(
        &mut self,
        closed: Closed,
        context: &mut Context,
    ) -> Poll<Result<Incoming, Closed>> {
        while let Poll::Ready(Some(message)) = self.inbox.poll_recv(context) {
            self.held.push_back(message);
        }
        for message in self.held.drain(..) {
            self.link.inlet.refuse(&message, &closed);
        }
        self.untold.clear();
        while let Poll::Ready(Some(done)) = Pin::new(&mut self.exchanges).poll_next(context) {
            self.done(&done);
        }
        if let Some(incoming) = self.link.inlet.take() {
            return Poll::Ready(Ok(incoming));
        }
        let grace = self
            .grace
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(END_GRACE)));
        if self.asking + self.telling == 0 || grace.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(closed));
        }
        Poll::Pending
    }

    /// Sends a message, or holds it back for as long as it must wait.
    fn take(&mut self, message: Outgoing) {
        match message {
            Outgoing::Cancel { id, .. } if self.forget(id) => {}
            message if self.may_go(&message) => self.start(message),
            message @ Outgoing::Request { .. } => self.held.push_back(message),
            message @ Outgoing::Cancel { .. } => self.untold.push_back(message),
            // Answers that a server does not take are dropped when too many wait.
            message if self.untold.len() < MAX_UNTOLD => self.untold.push_back(message),
            _ => {}
        }
    }

    /// Forgets a request that was not sent yet; true if there was one.
    fn forget(&mut self, cancelled: u64) -> bool {
        let at = self
            .held
            .iter()
            .position(|held| matches!(held, Outgoing::Request { id, .. } if *id == cancelled));
        at.is_some_and(|at| self.held.remove(at).is_some())
    }

    fn may_go(&self, message: &Outgoing) -> bool {
        match message {
            _ if self.gate => false,
            Outgoing::Request { .. } => self.asking < MAX_IN_FLIGHT,
            // Each is a POST of its own: a server that asks without end must not take all of the time.
            _ => self.telling < MAX_TELLING,
        }
    }

    fn release(&mut self) {
        while let Some(message) = self.next_to_go() {
            self.start(message);
        }
    }

    /// The next message that waited and need not any more; what is to be told comes first.
    fn next_to_go(&mut self) -> Option<Outgoing> {
        let may_go = |queue: &VecDeque<_>| queue.front().is_some_and(|next| self.may_go(next));
        if may_go(&self.untold) {
            return self.untold.pop_front();
        }
        if may_go(&self.held) {
            return self.held.pop_front();
        }
        None
    }

    fn start(&mut self, message: Outgoing) {
        let link = Arc::clone(&self.link);
        let (done, count) = match &message {
            Outgoing::Request { .. } => (Done::Asked, &mut self.asking),
            Outgoing::Notification {
                method: "notifications/initialized",
                ..
            } => {
                self.gate = true;
                (Done::Ready, &mut self.telling)
            }
            _ => (Done::Told, &mut self.telling),
        };
        *count += 1;
        self.exchanges.push(Box::pin(async move {
            let posted = link.post(&message);
            let posted = if matches!(done, Done::Ready) {
                // One that does not answer this may still answer the rest.
                let limited = tokio::time::timeout(READY_LIMIT, posted).await;
                limited.unwrap_or(Ok(()))
            } else {
                posted.await
            };
            if let Err(failure) = posted {
                match message {
                    Outgoing::Request { id, .. } => link.inlet.fail(id, failure),
                    _ => link.inlet.note(&failure),
                }
            }
            done
        }));
    }

    fn done(&mut self, done: &Done) {
        match done {
            Done::Asked => self.asking -= 1,
            Done::Told => self.telling -= 1,
            Done::Ready => {
                self.telling -= 1;
                self.gate = false;
            }
            Done::StreamEnded => {}
        }
    }
}

/// Delivers what comes on the stream; the link ends with it.
fn stream(link: Arc<Link>, mut body: Body, mut events: EventDecoder) -> Exchange {
    Box::pin(async move {
        let reason = loop {
            while let Err(skipped) = link
                .inlet
                .deliver_events(&mut events, Incoming::Frame)
                .await
            {
                link.inlet.deliver(skipped.report());
            }
            link.inlet.taken().await;
            match body.piece().await {
                Ok(Some(piece)) => {
                    events.push(piece);
                    link.inlet.deliver(Incoming::Activity { to: None });
                }
                Ok(None) => break CloseReason::ByPeer,
                Err(error) => break CloseReason::Io(error.to_string()),
            }
        };
        link.inlet.end(reason);
        Done::StreamEnded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_only_where_the_stream_is() {
        let url = Url::parse("http://host:1/sse?key=x").unwrap();
        for good in ["/message?id=1", "message", "http://host:1/other", " /x "] {
            assert!(place(&url, good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "http://host:2/",
            "https://host:1/",
            "//evil/x",
            "http://host.evil:1/",
            "http://[",
        ] {
            assert!(place(&url, bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
