//! HTTP+SSE (2024-11-05) for old clients: one stream for all messages of the server, and POSTs for
//! those of the client. The session ends with the stream.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use http::StatusCode;
use trunkline_wire::RpcError;
use trunkline_wire::envelope::{Frame, Message};
use trunkline_wire::transport::Outgoing;

use super::endpoint::{Endpoint, Request as HttpRequest};
use super::identity::Identity;
use super::link::encode;
use super::post::malformed;
use super::respond::{self, HTTP, Response, UNKNOWN_SESSION};
use super::session::{HttpSession, Kind, Request, deliver};
use super::sse::EventBody;
use super::trace::continue_trace;
use crate::client::View;

impl Endpoint {
    /// Opens a session and its stream, which begins with the URL for messages.
    pub(super) fn open_sse(self: &Arc<Self>, identity: &Identity, view: &View) -> Response {
        let (id, session) = match self.table.open(identity, view, Kind::Sse) {
            Ok(opened) => opened,
            Err(error) => return self.no_session(None, error),
        };
        let end = EndSession {
            endpoint: Arc::clone(self),
            session: Arc::clone(&session),
        };
        let activity = session.activity();
        let body = EventBody::new(Arc::clone(&session.standing))
            .preamble(format!(
                "event: endpoint\ndata: /messages?session_id={id}\n\n"
            ))
            .guarded((activity, end));
        respond::events(body)
    }

    /// Accepts a message of a session. Its answer goes to the stream.
    pub(super) async fn post_sse(
        &self,
        identity: &Identity,
        id: &str,
        request: HttpRequest,
    ) -> Response {
        let found = self.table.find_sse(id, identity);
        let Some(session) = found else {
            let reason = "the session does not exist; open one with GET /sse";
            return respond::refuse(StatusCode::NOT_FOUND, UNKNOWN_SESSION, reason);
        };
        let headers = request.headers().clone();
        let (frame, _body) = match self.read_frame(request).await {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        let Frame::Single(message) = frame else {
            let reason = "a request must be one message";
            let status = StatusCode::BAD_REQUEST;
            return respond::refuse(status, RpcError::INVALID_REQUEST, reason);
        };
        match message {
            Message::Request { id, method, params } => {
                let params = continue_trace(params, &headers);
                let request = Request::new(self, &session.view, id, method, params);
                return self.start_sse(identity, &session, request);
            }
            Message::Notification { method, params } => session.notification(&method, params),
            Message::Response { id, outcome } => {
                let _ = id.map(|id| session.questions.answer(&id, outcome));
            }
            Message::Malformed { id, reason } => return malformed(id.as_ref(), &reason),
        }
        respond::empty(StatusCode::ACCEPTED)
    }

    fn start_sse(
        &self,
        identity: &Identity,
        session: &Arc<HttpSession>,
        request: Request,
    ) -> Response {
        let id = request.id.clone();
        let permit = match self.admit(identity) {
            Ok(permit) => permit,
            Err(refusal) => return refusal,
        };
        let held = (permit, self.in_flight.enter());
        // The standing stream does not end with an answer, so nothing is counted.
        let pending = Arc::new(AtomicUsize::new(0));
        let stream = &session.standing;
        if let Err(error) = session.start(request, stream, &pending, held) {
            let outcome = Err(error);
            let message = encode(&Outgoing::Response { id, outcome });
            deliver(session, stream, &pending, message);
        }
        if session.is_closed() {
            let reason = "the session has ended";
            return respond::refuse(StatusCode::GONE, HTTP, reason);
        }
        respond::empty(StatusCode::ACCEPTED)
    }
}

/// Ends the session with its stream.
struct EndSession {
    endpoint: Arc<Endpoint>,
    session: Arc<HttpSession>,
}

impl Drop for EndSession {
    fn drop(&mut self) {
        self.endpoint.table.forget(&self.session);
    }
}
