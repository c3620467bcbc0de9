//! Errors of WebSocket connections.

use std::time::Duration;

use crate::net::DialError;

/// An error of connecting to a WebSocket server. Never contains a header value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WsError {
    /// Connecting failed.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// A header of the entry is invalid.
    #[error(
        "the header {0:?} cannot be sent: its name or value has characters that HTTP does not allow"
    )]
    Header(String),
    /// The connection broke during the handshake.
    #[error("the connection broke during the WebSocket handshake: {0}")]
    Io(String),
    /// The handshake timed out.
    #[error("the WebSocket handshake did not complete within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server requires a sign-in (401).
    #[error("the server asks for a sign-in (status 401)")]
    Unauthorized {
        /// The `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The server refuses access (403).
    #[error("the server refuses access (status 403)")]
    Forbidden {
        /// The `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The URL does not exist (404).
    #[error("there is nothing at this URL (status 404)")]
    NotFound,
    /// The server redirects, which is not followed.
    #[error("the server redirects to {to} (status {status}), which is not followed")]
    Redirect {
        /// The status.
        status: u16,
        /// The host of the redirect.
        to: String,
    },
    /// The server responds with another status.
    #[error("the WebSocket handshake failed with status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// The server selected another subprotocol.
    #[error("the server wants to speak {selected:?} in place of \"mcp\"")]
    Subprotocol {
        /// The selected subprotocol; untrusted text.
        selected: String,
    },
    /// The server does not speak WebSocket.
    #[error("the server does not speak WebSocket: {0}")]
    NotWebSocket(&'static str),
}

impl WsError {
    /// A hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Dial(error) => error.hint(),
            Self::Status {
                status: 200..=299 | 400 | 405 | 426,
            }
            | Self::NotWebSocket(_) => {
                Some("the URL may be that of an HTTP server: try the transport `http`")
            }
            Self::Redirect { .. } => {
                Some("put the address that it redirects to into the server's entry")
            }
            _ => None,
        }
    }
}
