//! Requests outside of MCP, such as for the list of connectors or a token: over the same dialer as
//! every server (TRN-2), without redirects, with bounded bodies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;

use super::body::{BodyError, BufferBudget};
use super::connection_pool::{ConnectionPool, Response, SendError};
use super::credentials::Token;
use super::request::{HttpRequest, PreparedHeaders, RequestTarget};
use crate::net::{DialError, Dialer, TlsFiles};

/// Makes requests to one origin over pooled connections.
pub struct Fetcher {
    pool: ConnectionPool,
    headers: Arc<PreparedHeaders>,
    token: Option<Token>,
}

/// The response to a GET request.
#[derive(Clone, Debug)]
pub struct FetchResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body; empty unless the status is a success.
    pub body: Bytes,
}

/// A request with any method, headers of its own and a body.
#[derive(Clone, Debug)]
pub struct FetchRequest<'r> {
    /// The method.
    pub method: Method,
    /// The URL, of the fetcher's origin.
    pub url: &'r Url,
    /// Headers besides those of the fetcher.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body; empty for GET.
    pub body: Bytes,
}

/// A response with its headers and, whatever its status, its body.
#[derive(Clone, Debug)]
pub struct FullResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// An error of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The connection failed.
    #[error("{0}")]
    Network(String),
    /// The address of the host may not be dialled.
    #[error("{0}")]
    AddressRefused(String),
    /// The body is over the limit.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
}

impl Fetcher {
    /// Creates a fetcher for the origin of `url`. Every request has these headers and this token,
    /// which is sent nowhere else.
    pub fn new(
        dialer: &Dialer,
        url: &Url,
        headers: &[(&'static str, &'static str)],
        token: Option<Token>,
    ) -> Result<Self, FetchError> {
        Self::with_tls(dialer, url, TlsFiles::default(), headers, token)
    }

    /// Creates a fetcher that also uses these certificates.
    pub fn with_tls(
        dialer: &Dialer,
        url: &Url,
        tls_files: TlsFiles,
        headers: &[(&'static str, &'static str)],
        token: Option<Token>,
    ) -> Result<Self, FetchError> {
        let pool =
            ConnectionPool::new(dialer.clone(), url, tls_files).map_err(|error| network(&error))?;
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        Ok(Self {
            pool,
            headers: Arc::new(headers.collect::<HeaderMap>().into()),
            token,
        })
    }

    /// Gets `url`, which must have the same origin. There is no time limit.
    pub async fn get(&self, url: &Url, max_bytes: usize) -> Result<FetchResponse, FetchError> {
        let request = FetchRequest {
            method: Method::GET,
            url,
            headers: Vec::new(),
            body: Bytes::new(),
        };
        let mut response = self.start(request).await?;
        let mut body = Bytes::new();
        if response.status.is_success() {
            body = self.finish(&mut response, max_bytes).await?;
        }
        Ok(FetchResponse {
            status: response.status.as_u16(),
            body,
        })
    }

    /// Sends a request, whose URL must have the same origin, once: a POST is not repeated after a
    /// lost connection. There is no time limit.
    pub async fn send(
        &self,
        request: FetchRequest<'_>,
        max_bytes: usize,
    ) -> Result<FullResponse, FetchError> {
        let mut response = self.start(request).await?;
        let body = self.finish(&mut response, max_bytes).await?;
        Ok(FullResponse {
            status: response.status.as_u16(),
            headers: std::mem::take(&mut response.headers),
            body,
        })
    }

    /// Sends a request once and returns the start of the response: the body up to `max_bytes`, or
    /// as much of it as arrives within `patience`. A stream of events has no other end.
    pub async fn sample(
        &self,
        request: FetchRequest<'_>,
        max_bytes: usize,
        patience: Duration,
    ) -> Result<FullResponse, FetchError> {
        let mut response = self.start(request).await?;
        let mut body = Vec::new();
        let reading = async {
            while body.len() < max_bytes
                && let Ok(Some(chunk)) = response.body.next_chunk().await
            {
                let room = max_bytes - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
        };
        // Whatever ends the body early, its start is there.
        let _ = tokio::time::timeout(patience, reading).await;
        Ok(FullResponse {
            status: response.status.as_u16(),
            headers: std::mem::take(&mut response.headers),
            body: body.into(),
        })
    }

    async fn start(&self, request: FetchRequest<'_>) -> Result<Box<Response>, FetchError> {
        let target = RequestTarget::new(request.url).map_err(|error| network(&error))?;
        let request = HttpRequest {
            method: request.method,
            target: &target,
            headers: Arc::clone(&self.headers),
            extra: request.headers,
            token: self.token.clone(),
            body: request.body,
            timeout: None,
        };
        let handed_over = AtomicBool::new(false);
        let response = self.pool.send_once(&request, &handed_over).await;
        response.map_err(|error| network(&error))
    }

    async fn finish(&self, response: &mut Response, max_bytes: usize) -> Result<Bytes, FetchError> {
        let budget = BufferBudget::default();
        let collected = response.body.collect(max_bytes, &budget, || {}).await;
        let body = collected.map_err(|error| match error {
            BodyError::TooLong(limit) => FetchError::TooLong(limit),
            BodyError::Broken(reason) => FetchError::Network(reason),
            BodyError::BudgetExceeded => FetchError::TooLong(max_bytes),
        })?;
        self.pool.release(&mut response.body);
        Ok(body)
    }
}

fn network(error: &SendError) -> FetchError {
    match error {
        SendError::Dial(refused @ DialError::AddressRefused { .. }) => {
            FetchError::AddressRefused(refused.to_string())
        }
        error => FetchError::Network(error.to_string()),
    }
}
