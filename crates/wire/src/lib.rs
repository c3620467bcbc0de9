//! The protocol core: JSON-RPC messages, the peer that pairs requests with answers, MCP types, and the two
//! protocol eras behind one API.
//!
//! A message is parsed once. [`envelope`] reads who it is for and keeps `params` and `result` as the bytes that
//! arrived ([`Json`]); the method that asked decodes them, leniently, so that one bad item costs that item.
//!
//! - [`Peer`] works over any [`transport::Transport`] and knows nothing of MCP. It serves both sides: a client that calls and
//!   a server that answers.
//! - [`Client`] adds MCP: it finds out the server's era ([`client::connect`]) and then offers the same methods for both.
//!
//! What is deliberately absent: processes, sockets, configuration, and any policy about what may be called.

mod check;
pub mod client;
pub mod envelope;
mod json;
pub mod mcp;
pub mod peer;
mod rpc_error;
mod scan;
pub mod transport;
mod unescape;
pub mod version;

pub use bytestring::ByteString;
pub use client::Client;
pub use json::{InvalidJson, Json, ObjectWriter};
pub use peer::{Peer, RequestError};
pub use rpc_error::RpcError;
pub use transport::Closed;
