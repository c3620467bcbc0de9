//! The error type of connector lists.

use std::path::PathBuf;
use std::time::Duration;

/// Why the connectors could not be listed. Never contains the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectorsError {
    /// The sign-in has expired.
    #[error(
        "the claude.ai sign-in has expired; start Claude Code to renew it, or sign in there again"
    )]
    Expired,
    /// The token was refused.
    #[error("claude.ai refused the token (status 401); sign in again in Claude Code")]
    Unauthorized,
    /// The token lacks the required scope.
    #[error(
        "this token may not list claude.ai connectors (status 403); sign in again in Claude Code"
    )]
    Forbidden,
    /// The token contains characters that no token has.
    #[error("the claude.ai token contains line breaks or other invalid characters")]
    BadToken,
    /// The file with the token cannot be read.
    #[error("cannot read the claude.ai sign-in in {}: {reason}; sign in again in Claude Code", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The token must not be sent to this URL.
    #[error("refusing to send the claude.ai token to {url}: {reason}")]
    Url {
        /// The URL, without credentials.
        url: String,
        /// The reason.
        reason: &'static str,
    },
    /// The server answered with an error.
    #[error("claude.ai answered with status {status}; try again later")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// The server redirected, and the token must not follow.
    #[error(
        "claude.ai answered with a redirect (status {status}), which is not followed; check for a proxy"
    )]
    Redirected {
        /// The HTTP status.
        status: u16,
    },
    /// The response is malformed.
    #[error("malformed response from claude.ai: {reason}; check for a proxy")]
    Malformed {
        /// The reason.
        reason: String,
    },
    /// The response is too long.
    #[error("the response from claude.ai is longer than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The time limit expired.
    #[error("claude.ai did not list the connectors within {:.1} s; try again later", after.as_secs_f64())]
    TimedOut {
        /// The time limit.
        after: Duration,
    },
    /// The connection failed.
    #[error("could not reach claude.ai: {reason}")]
    Network {
        /// The reason.
        reason: String,
    },
    /// An error of an embedder's own [`Connectors`](super::Connectors).
    #[error("{0}")]
    Other(String),
}

impl ConnectorsError {
    /// Returns whether the user must sign in again.
    pub fn is_auth_required(&self) -> bool {
        matches!(
            self,
            Self::Expired | Self::Unauthorized | Self::Forbidden | Self::Credentials { .. }
        )
    }

    /// Returns whether the request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Network { .. } => true,
            Self::Status { status } => *status == 429 || *status >= 500,
            _ => false,
        }
    }
}
