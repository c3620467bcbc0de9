//! How messages move between us and a server (SPEC chapter 2, TRN): child processes, HTTP, `WebSocket`, the bridge to an embedding
//! process, and linked pairs.
//!
//! Everything here implements [`Transport`], and everything above is written once against that.
//!
//! What is deliberately absent: JSON. A transport moves frames; it never looks into one. The [`sdk`] bridge alone reads the
//! control messages that frames travel in, and of a frame as much as it takes to pair it with its answer.

#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod lines;
mod linked;
pub mod net;
pub mod sdk;
mod skipped;
pub mod stdio;
mod trace;
pub mod ws;

pub use linked::{LinkedEnd, linked_pair};
pub use sdk::{SdkBridge, SdkTransport};
pub use stdio::{SpawnError, StdioServer, StdioTransport};
pub use trace::{Trace, Traced, TracedReceiver, TracedSender};
pub use trunkline_wire::transport::Transport;
pub use ws::{WsError, WsServer, WsTransport};

/// How long one message may be (SEC-4).
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
