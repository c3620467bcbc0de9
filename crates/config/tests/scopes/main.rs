//! Configuration on real files through the public API: a module per CFG number of the SPEC, some in
//! several parts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod approval;
mod duplicates;
mod enterprise;
mod expansion;
mod fields;
mod lab;
mod many;
mod mistakes;
mod mutated;
mod pins;
mod places;
mod plugins;
mod policy;
mod precedence;
mod reload;
mod repository;
mod secrets;
mod switching;
mod unreadable;
mod writing;
