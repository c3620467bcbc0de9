//! Which servers exist and may run (SPEC chapter 1, CFG).
//!
//! [`Loader`] reads every scope and gives back a [`ServerSet`]: a value **and** diagnostics, never one or the other, so a bad
//! entry costs that entry. [`Editor`] changes files, [`import`] reads other clients'. This crate does no network and starts no process.

mod approve;
mod change;
mod choose;
mod command_line;
mod dedupe;
mod diagnostic;
mod document;
mod edit;
mod entry;
mod entry_edit;
pub mod env_vars;
mod expand;
mod files;
mod forget;
#[doc(hidden)]
pub mod fuzzing;
mod glob;
pub mod import;
mod layout;
mod load;
mod load_state;
mod locate;
mod names;
mod permissions;
mod policy;
pub mod redact;
mod resolve;
mod runs;
mod scopes;
mod secret;
mod server_set;
mod settings;
mod watch;

pub use approve::{ApproveAll, Approved, Change, changes};
pub use change::{ChangeError, Editor, Written};
pub use command_line::{split_command, split_words};
pub use dedupe::signature;
pub use diagnostic::{Diagnostic, Severity};
pub use entry::{
    FIELDS, Field, HttpEntry, HttpFlavour, IdeEntry, OAuthEntry, SecretError, ServerEntry,
    ServerUrl, StdioEntry, TlsEntry, ToolFilter, TransportEntry, WsEntry, json_schema,
};
pub use entry_edit::{EntryChange, EntryEdit, EntryText};
pub use expand::{Environment, KeyringRef};
pub use forget::ApprovalRecord;
pub use glob::Glob;
pub use import::yaml_value;
pub use layout::{Layout, Project};
pub use load::{Loader, is_exclusive};
pub use names::{CONNECTOR_PREFIX, normalize_name, unfit_to_add};
pub use permissions::{PermissionRule, Permissions};
pub use policy::{Blocked, Policy};
pub use runs::RepositoryFile;
pub use scopes::{ConnectorEntry, Scope};
pub use secret::{HIDDEN, Secret};
pub use server_set::{Server, ServerSet, Source, Standing};
pub use watch::Watcher;
