//! Tests of the peer over a scripted transport: every message has a defined outcome, and no call
//! affects another.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod cancellation;
mod clients;
mod closing;
mod floods;
mod harness;
mod idle_timeout;
mod incoming_requests;
mod panics;
mod progress;
mod responses;
mod routed_responses;
mod stalled_writer;
#[path = "../support/mod.rs"]
mod support;
mod user_prompts;
