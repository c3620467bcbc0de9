//! The dialer on real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

#[path = "../support/mod.rs"]
mod support;

mod echo;
mod identity;
mod proxies;
mod socks;
mod tcp;
mod trust;
