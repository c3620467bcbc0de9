//! The stdio transport with real processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod dying;
mod ending;
mod messages;
mod starting;
mod stderr;
mod support;
