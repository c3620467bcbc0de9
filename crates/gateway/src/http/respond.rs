//! Responses.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use trunkline_wire::{Json, ObjectWriter, RpcError};

use super::sse::EventBody;

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Response = http::Response<Body>;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// A complete body.
pub(super) fn full(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response {
    let mut response = http::Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A message of the protocol.
pub(super) fn json(status: StatusCode, body: Bytes) -> Response {
    full(status, "application/json", body)
}

/// A line for people.
pub(super) fn text(status: StatusCode, line: &str) -> Response {
    full(status, "text/plain; charset=utf-8", format!("{line}\n"))
}

/// A status without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = http::Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

/// An event stream.
pub(super) fn events(body: EventBody) -> Response {
    let frames = body.into_stream().map(|part| Ok(Frame::data(part)));
    let mut response = http::Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    // Proxies would hold events back.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// An error of the protocol, for the request with this id.
pub(super) fn error(status: StatusCode, id: Option<&Json>, error: &RpcError) -> Response {
    let mut object = ObjectWriter::new();
    object.string("jsonrpc", "2.0");
    if let Some(id) = id {
        object.raw("id", id);
    }
    object.raw("error", &error.to_json());
    let text = object.finish().to_text();
    json(status, text.into_bytes())
}

/// Refuses a request, with a reason in an error of the protocol.
pub(super) fn refuse(status: StatusCode, code: i64, reason: impl Into<String>) -> Response {
    error(status, None, &RpcError::new(code, reason))
}

/// Refuses a request until some time has passed.
pub(super) fn refuse_for(status: StatusCode, wait: Duration, reason: &str) -> Response {
    let mut response = refuse(status, LIMITED, reason);
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    if let Ok(value) = HeaderValue::try_from(seconds.to_string()) {
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    response
}

/// The code of an error that is only about HTTP.
pub(super) const HTTP: i64 = -32000;
/// The code for an unknown session, as the SDKs use it.
pub(super) const UNKNOWN_SESSION: i64 = -32001;
/// The code for a limit.
const LIMITED: i64 = -32000;
