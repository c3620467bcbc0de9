//! Who we are, as far as a transport needs to know it. What signs in, renews and stores lives elsewhere and implements this.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::HeaderValue;

/// What an implementation gives back later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Supplies a token for each request, and learns what the server thinks of it.
pub trait Credentials: Send + Sync + 'static {
    /// The token for the next request; `None` is a request without one.
    fn token(&self) -> Later<'_, Result<Option<Token>, CredentialsError>>;

    /// The server turned a request down. What was sent with it may no longer be what [`Credentials::token`] gives: another
    /// request may have renewed it meanwhile, and then there is nothing left to do but to try again.
    fn refused(&self, refusal: Refusal) -> Later<'_, AfterRefusal>;
}

/// A bearer token, ready to be sent. Printing it shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(HeaderValue);

impl Token {
    /// Takes a token; `None` if it cannot be part of a header.
    pub fn bearer(token: &str) -> Option<Self> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    /// What is sent, for whoever keeps it out of sight.
    pub fn expose(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(super) fn header(&self) -> &HeaderValue {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// What the server said to a token, or to the want of one.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// 401 or 403.
    pub status: u16,
    /// Its `WWW-Authenticate` header.
    pub challenge: Option<String>,
    /// The token that was sent.
    pub sent: Option<Token>,
}

/// What to do after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// Send the request once more, with a token asked for afresh.
    Retry,
    /// Take the refusal for the answer.
    GiveUp,
}

/// Why there is no token to send.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(pub String);

/// A token that never changes.
pub struct FixedToken(pub Token);

impl Credentials for FixedToken {
    fn token(&self) -> Later<'_, Result<Option<Token>, CredentialsError>> {
        let token = self.0.clone();
        Box::pin(async move { Ok(Some(token)) })
    }

    fn refused(&self, _: Refusal) -> Later<'_, AfterRefusal> {
        Box::pin(async { AfterRefusal::GiveUp })
    }
}
