//! The exchange of one message with a Streamable HTTP server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use trunkline_wire::peer::CallStatus;
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind, Incoming, Outgoing};

use super::super::body::{Body, BodyError};
use super::super::connection_pool::Response;
use super::super::events::EventDecoder;
use super::super::headers::{self, EVENTS, JSON};
use super::super::http_client::{detail, status_error};
use super::session::{Session, is_modern};
use crate::MAX_MESSAGE_BYTES;

/// The longest body of an error response that is read as a message.
const MAX_ERROR_BODY: usize = 1024 * 1024;

/// Time limit for telling a server that a request has timed out.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);

/// The wait before resuming a broken stream unless the server sets one, and bounds for that.
const RESUME_AFTER: Duration = Duration::from_secs(1);
const MIN_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_mins(1);

/// The most failures to resume in a row.
const MAX_RESUMES: u32 = 5;

/// Sends a request and delivers the response.
pub(super) async fn request(session: &Session, message: &Outgoing) -> Result<(), DeliveryError> {
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
    // A session begins with `initialize`.
    let is_negotiated = !matches!(*method, "initialize" | "server/discover");
    let in_session = is_negotiated && session.has_id();
    let mut response = session.post(message, is_negotiated).await?;
    let exchange = Exchange {
        session,
        id: *id,
        call,
        modern: is_modern(routing.version),
    };
    if response.status.is_success() {
        if *method == "initialize" {
            session.begin(&response);
        }
        return exchange.read_success(&mut response).await;
    }
    // Boxed, because it is rare.
    Box::pin(exchange.read_error(&mut response, in_session)).await
}

/// Sends a notification or a response.
pub(super) async fn notify(session: &Session, message: &Outgoing) -> Result<(), DeliveryError> {
    let mut response = session.post(message, true).await?;
    let status = response.status;
    if status.is_success() {
        session.http_client.pool.drain(&mut response.body).await;
        return Ok(());
    }
    let kind = if status == StatusCode::NOT_FOUND && session.has_id() {
        DeliveryErrorKind::SessionExpired
    } else {
        DeliveryErrorKind::Status(status.as_u16())
    };
    Err(status_error(&mut response, kind, false).await)
}

/// Cancels a request that has timed out on a legacy server.
pub(super) async fn cancel_timed_out(session: &Session, id: u64) {
    let reason = "timed out";
    let cancel = Outgoing::Cancel { id, reason };
    let _ = tokio::time::timeout(CANCEL_TIMEOUT, notify(session, &cancel)).await;
}

/// Whether the body of an error response is a JSON-RPC message.
fn is_message(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"{")
        && memchr::memmem::find(body, b"\"jsonrpc\"").is_some()
}

/// Whether an error reports a lost session. Some servers answer 400 instead of 404, without the id
/// of the request, which they have not read.
fn is_session_error(body: &[u8]) -> bool {
    let Ok(response) = serde_json::from_slice::<serde_json::Value>(body) else {
        return false;
    };
    let error = &response["error"];
    let message = error["message"].as_str().unwrap_or_default();
    response["id"].is_null()
        && matches!(error["code"].as_i64(), Some(-32000 | -32001 | -32600))
        && message.to_ascii_lowercase().contains("session")
}

struct Exchange<'e> {
    session: &'e Session,
    id: u64,
    call: &'e CallStatus,
    modern: bool,
}

