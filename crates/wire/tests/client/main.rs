//! The client over a scripted link: finding the server's era, then the same methods for both.
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
