//! What the exchanges of one link share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use trunkline_wire::ByteString;
use trunkline_wire::transport::{CloseReason, DeliveryError, Outgoing};
use trunkline_wire::version::MODERN;

use super::super::client::{Answer, Place};
use super::super::courier::{ANSWER_LIMIT, Courier, Errand};
use super::super::headers;
use super::super::inlet::Inlet;
use super::super::letter::Prepared;

/// What the exchanges of one link share.
pub(super) struct Link {
    pub(super) courier: Courier,
    own: HeaderMap,
    state: Mutex<State>,
    pub(super) inlet: Inlet,
}

/// What is agreed with the server.
struct State {
    version: Option<&'static str>,
    session: Option<HeaderValue>,
    /// The headers that follow from it, prepared.
    post: Arc<Prepared>,
    get: Arc<Prepared>,
}

impl Link {
    pub(super) fn new(courier: Courier, own: HeaderMap) -> Self {
        let (post, get) = (headers::post(&own), headers::get(&own));
        Self {
            courier,
            own,
            state: Mutex::new(State {
                version: None,
                session: None,
                post: Arc::new(post.into()),
                get: Arc::new(get.into()),
            }),
            inlet: Inlet::default(),
        }
    }

    /// Sends one message.
    pub(super) async fn post(
        &self,
        message: &Outgoing,
        session: bool,
    ) -> Result<Box<Answer>, DeliveryError> {
        let errand = self.posting(message, session);
        self.courier.send(&errand).await
    }

    fn posting(&self, message: &Outgoing, session: bool) -> Errand<'_> {
        let mut text = Vec::with_capacity(message.size_hint());
        message.encode(&mut text);
        let mut more = Vec::new();
        let base = match message {
            Outgoing::Request {
                method, routing, ..
            } => {
                if is_modern(routing.version) {
                    more.reserve(2 + routing.parameters.len());
                    more.push((headers::METHOD, HeaderValue::from_static(method)));
                    more.extend(
                        routing
                            .name
                            .iter()
                            .map(|name| (headers::NAME, headers::text(name))),
                    );
                    let header = |(name, value): &(ByteString, String)| {
                        Some((headers::parameter(name)?, headers::text(value)))
                    };
                    more.extend(routing.parameters.iter().filter_map(header));
                }
                // The probe and the handshake come before anything is agreed.
                if session {
                    self.speaking(routing.version).0
                } else {
                    self.unagreed(routing.version)
                }
            }
            Outgoing::Notification {
                version: Some(version),
                ..
            } => self.speaking(Some(version)).0,
            _ => lock(&self.state).post.clone(),
        };
        self.errand(Method::POST, base, more, text.into(), true)
    }

    /// Asks for events, those after `last_id` if there is one.
    pub(super) async fn get(&self, last_id: Option<&[u8]>) -> Result<Box<Answer>, DeliveryError> {
        let base = lock(&self.state).get.clone();
        let id = last_id.and_then(|id| HeaderValue::from_bytes(id).ok());
        let more = id
            .into_iter()
            .map(|id| (headers::LAST_EVENT_ID, id))
            .collect();
        let errand = self.errand(Method::GET, base, more, Bytes::new(), false);
        self.courier.send(&errand).await
    }

    /// Tells the server that its session is over, unless it was the server who said so.
    pub(super) async fn delete(&self) {
        let ended = self.inlet.ended();
        let gone = ended.is_some_and(|closed| *closed.reason() == CloseReason::SessionExpired);
        if gone || !self.has_session() {
            return;
        }
        let base = lock(&self.state).get.clone();
        let errand = self.errand(Method::DELETE, base, Vec::new(), Bytes::new(), true);
        let _ = self.courier.send(&errand).await;
    }

    fn errand(
        &self,
        method: Method,
        headers: Arc<Prepared>,
        more: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
        limited: bool,
    ) -> Errand<'_> {
        Errand {
            method,
            place: self.place(),
            headers,
            more,
            body,
            limit: limited.then_some(ANSWER_LIMIT),
        }
    }

    fn place(&self) -> &Place {
        &self.courier.place
    }

    /// The headers for a message in `version`, which is agreed from now on.
    fn speaking(&self, version: Option<&'static str>) -> (Arc<Prepared>, Arc<Prepared>) {
        let mut state = lock(&self.state);
        if version.is_some() && version != state.version {
            state.version = version;
            self.prepare(&mut state);
        }
        (state.post.clone(), state.get.clone())
    }

    /// The headers for a message before anything is agreed.
    fn unagreed(&self, version: Option<&'static str>) -> Arc<Prepared> {
        let mut post = headers::post(&self.own);
        post.extend(version.map(|version| (headers::VERSION, HeaderValue::from_static(version))));
        Arc::new(post.into())
    }

    /// Takes the session that the server offers.
    pub(super) fn begin_session(&self, answer: &Answer) {
        if let Some(session) = answer.headers.get(headers::SESSION) {
            let mut state = lock(&self.state);
            let mut session = session.clone();
            session.set_sensitive(true);
            state.session = Some(session);
            self.prepare(&mut state);
        }
    }

    pub(super) fn has_session(&self) -> bool {
        lock(&self.state).session.is_some()
    }

    fn prepare(&self, state: &mut State) {
        let version = state.version.map(HeaderValue::from_static);
        let more: Vec<_> = [
            (headers::SESSION, state.session.clone()),
            (headers::VERSION, version),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        let with = |mut map: HeaderMap| {
            map.extend(more.iter().cloned());
            Arc::new(map.into())
        };
        state.post = with(headers::post(&self.own));
        state.get = with(headers::get(&self.own));
    }
}

pub(super) fn is_modern(version: Option<&str>) -> bool {
    version.is_some_and(|version| MODERN.contains(&version))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
