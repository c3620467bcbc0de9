//! Logs of what servers write, and traces of their messages.
//!
//! ```
//! use trunkline::Host;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let host = Host::builder()
//!     .on_log(|line| eprintln!("{} {}: {}", line.time, line.server, line.text))
//!     .on_message(|message| eprintln!("{:?} {}", message.direction, message.text))
//!     .start();
//! host.shutdown().await;
//! # }
//! ```
//!
//! [`LogStore`] writes log files, [`Tracer`] a file of all messages.

pub use crate::logs::{
    Direction, Follow, LogKind, LogLine, LogStore, Message, ServerLog, Since, Tracer,
};
