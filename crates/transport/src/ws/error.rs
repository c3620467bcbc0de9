//! Why there is no link to a WebSocket server.

use std::time::Duration;

use crate::net::DialError;

/// Why there is no link to a WebSocket server. Never holds a header's value of ours.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WsError {
    /// The server could not be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// A header of the server's entry cannot be sent.
    #[error(
        "the header {0:?} cannot be sent: its name or value has characters that HTTP does not allow"
    )]
    Header(String),
    /// The connection broke during the handshake.
    #[error("the connection broke during the WebSocket handshake: {0}")]
    Io(String),
    /// The handshake took too long.
    #[error("the server did not answer the WebSocket handshake within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server wants to know who we are (401).
    #[error("the server asks for a sign-in (status 401)")]
    Unauthorized {
        /// What it asked for: its `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// The server knows who we are and does not let us in (403).
    #[error("the server refuses us (status 403)")]
    Forbidden {
        /// What it asked for: its `WWW-Authenticate` header.
        challenge: Option<String>,
    },
    /// There is no such address on the server (404).
    #[error("there is nothing at this URL (status 404)")]
    NotFound,
    /// The server sends us elsewhere, where we do not go.
    #[error("the server redirects to {to} (status {status}), which is not followed")]
    Redirect {
        /// The status.
        status: u16,
        /// The host that it points to, or the same one.
        to: String,
    },
    /// The server answers with another status.
    #[error("the server answered the WebSocket handshake with status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// The server speaks a protocol that we did not ask for.
    #[error("the server wants to speak {selected:?} in place of \"mcp\"")]
    Subprotocol {
        /// What it selected; untrusted text.
        selected: String,
    },
    /// What answers is no WebSocket server.
    #[error("the server does not speak WebSocket: {0}")]
    NotWebSocket(&'static str),
}

impl WsError {
    /// What the user can do about it.
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
