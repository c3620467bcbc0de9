//! Requests to one origin: over connections that are kept, by HTTP/1.1 or HTTP/2, following redirects that stay there.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::sync::Notify;
use tokio::task::unconstrained;
use url::Url;

use super::body::Body;
use super::connection::Connection;
use super::http2::{self, Http2};
use super::letter::Letter;
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
    pub(super) path: String,
    pub(super) whole: Uri,
    pub(super) host: String,
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
            whole: format!("{}://{host}{path}", url.scheme())
                .parse()
                .map_err(|_| bad())?,
            path,
            host,
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
        letter: &Letter<'_>,
        place: &Place,
        handed_over: &AtomicBool,
    ) -> Result<Box<Answer>, SendError> {
        let answer = self.once(letter, place, handed_over).await?;
        if !is_redirect(answer.status) {
            return Ok(answer);
        }
        // Boxed, as is every road that is seldom taken: an exchange is made for each request, and should be small.
        Box::pin(self.redirected(letter, place, answer, handed_over)).await
    }

    async fn redirected(
        &self,
        letter: &Letter<'_>,
        place: &Place,
        mut answer: Box<Answer>,
        handed_over: &AtomicBool,
    ) -> Result<Box<Answer>, SendError> {
        let mut place = self.follow(letter.method, place, &answer)?;
        for _ in 0..MAX_REDIRECTS {
            self.finish(&mut answer.body).await;
            answer = self.once(letter, &place, handed_over).await?;
            if !is_redirect(answer.status) {
                return Ok(answer);
            }
            place = self.follow(letter.method, &place, &answer)?;
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

    /// Sends one request and follows no redirect.
    pub(super) async fn once(
        &self,
        letter: &Letter<'_>,
        place: &Place,
        handed_over: &AtomicBool,
    ) -> Result<Box<Answer>, SendError> {
        if let Some(sender) = self.http2.sender() {
            handed_over.store(true, Ordering::Relaxed);
            match Box::pin(http2::send(sender, letter, place)).await {
                Err(lost) if lost.unsent => handed_over.store(false, Ordering::Relaxed),
                answered => return answered.map_err(SendError::from),
            }
        }
        loop {
            let mut kept = self.kept().await;
            if kept.is_none() && self.pool().ending > 0 {
                kept = Box::pin(self.freed()).await;
            }
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(kept) => kept,
                None => match Box::pin(self.connect()).await? {
                    Fresh::Http1(connection) => connection,
                    Fresh::Http2(sender) => {
                        handed_over.store(true, Ordering::Relaxed);
                        let sending = Box::pin(http2::send(sender, letter, place));
                        return sending.await.map_err(SendError::from);
                    }
                },
            };
            handed_over.store(true, Ordering::Relaxed);
            match connection.send(letter, place).await {
                Ok((status, headers)) => {
                    return Ok(Box::new(Answer {
                        status,
                        body: Body::http1(connection, &headers),
                        headers,
                    }));
                }
                // Closed under our hands before anything was sent.
                Err(lost) if was_kept && !lost.sent => handed_over.store(false, Ordering::Relaxed),
                Err(lost) => {
                    let (reason, sent) = (lost.reason, lost.sent);
                    return Err(SendError::Lost { reason, sent });
                }
            }
        }
    }

    /// An unused connection.
    async fn kept(&self) -> Option<Box<Connection>> {
        // A task that has had its share hears "nothing yet" of everything, and would take a closed connection for a silent one.
        unconstrained(poll_fn(|context| {
            let mut pool = self.pool();
            let usable = std::iter::from_fn(|| pool.kept.pop())
                .find_map(|mut kept| kept.is_usable(context).then_some(kept));
            std::task::Poll::Ready(usable)
        }))
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
        Ok(Fresh::Http1(Box::new(Connection::new(dialed))))
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

fn is_redirect(status: StatusCode) -> bool {
    status.is_redirection() && status != StatusCode::NOT_MODIFIED
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
