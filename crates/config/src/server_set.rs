//! The set of configured servers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::approval::{ApproveAll, ApprovedEntry};
use crate::audit::AuditSettings;
use crate::call_policy::CallPolicy;
use crate::diagnostic::Diagnostic;
use crate::entry::ServerEntry;
use crate::files::shown;
use crate::hooks::Hook;
use crate::names::check_displayable;
use crate::permissions::Permissions;
use crate::policy::{Blocked, Policy};
use crate::sandbox::SandboxPolicy;
use crate::scopes::Scope;

/// All configured servers, including those that may not run, and the problems found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerSet {
    /// Every server, sorted by name, and by scope within a name.
    pub servers: Vec<Server>,
    /// The problems found.
    pub diagnostics: Vec<Diagnostic>,
    /// The enterprise configuration, if there is one: then no other scope counts.
    pub exclusive: Option<PathBuf>,
    /// Every file that counts, whether it exists or not.
    pub files: Vec<PathBuf>,
    /// The lists of allowed and denied servers.
    pub policy: Policy,
    /// The sandbox profiles, and the servers that need one.
    pub sandbox: SandboxPolicy,
    /// The tool permissions.
    pub permissions: Permissions,
    /// The commands to run before and after calls and for elicitations, in order.
    pub hooks: Vec<Hook>,
    /// The audit log, if the user or the organisation asks for one.
    pub audit: Option<Arc<AuditSettings>>,
    /// The organisation's restrictions of calls.
    pub call_policy: Option<Arc<CallPolicy>>,
    /// The names of all active servers, including those that the program leaves out of `servers`.
    pub running: Vec<String>,
    /// The setting that approves every server of a project.
    pub approve_all: Option<ApproveAll>,
    /// A managed file exists but is unusable. It still counts, but it may be in the middle of being
    /// written.
    pub managed_unreadable: bool,
}

/// A configured server and its status.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Server {
    /// The entry.
    pub entry: ServerEntry,
    /// Whether it runs, or why not.
    pub status: EntryStatus,
    /// The weaker entries of the same name that it shadows.
    pub shadows: Vec<Source>,
    /// The content to bind its approval to, if only its name is approved.
    pub(crate) unbound_approval: Option<ApprovedEntry>,
}

/// The scope and file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Source {
    /// The scope.
    pub scope: Scope,
    /// The file.
    pub source: String,
}

impl Source {
    pub(crate) fn of(entry: &ServerEntry) -> Self {
        Self {
            scope: entry.scope,
            source: entry.source.clone(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} ({})", self.scope, self.source)
    }
}

/// Whether a server runs, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryStatus {
    /// It may run and is enabled.
    Active,
    /// It is disabled.
    Disabled,
    /// The user has not approved it, or not its current content.
    PendingApproval {
        /// The content approved under its name.
        before: Option<Box<ApprovedEntry>>,
    },
    /// The user rejected it.
    Rejected {
        /// The file that rejects it.
        source: String,
    },
    /// Policy blocks it.
    Blocked(Blocked),
    /// Another server has the same content.
    Suppressed {
        /// The name of that server.
        by: String,
    },
    /// It starts this gateway, which must not start itself.
    OwnGateway,
    /// A stronger scope has an entry of the same name.
    Shadowed {
        /// That entry.
        by: Source,
    },
}

impl EntryStatus {
    /// Whether it may run, even if it is disabled.
    pub fn may_run(&self) -> bool {
        matches!(self, Self::Active | Self::Disabled)
    }

    /// The name in `list --json`; `None` if the state of the connection is shown instead.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Active | Self::Disabled => None,
            Self::PendingApproval { .. } => Some("pending-approval"),
            Self::Rejected { .. } => Some("rejected"),
            Self::Blocked(_) => Some("blocked"),
            Self::Suppressed { .. } | Self::OwnGateway => Some("suppressed"),
            Self::Shadowed { .. } => Some("shadowed"),
        }
    }
}

impl Server {
    /// A server that policy blocks.
    pub fn blocked(entry: ServerEntry, blocked: Blocked) -> Self {
        Self {
            entry,
            status: EntryStatus::Blocked(blocked),
            shadows: Vec::new(),
            unbound_approval: None,
        }
    }
}

impl ServerSet {
    /// Why a server that is in no file may not run: the enterprise configuration has exclusive
    /// control, or policy does not allow it. Servers of the embedding program are exempt: they are
    /// the program itself.
    pub fn refusal(&self, entry: &ServerEntry) -> Option<Blocked> {
        if entry.transport.is_embedded() {
            return None;
        }
        if let Some(file) = &self.exclusive {
            return Some(Blocked {
                rule: "the enterprise configuration has exclusive control".to_owned(),
                source: shown(file),
            });
        }
        if let Err(rule) = check_displayable(&entry.name) {
            return Some(Blocked {
                rule,
                source: entry.source.clone(),
            });
        }
        self.policy.blocks(entry)
    }

    /// The entries of the active servers.
    pub fn active(&self) -> impl Iterator<Item = &ServerEntry> {
        let running = self.servers.iter();
        running
            .filter(|server| server.status == EntryStatus::Active)
            .map(|server| &server.entry)
    }

    /// The servers for a host: active and disabled ones. `disabled` of each entry reflects its
    /// status.
    pub fn for_host(&self) -> impl Iterator<Item = ServerEntry> {
        let known = self.servers.iter();
        known.filter_map(|server| match server.status {
            EntryStatus::Active => Some(ServerEntry {
                disabled: false,
                ..server.entry.clone()
            }),
            EntryStatus::Disabled => Some(ServerEntry {
                disabled: true,
                ..server.entry.clone()
            }),
            _ => None,
        })
    }

    /// Says for each entry that starts this gateway that it is left out. For a gateway only:
    /// elsewhere such an entry is what the user wanted.
    pub fn own_gateways(&self) -> impl Iterator<Item = Diagnostic> {
        let own = self.servers.iter();
        own.filter(|server| server.status == EntryStatus::OwnGateway)
            .map(|server| {
                let message = "it starts this gateway itself, so the gateway leaves it out";
                Diagnostic::warning(&server.entry.source, message).about(&server.entry.name)
            })
    }

    /// The problems with entries of one name.
    pub fn diagnostics_for<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s Diagnostic> {
        let diagnostics = self.diagnostics.iter();
        diagnostics.filter(move |problem| problem.server.as_deref() == Some(name))
    }

    /// All entries of one name, strongest first.
    pub fn named<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s Server> {
        self.servers
            .iter()
            .filter(move |server| server.entry.name == name)
    }
}
