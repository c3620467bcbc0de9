//! Tests of the client over a scripted transport.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod calls;
mod context;
mod handshake;
mod harness;
mod input_required;
mod lists;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod url_elicitation;
