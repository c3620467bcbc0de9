//! The host against real server processes, scripted to behave or misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod agents;
mod calls;
mod catalog;
mod changes;
mod changing;
mod cleanup;
mod connecting;
mod context;
mod discovery;
mod elicitation;
mod embedder_api;
mod embedding;
mod eras;
mod far_changes;
mod faults;
mod floods;
mod grants;
mod hooks;
mod inputs;
mod lab;
mod lazy;
mod logs;
mod names;
mod permissions;
mod policy;
mod remote;
mod restarts;
mod results;
mod sign_in;
mod skills;
mod tasks;
mod tools;
mod validation;
mod warm;
