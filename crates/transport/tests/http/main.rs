//! Servers behind HTTP, on real sockets: what they do, and what becomes of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod asking;
mod cancelling;
mod credentials;
mod encodings;
mod ending;
mod get_stream;
mod handshake;
mod inline;
mod lab;
mod limits;
mod outgoing;
mod patience;
mod post_stream;
mod redirects;
mod reuse;
mod sessions;
