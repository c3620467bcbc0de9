//! The credentials of a request. Sign-in, renewal and storage are implemented elsewhere.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::HeaderValue;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Supplies the token of each request and learns about refusals.
pub trait Credentials: Send + Sync + 'static {
    /// Returns the token for the next request, or `None` to send none.
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>>;

    /// Reports that the server refused a request. [`Credentials::token`] may already return a newer
    /// token than the one that was sent; then a retry is enough.
    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal>;
}

/// Closures that return a token: called for every request, so they keep it until it expires. After
/// a refusal they are called once more, and a token that differs from the refused one is tried.
impl<F, W> Credentials for F
where
    F: Fn() -> W + Send + Sync + 'static,
    W: Future<Output = Result<Option<Token>, CredentialsError>> + Send + 'static,
{
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        Box::pin(self())
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, AfterRefusal> {
        let token = self();
        Box::pin(async move {
            match token.await {
                Ok(token) if token.is_some() && token != refusal.sent => AfterRefusal::Retry,
                _ => AfterRefusal::GiveUp,
            }
        })
    }
}

/// A bearer token. Its `Debug` output is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(HeaderValue);

impl Token {
    /// Creates a token; `None` if it is not a valid header value.
    pub fn bearer(token: &str) -> Option<Self> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    /// The header value, for redaction.
    pub fn expose(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// Returns the value of the `Authorization` header.
    pub fn header(&self) -> &HeaderValue {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// A refusal by the server.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// 401 or 403.
    pub status: u16,
    /// Its `WWW-Authenticate` header.
    pub challenge: Option<String>,
    /// The token that was sent.
    pub sent: Option<Token>,
}

/// The reaction to a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterRefusal {
    /// Send the request once more with a new token.
    Retry,
    /// Fail the request.
    GiveUp,
}

/// An error of getting a token.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(pub String);

/// A token that never changes.
pub struct FixedToken(pub Token);

impl Credentials for FixedToken {
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>> {
        let token = self.0.clone();
        Box::pin(async move { Ok(Some(token)) })
    }

    fn refused(&self, _: Refusal) -> BoxFuture<'_, AfterRefusal> {
        Box::pin(async { AfterRefusal::GiveUp })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_closure_is_asked_again_after_a_refusal() {
        let asked = Arc::new(AtomicUsize::new(0));
        let credentials = move || {
            let asked = asked.fetch_add(1, Ordering::SeqCst);
            // The second token is the first once more, the third is new.
            async move { Ok(Token::bearer(["a", "a", "b"][asked])) }
        };
        let credentials: Arc<dyn Credentials> = Arc::new(credentials);
        let sent = credentials.token().await.unwrap();
        let refusal = Refusal {
            status: 401,
            challenge: None,
            sent,
        };
        let again = credentials.refused(refusal.clone()).await;
        assert_eq!(again, AfterRefusal::GiveUp);
        assert_eq!(credentials.refused(refusal).await, AfterRefusal::Retry);
        let none: Arc<dyn Credentials> = Arc::new(async || Ok(None));
        assert_eq!(none.token().await.unwrap(), None);
    }
}
