//! Local servers that another process runs: a daemon that shares them between hosts.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// Reaches local servers through another process instead of starting them.
///
/// The host asks before it starts a stdio server, at every attempt to connect. The other process
/// speaks MCP as the server would; permissions, pins and results remain the host's.
pub trait Relay: Send + Sync + 'static {
    /// Opens a connection to the server; `None` lets the host start it.
    fn open(&self, server: RelayedServer) -> RelayFuture;
}

/// The future outcome of [`Relay::open`].
pub type RelayFuture = Pin<Box<dyn Future<Output = Option<RelayStream>> + Send>>;

/// A connection that carries one JSON message a line.
pub struct RelayStream {
    pub(super) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl RelayStream {
    /// Joins both directions.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
        }
    }
}

impl fmt::Debug for RelayStream {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("RelayStream").finish_non_exhaustive()
    }
}

/// A server as the host would start it.
#[derive(Clone)]
#[non_exhaustive]
pub struct RelayedServer {
    /// Its name.
    pub name: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The variables that it gets in addition to those of this process.
    pub env: BTreeMap<String, String>,
    /// The variables of this process that it does not get.
    pub env_remove: Vec<String>,
    /// Its working directory.
    pub cwd: Option<PathBuf>,
    /// The project.
    pub project_dir: Option<PathBuf>,
    /// Whether only the legacy protocol may be spoken.
    pub legacy_only: bool,
    /// Whether its entry says that its process may be shared.
    pub share: Option<bool>,
}

/// Omits arguments and the values of variables, which may be secrets (SEC-1).
impl fmt::Debug for RelayedServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("RelayedServer")
            .field("name", &self.name)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}
