//! The HTTP/2 connection to an origin, shared by all requests.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, ReadBuf, ReadHalf, join, split};
use tokio::task::{AbortHandle, coop};

use super::body::Body;
use super::connection_pool::{ExchangeError, Response};
use super::request::HttpRequest;
use crate::net::Stream;

/// Interval of keep-alive pings, and the time limit for the response to one.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Sends requests; clones use the same connection.
pub(super) type Http2Sender = http2::SendRequest<Full<Bytes>>;

/// The shared connection, if there is one.
#[derive(Default)]
pub(super) struct SharedHttp2 {
    current: Mutex<Option<Http2Connection>>,
    /// The server has negotiated HTTP/2 before.
    negotiated: AtomicBool,
    dialing: tokio::sync::Mutex<()>,
}

struct Http2Connection {
    sender: Http2Sender,
    driver: AbortHandle,
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl SharedHttp2 {
    /// The sender of the connection, if it can take another request.
    pub(super) fn sender(&self) -> Option<Http2Sender> {
        let mut current = self.lock();
        let usable = current.as_ref().filter(|now| !now.sender.is_closed());
        let sender = usable.map(|now| now.sender.clone());
        if sender.is_none() {
            *current = None;
        }
        sender
    }

    /// Waits until no other request dials: one HTTP/2 connection serves all.
    pub(super) async fn dial_lock(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if self.negotiated.load(Ordering::Relaxed) {
            Some(self.dialing.lock().await)
        } else {
            None
        }
    }

    /// Starts HTTP/2 on a stream.
    pub(super) async fn handshake(&self, stream: Stream) -> Result<Http2Sender, ExchangeError> {
        self.negotiated.store(true, Ordering::Relaxed);
        let (reader, writer) = split(stream);
        let started = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .adaptive_window(true)
            .handshake(TokioIo::new(join(ThrottledReader(reader), writer)))
            .await;
        let (sender, driver) = started.map_err(|error| ExchangeError {
            reason: explain(&error),
            unsent: true,
            may_have_run: false,
        })?;
        let driver = tokio::spawn(async move {
            // Its errors reach the requests that wait on it.
            let _ = driver.await;
        });
        let connection = Http2Connection {
            sender: sender.clone(),
            driver: driver.abort_handle(),
        };
        let mut current = self.lock();
        // Before HTTP/2 is known, requests dial concurrently; the first connection wins.
        if let Some(first) = current.as_ref().filter(|now| !now.sender.is_closed()) {
            return Ok(first.sender.clone());
        }
        *current = Some(connection);
        Ok(sender)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Http2Connection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a request and waits for the head of the response.
pub(super) async fn send(
    mut sender: Http2Sender,
    request: &HttpRequest<'_>,
) -> Result<Box<Response>, ExchangeError> {
    let sent = sender.try_send_request(request.to_http2()).await;
    let response = sent.map_err(|mut failed| {
        let unsent = failed.take_message().is_some();
        ExchangeError {
            may_have_run: !unsent && !is_unprocessed(failed.error()),
            reason: explain(failed.error()),
            unsent,
        }
    })?;
    let (head, body) = response.into_parts();
    Ok(Box::new(Response {
        status: head.status,
        body: Body::http2(body, &head.headers),
        headers: head.headers,
    }))
}

/// A reader that limits reads: tiny frames cost hyper as much as large ones, and hyper reads for as
/// long as there is input (CALL-7).
struct ThrottledReader(ReadHalf<Stream>);

/// The most bytes per read, and the share of a task's coop budget (128) that a read takes.
const MAX_READ: usize = 16 * 1024;
const READ_COST: usize = 16;

impl AsyncRead for ThrottledReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        for _ in 1..READ_COST {
            ready!(coop::poll_proceed(context)).made_progress();
        }
        let room = buffer.remaining().min(MAX_READ);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.0).poll_read(context, &mut part))?;
        let count = part.filled().len();
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// A hyper error with its causes; the outermost message is generic.
pub(super) fn explain(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

/// Whether the server reports that it did not process the request (RFC 9113, 8.7).
fn is_unprocessed(error: &hyper::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (refused || error.is_go_away());
        }
        cause = error.source();
    }
    false
}
