//! Server entries, and the configuration files that hold them.
//!
//! Servers in code are [`ServerEntry`] values.
//! [`HostBuilder::discover`](crate::HostBuilder::discover) reads the files of all scopes, as Claude
//! Code does. A project's servers wait for approval:
//!
//! ```
//! use trunkline::Host;
//! use trunkline::config::{EntryStatus, Layout};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! # let (layout, project) = (Layout::under(home.path()), home.path().join("project"));
//! # std::fs::create_dir_all(project.join(".git"))?;
//! # let file = r#"{"mcpServers": {"clock": {"command": "clock-server"}}}"#;
//! # std::fs::write(project.join(".mcp.json"), file)?;
//! let host = Host::builder().discover(layout, &project).start();
//! host.ready().await;
//! for server in &host.config().servers {
//!     if let EntryStatus::PendingApproval { .. } = server.status {
//!         println!("approve {}? {}", server.entry.name, server.entry.redacted());
//!         let status = host.approve(&server.entry).await?;
//!         assert_eq!(status, EntryStatus::Active);
//!     }
//! }
//! host.shutdown().await;
//! # Ok(()) }
//! ```

pub use crate::host::ApprovalError;
pub use trunkline_config::{
    ApprovalChange, ApproveAll, ApprovedEntry, ArgumentRule, AuditArguments, AuditSettings,
    AuditSync, Blocked, CallLimit, CallPolicy, Confinement, ConnectorEntry, Diagnostic, EffectRule,
    EntryStatus, Environment, Glob, GrantType, Hook, HookEvent, HookMatcher, HttpEntry,
    HttpFlavour, IdeEntry, KeyringRef, Layout, Loader, OAuthEntry, Permissions, Policy,
    PolicyDecision, Project, RepositoryFile, SandboxPolicy, Scope, Secret, Server, ServerEntry,
    ServerSet, ServerUrl, Severity, Source, StdioEntry, TlsEntry, ToolFilter, TransportEntry,
    WsEntry, normalize_name,
};
pub use trunkline_sandbox::Sandbox;
