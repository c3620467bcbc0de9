//! Requests to one origin over pooled HTTP/1.1 connections or one shared HTTP/2 connection.
//! Redirects within the origin are followed.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use tokio::sync::Notify;
use tokio::task::unconstrained;
use url::Url;

use super::body::Body;
use super::http1::Http1Connection;
use super::http2::{self, Http2Sender, SharedHttp2};
use super::request::{HttpRequest, RequestTarget};
use crate::net::{Alpn, DialError, Dialer, Target, TlsFiles};

const MAX_REDIRECTS: usize = 5;

/// The most idle connections that are kept.
const MAX_IDLE: usize = 128;

/// Bytes and time spent on the rest of an unwanted body so that its connection can be reused.
const DRAIN_BYTES: usize = 64 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a request waits for a connection that is being drained before it dials a new one.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(100);

/// Sends requests to one origin.
pub(super) struct ConnectionPool {
    dialer: Dialer,
    server: Target,
    tls_files: TlsFiles,
    origin: url::Origin,
    http2: SharedHttp2,
    state: Mutex<PoolState>,
    /// Notified when a connection becomes idle.
    released: Notify,
}

#[derive(Default)]
struct PoolState {
    /// A stack: the connection used last is reused first, so that surplus ones expire.
    #[expect(
        clippy::vec_box,
        reason = "a connection is large, and goes in and out for every request"
    )]
    idle: Vec<Box<Http1Connection>>,
    /// Bodies being drained, and requests waiting for one of their connections.
    draining: usize,
    waiting: usize,
    /// The last drain timed out: some servers leave their streams open.
    drain_timed_out: bool,
}

/// The head of a response, and the body to read.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

/// An error of sending a request.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("{0}")]
    Dial(#[from] DialError),
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    #[error("the URL is not an HTTP URL")]
    BadUrl,
    #[error("{0}")]
    Redirected(String),
}

/// A connection failed before the head of the response arrived.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct ExchangeError {
    pub(super) reason: String,
    /// No byte of the request was sent, so it can be sent again.
    pub(super) unsent: bool,
    /// The server may have acted on the request.
    pub(super) may_have_run: bool,
}

impl ConnectionPool {
    pub(super) fn new(dialer: Dialer, url: &Url, tls_files: TlsFiles) -> Result<Self, SendError> {
        Ok(Self {
            dialer,
            server: Target::of(url)?,
            tls_files,
            origin: url.origin(),
            http2: SharedHttp2::default(),
            state: Mutex::default(),
            released: Notify::new(),
        })
    }

    /// Sends a request. `handed_over` is set once a connection has it. Redirects are followed only
    /// within the origin, so that credentials never leave it.
    pub(super) async fn send(
        &self,
        request: &HttpRequest<'_>,
        handed_over: &AtomicBool,
    ) -> Result<Box<Response>, SendError> {
        let response = self.send_once(request, handed_over).await?;
        if !is_redirect(response.status) {
            return Ok(response);
        }
        // Rare paths are boxed: each request has a future like this, which should stay small.
        Box::pin(self.follow_redirects(request, response, handed_over)).await
    }

    async fn follow_redirects(
        &self,
        request: &HttpRequest<'_>,
        mut response: Box<Response>,
        handed_over: &AtomicBool,
    ) -> Result<Box<Response>, SendError> {
        let mut target = self.redirect_target(request, &response)?;
        for _ in 0..MAX_REDIRECTS {
            self.drain(&mut response.body).await;
            let redirected = HttpRequest {
                target: &target,
                ..request.clone()
            };
            response = self.send_once(&redirected, handed_over).await?;
            if !is_redirect(response.status) {
                return Ok(response);
            }
            target = self.redirect_target(&redirected, &response)?;
        }
        Err(SendError::Redirected(
            "the server redirects too often".to_owned(),
        ))
    }

