//! The network servers and proxies, driven by plain sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

#[allow(dead_code, reason = "for the tests to come")]
mod browser;
mod faults;
mod raw;
mod secure;
