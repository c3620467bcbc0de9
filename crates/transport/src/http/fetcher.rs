//! GET requests outside of MCP, such as the list of connectors: over the same dialer as every
//! server (TRN-2), without redirects, with bounded bodies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;

use super::body::{BodyError, BufferBudget};
use super::connection_pool::{ConnectionPool, SendError};
use super::credentials::Token;
use super::request::{HttpRequest, PreparedHeaders, RequestTarget};
use crate::net::{Dialer, TlsFiles};

/// Makes GET requests to one origin over pooled connections.
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

/// An error of a GET request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The connection failed.
    #[error("{0}")]
    Network(String),
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
        let pool = ConnectionPool::new(dialer.clone(), url, TlsFiles::default())
            .map_err(|error| network(&error))?;
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
        let target = RequestTarget::new(url).map_err(|error| network(&error))?;
        let request = HttpRequest {
            method: Method::GET,
            target: &target,
            headers: Arc::clone(&self.headers),
            extra: Vec::new(),
            token: self.token.clone(),
            body: Bytes::new(),
            timeout: None,
        };
        let handed_over = AtomicBool::new(false);
        let response = self.pool.send_once(&request, &handed_over).await;
        let mut response = response.map_err(|error| network(&error))?;
        let mut body = Bytes::new();
        if response.status.is_success() {
            let budget = BufferBudget::default();
            let collected = response.body.collect(max_bytes, &budget, || {}).await;
            body = collected.map_err(|error| match error {
                BodyError::TooLong(limit) => FetchError::TooLong(limit),
                BodyError::Broken(reason) => FetchError::Network(reason),
                BodyError::BudgetExceeded => FetchError::TooLong(max_bytes),
            })?;
            self.pool.release(&mut response.body);
        }
        Ok(FetchResponse {
            status: response.status.as_u16(),
            body,
        })
    }
}

fn network(error: &SendError) -> FetchError {
    FetchError::Network(error.to_string())
}
