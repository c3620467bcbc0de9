//! The sdk bridge, with the test as the embedding program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod asking;
mod closing;
mod messages;
mod servers;
mod support;
