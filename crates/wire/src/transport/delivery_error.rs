//! Why one request got no answer on a link that stands. Where every request travels by itself, over HTTP, one can be lost
//! without harm to the others.

use std::fmt;
use std::sync::Arc;

/// Why one request got no answer. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    /// What was in the way.
    pub kind: DeliveryErrorKind,
    /// The same in words.
    detail: Arc<str>,
    /// Whether the server may have acted on the request.
    pub may_have_run: bool,
}

/// What was in the way of a request or of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryErrorKind {
    /// The server could not be reached.
    Unreachable,
    /// The server wants to know who we are (401).
    Unauthorized {
        /// What it asked for: its `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// What we are allowed is not enough (403).
    Forbidden {
        /// What it asked for: its `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The server no longer knows our session.
    SessionExpired,
    /// An HTTP status that brings no answer.
    Status(u16),
    /// The server points elsewhere, where we do not go.
    Redirected,
    /// The answer is longer than the limit.
    TooLarge,
    /// The server did not begin to answer in time.
    Timeout,
    /// The link broke before the answer was there, or what came is no answer.
    Broken,
    /// What to sign in with could not be had.
    Credentials,
}

impl DeliveryError {
    /// With what was in the way, and the same in words.
    pub fn new(kind: DeliveryErrorKind, detail: impl Into<Arc<str>>, may_have_run: bool) -> Self {
        Self {
            kind,
            detail: detail.into(),
            may_have_run,
        }
    }

    /// The same in other words.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<Arc<str>>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    /// The status of the answer, where there was one that was no success.
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
