//! Why the connectors could not be listed.

use std::path::PathBuf;
use std::time::Duration;

/// Why the connectors could not be listed. Never holds the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectorsError {
    /// The sign-in has expired.
    #[error(
        "the claude.ai sign-in has expired; start Claude Code, which renews it, or sign in there again"
    )]
    Expired,
    /// The token was refused.
    #[error("claude.ai refused the token (status 401); sign in again in Claude Code")]
    Unauthorized,
    /// The token is good, but not for this.
    #[error(
        "claude.ai does not let this token list connectors (status 403); sign in again in Claude Code, with an account that has them"
    )]
    Forbidden,
    /// The token has characters that no token has.
    #[error(
        "the claude.ai token cannot be sent: it has line breaks or other characters that no token has"
    )]
    BadToken,
    /// The file with the token cannot be read.
    #[error("the claude.ai sign-in in {} cannot be read: {reason}; sign in again in Claude Code", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The token must not be sent there.
    #[error("the claude.ai token is not sent to {url}: {reason}")]
    Url {
        /// Where it was to be sent, without credentials.
        url: String,
        /// Why not.
        reason: &'static str,
    },
    /// It answered with an error.
    #[error("claude.ai answered with status {status}; try again later")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// It sent us elsewhere, where the token must not go.
    #[error(
        "claude.ai answered with a redirect (status {status}), which is not followed with a token; is a proxy in the way?"
    )]
    Redirected {
        /// The HTTP status.
        status: u16,
    },
    /// The answer is not what was expected.
    #[error("the answer of claude.ai cannot be read: {reason}; is a proxy in the way?")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// The answer is too long.
    #[error("the answer of claude.ai is longer than {limit} bytes")]
    TooLarge {
        /// How long it may be.
        limit: usize,
    },
    /// It took too long.
    #[error("claude.ai did not list the connectors within {:.1} s; try again later", after.as_secs_f64())]
    TimedOut {
        /// How long it had.
        after: Duration,
    },
    /// There was no connection, or it broke.
    #[error("could not reach claude.ai: {reason}")]
    Network {
        /// What went wrong.
        reason: String,
    },
    /// What an embedder's own list of connectors met with.
    #[error("{0}")]
    Other(String),
}

impl ConnectorsError {
    /// Whether the user must sign in again.
    pub fn is_auth_required(&self) -> bool {
        matches!(
            self,
            Self::Expired | Self::Unauthorized | Self::Forbidden | Self::Credentials { .. }
        )
    }

    /// Whether the same request may well succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Network { .. } => true,
            Self::Status { status } => *status == 429 || *status >= 500,
            _ => false,
        }
    }
}
