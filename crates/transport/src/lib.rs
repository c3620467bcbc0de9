//! The transports between a host and its servers (TRN): child processes, HTTP, WebSocket, the
//! bridge to an embedding program, and linked pairs.
//!
//! All of them implement [`Transport`]; the layers above are written once against it.
//!
//! Deliberately absent: JSON. A transport moves frames and never parses one. Only the [`sdk`]
//! bridge reads the control messages around frames, and of a frame the parts that pair it with its
//! response.

#[doc(hidden)]
pub mod fuzzing;
pub mod http;
mod io;
pub mod lines;
mod linked;
pub mod net;
mod response_head;
pub mod sdk;
mod skipped;
pub mod stdio;
mod trace;
pub mod ws;

pub use io::{IoReceiver, IoSender, IoTransport};
pub use linked::{LinkedEnd, linked_pair};
pub use sdk::{SdkBridge, SdkTransport};
pub use stdio::{SpawnError, StdioServer, StdioTransport};
pub use trace::{Trace, Traced, TracedReceiver, TracedSender};
pub use trunkline_wire::transport::Transport;
pub use ws::{WsError, WsServer, WsTransport};

/// The longest message (SEC-4).
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
