//! The transports between a host and its servers (TRN): child processes, HTTP, WebSocket, the
//! bridge to an embedding program, and linked pairs.
//!
//! All of them implement [`Transport`]; the layers above are written once against it.
//!
//! Deliberately absent: JSON. A transport moves frames and never parses one. Only the [`sdk`]
//! bridge reads the control messages around frames, and of a frame the parts that pair it with its
//! response.

#[cfg(feature = "net")]
pub mod credentials;
#[cfg(feature = "http")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "net")]
pub mod headers_helper;
#[cfg(feature = "http")]
pub mod http;
mod io;
pub mod lines;
mod linked;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "net")]
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "connections are not reused")
)]
mod response_head;
pub mod sdk;
pub mod shell;
mod skipped;
pub mod stdio;
mod trace;
#[cfg(feature = "ws")]
pub mod ws;

pub use io::{IoReceiver, IoSender, IoTransport};
pub use linked::{LinkedEnd, linked_pair};
pub use sdk::{SdkBridge, SdkTransport};
pub use stdio::{SpawnError, StdioServer, StdioTransport};
pub use trace::{Trace, Traced, TracedReceiver, TracedSender};
pub use trunkline_wire::transport::Transport;
#[cfg(feature = "ws")]
pub use ws::{WsError, WsServer, WsTransport};

/// The longest message (SEC-4).
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
