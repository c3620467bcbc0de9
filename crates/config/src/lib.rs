//! Which servers exist and may run (SPEC chapter 1, CFG).
//!
//! Loading returns a value **and** diagnostics, never one or the other: a bad entry costs that entry. This crate does no
//! network and starts no process.
//!
//! So far it knows one scope, `dynamic`: what `--mcp-config` names. The other six, approval, policy, deduplication,
//! expansion and edits are to come, each in a module of its own.

mod diagnostic;
mod dynamic;
mod entry;
pub mod env_vars;
mod locate;

pub use diagnostic::Diagnostic;
pub use dynamic::{Loaded, load_dynamic};
pub use entry::{Scope, ServerEntry, TransportEntry};
