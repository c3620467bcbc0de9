//! The credentials of a request. Sign-in, renewal and storage are implemented elsewhere.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderValue, Method};
use url::Url;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Supplies the token of each request and learns about refusals.
pub trait Credentials: Send + Sync + 'static {
    /// Returns the token for the next request, or `None` to send none.
    fn token(&self) -> BoxFuture<'_, Result<Option<Token>, CredentialsError>>;

    /// Returns the token for the next request if it is at hand, without a future: most requests of
    /// a session. `None` leads to [`Credentials::token`].
    fn token_at_hand(&self) -> Option<Token> {
        None
    }

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

/// An access token. Its `Debug` output is redacted.
#[derive(Clone)]
pub struct Token {
    header: HeaderValue,
    key: Option<Arc<dyn ProofKey>>,
}

/// The key that a token is bound to (`DPoP`, RFC 9449): each request proves that its sender
/// holds it.
pub trait ProofKey: Send + Sync + 'static {
    /// Returns the `DPoP` header of a request, new for every request; `None` if no proof can be
    /// made. The URL may have a query.
    fn proof(&self, method: &Method, url: &Url) -> Option<HeaderValue>;

    /// Uses the `DPoP-Nonce` header of a response in the next proofs.
    fn set_nonce(&self, nonce: &HeaderValue);
}

impl Token {
    /// Creates a bearer token; `None` if it is not a valid header value.
    pub fn bearer(token: &str) -> Option<Self> {
        Some(Self {
            header: authorization("Bearer", token)?,
            key: None,
        })
    }

    /// Creates a token that is bound to a key; `None` if it is not a valid header value.
    pub fn dpop(token: &str, key: Arc<dyn ProofKey>) -> Option<Self> {
        Some(Self {
            header: authorization("DPoP", token)?,
            key: Some(key),
        })
    }

    /// The header value, for redaction.
    pub fn expose(&self) -> &str {
        self.header.to_str().unwrap_or_default()
    }

    /// Returns the value of the `Authorization` header.
    pub fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// Returns the key that the token is bound to; `None` for a bearer token.
    pub fn key(&self) -> Option<&dyn ProofKey> {
        self.key.as_deref()
    }
}

fn authorization(scheme: &str, token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("{scheme} {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}

impl Eq for Token {}

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
