//! The real program, run as a person or a script runs it: every exit code, and everything it prints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod arguments;
mod call;
mod config;
mod failures;
mod lab;
mod list;
mod program;
mod signals;
mod terminal;
mod tools;
