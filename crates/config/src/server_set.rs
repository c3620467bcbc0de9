//! The set of servers that configuration comes to.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::approve::{ApproveAll, Approved};
use crate::diagnostic::Diagnostic;
use crate::entry::{ServerEntry, TransportEntry};
use crate::files::shown;
use crate::names::unshowable;
use crate::permissions::Permissions;
use crate::policy::{Blocked, Policy};
use crate::scopes::Scope;

/// All servers that are configured, those that may not run included, and what was wrong on the way.
#[derive(Clone, Debug, Default)]
pub struct ServerSet {
    /// Every server, sorted by name; of one name the strongest scope first.
    pub servers: Vec<Server>,
    /// The problems found on the way.
    pub diagnostics: Vec<Diagnostic>,
    /// The company's file, if there is one: then it alone counts.
    pub exclusive: Option<PathBuf>,
    /// Every file that counts, whether it exists or not.
    pub files: Vec<PathBuf>,
    /// The lists of allowed and denied servers.
    pub policy: Policy,
    /// Which tools may be called.
    pub permissions: Permissions,
    /// The setting that approves every server of a project, if one does.
    pub approve_all: Option<ApproveAll>,
    /// One of the company's files is there and cannot be used. It counts all the same, but it may just be being written.
    pub doubtful: bool,
}

/// A configured server and where it stands.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its entry.
    pub entry: ServerEntry,
    /// Whether it runs, and if not, why.
    pub standing: Standing,
    /// Entries of the same name in weaker places, which it hides.
    pub shadows: Vec<Source>,
    /// What its approval should be bound to, where only its name is approved so far.
    pub(crate) to_record: Option<Approved>,
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its scope.
    pub scope: Scope,
    /// Its file.
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

/// Whether a server runs, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs.
    Active,
    /// It is switched off.
    Disabled,
    /// The user has not approved it, or not as it is now.
    PendingApproval {
        /// What was approved under its name.
        before: Option<Box<Approved>>,
    },
    /// The user does not want it.
    Rejected {
        /// The file that says so.
        source: String,
    },
    /// Policy forbids it.
    Blocked(Blocked),
    /// Another server has the same content.
    Suppressed {
        /// That server's name.
        by: String,
    },
    /// A stronger place has an entry of the same name.
    Shadowed {
        /// That place.
        by: Source,
    },
}

impl Standing {
    /// Whether nothing stands in the server's way but, perhaps, that it is switched off.
    pub fn may_run(&self) -> bool {
        matches!(self, Self::Active | Self::Disabled)
    }

    /// Its name in `list --json`; `None` where the connection's state says more.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Active | Self::Disabled => None,
            Self::PendingApproval { .. } => Some("pending-approval"),
            Self::Rejected { .. } => Some("rejected"),
            Self::Blocked(_) => Some("blocked"),
            Self::Suppressed { .. } => Some("suppressed"),
            Self::Shadowed { .. } => Some("shadowed"),
        }
    }
}

impl Server {
    /// A server that policy keeps from running.
    pub fn blocked(entry: ServerEntry, blocked: Blocked) -> Self {
        Self {
            entry,
            standing: Standing::Blocked(blocked),
            shadows: Vec::new(),
            to_record: None,
        }
    }
}

impl ServerSet {
    /// Why a server that is in no file may not run beside these: an enterprise configuration has exclusive control, or
    /// policy does not allow it. A server inside the embedding program is the program itself, and not held to either.
    pub fn refusal(&self, entry: &ServerEntry) -> Option<Blocked> {
        if matches!(entry.transport, TransportEntry::Sdk) {
            return None;
        }
        if let Some(file) = &self.exclusive {
            return Some(Blocked {
                rule: "the enterprise configuration has exclusive control".to_owned(),
                source: shown(file),
            });
        }
        if let Some(reason) = unshowable(&entry.name) {
            return Some(Blocked {
                rule: reason,
                source: entry.source.clone(),
            });
        }
        self.policy.blocks(entry)
    }

    /// The entries of the servers that run.
    pub fn active(&self) -> impl Iterator<Item = &ServerEntry> {
        let running = self.servers.iter();
        running
            .filter(|server| server.standing == Standing::Active)
            .map(|server| &server.entry)
    }

    /// The servers that a host knows: those that run and those that are switched off. An entry that is switched off, by itself
    /// or for this project, says so in `disabled`.
    pub fn for_host(&self) -> impl Iterator<Item = ServerEntry> {
        let known = self.servers.iter();
        known.filter_map(|server| match server.standing {
            Standing::Active => Some(ServerEntry {
                disabled: false,
                ..server.entry.clone()
            }),
            Standing::Disabled => Some(ServerEntry {
                disabled: true,
                ..server.entry.clone()
            }),
            _ => None,
        })
    }

    /// The problems with entries of one name.
    pub fn about<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s Diagnostic> {
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
