//! The protocol core: JSON-RPC messages, the peer, MCP types, and both protocol eras behind one
//! API.
//!
//! A message is parsed once. [`envelope`] decodes the envelope and keeps `params` and `result` as
//! the bytes that arrived ([`Json`]). The caller decodes them leniently, so that an invalid item
//! costs only itself.
//!
//! - [`Peer`] matches responses to requests over any [`transport::Transport`]. It knows nothing
//!   about MCP and works for clients and servers alike.
//! - [`Client`] adds MCP: [`client::connect`] detects the era of the server, and the client then
//!   has the same methods for both eras.
//! - [`scan`] walks through validated JSON without parsing it into a tree.
//! - [`offload`] runs work on long messages outside the threads of the runtime.
//!
//! Absent by design: processes, sockets, configuration, and any policy about calls.

mod check;
pub mod client;
pub mod envelope;
mod json;
pub mod mcp;
pub mod offload;
pub mod peer;
mod rpc_error;
pub mod scan;
pub mod transport;
mod unescape;
pub mod version;

pub use bytestring::ByteString;
pub use client::Client;
pub use json::{InvalidJson, Json, MAX_VALUES, ObjectWriter};
pub use peer::{Peer, RequestError};
pub use rpc_error::RpcError;
pub use transport::Closed;
