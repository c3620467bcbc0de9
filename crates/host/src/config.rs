//! Server entries, and the configuration files that hold them.

pub use trunkline_config::{
    ApprovalChange, ApprovedEntry, Blocked, Diagnostic, EntryStatus, Environment, Glob, HttpEntry,
    HttpFlavour, IdeEntry, KeyringRef, Layout, Loader, OAuthEntry, Policy, Project, RepositoryFile,
    Scope, Secret, Server, ServerEntry, ServerSet, ServerUrl, Severity, Source, StdioEntry,
    TlsEntry, ToolFilter, TransportEntry, WsEntry, normalize_name,
};
