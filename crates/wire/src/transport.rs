//! The transport interface of a peer (TRN-1): send messages, receive messages in order, close.
//!
//! The implementations are in `trunkline-transport`. A transport splits into two halves, so that a
//! server that has stopped reading cannot block what it still sends.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;

use crate::json::Json;
use crate::peer::CallStatus;
use crate::rpc_error::RpcError;

mod delivery_error;

pub use delivery_error::{DeliveryError, DeliveryErrorKind};

/// A connection to the peer.
pub trait Transport: Send + 'static {
    /// The sending half, which also closes the connection.
    type Sender: SendHalf;
    /// The receiving half.
    type Receiver: ReceiveHalf;

    /// Whether the transport uses the name and parameters in [`Routing`]. Computing them has a
    /// cost.
    const USES_ROUTING: bool = false;

    /// Splits the transport into its halves.
    fn split(self) -> (Self::Sender, Self::Receiver);
}

/// The sending half of a transport.
pub trait SendHalf: Send + 'static {
    /// Sends the messages of `batch` in order and empties it. May be dropped before it completes
    /// when the connection closes.
    fn send(
        &mut self,
        batch: &mut Vec<Outgoing>,
    ) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Closes the connection and releases its resources within a bounded time.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The receiving half of a transport.
pub trait ReceiveHalf: Send + 'static {
    /// Returns the next incoming item. Must be cancel safe.
    ///
    /// Returns at least once per read, with [`Incoming::Partial`] or [`Incoming::Noise`] if there
    /// is nothing else, so that the peer decides when other tasks run (CALL-7).
    fn receive(&mut self) -> impl Future<Output = Result<Incoming, Closed>> + Send;
}

/// An outgoing message. Transports take the method, the id and the routing from here instead of
/// parsing the text.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// A request.
    Request {
        /// Our id.
        id: u64,
        /// The method.
        method: &'static str,
        /// The `params` object.
        params: Json,
        /// Information for the transport, outside the body.
        routing: Routing,
        /// Whether a caller still waits for the response.
        call: CallStatus,
    },
    /// A notification.
    Notification {
        /// The method.
        method: &'static str,
        /// The `params` object, if any.
        params: Option<Json>,
        /// The negotiated protocol version.
        version: Option<&'static str>,
    },
    /// A response.
    Response {
        /// The id as the peer wrote it.
        id: Json,
        /// The result or the error.
        outcome: Result<Json, RpcError>,
    },
    /// The cancellation of a request.
    Cancel {
        /// Our id of the request.
        id: u64,
        /// A short reason.
        reason: &'static str,
    },
}

/// Properties of a request that a transport may send outside the body, for example as headers.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// The negotiated protocol version.
    pub version: Option<&'static str>,
    /// The `name` or `uri` in `params`.
    pub name: Option<ByteString>,
    /// Arguments that the server wants as headers: the name of the header and the value.
    pub parameters: Vec<(ByteString, String)>,
}

impl Outgoing {
    /// Appends the JSON text of the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut number = itoa::Buffer::new();
        let mut put = |parts: &[&str]| {
            for part in parts {
                out.extend_from_slice(part.as_bytes());
            }
        };
        match self {
            Self::Request {
                id, method, params, ..
            } => put(&[
                r#"{"jsonrpc":"2.0","id":"#,
                number.format(*id),
                r#","method":""#,
                method,
                r#"","params":"#,
                params.as_str(),
                "}",
            ]),
            Self::Notification {
                method,
                params: Some(params),
                ..
            } => put(&[
                r#"{"jsonrpc":"2.0","method":""#,
                method,
                r#"","params":"#,
                params.as_str(),
                "}",
            ]),
            Self::Notification {
                method,
                params: None,
                ..
            } => {
                put(&[r#"{"jsonrpc":"2.0","method":""#, method, r#""}"#]);
            }
            Self::Response {
                id,
                outcome: Ok(result),
            } => put(&[
                r#"{"jsonrpc":"2.0","id":"#,
                id.as_str(),
                r#","result":"#,
                result.as_str(),
                "}",
            ]),
            Self::Response {
                id,
                outcome: Err(error),
            } => put(&[
                r#"{"jsonrpc":"2.0","id":"#,
                id.as_str(),
                r#","error":"#,
                error.to_json().as_str(),
                "}",
            ]),
            Self::Cancel { id, reason } => put(&[
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#,
                number.format(*id),
                r#","reason":""#,
                reason,
                r#""}}"#,
            ]),
        }
    }

    /// Returns the approximate length of the text.
    pub fn size_hint(&self) -> usize {
        64 + match self {
            Self::Request { params, .. } => params.as_str().len(),
            Self::Notification { params, .. } => {
                params.as_ref().map_or(0, |params| params.as_str().len())
            }
            Self::Response {
                outcome: Ok(result),
                ..
            } => result.as_str().len(),
            Self::Response {
                outcome: Err(error),
                ..
            } => error.message.len(),
            Self::Cancel { .. } => 64,
        }
    }
}

/// An item received by a transport.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// A frame: one message or a batch.
    Frame(Bytes),
    /// A frame that answers one of our requests. A response in it without a known id belongs to
    /// that request.
    Reply {
        /// Our id of the request.
        to: u64,
        /// The frame.
        frame: Bytes,
    },
    /// A request that will get no response. The connection stays open.
    DeliveryFailed {
        /// Our id of the request.
        to: u64,
        /// The cause.
        failure: DeliveryError,
    },
    /// Bytes that are not a message but show that the peer is alive.
    Activity {
        /// The request that they belong to.
        to: Option<u64>,
    },
    /// Bytes of an incomplete message.
    Partial {
        /// The number of bytes.
        bytes: usize,
    },
    /// Bytes outside messages: blank lines, comments, control frames.
    Noise {
        /// The number of messages that they count as. Zero for what a well-behaved server sends.
        frames: u32,
        /// The number of bytes.
        bytes: usize,
    },
    /// A message over the size limit, which was skipped.
    Oversize {
        /// The length of the message.
        bytes: u64,
        /// The limit.
        limit: usize,
        /// The first bytes, which may contain the id.
        head: Bytes,
        /// The last bytes, which may contain the id.
        tail: Bytes,
    },
}

