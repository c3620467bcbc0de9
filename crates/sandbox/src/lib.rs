//! Confines MCP servers that run as child processes (SEC-5).
//!
//! A [`Profile`] says in words what a server may do; [`Profile::resolve`] turns it into [`Rules`],
//! which hold absolute paths only. Both are plain data: no file is read and nothing is started.
//! `launcher` (a feature, Linux only) is the program that enforces rules: it confines itself and
//! then becomes the server, or it says why it cannot and starts nothing.
//!
//! ```
//! use trunkline_sandbox::{Places, Profile};
//!
//! let profile = Profile::parse(&serde_json::json!({"write": ["project"]}), &Profile::default())?;
//! let places = Places::new("/home/me").project("/home/me/work");
//! let rules = profile.resolve(&places)?;
//! assert!(rules.can_write("/home/me/work/file".as_ref()));
//! assert!(!rules.can_read("/home/me/.ssh/id_ed25519".as_ref()));
//! # Ok::<(), String>(())
//! ```

mod decision;
mod explain;
mod hosts;
mod launch;
#[cfg(all(target_os = "linux", feature = "launcher"))]
pub mod launcher;
mod learn;
mod parse;
mod profile;
mod resolve;
mod rules;

pub use decision::{Bounds, Profiles, Request, Requirement, Sandbox};
pub use explain::explain;
pub use hosts::HostRule;
pub use launch::{INHERITED_VARIABLES, LAUNCHER_ARG, LAUNCHER_PROGRAM, Launch, SPEC_VARIABLE};
pub use learn::{FileUse, Needs, Observations, Surroundings};
pub use profile::{DEFAULT_PROFILE, GrantedPath, Limits, Network, Profile};
pub use resolve::{Places, SYSTEM_PATHS};
pub use rules::{Access, Grant, OwnExecute, Rules};