    fn redirect_target(
        &self,
        request: &HttpRequest,
        response: &Response,
    ) -> Result<RequestTarget, SendError> {
        let refuse = |text: String| Err(SendError::Redirected(text));
        let status = response.status.as_u16();
        let location = response.headers.get(LOCATION);
        let location = location.and_then(|value| value.to_str().ok());
        let Some(Ok(to)) = location.map(|location| request.target.url.join(location)) else {
            return refuse(format!(
                "the server redirects ({status}) without a valid location"
            ));
        };
        let shown = without_secrets(&to);
        if to.origin() != self.origin {
            return refuse(format!(
                "the server redirects to {shown}, which is another origin; \
                 if it has moved, use that URL in its entry"
            ));
        }
        let keeps_method = matches!(
            response.status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        if request.method != http::Method::GET && !keeps_method {
            return refuse(format!(
                "the server redirects ({status}) to {shown}; use that URL in its entry"
            ));
        }
        RequestTarget::new(&to)
    }

    /// Sends a request without following redirects.
    pub(super) async fn send_once(
        &self,
        request: &HttpRequest<'_>,
        handed_over: &AtomicBool,
    ) -> Result<Box<Response>, SendError> {
        if let Some(sender) = self.http2.sender() {
            handed_over.store(true, Ordering::Relaxed);
            match Box::pin(http2::send(sender, request)).await {
                Err(error) if error.unsent => handed_over.store(false, Ordering::Relaxed),
                result => return result.map_err(SendError::from),
            }
        }
        loop {
            let mut idle = self.idle_connection().await;
            if idle.is_none() && self.lock().draining > 0 {
                idle = Box::pin(self.next_released()).await;
            }
            let is_reused = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => match Box::pin(self.connect()).await? {
                    NewConnection::Http1(connection) => connection,
                    NewConnection::Http2(sender) => {
                        handed_over.store(true, Ordering::Relaxed);
                        let sending = Box::pin(http2::send(sender, request));
                        return sending.await.map_err(SendError::from);
                    }
                },
            };
            handed_over.store(true, Ordering::Relaxed);
            match connection.send(request).await {
                Ok((status, headers)) => {
                    return Ok(Box::new(Response {
                        status,
                        body: Body::http1(connection, &headers),
                        headers,
                    }));
                }
                // The server closed an idle connection before anything was sent on it.
                Err(error) if is_reused && error.unsent => {
                    handed_over.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn idle_connection(&self) -> Option<Box<Http1Connection>> {
        // Without its coop budget a task sees every socket as pending, and would take a closed
        // connection for an open one.
        unconstrained(poll_fn(|context| {
            let mut state = self.lock();
            let reusable = std::iter::from_fn(|| state.idle.pop())
                .find_map(|mut idle| idle.is_reusable(context).then_some(idle));
            std::task::Poll::Ready(reusable)
        }))
        .await
    }

    /// Waits for a connection that is being drained.
    async fn next_released(&self) -> Option<Box<Http1Connection>> {
        {
            let mut state = self.lock();
            if state.drain_timed_out || state.waiting >= state.draining {
                return None;
            }
            state.waiting += 1;
        }
        let _waiting = CountGuard(self, |state| state.waiting -= 1);
        let released = async {
            loop {
                self.released.notified().await;
                if let Some(idle) = self.idle_connection().await {
                    return idle;
                }
            }
        };
        tokio::time::timeout(RELEASE_TIMEOUT, released).await.ok()
    }

    async fn connect(&self) -> Result<NewConnection, SendError> {
        let _dialing = self.http2.dial_lock().await;
        if let Some(sender) = self.http2.sender() {
            return Ok(NewConnection::Http2(sender));
        }
        let dialed = self
            .dialer
            .dial(&self.server, &self.tls_files, Alpn::Http1Or2)
            .await?;
        if dialed.http2 {
            let sender = self.http2.handshake(dialed.stream).await?;
            return Ok(NewConnection::Http2(sender));
        }
        Ok(NewConnection::Http1(Box::new(Http1Connection::new(dialed))))
    }

    /// Takes back the connection of a body that was read to its end.
    pub(super) fn release(&self, body: &mut Body) {
        if let Some(connection) = body.take_connection() {
            let mut state = self.lock();
            if state.idle.len() < MAX_IDLE {
                state.idle.push(connection);
            }
        }
    }

    /// Reads the rest of a body, within limits, and takes its connection back.
    pub(super) async fn drain(&self, body: &mut Body) {
        if !body.has_connection() {
            return;
        }
        self.lock().draining += 1;
        let _draining = CountGuard(self, |state| state.draining -= 1);
        let drained = tokio::time::timeout(DRAIN_TIMEOUT, body.drain(DRAIN_BYTES)).await;
        self.lock().drain_timed_out = drained.is_err();
        if drained.is_ok() {
            self.release(body);
            self.released.notify_waiters();
        }
    }

    /// Closes connections whose idle timeout has passed.
    pub(super) fn prune(&self) {
        let now = tokio::time::Instant::now();
        self.lock().idle.retain(|idle| idle.expires() > now);
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum NewConnection {
    Http1(Box<Http1Connection>),
    Http2(Http2Sender),
}

/// Decrements a counter of the pool, even when its future is dropped.
struct CountGuard<'p>(&'p ConnectionPool, fn(&mut PoolState));

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        (self.1)(&mut self.0.lock());
    }
}

fn is_redirect(status: StatusCode) -> bool {
    status.is_redirection() && status != StatusCode::NOT_MODIFIED
}

/// The URL without user, password, query and fragment.
fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}
