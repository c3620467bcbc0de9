//! The session with a Streamable HTTP server: its headers, and the requests that carry them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use trunkline_wire::ByteString;
use trunkline_wire::transport::{CloseReason, DeliveryError, Outgoing};
use trunkline_wire::version::MODERN;

use super::super::connection_pool::Response;
use super::super::headers;
use super::super::http_client::{HttpClient, RESPONSE_TIMEOUT};
use super::super::inbound_queue::InboundQueue;
use super::super::request::{HttpRequest, PreparedHeaders};

/// State shared by the exchanges of one link.
pub(super) struct Session {
    pub(super) http_client: HttpClient,
    entry_headers: HeaderMap,
    negotiated: Mutex<Negotiated>,
    pub(super) inbound: InboundQueue,
}

/// The outcome of the MCP handshake.
struct Negotiated {
    version: Option<&'static str>,
    session_id: Option<HeaderValue>,
    /// The headers that follow from it.
    post: Arc<PreparedHeaders>,
    get: Arc<PreparedHeaders>,
}

impl Session {
    pub(super) fn new(http_client: HttpClient, entry_headers: HeaderMap) -> Self {
        let (post, get) = (
            headers::for_post(&entry_headers),
            headers::for_get(&entry_headers),
        );
        Self {
            http_client,
            entry_headers,
            negotiated: Mutex::new(Negotiated {
                version: None,
                session_id: None,
                post: Arc::new(post.into()),
                get: Arc::new(get.into()),
            }),
            inbound: InboundQueue::default(),
        }
    }

    /// Posts one message. The probe and the handshake go out before anything is negotiated.
    pub(super) async fn post(
        &self,
        message: &Outgoing,
        is_negotiated: bool,
    ) -> Result<Box<Response>, DeliveryError> {
        let mut request = self.post_request(message, is_negotiated);
        self.http_client.send(&mut request).await
    }

    fn post_request(&self, message: &Outgoing, is_negotiated: bool) -> HttpRequest<'_> {
        let mut text = Vec::with_capacity(message.size_hint());
        message.encode(&mut text);
        let mut extra = Vec::new();
        let headers = match message {
            Outgoing::Request {
                method, routing, ..
            } => {
                if is_modern(routing.version) {
                    extra.reserve(2 + routing.parameters.len());
                    extra.push((headers::METHOD, HeaderValue::from_static(method)));
                    let name = routing.name.iter();
                    extra.extend(name.map(|name| (headers::NAME, headers::encode_value(name))));
                    let header = |(name, value): &(ByteString, String)| {
                        Some((headers::parameter_name(name)?, headers::encode_value(value)))
                    };
                    extra.extend(routing.parameters.iter().filter_map(header));
                }
                if is_negotiated {
                    self.negotiated_headers(routing.version)
                } else {
                    self.initial_headers(routing.version)
                }
            }
            Outgoing::Notification {
                version: Some(version),
                ..
            } => self.negotiated_headers(Some(version)),
            _ => self.lock().post.clone(),
        };
        HttpRequest {
            timeout: Some(RESPONSE_TIMEOUT),
            ..self.request(Method::POST, headers, extra, text.into())
        }
    }

    /// Opens an event stream, resuming after `last_id` if there is one.
    pub(super) async fn get(&self, last_id: Option<&[u8]>) -> Result<Box<Response>, DeliveryError> {
        let headers = self.lock().get.clone();
        let id = last_id.and_then(|id| HeaderValue::from_bytes(id).ok());
        let extra = id.map(|id| (headers::LAST_EVENT_ID, id));
        let extra = extra.into_iter().collect();
        let mut request = self.request(Method::GET, headers, extra, Bytes::new());
        self.http_client.send(&mut request).await
    }

    /// Ends the session, unless the server has ended it.
    pub(super) async fn delete(&self) {
        let closed = self.inbound.closed();
        let expired = closed.is_some_and(|closed| *closed.reason() == CloseReason::SessionExpired);
        if expired || !self.has_id() {
            return;
        }
        let headers = self.lock().get.clone();
        let mut request = HttpRequest {
            timeout: Some(RESPONSE_TIMEOUT),
            ..self.request(Method::DELETE, headers, Vec::new(), Bytes::new())
        };
        let _ = self.http_client.send(&mut request).await;
    }

    fn request(
        &self,
        method: Method,
        headers: Arc<PreparedHeaders>,
        extra: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> HttpRequest<'_> {
        HttpRequest {
            method,
            target: &self.http_client.target,
            headers,
            extra,
            token: None,
            body,
            timeout: None,
        }
    }

    /// The headers for a message in `version`, which is the negotiated one from now on.
    fn negotiated_headers(&self, version: Option<&'static str>) -> Arc<PreparedHeaders> {
        let mut negotiated = self.lock();
        if version.is_some() && version != negotiated.version {
            negotiated.version = version;
            self.prepare(&mut negotiated);
        }
        negotiated.post.clone()
    }

    /// The headers for a message before the handshake.
    fn initial_headers(&self, version: Option<&'static str>) -> Arc<PreparedHeaders> {
        let mut post = headers::for_post(&self.entry_headers);
        post.extend(version.map(|version| (headers::VERSION, HeaderValue::from_static(version))));
        Arc::new(post.into())
    }

    /// Stores the session id of the response to `initialize`.
    pub(super) fn begin(&self, response: &Response) {
        if let Some(id) = response.headers.get(headers::SESSION) {
            let mut negotiated = self.lock();
            let mut id = id.clone();
            id.set_sensitive(true);
            negotiated.session_id = Some(id);
            self.prepare(&mut negotiated);
        }
    }

    pub(super) fn has_id(&self) -> bool {
        self.lock().session_id.is_some()
    }

    fn prepare(&self, negotiated: &mut Negotiated) {
        let version = negotiated.version.map(HeaderValue::from_static);
        let extra: Vec<_> = [
            (headers::SESSION, negotiated.session_id.clone()),
            (headers::VERSION, version),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        let with_extra = |mut map: HeaderMap| {
            map.extend(extra.iter().cloned());
            Arc::new(map.into())
        };
        negotiated.post = with_extra(headers::for_post(&self.entry_headers));
        negotiated.get = with_extra(headers::for_get(&self.entry_headers));
    }

    fn lock(&self) -> MutexGuard<'_, Negotiated> {
        let negotiated = self.negotiated.lock();
        negotiated.unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn is_modern(version: Option<&str>) -> bool {
    version.is_some_and(|version| MODERN.contains(&version))
}
