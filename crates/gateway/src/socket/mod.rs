//! The Unix socket of the daemon: its place, its lock, who may connect, and the first line.
//!
//! A connection begins with one line of JSON, the [`Hello`], answered by one line, the
//! [`HelloReply`]. After it, the connection carries MCP messages, one a line, or for a
//! [`Purpose::Control`] connection the answer to its command. A client of [`serve_socket`] may also
//! begin with its first MCP message.

mod client;
mod hello;
mod instance;
mod listener;
mod place;
mod serve;

pub use client::{ConnectFailure, SocketConnection, connect};
pub use hello::{
    ClientEnvironment, ControlCommand, FirstLine, Hello, HelloError, HelloReply, MAX_HELLO_BYTES,
    Purpose, RefusalCode, SharedServer, read_first_line, read_hello, read_reply, write_line,
};
pub use instance::{InstanceLock, LockError};
pub use listener::{Accepted, BindError, Listener, PeerIdentity, is_allowed_peer};
pub use place::{PlaceError, SocketPlace, default_place};
pub use serve::serve_socket;
