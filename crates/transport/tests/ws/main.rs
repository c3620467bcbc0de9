//! Real sockets: what a WebSocket server says arrives, what it does is noticed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

#[path = "../lab/mod.rs"]
mod lab;

mod ending;
mod handshake;
mod messages;
mod secure;
mod server;
