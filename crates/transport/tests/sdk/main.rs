//! The bridge to servers in the embedding program, with the test as that program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod asking;
mod lab;
mod messages;
mod servers;
mod the_end;
