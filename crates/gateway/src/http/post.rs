//! Messages to `/mcp`: modern requests, which stand alone, and those of legacy sessions.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use trunkline_wire::envelope::{self, Frame, Message};
use trunkline_wire::offload::offload;
use trunkline_wire::transport::Outgoing;
use trunkline_wire::{Json, RpcError};

use super::accept::{Accepts, is_json};
use super::body;
use super::calls::CallTimer;
use super::endpoint::{Endpoint, Request as HttpRequest, overloaded};
use super::identity::Identity;
use super::link::{StreamLink, encode};
use super::metrics::Limit;
use super::modern;
use super::param_headers;
use super::respond::{self, HTTP, Response, SESSION_ID, UNKNOWN_SESSION};
use super::session::{HttpSession, Kind, Request, deliver};
use super::sse::{EventBody, EventId, Log};
use super::stream::{Beginning, EventStream};
use super::table::SessionError;
use crate::client::{ConnectError, View};
use crate::session::ClientRequest;
use crate::trace::adopt_headers;

/// An answer that takes longer becomes an event stream, which shows that the connection lives and
/// can be resumed.
const PATIENCE: Duration = Duration::from_secs(1);

/// The handshake has no stream to resume, so it may take longer.
const HANDSHAKE_PATIENCE: Duration = Duration::from_mins(1);

/// The time after which a client that has lost a stream connects again.
const RETRY_MILLIS: u32 = 1000;

const INITIALIZE: &str = "initialize";
const LISTEN: &str = "subscriptions/listen";

impl Endpoint {
    pub(super) async fn post(
        self: &Arc<Self>,
        identity: &Identity,
        view: &View,
        request: HttpRequest,
    ) -> Response {
        let accepts = Accepts::of(request.headers());
        if !accepts.json && !accepts.events {
            let reason = "the client must accept application/json and text/event-stream";
            return respond::refuse(StatusCode::NOT_ACCEPTABLE, HTTP, reason);
        }
        let headers = request.headers().clone();
        let (frame, _body) = match self.read_frame(request).await {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        let post = Post {
            endpoint: self,
            identity,
            view,
            headers: &headers,
            accepts,
        };
        match frame {
            Frame::Single(message) => post.message(message).await,
            Frame::Batch(messages) => post.batch(messages).await,
        }
    }

    /// Reads and decodes a body. The second value holds its memory.
    pub(super) async fn read_frame(
        &self,
        request: HttpRequest,
    ) -> Result<(Frame, body::ReadBody), Response> {
        if !is_json(request.headers()) {
            let reason = "the body must be application/json";
            return Err(respond::refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                HTTP,
                reason,
            ));
        }
        let read = body::read(request, &self.budget, &self.options.limits).await;
        let read = read.map_err(|error| {
            self.metrics.hit(match error {
                body::BodyError::TooSlow => Limit::Time,
                _ => Limit::Body,
            });
            let mut response = respond::refuse(error.status(), HTTP, error.reason());
            // The rest of the body is not read.
            let close = HeaderValue::from_static("close");
            response
                .headers_mut()
                .insert(http::header::CONNECTION, close);
            response
        })?;
        let bytes = read.bytes.clone();
        let frame = offload(bytes.len(), move || envelope::decode(&bytes)).await;
        let frame = frame.map_err(|error| {
            respond::refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                RpcError::INTERNAL_ERROR,
                error.to_string(),
            )
        })?;
        Ok((frame, read))
    }
}

/// A POST to `/mcp`.
struct Post<'p> {
    endpoint: &'p Arc<Endpoint>,
    identity: &'p Identity,
    view: &'p View,
    headers: &'p HeaderMap,
    accepts: Accepts,
}

