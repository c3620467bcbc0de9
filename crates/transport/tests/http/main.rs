//! Servers behind HTTP, on real sockets: what they do, and what becomes of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod get_stream;
mod handshake;
mod inline;
mod lab;
mod post_stream;
mod sessions;
