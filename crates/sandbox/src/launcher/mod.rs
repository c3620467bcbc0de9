//! The program that confines itself and becomes the server.
//!
//! ```text
//! host ─▶ supervisor ─▶ (enter) ─▶ init ─▶ server
//! ```
//!
//! The host starts the supervisor, in a process group of its own. It stays outside, runs the proxy
//! and reports how the server ended. `init` is process 1 of the sandbox: it builds the sandbox
//! around itself, starts the server, and takes all other processes along when it ends. With a
//! proxy, `enter` creates the namespaces in place of the supervisor, which needs threads.
//!
//! All stages are the same program. Signals reach the server directly, because all processes share
//! the group; the supervisor ignores those that ask it to end.
//!
//! *Invariant:* whatever cannot be enforced ends the start, with the reason.

mod cgroup;
mod control;
mod init;
mod landlock;
mod limits;
mod mounts;
mod namespaces;
mod net;
mod plan;
mod privileges;
mod proxy;
mod seccomp;
mod sockets;
mod supervisor;
#[cfg(target_arch = "x86_64")]
mod trace;
#[cfg(not(target_arch = "x86_64"))]
#[path = "trace_elsewhere.rs"]
mod trace;

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::ExitCode;

pub use landlock::abi as landlock_abi;

/// The exit code of a launcher that could not set up the sandbox.
pub const FAILED: u8 = 125;

/// The argument of each later stage, after [`crate::LAUNCHER_ARG`].
const ENTER: &str = "enter";
const INIT: &str = "init";

/// Runs a stage of the launcher: the program calls this first, if its first argument is
/// [`crate::LAUNCHER_ARG`], with the argument after it. No thread may be running.
pub fn run(stage: Option<&OsStr>) -> ExitCode {
    let ended = match stage.map(OsStr::to_str) {
        None => supervisor::run(),
        Some(Some(ENTER)) => namespaces::run(),
        Some(Some(INIT)) => init::run(),
        Some(_) => Err("unknown stage".to_owned()),
    };
    ended.unwrap_or_else(|reason| {
        report(&reason);
        ExitCode::from(FAILED)
    })
}

/// Writes a line to stderr, which is the server's log.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "trunkline sandbox: {text}");
}

/// Adds what failed to a system error.
fn because<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}