impl Post<'_> {
    async fn message(&self, message: Message) -> Response {
        match message {
            Message::Request { id, method, params } => {
                let request = Request::new(self.endpoint, self.view, id, method, params);
                if modern::is_modern(self.headers, request.params.as_ref()) {
                    return self.modern(request).await;
                }
                self.legacy_request(request).await
            }
            // Modern clients cancel by closing the connection; nothing else is to be told.
            Message::Notification { .. } if modern::is_modern_header(self.headers) => {
                respond::empty(StatusCode::ACCEPTED)
            }
            Message::Notification { method, params } => {
                let found = self
                    .endpoint
                    .session(self.identity, self.view, self.headers);
                match found.await {
                    Ok(session) => session.notification(&method, params),
                    Err(refusal) => return refusal,
                }
                respond::empty(StatusCode::ACCEPTED)
            }
            Message::Response { .. } if modern::is_modern_header(self.headers) => {
                let reason = "a modern client sends no responses";
                let status = StatusCode::BAD_REQUEST;
                respond::refuse(status, RpcError::INVALID_REQUEST, reason)
            }
            Message::Response { id, outcome } => {
                let session = self
                    .endpoint
                    .session(self.identity, self.view, self.headers)
                    .await;
                let session = match session {
                    Ok(session) => session,
                    Err(refusal) => return refusal,
                };
                let answered = id.is_some_and(|id| session.questions.answer(&id, outcome));
                if answered {
                    return respond::empty(StatusCode::ACCEPTED);
                }
                let reason = "no request of the server waits for this response";
                let status = StatusCode::BAD_REQUEST;
                respond::refuse(status, RpcError::INVALID_REQUEST, reason)
            }
            Message::Malformed { id, reason } => malformed(id.as_ref(), &reason),
        }
    }

    /// Checks the headers of a modern request against its body.
    fn check(&self, request: &Request) -> Result<(), RpcError> {
        let params = request.params.as_ref();
        modern::check(self.headers, &request.method, params)?;
        if &*request.method != "tools/call" {
            return Ok(());
        }
        param_headers::check(self.headers, &self.endpoint.gateway, self.view, params)
    }

    /// Runs a modern request, which is cancelled when its response is dropped.
    async fn modern(&self, mut request: Request) -> Response {
        let endpoint = self.endpoint;
        let checked = self.check(&request);
        if let Err(error) = checked {
            return respond::error(StatusCode::BAD_REQUEST, Some(&request.id), &error);
        }
        let client = match endpoint.table.modern(self.identity, self.view) {
            Ok(client) => client,
            Err(error) => return endpoint.no_session(Some(&request.id), error),
        };
        let Some(permit) = endpoint.admit(self.identity) else {
            return overloaded();
        };
        let in_flight = (&*request.method != LISTEN).then(|| endpoint.in_flight.enter());
        request.params = adopt_headers(request.params, self.headers);
        let stream = Arc::new(EventStream::new(1, 0));
        let end = Arc::clone(&stream);
        let link = StreamLink::new(Arc::clone(&stream), None, move || end.end());
        let answers = EndOnDrop(Arc::clone(&stream));
        let Request {
            id,
            method,
            params,
            mut timer,
        } = request;
        let request = ClientRequest {
            id: id.clone(),
            method,
            params,
        };
        let future = client.request(request, Arc::new(link));
        let task = tokio::spawn(async move {
            let _held = (permit, in_flight);
            let outcome = future.await;
            if let Some(timer) = &mut timer {
                timer.ended(&outcome);
            }
            drop(timer);
            let status = modern::status(&outcome);
            let message = encode(&Outgoing::Response { id, outcome });
            answers.0.finish(message, status);
        });
        let (table, handle) = (&endpoint.table, task.abort_handle());
        table.started(self.identity, self.view, handle);
        let cancel = CancelOnDrop(task.abort_handle());
        match stream.begin(PATIENCE).await {
            Beginning::Only(status, message) if self.accepts.json => respond::json(status, message),
            Beginning::Only(_, message) => respond::events(EventBody::only(message)),
            Beginning::Stream if self.accepts.events => {
                respond::events(EventBody::new(stream).guarded(cancel))
            }
            Beginning::Stream => last_message(&stream).await,
            Beginning::Nothing => no_answer(),
        }
    }

    async fn legacy_request(&self, mut request: Request) -> Response {
        let endpoint = self.endpoint;
        let handshake = &*request.method == INITIALIZE;
        let opened;
        let session = if handshake && !self.headers.contains_key(SESSION_ID) {
            match endpoint
                .table
                .open(self.identity, self.view, Kind::Streamable)
            {
                Ok((id, session)) => {
                    opened = Some(id);
                    session
                }
                Err(error) => return endpoint.no_session(Some(&request.id), error),
            }
        } else {
            opened = None;
            let found = endpoint.session(self.identity, self.view, self.headers);
            match found.await {
                Ok(session) => session,
                Err(refusal) => return refusal,
            }
        };
        let initialize = handshake.then(|| request.params.clone()).flatten();
        request.params = adopt_headers(request.params, self.headers);
        let id = request.id.clone();
        let stream = session.open_stream();
        let pending = Arc::new(AtomicUsize::new(1));
        let Some(permit) = endpoint.admit(self.identity) else {
            session.close_stream(stream.id);
            if opened.is_some() {
                endpoint.table.forget(&session);
            }
            return overloaded();
        };
        let held = (permit, endpoint.in_flight.enter());
        if let Err(error) = session.start(request, &stream, &pending, held) {
            session.close_stream(stream.id);
            return respond::error(StatusCode::BAD_REQUEST, Some(&id), &error);
        }
        if let Some(new) = opened {
            return self.opened(&session, &stream, &new, initialize).await;
        }
        self.answer(&session, stream).await
    }

    /// Answers the handshake of a new session with its id.
    async fn opened(
        &self,
        session: &Arc<HttpSession>,
        stream: &Arc<EventStream>,
        id: &str,
        initialize: Option<Json>,
    ) -> Response {
        let table = &self.endpoint.table;
        let beginning = stream.begin(HANDSHAKE_PATIENCE).await;
        session.close_stream(stream.id);
        let Beginning::Only(status, message) = beginning else {
            table.forget(session);
            return no_answer();
        };
        if !session.is_initialized() {
            table.forget(session);
            return respond::json(status, message);
        }
        if let Err(error) = table.store(session, initialize.as_ref()).await {
            tracing::warn!(target: "trunkline", %error, "a session will not survive a restart");
        }
        let mut response = if self.accepts.json {
            respond::json(status, message)
        } else {
            respond::events(EventBody::only(message))
        };
        if let Ok(id) = HeaderValue::try_from(id) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        response
    }

    /// Answers with the messages of a stream, which goes on without the client.
    async fn answer(&self, session: &Arc<HttpSession>, stream: Arc<EventStream>) -> Response {
        let beginning = stream.begin(PATIENCE).await;
        match beginning {
            Beginning::Only(status, message) => {
                session.close_stream(stream.id);
                if self.accepts.json {
                    respond::json(status, message)
                } else {
                    respond::events(EventBody::only(message))
                }
            }
            Beginning::Stream if self.accepts.events => {
                respond::events(self.endpoint.resumable(session, stream))
            }
            Beginning::Stream => {
                let response = last_message(&stream).await;
                session.close_stream(stream.id);
                response
            }
            // Cancelled: there is no answer to send.
            Beginning::Nothing => {
                session.close_stream(stream.id);
                respond::events(EventBody::new(stream))
            }
        }
    }

    /// Runs the messages of a batch, which only 2025-03-26 has, and answers with a stream.
    async fn batch(&self, messages: Vec<Message>) -> Response {
        let invalid = |reason: &str| {
            respond::refuse(StatusCode::BAD_REQUEST, RpcError::INVALID_REQUEST, reason)
        };
        let handshake = |message: &Message| matches!(message, Message::Request { method, .. } if &**method == INITIALIZE);
        if messages.is_empty()
            || modern::is_modern_header(self.headers)
            || messages.iter().any(handshake)
        {
            return invalid("a request must be one message");
        }
        if !self.accepts.events {
            let reason = "a batch is answered with text/event-stream";
            return respond::refuse(StatusCode::NOT_ACCEPTABLE, HTTP, reason);
        }
        let found = self
            .endpoint
            .session(self.identity, self.view, self.headers);
        let session = match found.await {
            Ok(session) => session,
            Err(refusal) => return refusal,
        };
        let mut requests = Vec::new();
        for message in messages {
            match message {
                Message::Request { id, method, params } => {
                    let params = adopt_headers(params, self.headers);
                    let request = Request::new(self.endpoint, self.view, id, method, params);
                    requests.push(request);
                }
                Message::Notification { method, params } => session.notification(&method, params),
                Message::Response { id, outcome } => {
                    let _ = id.map(|id| session.questions.answer(&id, outcome));
                }
                Message::Malformed { .. } => return invalid("the batch has an invalid message"),
            }
        }
        if requests.is_empty() {
            return respond::empty(StatusCode::ACCEPTED);
        }
        let stream = session.open_stream();
        let pending = Arc::new(AtomicUsize::new(requests.len()));
        for request in requests {
            let id = request.id.clone();
            let started = match self.endpoint.admit(self.identity) {
                Some(permit) => {
                    let held = (permit, self.endpoint.in_flight.enter());
                    session.start(request, &stream, &pending, held)
                }
                None => Err(RpcError::new(HTTP, "too many requests at once")),
            };
            if let Err(error) = started {
                let outcome = Err(error);
                let message = encode(&Outgoing::Response { id, outcome });
                deliver(&session, &stream, &pending, message);
            }
        }
        respond::events(self.endpoint.resumable(&session, stream))
    }
}

