//! One message and what comes back for it.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use trunkline_wire::peer::CallStatus;
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind, Incoming, Outgoing};

use super::super::body::{Body, BodyError};
use super::super::client::Answer;
use super::super::courier::{in_words, said};
use super::super::events::EventDecoder;
use super::super::headers::{self, EVENTS, JSON};
use super::link::{Link, is_modern};
use crate::MAX_MESSAGE_BYTES;

/// How long an answer that is no success may be, to be read as one.
const MAX_ERROR: usize = 1024 * 1024;

/// How long telling a server that we have given up may take.
const GIVE_UP_LIMIT: Duration = Duration::from_millis(500);

/// How long to wait before asking for the rest of a broken stream, when the server has not said.
const RESUME_AFTER: Duration = Duration::from_secs(1);
/// The shortest and the longest wait that a server may ask for.
const SHORTEST_RESUME: Duration = Duration::from_millis(100);
const LONGEST_RESUME: Duration = Duration::from_mins(1);
/// How often in a row that may fail.
const MAX_RESUMES: u32 = 5;

/// Sends a request, and delivers what comes back.
pub(super) async fn request(link: &Link, message: &Outgoing) -> Result<(), DeliveryError> {
    let Outgoing::Request {
        id,
        method,
        routing,
        call,
        ..
    } = message
    else {
        return Ok(());
    };
    // A session belongs to what was agreed in `initialize`; before that there is none.
    let agreed = !matches!(*method, "initialize" | "server/discover");
    let with_session = agreed && link.has_session();
    let mut answer = link.post(message, agreed).await?;
    let modern = is_modern(routing.version);
    let exchange = Exchange {
        link,
        id: *id,
        call,
        modern,
    };
    if answer.status.is_success() {
        if *method == "initialize" {
            link.begin_session(&answer);
        }
        return exchange.answered(&mut answer).await;
    }
    // Boxed, because it seldom comes to this.
    Box::pin(exchange.turned_down(&mut answer, with_session)).await
}

/// Sends a message that is not answered.
pub(super) async fn tell(link: &Link, message: &Outgoing) -> Result<(), DeliveryError> {
    let mut answer = link.post(message, true).await?;
    if answer.status.is_success() {
        // Whatever stands in it is no answer to anything.
        link.courier.client.finish(&mut answer.body).await;
        return Ok(());
    }
    let status = answer.status;
    let text = format!(
        "the server answered with status {}{}",
        status.as_u16(),
        said(&mut answer).await
    );
    if status == StatusCode::NOT_FOUND && link.has_session() {
        return Err(DeliveryError::new(
            DeliveryErrorKind::SessionExpired,
            text,
            false,
        ));
    }
    Err(DeliveryError::new(
        DeliveryErrorKind::Status(status.as_u16()),
        text,
        false,
    ))
}

/// Whether the body of an answer that is no success is meant for us, and not for whoever reads HTTP.
fn is_message(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"{")
        && memchr::memmem::find(body, b"\"jsonrpc\"").is_some()
}

/// Tells a legacy server that a request is no longer waited for.
pub(super) async fn give_up(link: &Link, id: u64) {
    let reason = "timed out";
    let _ = tokio::time::timeout(GIVE_UP_LIMIT, tell(link, &Outgoing::Cancel { id, reason })).await;
}

/// Some servers that have lost a session call the request bad instead of the session gone. They say so without the id of the
/// request, which they have not read.
fn speaks_of_session(body: &[u8]) -> bool {
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else {
        return false;
    };
    let error = &answer["error"];
    let message = error["message"].as_str().unwrap_or_default();
    answer["id"].is_null()
        && matches!(error["code"].as_i64(), Some(-32000 | -32001 | -32600))
        && message.to_ascii_lowercase().contains("session")
}

struct Exchange<'e> {
    link: &'e Link,
    id: u64,
    call: &'e CallStatus,
    modern: bool,
}

