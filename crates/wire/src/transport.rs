//! What the peer needs of a transport (SPEC TRN-1): send messages, receive messages in order, close.
//!
//! The implementations live in `trunkline-transport`. A transport comes apart into two halves, so that a server that
//! has stopped reading never delays what it still has to say.

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

/// A link to the other side.
pub trait Transport: Send + 'static {
    /// The half that sends, and that ends the link.
    type Sender: SendHalf;
    /// The half that receives.
    type Receiver: ReceiveHalf;

    /// Whether it uses the names and parameters in a request's [`Routing`]; finding them costs a little.
    const USES_ROUTING: bool = false;

    /// Takes the link apart.
    fn split(self) -> (Self::Sender, Self::Receiver);
}

/// The half that sends.
pub trait SendHalf: Send + 'static {
    /// Sends all of `batch` in order and empties it. May be dropped half-way when the link is being closed.
    fn send(
        &mut self,
        batch: &mut Vec<Outgoing>,
    ) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Ends the link and everything opened for it, within a bounded time.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The half that receives.
pub trait ReceiveHalf: Send + 'static {
    /// The next thing that arrived, in order. Must be safe to drop while it waits.
    ///
    /// A receiver returns at least once for each read, with [`Incoming::Partial`] or [`Incoming::Noise`]
    /// where there is nothing else to return: the peer then decides when other tasks run (CALL-7).
    fn receive(&mut self) -> impl Future<Output = Result<Incoming, Closed>> + Send;
}

/// A message on its way out. A transport that needs to know what it carries (a header with the method's name, a stream
/// to close on cancellation) reads it here instead of parsing the text.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// We ask.
    Request {
        /// Our number for it.
        id: u64,
        /// What is asked.
        method: &'static str,
        /// The `params` object.
        params: Json,
        /// What is said of it outside its text.
        routing: Routing,
        /// Who waits for the answer.
        call: CallStatus,
    },
    /// We tell.
    Notification {
        /// What is told.
        method: &'static str,
        /// The `params` object, if any.
        params: Option<Json>,
        /// The protocol version that it is spoken in, once one is agreed.
        version: Option<&'static str>,
    },
    /// We answer.
    Response {
        /// The id as the other side wrote it.
        id: Json,
        /// The result or the error.
        outcome: Result<Json, RpcError>,
    },
    /// We no longer want the answer to our request.
    Cancel {
        /// Our number for it.
        id: u64,
        /// Why, in a few words.
        reason: &'static str,
    },
}

/// What a transport may have to say of a request outside its text.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// The protocol version that it is spoken in, once one is agreed.
    pub version: Option<&'static str>,
    /// The `name` or the `uri` among its `params`.
    pub name: Option<ByteString>,
    /// Arguments that the server wants to see beside the text: what it calls each, and the value.
    pub parameters: Vec<(ByteString, String)>,
}

impl Outgoing {
    /// Appends the message's JSON text to `out`.
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

    /// About how long the text will be.
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

/// What a transport received.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// One frame: a message or a batch, as text.
    Frame(Bytes),
    /// A frame that came in answer to one of our requests: an answer in it that names no request of ours is meant for that.
    Reply {
        /// Our number for the request.
        to: u64,
        /// The frame.
        frame: Bytes,
    },
    /// One of our requests will not be answered; the link itself stands.
    DeliveryFailed {
        /// Our number for the request.
        to: u64,
        /// Why.
        failure: DeliveryError,
    },
    /// Bytes that are no message, and yet a sign of life.
    Activity {
        /// The request that they belong to.
        to: Option<u64>,
    },
    /// Bytes that belong to a message and do not complete it.
    Partial {
        /// How many.
        bytes: usize,
    },
    /// Bytes that belong to no message: blank lines, comments, control frames.
    Noise {
        /// What they count for, in messages. A transport leaves out what a well-behaved server sends.
        frames: u32,
        /// How many bytes.
        bytes: usize,
    },
    /// A message longer than the limit; it was skipped, and what follows it is intact.
    Oversize {
        /// How long it was.
        bytes: u64,
        /// How long it may be.
        limit: usize,
        /// Its first bytes, in which its id may be found.
        head: Bytes,
        /// Its last bytes, likewise.
        tail: Bytes,
    },
}

/// Why a link ended, with what the server last said on stderr. Cheap to clone: every call that was waiting gets one.
#[derive(Clone, Debug)]
pub struct Closed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    reason: CloseReason,
    stderr: Vec<String>,
}

/// What ended a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// We closed it.
    ByUs,
    /// The other side closed it in good order.
    ByPeer,
    /// The server's process ended.
    Exited {
        /// The exit code, when it ended by itself.
        code: Option<i32>,
        /// The signal that ended it, by name.
        signal: Option<String>,
    },
    /// Reading or writing failed.
    Io(String),
    /// The server no longer knows our session; a new one is to be had at once.
    SessionExpired,
    /// The server wants to know who we are.
    Unauthorized {
        /// What it asked for: its `WWW-Authenticate` header.
        challenge: Option<String>,
    },
}

impl Closed {
    /// Ended for `reason`, with nothing on stderr.
    pub fn new(reason: CloseReason) -> Self {
        Self::with_stderr(reason, Vec::new())
    }

    /// Ended for `reason`; `stderr` holds the server's last lines.
    pub fn with_stderr(reason: CloseReason, stderr: Vec<String>) -> Self {
        Self(Arc::new(Inner { reason, stderr }))
    }

    /// The same with other words of the server's.
    #[must_use]
    pub fn replace_stderr(&self, stderr: Vec<String>) -> Self {
        Self::with_stderr(self.0.reason.clone(), stderr)
    }

    /// What ended it.
    pub fn reason(&self) -> &CloseReason {
        &self.0.reason
    }

    /// The last lines the server wrote to stderr; untrusted text.
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
                write!(f, "the server's process was ended by {signal}")
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
    fn outgoing_messages_are_plain_json_rpc() {
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
