//! The real program, run as a person or a script runs it: every exit code, and everything it
//! prints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod add;
mod add_check;
mod add_mistakes;
mod approve;
mod approve_scripts;
mod arguments;
mod attacks;
mod audit;
mod bad_files;
mod browser_urls;
mod cache;
mod call;
mod call_policy;
mod clean;
mod completions;
mod concurrency;
mod config;
mod connectors;
mod context;
mod daemon;
mod doctor;
mod doctor_bundle;
mod doctor_fix;
mod doctor_network;
mod edit;
mod elicitation;
mod enable;
mod failures;
mod get;
mod hostile;
mod images;
mod import;
mod install;
mod json_errors;
mod keychain;
mod lab;
mod list;
mod lock;
mod logs;
mod look;
mod look_commands;
mod managed;
mod permissions;
mod policy;
mod program;
mod prompts;
mod pty;
mod remove;
mod results;
#[cfg(target_os = "linux")]
mod sandbox;
mod scopes;
mod sdk;
mod search;
mod secret_sweep;
mod serve;
mod serve_http;
mod shared_token;
mod sign_in;
mod sign_in_problems;
mod signals;
mod status;
mod terminal;
mod tool;
mod tools;
mod trace;
mod ui;
