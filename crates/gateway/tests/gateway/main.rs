//! A gateway with real server processes, seen by clients of both eras.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::field_reassign_with_default,
    clippy::print_stdout,
    reason = "a test's helpers fail the test by panicking"
)]

mod eras;
mod isolation;
mod model;
mod profiles;
mod questions;
mod support;