impl Endpoint {
    /// The events of a stream, logged so that the client can resume it.
    pub(super) fn resumable(
        &self,
        session: &Arc<HttpSession>,
        stream: Arc<EventStream>,
    ) -> EventBody {
        let (id, activity) = (stream.id, session.activity());
        let watched = Arc::clone(&stream);
        let owner = Arc::clone(session);
        let forget = OnDrop(Some(move || {
            if watched.is_drained() {
                owner.close_stream(watched.id);
            }
        }));
        let body = EventBody::new(stream)
            .logged(self.log(session))
            .guarded((activity, forget));
        if session.wants_priming() {
            let place = EventId {
                stream: id,
                number: 0,
            };
            return body.preamble(format!("id: {place}\nretry: {RETRY_MILLIS}\ndata: \n\n"));
        }
        body
    }

    pub(super) fn log(&self, session: &HttpSession) -> Log {
        Log {
            events: Arc::clone(&self.stores.events),
            session: session.key,
        }
    }

    /// Finds the session that the headers name.
    pub(super) async fn session(
        &self,
        identity: &Identity,
        view: &View,
        headers: &HeaderMap,
    ) -> Result<Arc<HttpSession>, Response> {
        let Some(id) = headers.get(SESSION_ID) else {
            let reason = "the header Mcp-Session-Id is required";
            return Err(respond::refuse(StatusCode::BAD_REQUEST, HTTP, reason));
        };
        let unknown = || {
            let reason = "the session does not exist; start a new one with `initialize`";
            respond::refuse(StatusCode::NOT_FOUND, UNKNOWN_SESSION, reason)
        };
        let id = id.to_str().map_err(|_| unknown())?;
        match self.table.find(id, identity, view).await {
            Ok(Some(session)) if session.kind == Kind::Streamable => Ok(session),
            Ok(_) => Err(unknown()),
            Err(error) => Err(self.no_session(None, error)),
        }
    }

