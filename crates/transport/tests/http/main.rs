//! The HTTP transports on real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

#[path = "../support/certs.rs"]
#[allow(dead_code, reason = "one kind of certificate is enough here")]
mod certs;

mod asking;
mod bytes;
mod cancelling;
mod credentials;
mod encodings;
mod ending;
mod get_stream;
mod handshake;
mod http2;
mod inline;
mod limits;
mod oracle;
mod outgoing;
mod patience;
mod post_stream;
mod redirects;
mod reuse;
mod sampling;
mod sessions;
mod support;
