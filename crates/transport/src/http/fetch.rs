//! Single GET requests beside MCP, such as the list of connectors: over the same dialer as every server (TRN-2), with no redirect
//! followed and the body bounded.

use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;

use super::body::{BodyError, Held};
use super::client::{Client, Place, SendError};
use super::credentials::Token;
use super::letter::{Letter, Prepared};
use crate::net::{Dialer, TlsFiles};

/// Makes GET requests to one origin, over connections that it keeps.
pub struct Fetcher {
    client: Client,
    headers: Prepared,
    token: Option<Token>,
}

/// The response to a GET request.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The HTTP status.
    pub status: u16,
    /// The body; empty unless the status is a success.
    pub body: Bytes,
}

/// An error of a GET request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// There was no connection, or it broke.
    #[error("{0}")]
    Network(String),
    /// The body is longer than it may be.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
}

impl Fetcher {
    /// Requests to the origin of `url`, each with these headers and this token, which goes nowhere else.
    pub fn new(
        dialer: &Dialer,
        url: &Url,
        headers: &[(&'static str, &'static str)],
        token: Option<Token>,
    ) -> Result<Self, FetchError> {
        let client = Client::new(dialer.clone(), url, TlsFiles::default())
            .map_err(|error| network(&error))?;
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        Ok(Self {
            client,
            headers: Prepared::from(headers.collect::<HeaderMap>()),
            token,
        })
    }

    /// Gets `url`, which must be of the same origin. The future has no time limit of its own.
    pub async fn get(&self, url: &Url, max_bytes: usize) -> Result<Fetched, FetchError> {
        let place = Place::new(url).map_err(|error| network(&error))?;
        let letter = Letter {
            method: &Method::GET,
            headers: &self.headers,
            more: &[],
            token: self.token.as_ref().map(Token::header),
            body: &Bytes::new(),
        };
        let handed_over = AtomicBool::new(false);
        let answer = self.client.once(&letter, &place, &handed_over).await;
        let mut answer = answer.map_err(|error| network(&error))?;
        let mut body = Bytes::new();
        if answer.status.is_success() {
            let whole = answer.body.whole(max_bytes, &Held::default(), || {}).await;
            body = whole.map_err(|error| match error {
                BodyError::TooLong(limit) => FetchError::TooLong(limit),
                BodyError::Broken(reason) => FetchError::Network(reason),
                BodyError::TooMuch => FetchError::TooLong(max_bytes),
            })?;
            self.client.take_back(&mut answer.body);
        }
        Ok(Fetched {
            status: answer.status.as_u16(),
            body,
        })
    }
}

fn network(error: &SendError) -> FetchError {
    FetchError::Network(error.to_string())
}
