//! The peer over a scripted link: every message has its outcome, and no call costs another.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod answers;
mod floods;
mod giving_up;
mod idle_limit;
mod lab;
mod panics;
mod persons;
mod progress;
mod replies;
mod serving;
mod stuck;
#[path = "../support/mod.rs"]
mod support;
mod the_end;
