//! Failures of one request on a connection that stays open. Over HTTP, each request travels alone
//! and can fail without harm to the others.

use std::fmt;
use std::sync::Arc;

/// The reason that a request got no response. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    /// The kind of failure.
    pub kind: DeliveryErrorKind,
    /// A message for people.
    detail: Arc<str>,
    /// Whether the server may have acted on the request.
    pub may_have_run: bool,
}

/// The kind of a delivery failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryErrorKind {
    /// The server could not be reached.
    Unreachable,
    /// The server requires authentication (401).
    Unauthorized {
        /// The `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The authorization does not suffice (403).
    Forbidden {
        /// The `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The server no longer knows the session.
    SessionExpired,
    /// An unsuccessful HTTP status.
    Status(u16),
    /// A redirect that is not followed.
    Redirected,
    /// The response is over the size limit.
    TooLarge,
    /// The server did not start to respond in time.
    Timeout,
    /// The connection broke before the response was complete, or the response is invalid.
    Broken,
    /// The credentials could not be obtained.
    Credentials,
}

impl DeliveryError {
    /// Creates an error with a message for people.
    pub fn new(kind: DeliveryErrorKind, detail: impl Into<Arc<str>>, may_have_run: bool) -> Self {
        Self {
            kind,
            detail: detail.into(),
            may_have_run,
        }
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<Arc<str>>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    /// Returns the HTTP status of the response, if it was unsuccessful.
    pub fn status(&self) -> Option<u16> {
        match self.kind {
            DeliveryErrorKind::Unauthorized { .. } => Some(401),
            DeliveryErrorKind::Forbidden { .. } => Some(403),
            DeliveryErrorKind::SessionExpired => Some(404),
            DeliveryErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for DeliveryError {}
