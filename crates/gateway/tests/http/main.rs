//! The HTTP endpoint over real sockets: ordinary clients of both eras, and hostile ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod attacks;
mod identity;
mod lab;
mod legacy;
mod limits;
mod modern;
mod oauth;
mod operations;
mod raw;
mod sse;
