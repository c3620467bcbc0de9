//! The one HTTP/2 connection to an origin, which all requests share.

use std::error::Error as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{AbortHandle, coop};

use super::body::Body;
use super::client::{Answer, Place, SendError};
use super::letter::Letter;
use crate::net::Stream;

/// How often the connection is asked whether it still stands, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(20);

/// Takes requests; clones take them to the same connection.
pub(super) type Sender = http2::SendRequest<Full<Bytes>>;

/// The connection, if there is one.
#[derive(Default)]
pub(super) struct Http2 {
    current: Mutex<Option<Current>>,
    /// The server is known to speak it.
    spoken: AtomicBool,
    dialing: tokio::sync::Mutex<()>,
}

struct Current {
    sender: Sender,
    driver: AbortHandle,
}

impl Drop for Current {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Why a request has no answer.
pub(super) struct Lost {
    /// It was not taken.
    pub(super) unsent: bool,
    reason: String,
    /// Whether the server may have acted on it.
    may_have_run: bool,
}

impl From<Lost> for SendError {
    fn from(lost: Lost) -> Self {
        Self::Lost {
            reason: lost.reason,
            sent: lost.may_have_run,
        }
    }
}

impl Http2 {
    /// The way to the connection, where it can take another request.
    pub(super) fn sender(&self) -> Option<Sender> {
        let mut current = self.lock();
        let usable = current.as_ref().filter(|now| !now.sender.is_closed());
        let sender = usable.map(|now| now.sender.clone());
        if sender.is_none() {
            *current = None;
        }
        sender
    }

    /// Waits until nobody else makes a connection: one is enough for all who need one.
    pub(super) async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        if self.spoken.load(Ordering::Relaxed) {
            Some(self.dialing.lock().await)
        } else {
            None
        }
    }

    /// Speaks HTTP/2 on a stream from now on.
    pub(super) async fn start(&self, stream: Stream) -> Result<Sender, String> {
        self.spoken.store(true, Ordering::Relaxed);
        let started = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_LIMIT)
            .adaptive_window(true)
            .handshake(TokioIo::new(Paced(stream)))
            .await;
        let (sender, driver) = started.map_err(|error| explain(&error))?;
        let driver = tokio::spawn(async move {
            // Whoever waits for an answer is told by it.
            let _ = driver.await;
        });
        let fresh = Current {
            sender: sender.clone(),
            driver: driver.abort_handle(),
        };
        let mut current = self.lock();
        // The first time, another may have been quicker; requests may already be on that one.
        if let Some(first) = current.as_ref().filter(|now| !now.sender.is_closed()) {
            return Ok(first.sender.clone());
        }
        *current = Some(fresh);
        Ok(sender)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a request and waits for the head of the answer.
pub(super) async fn send(
    mut sender: Sender,
    letter: &Letter<'_>,
    place: &Place,
) -> Result<Box<Answer>, Lost> {
    let sent = sender.try_send_request(letter.for_http2(place)).await;
    let answer = sent.map_err(|mut failed| {
        let unsent = failed.take_message().is_some();
        Lost {
            may_have_run: !unsent && !is_unprocessed(failed.error()),
            reason: explain(failed.error()),
            unsent,
        }
    })?;
    let (head, body) = answer.into_parts();
    Ok(Box::new(Answer {
        status: head.status,
        body: Body::http2(body, &head.headers),
        headers: head.headers,
    }))
}

/// A stream that is read a little at a time: frames of a few bytes each cost hyper as much as large ones,
/// and hyper reads for as long as there is something to read (CALL-7).
struct Paced(Stream);

/// How much is read at once, and what a read takes of a task's budget, which is 128.
const READ_AT_ONCE: usize = 16 * 1024;
const READ_COST: usize = 16;

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        for _ in 1..READ_COST {
            ready!(coop::poll_proceed(context)).made_progress();
        }
        let room = buffer.remaining().min(READ_AT_ONCE);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.0).poll_read(context, &mut part))?;
        let count = part.filled().len();
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        slices: &[IoSlice],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// An error of hyper's with its causes: the first says only that something failed.
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

/// Whether the server says that it has not looked at the request (RFC 9113, 8.7).
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