    /// The response if a client cannot have a session.
    pub(super) fn no_session(&self, id: Option<&Json>, error: SessionError) -> Response {
        let (status, code, reason) = match error {
            SessionError::TooMany => {
                self.metrics.hit(Limit::Sessions);
                let wait = Duration::from_secs(10);
                let status = StatusCode::TOO_MANY_REQUESTS;
                return respond::refuse_for(status, wait, "too many sessions");
            }
            SessionError::Connect(error @ ConnectError::UnknownServer(_)) => (
                StatusCode::NOT_FOUND,
                RpcError::INVALID_REQUEST,
                error.to_string(),
            ),
            SessionError::Connect(error) => (StatusCode::FORBIDDEN, HTTP, error.to_string()),
            SessionError::Store(error) => {
                tracing::warn!(target: "trunkline", %error, "the session store failed");
                let reason = "sessions are unavailable now".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, HTTP, reason)
            }
        };
        respond::error(status, id, &RpcError::new(code, reason))
    }
}

/// Waits for the last message, for a client that accepts no stream.
async fn last_message(stream: &EventStream) -> Response {
    let reader = stream.take_over();
    let mut last = None;
    while let Some(event) = stream.next(reader).await {
        last = Some(event.data);
    }
    match last {
        Some(message) => respond::json(StatusCode::OK, message),
        None => no_answer(),
    }
}

fn no_answer() -> Response {
    respond::refuse(
        StatusCode::INTERNAL_SERVER_ERROR,
        RpcError::INTERNAL_ERROR,
        "the request ended without an answer",
    )
}

pub(super) fn malformed(id: Option<&Json>, reason: &str) -> Response {
    let code = if reason.contains("JSON") {
        RpcError::PARSE_ERROR
    } else {
        RpcError::INVALID_REQUEST
    };
    let error = RpcError::new(code, format!("the message is invalid: {reason}"));
    respond::error(StatusCode::BAD_REQUEST, id, &error)
}

impl Request {
    pub(super) fn new(
        endpoint: &Endpoint,
        view: &View,
        id: Json,
        method: trunkline_wire::ByteString,
        params: Option<Json>,
    ) -> Self {
        let host = endpoint.gateway.host();
        let timer = CallTimer::start(&endpoint.metrics, host, view, &method, params.as_ref());
        Self {
            id,
            method,
            params,
            timer,
        }
    }
}

/// Ends a stream if its task ends without an answer.
struct EndOnDrop(Arc<EventStream>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Cancels a request whose client has left.
struct CancelOnDrop(tokio::task::AbortHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}