impl Exchange<'_> {
    async fn answered(&self, answer: &mut Answer) -> Result<(), DeliveryError> {
        if headers::is(&answer.headers, EVENTS) {
            return Box::pin(self.stream(answer)).await;
        }
        let is_json = headers::is(&answer.headers, JSON);
        let body = answer
            .body
            .whole(MAX_MESSAGE_BYTES, &self.link.inlet.held, || self.alive())
            .await
            .map_err(|error| lost(&error))?;
        self.link.courier.client.take_back(&mut answer.body);
        if body.is_empty() {
            let text = format!(
                "the server answered with status {} and nothing else",
                answer.status.as_u16()
            );
            return Err(DeliveryError::new(DeliveryErrorKind::Broken, text, true));
        }
        if !is_json
            && !body.trim_ascii_start().starts_with(b"{")
            && !body.trim_ascii_start().starts_with(b"[")
        {
            let text = "what the server sent is no MCP message; is the URL right?";
            return Err(DeliveryError::new(
                DeliveryErrorKind::Status(answer.status.as_u16()),
                text,
                true,
            ));
        }
        self.deliver(body);
        self.must_be_answered("the server's answer holds no answer to the request")
            .await
    }

    /// Reads an answer whose status is no success.
    async fn turned_down(
        &self,
        answer: &mut Answer,
        with_session: bool,
    ) -> Result<(), DeliveryError> {
        let status = answer.status;
        let gone = || {
            DeliveryError::new(
                DeliveryErrorKind::SessionExpired,
                "the server has ended the session",
                false,
            )
        };
        if with_session && status == StatusCode::NOT_FOUND {
            return Err(gone());
        }
        if headers::is(&answer.headers, EVENTS) {
            let mut events = EventDecoder::new(MAX_ERROR);
            self.read(&mut answer.body, &mut events).await?;
            return self.may_be_answered(status, &[]).await;
        }
        let body = answer
            .body
            .whole(MAX_ERROR, &self.link.inlet.held, || {})
            .await;
        let body = body.unwrap_or_default();
        self.link.courier.client.take_back(&mut answer.body);
        if with_session && status == StatusCode::BAD_REQUEST && speaks_of_session(&body) {
            return Err(gone());
        }
        if is_message(&body) {
            self.deliver(body.clone());
        }
        self.may_be_answered(status, &body).await
    }

    /// A status that is no success may still have brought an answer.
    async fn may_be_answered(&self, status: StatusCode, body: &[u8]) -> Result<(), DeliveryError> {
        self.link.inlet.taken().await;
        if !self.call.is_waiting() {
            return Ok(());
        }
        let text = format!(
            "the server answered with status {}{}",
            status.as_u16(),
            in_words(body)
        );
        // One that fails may have failed half-way.
        let may_have_run = status.is_server_error();
        Err(DeliveryError::new(
            DeliveryErrorKind::Status(status.as_u16()),
            text,
            may_have_run,
        ))
    }

    /// Delivers the events of a stream until the answer is among them. A legacy server's stream is asked for again where it
    /// breaks off.
    async fn stream(&self, answer: &mut Answer) -> Result<(), DeliveryError> {
        let mut events = EventDecoder::new(MAX_MESSAGE_BYTES);
        let mut ended = self.read(&mut answer.body, &mut events).await?;
        let mut failures = 0;
        loop {
            if !self.call.is_waiting() {
                return Ok(());
            }
            let last_id = events.last_id().map(Bytes::copy_from_slice);
            let Some(last_id) = last_id.filter(|_| !self.modern && failures < MAX_RESUMES) else {
                return Err(DeliveryError::new(DeliveryErrorKind::Broken, ended, true));
            };
            let wait = events.retry().map_or(RESUME_AFTER, Duration::from_millis);
            let wait = wait.clamp(SHORTEST_RESUME, LONGEST_RESUME);
            tokio::time::sleep(wait * 2_u32.pow(failures)).await;
            failures += 1;
            match self.link.get(Some(&last_id)).await {
                Ok(mut more) if more.status.is_success() && headers::is(&more.headers, EVENTS) => {
                    let mut next = events.again();
                    ended = self.read(&mut more.body, &mut next).await?;
                    if next.last_id() != Some(&last_id) {
                        failures = 0;
                    }
                    events = next;
                }
                Ok(more) if more.status.is_client_error() => {
                    let text = format!(
                        "{ended}; the rest cannot be had (status {})",
                        more.status.as_u16()
                    );
                    return Err(DeliveryError::new(DeliveryErrorKind::Broken, text, true));
                }
                Ok(more) => {
                    ended = format!("the server answered with status {}", more.status.as_u16());
                }
                // Where the server was there is now nobody, and nobody who knows the rest.
                Err(failure) if failure.kind == DeliveryErrorKind::Unreachable => {
                    let text = format!("{ended}; the rest cannot be had: {failure}");
                    return Err(DeliveryError::new(DeliveryErrorKind::Broken, text, true));
                }
                Err(failure) => ended = failure.to_string(),
            }
        }
    }

    /// Reads a stream until the answer has come, or to its end; says how it ended.
    async fn read(
        &self,
        body: &mut Body,
        events: &mut EventDecoder,
    ) -> Result<String, DeliveryError> {
        let mut share = self.link.inlet.held.share();
        loop {
            match body.piece().await {
                Ok(Some(piece)) => events.push(piece),
                Ok(None) => {
                    self.link.courier.client.take_back(body);
                    return Ok("the server ended the stream before it had answered".to_owned());
                }
                Err(error @ (BodyError::TooLong(_) | BodyError::TooMuch)) => {
                    return Err(lost(&error));
                }
                Err(BodyError::Broken(reason)) => return Ok(reason),
            }
            let reply = |frame| Incoming::Reply { to: self.id, frame };
            let delivered = self.link.inlet.deliver_events(events, reply).await;
            let Ok(messages) = delivered else {
                return Err(lost(&BodyError::TooLong(MAX_MESSAGE_BYTES)));
            };
            share.set(events.held()).map_err(|error| lost(&error))?;
            if events.is_skipping() {
                return Err(lost(&BodyError::TooLong(MAX_MESSAGE_BYTES)));
            }
            if !messages {
                self.alive();
            }
            self.link.inlet.taken().await;
            if !self.call.is_waiting() {
                self.link.courier.client.finish(body).await;
                return Ok(String::new());
            }
        }
    }

    /// Bytes have come that are no message.
    fn alive(&self) {
        self.link.inlet.alive(self.id);
    }

    fn deliver(&self, frame: Bytes) {
        self.link
            .inlet
            .deliver(Incoming::Reply { to: self.id, frame });
    }

    async fn must_be_answered(&self, otherwise: &str) -> Result<(), DeliveryError> {
        self.link.inlet.taken().await;
        if self.call.is_waiting() {
            return Err(DeliveryError::new(
                DeliveryErrorKind::Broken,
                otherwise,
                true,
            ));
        }
        Ok(())
    }
}

fn lost(error: &BodyError) -> DeliveryError {
    let kind = match error {
        BodyError::TooLong(_) | BodyError::TooMuch => DeliveryErrorKind::TooLarge,
        BodyError::Broken(_) => DeliveryErrorKind::Broken,
    };
    DeliveryError::new(kind, error.to_string(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_request_is_not_taken_for_a_lost_session() {
        let lost = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
        assert!(speaks_of_session(lost.as_bytes()));
        for other in [
            r#"{"id":7,"error":{"code":-32000,"message":"no session"}}"#,
            r#"{"id":null,"error":{"code":-32602,"message":"unknown argument session_id"}}"#,
            r#"{"id":null,"error":{"code":-32000,"message":"bad request"}}"#,
            "session error",
            "",
        ] {
            assert!(!speaks_of_session(other.as_bytes()), "{other}");
        }
    }
}
