//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! Nothing is spawned: the task that waits for an answer also moves the bytes. That saves two changes of task for every
//! request, and a connection that nobody uses costs nothing.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use crate::net::{Dialed, Forward, Stream};

/// How long an unused connection is kept when the server does not say.
const KEPT: Duration = Duration::from_mins(1);

/// How much sooner than the server we let go of one, so that no request meets its end.
const MARGIN: Duration = Duration::from_secs(1);

/// The longest head of an answer.
const MAX_HEAD: usize = 256 * 1024;

/// A connection to a server or to a proxy.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<Stream>, Full<Bytes>>,
    /// Set when the other end is a proxy that wants to hear the whole URL.
    pub(super) forward: Option<Forward>,
    /// How long it may be left unused.
    keep_for: Duration,
    /// Since when it has been unused.
    unused_since: Instant,
    /// The driver has come to its end.
    ended: bool,
}

/// Why a request has no answer.
pub(super) struct Lost {
    /// The request, if not a byte of it was sent.
    pub(super) unsent: Option<Request<Full<Bytes>>>,
    pub(super) reason: String,
}

impl Connection {
    pub(super) async fn start(dialed: Dialed) -> Result<Self, String> {
        let started = http1::Builder::new()
            .max_header_size(MAX_HEAD)
            .handshake(TokioIo::new(dialed.stream))
            .await;
        let (sender, driver) = started.map_err(|error| explain(&error))?;
        Ok(Self {
            sender,
            driver,
            forward: dialed.forward,
            keep_for: KEPT,
            unused_since: Instant::now(),
            ended: false,
        })
    }

    /// Whether it can take another request. The other end may have closed it while nobody looked.
    pub(super) fn is_usable(&mut self, context: &mut Context) -> bool {
        self.drive(context);
        !self.ended && self.sender.is_ready() && self.unused_since.elapsed() < self.keep_for
    }

    /// When it is to be let go if nobody uses it.
    pub(super) fn expires(&self) -> Instant {
        self.unused_since + self.keep_for
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Lost> {
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        let answered = poll_fn(|context| {
            if !self.ended {
                self.ended = Pin::new(&mut self.driver).poll(context).is_ready();
            }
            answer.as_mut().poll(context)
        });
        let answer = answered.await.map_err(|mut failed| Lost {
            unsent: failed.take_message(),
            reason: explain(failed.error()),
        })?;
        if self.forward.is_some() && !says_keep_alive(answer.headers()) {
            // Some proxies take one request for each connection and do not say so.
            self.keep_for = Duration::ZERO;
        } else if let Some(limit) = keep_alive(answer.headers()) {
            self.keep_for = limit.saturating_sub(MARGIN).min(KEPT);
        }
        Ok(answer)
    }

    /// The next piece of the answer's body.
    pub(super) fn poll_body(
        &mut self,
        body: &mut Incoming,
        context: &mut Context,
    ) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            // Asking first tells the driver that there is room.
            let mut found = Pin::new(&mut *body).poll_frame(context);
            if found.is_pending() {
                self.drive(context);
                found = Pin::new(&mut *body).poll_frame(context);
            }
            return Poll::Ready(match std::task::ready!(found) {
                None => {
                    // So that it is ready for the next request.
                    self.drive(context);
                    self.unused_since = Instant::now();
                    None
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    // Trailers are of no use here.
                    Err(_) => continue,
                },
                Some(Err(error)) => Some(Err(explain(&error))),
            });
        }
    }

    fn drive(&mut self, context: &mut Context) {
        if !self.ended {
            self.ended = Pin::new(&mut self.driver).poll(context).is_ready();
        }
    }
}

/// Whether a proxy says that it takes more than one request.
fn says_keep_alive(headers: &http::HeaderMap) -> bool {
    let values = ["connection", "proxy-connection"].map(|name| headers.get(name));
    let mut texts = values
        .into_iter()
        .flatten()
        .filter_map(|value| value.to_str().ok());
    texts.any(|text| text.to_ascii_lowercase().contains("keep-alive"))
}

/// What a server says about how long it keeps an unused connection.
fn keep_alive(headers: &http::HeaderMap) -> Option<Duration> {
    let value = headers.get("keep-alive")?.to_str().ok()?;
    let mut parts = value.split(',').map(str::trim);
    let timeout = parts.find_map(|part| part.strip_prefix("timeout="))?;
    timeout.parse().ok().map(Duration::from_secs)
}

/// An error of hyper's with its causes: the first says only that something failed.
pub(super) fn explain(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "the server closed the connection before it had answered".to_owned();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
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

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    #[test]
    fn a_server_may_say_how_long_it_keeps_a_connection() {
        for (value, seconds) in [
            ("timeout=5", Some(5)),
            ("timeout=72, max=1000", Some(72)),
            ("max=3, timeout=0", Some(0)),
            ("timeout=soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("keep-alive", HeaderValue::from_static(value));
            assert_eq!(
                keep_alive(&headers),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
    }
}
