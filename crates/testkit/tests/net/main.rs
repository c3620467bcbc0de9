//! The network servers and proxies, driven by plain sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::result_large_err,
    missing_docs,
    reason = "tests"
)]

mod browser;
mod faults;
mod h2;
mod http;
mod program;
mod proxy;
mod raw;
mod secure;
mod sse;
mod ws;
