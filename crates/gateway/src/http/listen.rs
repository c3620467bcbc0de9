//! The stream of a GET, and the end of a session by DELETE.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::accept::Accepts;
use super::endpoint::{Endpoint, Request, not_allowed};
use super::identity::Identity;
use super::modern;
use super::respond::{self, HTTP, Response};
use super::session::STANDING;
use super::sse::{EventBody, EventId};
use crate::client::View;
use crate::store::Replay;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The wait for the previous reader of a stream.
const SETTLE: Duration = Duration::from_secs(5);

impl Endpoint {
    /// Opens the stream for messages that belong to no request, or resumes a stream.
    pub(super) async fn listen(
        self: &Arc<Self>,
        identity: &Identity,
        view: &View,
        request: &Request,
    ) -> Response {
        let headers = request.headers();
        if modern::is_modern_header(headers) {
            return not_allowed("POST");
        }
        if !Accepts::of(headers).events {
            let reason = "the client must accept text/event-stream";
            return respond::refuse(StatusCode::NOT_ACCEPTABLE, HTTP, reason);
        }
        let session = match self.session(identity, view, headers).await {
            Ok(session) => session,
            Err(refusal) => return refusal,
        };
        let Some(last) = headers.get(LAST_EVENT_ID) else {
            let standing = Arc::clone(&session.standing);
            let body = EventBody::new(standing).logged(self.log(&session));
            return respond::events(body.guarded(session.activity()));
        };
        let Some(last) = last.to_str().ok().and_then(EventId::parse) else {
            let reason = "the header Last-Event-ID is not an id of this server";
            return respond::refuse(StatusCode::BAD_REQUEST, HTTP, reason);
        };
        let live = session.stream(last.stream);
        let live = live.map(|stream| {
            let reader = stream.take_over();
            (stream, reader)
        });
        if let Some((stream, _)) = &live {
            stream.settled(SETTLE).await;
        }
        let replay = self
            .stores
            .events
            .after(session.key, last.stream, last.number);
        let events = match replay.await {
            Ok(Replay::Events(events)) => events,
            // Changes of lists can be missed: the next one says the same.
            Ok(Replay::Incomplete) if last.stream == STANDING => Vec::new(),
            Ok(Replay::Incomplete) => {
                let reason = "the events after this one are no longer kept";
                return respond::refuse(StatusCode::GONE, HTTP, reason);
            }
            Err(error) => {
                tracing::warn!(target: "trunkline", %error, "a stream cannot be resumed");
                let reason = "the stream cannot be resumed now";
                return respond::refuse(StatusCode::SERVICE_UNAVAILABLE, HTTP, reason);
            }
        };
        let body = EventBody::resumed(last.stream, events, live).logged(self.log(&session));
        respond::events(body.guarded(session.activity()))
    }

    /// Ends a session.
    pub(super) async fn delete(
        &self,
        identity: &Identity,
        view: &View,
        request: &Request,
    ) -> Response {
        if modern::is_modern_header(request.headers()) {
            return not_allowed("POST");
        }
        match self.session(identity, view, request.headers()).await {
            Ok(session) => {
                self.table.remove(&session).await;
                respond::empty(StatusCode::NO_CONTENT)
            }
            Err(refusal) => refusal,
        }
    }
}
