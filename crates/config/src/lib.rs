//! Finds the configured servers and decides which may run (SPEC chapter 1, CFG).
//!
//! [`Loader`] reads every scope and returns a [`ServerSet`]: always a value **and** diagnostics, so
//! that an invalid entry affects only itself. [`Editor`] edits files, [`import`] reads those of
//! other clients. This crate does no network I/O and starts no processes.

mod approval;
mod audit;
mod call_policy;
mod command_line;
mod dedupe;
mod diagnostic;
mod document;
mod edit;
mod editor;
mod entry;
mod entry_edit;
pub mod env_vars;
mod expand;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod gateway_profile;
mod glob;
mod hooks;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "import")]
pub mod install;
mod layout;
mod load;
mod locate;
mod lock_file;
mod names;
mod own_entry;
mod packages;
mod permissions;
mod pinning;
mod policy;
pub mod redact;
mod sandbox;
mod scopes;
mod secret;
mod server_set;
mod settings;
mod suggest;
#[cfg(feature = "watch")]
mod watch;
mod xaa;

pub use approval::{
    ApprovalChange, ApprovalRecord, ApproveAll, ApprovedEntry, RepositoryFile,
    changes_since_approval,
};
pub use audit::{AuditArguments, AuditSettings, AuditSync};
pub use call_policy::{ArgumentRule, CallLimit, CallPolicy, EffectRule, PolicyDecision};
pub use command_line::{split_command, split_words};
pub use dedupe::signature;
pub use diagnostic::{Diagnostic, Severity};
pub use editor::{ChangeError, Editor, WriteOutcome};
pub use entry::{
    Confinement, FIELDS, Field, GrantType, HttpEntry, HttpFlavour, IdeEntry, OAuthEntry,
    SecretError, ServerEntry, ServerUrl, StdioEntry, TlsEntry, ToolFilter, TransportEntry, WsEntry,
    check_account_name, json_schema,
};
pub use entry_edit::{EntryChange, EntryEdit, EntryText};
pub use expand::{Environment, KeyringRef};
pub use gateway_profile::GatewayProfile;
pub use glob::Glob;
pub use hooks::{HOOK_TIMEOUT, Hook, HookEvent, HookMatcher};
#[cfg(feature = "import")]
pub use import::yaml_value;
pub use layout::{Layout, Project};
pub use load::{Loader, is_exclusive};
pub use lock_file::{LockFile, LockedPackage, LockedServer};
pub use names::{CONNECTOR_PREFIX, check_new_name, normalize_name};
pub use own_entry::is_gateway_command;
pub use packages::{Package, Registry};
pub use permissions::{PermissionRule, Permissions};
pub use pinning::Pinning;
pub use policy::{Blocked, Policy};
pub use sandbox::SandboxPolicy;
pub use scopes::{ConnectorEntry, Scope};
pub use secret::{HIDDEN, Secret};
pub use server_set::{EntryStatus, Server, ServerSet, Source};
pub use suggest::nearest;
#[cfg(feature = "watch")]
pub use watch::Watcher;
pub use xaa::XaaIdp;
