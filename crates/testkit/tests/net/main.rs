//! The network servers and proxies, driven by plain sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod browser;
mod faults;
mod http;
mod raw;
mod secure;
