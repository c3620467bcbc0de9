//! Server entries, and the configuration files that hold them.

pub use trunkline_config::{
    Approved, Blocked, Change, Diagnostic, Environment, Glob, HttpEntry, HttpFlavour, IdeEntry,
    KeyringRef, Layout, Loader, OAuthEntry, Policy, Project, RepositoryFile, Scope, Secret, Server,
    ServerEntry, ServerSet, ServerUrl, Severity, Source, Standing, StdioEntry, TlsEntry,
    ToolFilter, TransportEntry, WsEntry, normalize_name,
};
