//! The reasons that the endpoint cannot start.

use std::net::SocketAddr;

/// The endpoint cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason of the operating system.
        reason: String,
    },
    /// The certificate or the key cannot be used.
    #[error("cannot serve TLS: {0}")]
    Tls(String),
    /// The issuer cannot be used.
    #[error("cannot accept tokens of {0}")]
    Issuer(String),
}
