//! TEMPORARY, for one measurement: our HTTP/1.1 connection, or hyper's.

use std::env;
use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::connection_pool::ExchangeError;
use super::http1::Http1Connection;
use super::http2::explain;
use super::request::HttpRequest;
use crate::net::{Dialed, Forward, Stream};
use crate::response_head::{keep_alive_timeout, promises_keep_alive};

const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
const IDLE_MARGIN: Duration = Duration::from_secs(1);
const MAX_HEAD: usize = 256 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Ours,
    Hyper,
    /// hyper without vectored writes.
    HyperFlat,
}

fn variant() -> Variant {
    static VARIANT: OnceLock<Variant> = OnceLock::new();
    *VARIANT.get_or_init(|| match env::var("TRUNKLINE_HTTP1").as_deref() {
        Ok("hyper") => Variant::Hyper,
        Ok("hyper-flat") => Variant::HyperFlat,
        _ => Variant::Ours,
    })
}

pub(super) enum Connection {
    Ours(Http1Connection),
    Hyper(HyperConnection),
}

impl Connection {
    pub(super) async fn new(dialed: Dialed) -> Result<Self, ExchangeError> {
        Ok(match variant() {
            Variant::Ours => Self::Ours(Http1Connection::new(dialed)),
            variant => Self::Hyper(HyperConnection::new(dialed, variant).await?),
        })
    }

    pub(super) fn is_hyper(&self) -> bool {
        matches!(self, Self::Hyper(_))
    }

    pub(super) fn is_reusable(&mut self, context: &mut Context) -> bool {
        match self {
            Self::Ours(connection) => connection.is_reusable(context),
            Self::Hyper(connection) => connection.is_reusable(context),
        }
    }

    pub(super) fn expires(&self) -> Instant {
        match self {
            Self::Ours(connection) => connection.expires(),
            Self::Hyper(connection) => connection.idle_since + connection.idle_timeout,
        }
    }

    pub(super) async fn send(
        &mut self,
        request: &HttpRequest<'_>,
    ) -> Result<(StatusCode, HeaderMap), ExchangeError> {
        match self {
            Self::Ours(connection) => connection.send(request).await,
            Self::Hyper(connection) => connection.send(request).await,
        }
    }

    pub(super) fn poll_body(
        &mut self,
        context: &mut Context,
    ) -> Poll<Option<Result<Bytes, String>>> {
        match self {
            Self::Ours(connection) => connection.poll_body(context),
            Self::Hyper(connection) => connection.poll_body(context),
        }
    }

    pub(super) fn remaining(&self) -> Option<usize> {
        match self {
            Self::Ours(connection) => connection.remaining(),
            Self::Hyper(_) => None,
        }
    }

    pub(super) fn poll_read_into(
        &mut self,
        out: &mut BytesMut,
        context: &mut Context,
    ) -> Poll<Result<bool, String>> {
        match self {
            Self::Ours(connection) => connection.poll_read_into(out, context),
            Self::Hyper(_) => Poll::Ready(Ok(false)),
        }
    }
}

pub(super) struct HyperConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<Stream>, Full<Bytes>>,
    incoming: Option<Incoming>,
    forward: Option<Forward>,
    idle_timeout: Duration,
    idle_since: Instant,
    /// The driver has completed.
    ended: bool,
}

impl HyperConnection {
    async fn new(dialed: Dialed, variant: Variant) -> Result<Self, ExchangeError> {
        let mut builder = http1::Builder::new();
        builder.max_header_size(MAX_HEAD);
        if variant == Variant::HyperFlat {
            builder.writev(false);
        }
        let started = builder.handshake(TokioIo::new(dialed.stream)).await;
        let (sender, driver) = started.map_err(|error| ExchangeError {
            reason: explain(&error),
            unsent: true,
            may_have_run: false,
        })?;
        Ok(Self {
            sender,
            driver,
            incoming: None,
            forward: dialed.forward,
            idle_timeout: IDLE_TIMEOUT,
            idle_since: Instant::now(),
            ended: false,
        })
    }

    fn drive(&mut self, context: &mut Context) {
        if !self.ended {
            self.ended = Pin::new(&mut self.driver).poll(context).is_ready();
        }
    }

    fn is_reusable(&mut self, context: &mut Context) -> bool {
        if self.idle_since.elapsed() >= self.idle_timeout {
            return false;
        }
        self.drive(context);
        !self.ended && self.sender.is_ready()
    }

    async fn send(
        &mut self,
        request: &HttpRequest<'_>,
    ) -> Result<(StatusCode, HeaderMap), ExchangeError> {
        let mut answer = pin!(
            self.sender
                .try_send_request(request.to_http1(self.forward.as_ref()))
        );
        let answered = poll_fn(|context| {
            if !self.ended {
                self.ended = Pin::new(&mut self.driver).poll(context).is_ready();
            }
            answer.as_mut().poll(context)
        });
        let response = answered.await.map_err(|mut failed| {
            let unsent = failed.take_message().is_some();
            ExchangeError {
                reason: explain(failed.error()),
                unsent,
                may_have_run: !unsent,
            }
        })?;
        let (head, incoming) = response.into_parts();
        self.incoming = Some(incoming);
        if self.forward.is_some() && !promises_keep_alive(&head.headers) {
            self.idle_timeout = Duration::ZERO;
        } else if let Some(limit) = keep_alive_timeout(&head.headers) {
            self.idle_timeout = limit.saturating_sub(IDLE_MARGIN).min(IDLE_TIMEOUT);
        }
        Ok((head.status, head.headers))
    }

    fn poll_body(&mut self, context: &mut Context) -> Poll<Option<Result<Bytes, String>>> {
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        loop {
            let mut frame = Poll::Ready(None);
            if !incoming.is_end_stream() {
                frame = Pin::new(&mut *incoming).poll_frame(context);
                if frame.is_pending() && !self.ended {
                    // The first poll told the driver that there is room.
                    self.ended = Pin::new(&mut self.driver).poll(context).is_ready();
                    frame = Pin::new(&mut *incoming).poll_frame(context);
                }
            }
            return Poll::Ready(match std::task::ready!(frame) {
                None => {
                    self.incoming = None;
                    self.idle_since = Instant::now();
                    None
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    Err(_) => continue,
                },
                Some(Err(error)) => Some(Err(explain(&error))),
            });
        }
    }
}
