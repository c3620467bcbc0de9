//! Requests to one origin: over connections that are kept, by HTTP/1.1 or HTTP/2, following redirects that stay there.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use tokio::sync::Notify;
use url::Url;

use super::body::Body;
use super::connection::Connection;
use super::http2::{self, Http2};
use crate::net::{Alpn, DialError, Dialer, Target, TlsFiles};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// How many unused connections are kept.
const MAX_KEPT: usize = 128;

/// How much of an answer that nobody wants is read for the sake of its connection, and for how long.
const LINGER_BYTES: usize = 64 * 1024;
const LINGER: Duration = Duration::from_millis(500);

/// How long a request waits for a connection whose answer is about to end, rather than open another.
const HOPE: Duration = Duration::from_millis(100);

/// Sends requests to one origin.
pub(super) struct Client {
    dialer: Dialer,
    target: Target,
    files: TlsFiles,
    origin: url::Origin,
    http2: Http2,
    pool: Mutex<Pool>,
    /// A connection may have come back.
    freed: Notify,
}

#[derive(Default)]
struct Pool {
    /// Unused ones; the one used last is used next, so that those in excess grow old.
    #[expect(
        clippy::vec_box,
        reason = "a connection is large, and goes in and out for every request"
    )]
    kept: Vec<Box<Connection>>,
    /// How many answers are being read to their end, and how many requests hope for a connection of those.
    ending: usize,
    hoping: usize,
    /// The last answer did not end: some servers leave their streams open.
    hopeless: bool,
}

/// A place at the origin, in the two forms in which it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Place {
    url: Url,
    path: Uri,
    whole: Uri,
    host: HeaderValue,
}

