//! Approval of a project's servers by the embedding program (CFG-6).

use trunkline_config::{ChangeError, Editor, EntryStatus, ServerEntry};

use super::Host;
use crate::audit::AuditEvent;
use crate::discovery::Discovery;

/// An approval or a rejection could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("the decision about \"{server}\" was not stored")]
pub struct ApprovalError {
    server: String,
    #[source]
    cause: ApprovalCause,
}

#[derive(Debug, thiserror::Error)]
enum ApprovalCause {
    #[error("the host does not read configuration files")]
    NoFiles,
    #[error("the entry is no longer configured")]
    Gone,
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error("{0}")]
    Interrupted(String),
}

impl ApprovalError {
    /// The server's name.
    pub fn server(&self) -> &str {
        &self.server
    }
}

impl Host {
    /// Approves a server of the project, as `entry` describes it. The approval is bound to this
    /// content: if the file holds another entry by now, that one still waits. Servers to approve
    /// are those in [`Host::config`] with [`EntryStatus::PendingApproval`].
    ///
    /// Returns the server's status once the host has applied the decision: an active server is
    /// connecting.
    ///
    /// # Errors
    ///
    /// The host reads no configuration files, the entry is gone, or the decision cannot be stored.
    pub async fn approve(&self, entry: &ServerEntry) -> Result<EntryStatus, ApprovalError> {
        let store = |editor: &Editor, entry: &ServerEntry| editor.approve(&[entry]).map(drop);
        self.decide(entry, "approved", store).await
    }

    /// Rejects a server of the project; it does not run. Returns its status once the host has
    /// applied the decision.
    ///
    /// # Errors
    ///
    /// As for [`Host::approve`].
    pub async fn reject(&self, entry: &ServerEntry) -> Result<EntryStatus, ApprovalError> {
        let store = |editor: &Editor, entry: &ServerEntry| editor.reject(&[&entry.name]).map(drop);
        self.decide(entry, "rejected", store).await
    }

    async fn decide(
        &self,
        entry: &ServerEntry,
        decision: &'static str,
        store: impl FnOnce(&Editor, &ServerEntry) -> Result<(), ChangeError> + Send + 'static,
    ) -> Result<EntryStatus, ApprovalError> {
        let failed = |cause| ApprovalError {
            server: entry.name.clone(),
            cause,
        };
        let root = self.root();
        let discovery = root.inner.discovery.as_ref();
        let discovery = discovery.ok_or_else(|| failed(ApprovalCause::NoFiles))?;
        if entry.needs_approval() {
            let (editor, entry) = (discovery.editor(), entry.clone());
            let name = entry.name.clone();
            let stored = tokio::task::spawn_blocking(move || store(&editor, &entry)).await;
            stored
                .map_err(|error| failed(ApprovalCause::Interrupted(error.to_string())))?
                .map_err(|error| failed(error.into()))?;
            self.audit().record(|| AuditEvent::Approval {
                servers: vec![name],
                decision,
            });
            Discovery::reload(discovery).await;
        }
        let set = discovery.set();
        let same = |known: &ServerEntry| {
            known.name == entry.name && known.scope == entry.scope && known.source == entry.source
        };
        let found = set.servers.iter().find(|server| same(&server.entry));
        let status = found.map(|server| server.status.clone());
        status.ok_or_else(|| failed(ApprovalCause::Gone))
    }
}