impl Exchange<'_> {
    async fn read_success(&self, response: &mut Response) -> Result<(), DeliveryError> {
        if headers::has_content_type(&response.headers, EVENTS) {
            return Box::pin(self.read_stream(response)).await;
        }
        let is_json = headers::has_content_type(&response.headers, JSON);
        let budget = &self.session.inbound.budget;
        let body = response
            .body
            .collect(MAX_MESSAGE_BYTES, budget, || self.report_progress());
        let body = body.await.map_err(|error| body_error(&error))?;
        self.session.http_client.pool.release(&mut response.body);
        let status = response.status.as_u16();
        if body.is_empty() {
            let text = format!("the server answered with status {status} and nothing else");
            return Err(broken(text));
        }
        if !is_json
            && !body.trim_ascii_start().starts_with(b"{")
            && !body.trim_ascii_start().starts_with(b"[")
        {
            let text = "the response is not an MCP message; is the URL right?";
            let kind = DeliveryErrorKind::Status(status);
            return Err(DeliveryError::new(kind, text, true));
        }
        self.deliver(body);
        self.session.inbound.drained().await;
        if self.call.is_waiting() {
            return Err(broken("the response does not answer the request"));
        }
        Ok(())
    }

    /// Reads a response whose status is not a success; it may still be an MCP message.
    async fn read_error(
        &self,
        response: &mut Response,
        in_session: bool,
    ) -> Result<(), DeliveryError> {
        let status = response.status;
        let expired = || {
            let text = "the server has ended the session";
            DeliveryError::new(DeliveryErrorKind::SessionExpired, text, false)
        };
        if in_session && status == StatusCode::NOT_FOUND {
            return Err(expired());
        }
        let mut body = Bytes::new();
        if headers::has_content_type(&response.headers, EVENTS) {
            let mut events = EventDecoder::new(MAX_ERROR_BODY);
            self.read_events(&mut response.body, &mut events).await?;
        } else {
            let budget = &self.session.inbound.budget;
            let collected = response.body.collect(MAX_ERROR_BODY, budget, || {}).await;
            body = collected.unwrap_or_default();
            self.session.http_client.pool.release(&mut response.body);
            if in_session && status == StatusCode::BAD_REQUEST && is_session_error(&body) {
                return Err(expired());
            }
            if is_message(&body) {
                self.deliver(body.clone());
            }
        }
        self.session.inbound.drained().await;
        if !self.call.is_waiting() {
            return Ok(());
        }
        let text = format!(
            "the server answered with status {}{}",
            status.as_u16(),
            detail(&body)
        );
        let kind = DeliveryErrorKind::Status(status.as_u16());
        // A server that fails may have acted on the request before.
        Err(DeliveryError::new(kind, text, status.is_server_error()))
    }

    /// Delivers the events of a stream up to the response. The stream of a legacy server is resumed
    /// when it breaks.
    async fn read_stream(&self, response: &mut Response) -> Result<(), DeliveryError> {
        let mut events = EventDecoder::new(MAX_MESSAGE_BYTES);
        let mut reason = self.read_events(&mut response.body, &mut events).await?;
        let mut failures = 0;
        loop {
            if !self.call.is_waiting() {
                return Ok(());
            }
            let last_id = events.last_id().map(Bytes::copy_from_slice);
            let Some(last_id) = last_id.filter(|_| !self.modern && failures < MAX_RESUMES) else {
                return Err(broken(reason));
            };
            let wait = events.retry().map_or(RESUME_AFTER, Duration::from_millis);
            let wait = wait.clamp(MIN_RETRY, MAX_RETRY);
            tokio::time::sleep(wait * 2_u32.pow(failures)).await;
            failures += 1;
            match self.session.get(Some(&last_id)).await {
                Ok(mut more)
                    if more.status.is_success()
                        && headers::has_content_type(&more.headers, EVENTS) =>
                {
                    let mut next = events.resumed();
                    reason = self.read_events(&mut more.body, &mut next).await?;
                    if next.last_id() != Some(&last_id) {
                        failures = 0;
                    }
                    events = next;
                }
                Ok(more) if more.status.is_client_error() => {
                    let status = more.status.as_u16();
                    let text = format!("{reason}; it cannot be resumed (status {status})");
                    return Err(broken(text));
                }
                Ok(more) => {
                    reason = format!("the server answered with status {}", more.status.as_u16());
                }
                // The server is gone, and the rest of the stream with it.
                Err(error) if error.kind == DeliveryErrorKind::Unreachable => {
                    return Err(broken(format!("{reason}; it cannot be resumed: {error}")));
                }
                Err(error) => reason = error.to_string(),
            }
        }
    }

    /// Reads a stream up to the response or to its end; returns the reason for the end.
    async fn read_events(
        &self,
        body: &mut Body,
        events: &mut EventDecoder,
    ) -> Result<String, DeliveryError> {
        let inbound = &self.session.inbound;
        let mut reservation = inbound.budget.reservation();
        loop {
            match body.next_chunk().await {
                Ok(Some(chunk)) => events.push(chunk),
                Ok(None) => {
                    self.session.http_client.pool.release(body);
                    return Ok("the server ended the stream before it responded".to_owned());
                }
                Err(BodyError::Broken(reason)) => return Ok(reason),
                Err(error) => return Err(body_error(&error)),
            }
            let reply = |frame| Incoming::Reply { to: self.id, frame };
            let Ok(messages) = inbound.deliver_events(events, reply).await else {
                return Err(body_error(&BodyError::TooLong(MAX_MESSAGE_BYTES)));
            };
            let resized = reservation.resize(events.buffered());
            resized.map_err(|error| body_error(&error))?;
            if events.is_skipping() {
                return Err(body_error(&BodyError::TooLong(MAX_MESSAGE_BYTES)));
            }
            if !messages {
                self.report_progress();
            }
            inbound.drained().await;
            if !self.call.is_waiting() {
                self.session.http_client.pool.drain(body).await;
                return Ok(String::new());
            }
        }
    }

    fn report_progress(&self) {
        self.session.inbound.push_activity(self.id);
    }

    fn deliver(&self, frame: Bytes) {
        let reply = Incoming::Reply { to: self.id, frame };
        self.session.inbound.push(reply);
    }
}

fn broken(text: impl Into<Arc<str>>) -> DeliveryError {
    DeliveryError::new(DeliveryErrorKind::Broken, text, true)
}

fn body_error(error: &BodyError) -> DeliveryError {
    let kind = match error {
        BodyError::TooLong(_) | BodyError::BudgetExceeded => DeliveryErrorKind::TooLarge,
        BodyError::Broken(_) => DeliveryErrorKind::Broken,
    };
    DeliveryError::new(kind, error.to_string(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_request_is_not_mistaken_for_a_lost_session() {
        let lost = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
        assert!(is_session_error(lost.as_bytes()));
        for other in [
            r#"{"id":7,"error":{"code":-32000,"message":"no session"}}"#,
            r#"{"id":null,"error":{"code":-32602,"message":"unknown argument session_id"}}"#,
            r#"{"id":null,"error":{"code":-32000,"message":"bad request"}}"#,
            "session error",
            "",
        ] {
            assert!(!is_session_error(other.as_bytes()), "{other}");
        }
    }
}