impl Place {
    pub(super) fn new(url: &Url) -> Result<Self, SendError> {
        let bad = || SendError::BadUrl;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let host = url.host_str().ok_or_else(bad)?;
        let host = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Ok(Self {
            path: path.parse().map_err(|_| bad())?,
            whole: format!("{}://{host}{path}", url.scheme())
                .parse()
                .map_err(|_| bad())?,
            host: HeaderValue::try_from(host).map_err(|_| bad())?,
            url: url.clone(),
        })
    }
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

/// Why nothing came back.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("{0}")]
    Dial(#[from] DialError),
    #[error("{reason}")]
    Lost { reason: String, sent: bool },
    #[error("the URL is not one of HTTP")]
    BadUrl,
    #[error("{0}")]
    Redirected(String),
}

impl Client {
    pub(super) fn new(dialer: Dialer, url: &Url, files: TlsFiles) -> Result<Self, SendError> {
        Ok(Self {
            dialer,
            target: Target::of(url)?,
            files,
            origin: url.origin(),
            http2: Http2::default(),
            pool: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Sends one request; `handed_over` is set once a connection has it. A redirect is followed only within the origin, so that no credentials leave it.
    pub(super) async fn send(
        &self,
        method: &Method,
        place: &Place,
        headers: impl Fn() -> HeaderMap,
        body: Bytes,
        handed_over: &AtomicBool,
    ) -> Result<Answer, SendError> {
        let mut moved: Option<Place> = None;
        for _ in 0..=MAX_REDIRECTS {
            let at = moved.as_ref().unwrap_or(place);
            let mut answer = self
                .once(method, at, headers(), body.clone(), handed_over)
                .await?;
            if !answer.status.is_redirection() || answer.status == StatusCode::NOT_MODIFIED {
                return Ok(answer);
            }
            moved = Some(self.follow(method, at, &answer)?);
            Box::pin(self.finish(&mut answer.body)).await;
        }
        Err(SendError::Redirected(
            "the server redirects without end".to_owned(),
        ))
    }

    /// Where a redirect leads, if we go there.
    fn follow(&self, method: &Method, from: &Place, answer: &Answer) -> Result<Place, SendError> {
        let refuse = |text: String| Err(SendError::Redirected(text));
        let location = answer
            .headers
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let Some(Ok(to)) = location.map(|location| from.url.join(location)) else {
            return refuse(format!(
                "the server redirects ({}) to nowhere",
                answer.status.as_u16()
            ));
        };
        let shown = shown(&to);
        if to.origin() != self.origin {
            return refuse(format!(
                "the server redirects to {shown}, which is another place; if that is where it is, write that URL into its entry"
            ));
        }
        let keeps_method = matches!(
            answer.status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        if *method != Method::GET && !keeps_method {
            return refuse(format!(
                "the server redirects ({}) to {shown}; write that URL into its entry",
                answer.status.as_u16()
            ));
        }
        Place::new(&to)
    }

    async fn once(
        &self,
        method: &Method,
        place: &Place,
        headers: HeaderMap,
        body: Bytes,
        handed_over: &AtomicBool,
    ) -> Result<Answer, SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.headers_mut() = headers;
        if let Some(sender) = self.http2.sender() {
            handed_over.store(true, Ordering::Relaxed);
            match Self::by_http2(sender, place, request).await {
                Ok(answer) => return Ok(answer),
                Err((Some(unsent), _)) => request = unsent,
                Err((None, error)) => return Err(error),
            }
        }
        request.headers_mut().insert(HOST, place.host.clone());
        loop {
            let mut kept = self.kept().await;
            if kept.is_none() && self.pool().ending > 0 {
                kept = Box::pin(self.freed()).await;
            }
            let was_kept = kept.is_some();
            let connection = match kept {
                Some(kept) => kept,
                // Boxed, as is every road that is seldom taken: an exchange is made for each request, and should be small.
                None => match Box::pin(self.connect()).await? {
                    Fresh::Http1(connection) => connection,
                    Fresh::Http2(sender) => {
                        handed_over.store(true, Ordering::Relaxed);
                        request.headers_mut().remove(HOST);
                        return Self::by_http2(sender, place, request)
                            .await
                            .map_err(|(_, error)| error);
                    }
                },
            };
            handed_over.store(true, Ordering::Relaxed);
            match self.by_http1(connection, place, request).await {
                Ok(answer) => return Ok(answer),
                // Closed under our hands before anything was sent.
                Err((Some(unsent), _)) if was_kept => request = unsent,
                Err((_, error)) => return Err(error),
            }
        }
    }

    /// An unused connection.
    async fn kept(&self) -> Option<Box<Connection>> {
        poll_fn(|context| {
            let mut pool = self.pool();
            let usable = std::iter::from_fn(|| pool.kept.pop())
                .find_map(|mut kept| kept.is_usable(context).then_some(kept));
            std::task::Poll::Ready(usable)
        })
        .await
    }

    /// The connection of an answer that ends in a moment.
    async fn freed(&self) -> Option<Box<Connection>> {
        {
            let mut pool = self.pool();
            if pool.hopeless || pool.hoping >= pool.ending {
                return None;
            }
            pool.hoping += 1;
        }
        let _hoping = Leave(self, |pool| pool.hoping -= 1);
        let freed = async {
            loop {
                self.freed.notified().await;
                if let Some(kept) = self.kept().await {
                    return kept;
                }
            }
        };
        tokio::time::timeout(HOPE, freed).await.ok()
    }

    async fn by_http1(
        &self,
        mut connection: Box<Connection>,
        place: &Place,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, (Option<Request<Full<Bytes>>>, SendError)> {
        match &connection.forward {
            None => *request.uri_mut() = place.path.clone(),
            Some(forward) => {
                *request.uri_mut() = place.whole.clone();
                if let Some(authorization) = &forward.authorization {
                    request
                        .headers_mut()
                        .insert(PROXY_AUTHORIZATION, authorization.clone());
                }
            }
        }
        match connection.send(request).await {
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                Ok(Answer {
                    status: head.status,
                    body: Body::http1(body, connection, &head.headers),
                    headers: head.headers,
                })
            }
            Err(lost) => {
                let sent = lost.unsent.is_none();
                let reason = lost.reason;
                Err((lost.unsent, SendError::Lost { reason, sent }))
            }
        }
    }

    async fn by_http2(
        sender: http2::Sender,
        place: &Place,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answer, (Option<Request<Full<Bytes>>>, SendError)> {
        *request.uri_mut() = place.whole.clone();
        match http2::send(sender, request).await {
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                Ok(Answer {
                    status: head.status,
                    body: Body::http2(body, &head.headers),
                    headers: head.headers,
                })
            }
            Err(lost) => {
                let (reason, sent) = (lost.reason, lost.may_have_run);
                Err((lost.unsent, SendError::Lost { reason, sent }))
            }
        }
    }

    async fn connect(&self) -> Result<Fresh, SendError> {
        let _turn = self.http2.turn().await;
        if let Some(sender) = self.http2.sender() {
            return Ok(Fresh::Http2(sender));
        }
        let dialed = self
            .dialer
            .dial(&self.target, &self.files, Alpn::Http1Or2)
            .await?;
        if dialed.http2 {
            let sender = self.http2.start(dialed.stream).await.map_err(unsent)?;
            return Ok(Fresh::Http2(sender));
        }
        let connection = Connection::start(dialed).await.map_err(unsent)?;
        Ok(Fresh::Http1(Box::new(connection)))
    }

    /// Takes back the connection of an answer that was read to its end.
    pub(super) fn take_back(&self, body: &mut Body) {
        if let Some(connection) = body.spare_connection() {
            let mut pool = self.pool();
            if pool.kept.len() < MAX_KEPT {
                pool.kept.push(connection);
            }
        }
    }

    /// Reads what is left of an answer, if that is little and comes soon, so that its connection can be used again.
    pub(super) async fn finish(&self, body: &mut Body) {
        if !body.has_connection() {
            return;
        }
        self.pool().ending += 1;
        let _ending = Leave(self, |pool| pool.ending -= 1);
        let drained = body.drain(LINGER_BYTES);
        let drained = tokio::time::timeout(LINGER, drained).await.is_ok();
        self.pool().hopeless = !drained;
        if drained {
            self.take_back(body);
            self.freed.notify_waiters();
        }
    }

    /// Lets go of connections that have been unused for too long.
    pub(super) fn prune(&self) {
        let now = tokio::time::Instant::now();
        self.pool().kept.retain(|kept| kept.expires() > now);
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts somebody out, however they leave.
struct Leave<'c>(&'c Client, fn(&mut Pool));

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        (self.1)(&mut self.0.pool());
    }
}

fn unsent(reason: String) -> SendError {
    let sent = false;
    SendError::Lost { reason, sent }
}

enum Fresh {
    Http1(Box<Connection>),
    Http2(http2::Sender),
}

/// A URL without what may be a secret.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}