/// The reason that a connection ended, with the last lines of stderr. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Closed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    reason: CloseReason,
    stderr: Vec<String>,
}

/// The reason that a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it.
    ByUs,
    /// The peer closed it.
    ByPeer,
    /// The server process exited.
    Exited {
        /// The exit code, unless a signal ended the process.
        code: Option<i32>,
        /// The name of the signal that ended the process.
        signal: Option<String>,
    },
    /// Reading or writing failed.
    Io(String),
    /// The server no longer knows the session. A new one can be opened immediately.
    SessionExpired,
    /// The server requires authentication.
    Unauthorized {
        /// The `WWW-Authenticate` header.
        challenge: Option<String>,
    },
}

impl Closed {
    /// Creates a reason without stderr output.
    pub fn new(reason: CloseReason) -> Self {
        Self::with_stderr(reason, Vec::new())
    }

    /// Creates a reason with the last lines of stderr.
    pub fn with_stderr(reason: CloseReason, stderr: Vec<String>) -> Self {
        Self(Arc::new(Inner { reason, stderr }))
    }

    /// Returns the same reason with other stderr lines.
    #[must_use]
    pub fn replace_stderr(&self, stderr: Vec<String>) -> Self {
        Self::with_stderr(self.0.reason.clone(), stderr)
    }

    /// Returns the reason.
    pub fn reason(&self) -> &CloseReason {
        &self.0.reason
    }

    /// Returns the last lines of stderr. Untrusted text.
    pub fn stderr(&self) -> &[String] {
        &self.0.stderr
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.0.reason {
            CloseReason::ByUs => f.write_str("the connection was closed"),
            CloseReason::ByPeer => f.write_str("the server closed the connection"),
            CloseReason::Exited {
                code: Some(code), ..
            } => {
                write!(f, "the server's process exited with status {code}")
            }
            CloseReason::Exited {
                signal: Some(signal),
                ..
            } => {
                write!(f, "the server's process was killed by {signal}")
            }
            CloseReason::Exited { .. } => f.write_str("the server's process ended"),
            CloseReason::Io(error) => write!(f, "the connection broke: {error}"),
            CloseReason::SessionExpired => f.write_str("the server has ended the session"),
            CloseReason::Unauthorized { .. } => f.write_str("the server asks for a sign-in"),
        }
    }
}

impl std::error::Error for Closed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outgoing_messages_are_encoded_as_json_rpc() {
        let params = Json::parse(r#"{"a":1}"#).unwrap();
        let cases = [
            (
                Outgoing::Request {
                    id: 3,
                    method: "tools/call",
                    params: params.clone(),
                    routing: Routing::default(),
                    call: CallStatus::default(),
                },
                r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"a":1}}"#,
            ),
            (
                Outgoing::Notification {
                    method: "n",
                    params: Some(params.clone()),
                    version: None,
                },
                r#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#,
            ),
            (
                Outgoing::Notification {
                    method: "n",
                    params: None,
                    version: None,
                },
                r#"{"jsonrpc":"2.0","method":"n"}"#,
            ),
            (
                Outgoing::Response {
                    id: Json::parse(r#""x""#).unwrap(),
                    outcome: Ok(params),
                },
                r#"{"jsonrpc":"2.0","id":"x","result":{"a":1}}"#,
            ),
            (
                Outgoing::Response {
                    id: Json::parse("1.0").unwrap(),
                    outcome: Err(RpcError::new(-1, "a \"b\"")),
                },
                r#"{"jsonrpc":"2.0","id":1.0,"error":{"code":-1,"message":"a \"b\""}}"#,
            ),
            (
                Outgoing::Cancel {
                    id: 9,
                    reason: "timed out",
                },
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9,"reason":"timed out"}}"#,
            ),
        ];
        for (message, expected) in cases {
            let mut out = Vec::new();
            message.encode(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
