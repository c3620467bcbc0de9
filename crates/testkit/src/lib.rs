//! Scriptable MCP servers for tests: real processes with real faults, and checks that no process is
//! left behind.
//!
//! The crate has two programs: `testkit-server`, which runs a [`Script`], and `testkit-echo`, which
//! only responds fast. Neither shares code with `trunkline-wire`, so that they can test it.
//!
//! ```no_run
//! use std::time::Duration;
//! use serde_json::json;
//! use trunkline_testkit::{Scratch, Script};
//!
//! let scratch = Scratch::new();
//! let slow = Script::default().tool("slow", json!([{"sleepMs": 200}, {"replyText": "done"}]));
//! let config = scratch.config(&[("slow", slow)]);
//! // … run the program under test with `config` …
//! scratch.assert_no_processes(Duration::from_secs(5));
//! # drop(config);
//! ```
//!
//! The README follows, with all script fields and actions.
//!
#![doc = include_str!("../README.md")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "test support: a failure here is a failed test and should be loud"
)]

mod action;
mod bins;
mod client;
#[cfg(target_os = "linux")]
mod desktop;
pub mod generated;
pub mod net;
pub mod processes;
mod scratch;
mod script;
pub mod scripted;
mod wait;

pub use action::{
    Action, AppendFile, Flood, Grandchild, InputRequired, Message, Progress, RpcError, SignalName,
    SlowWrite, TaskEnd, TaskScript, TaskStep,
};
pub use bins::bin;
pub use client::Client;
#[cfg(target_os = "linux")]
pub use desktop::Desktop;
pub use processes::{Marker, descendants, processes_in_group, processes_with_env};
pub use scratch::Scratch;
pub use script::{
    CursorFault, Era, LEGACY_VERSIONS, MODERN_VERSION, OnEof, Prompt, Resource, Script, Tool,
};
pub use wait::{wait_for, wait_until};
