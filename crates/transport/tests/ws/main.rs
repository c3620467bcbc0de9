//! The WebSocket transport on real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

#[path = "../support/mod.rs"]
mod support;

mod ending;
mod handshake;
mod messages;
mod secure;
mod server;
