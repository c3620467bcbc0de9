//! The sources of servers, one file per scope (CFG-1).

mod claudeai;
mod dynamic;
mod plugin;
mod servers;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

pub use claudeai::ConnectorEntry;
pub(crate) use claudeai::entries as claudeai;
pub(crate) use dynamic::entries as dynamic;
pub(crate) use plugin::entries as plugin;
pub(crate) use servers::{KEY, file_servers, members_servers, servers};

/// The source of an entry, strongest first (CFG-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Scope {
    /// `managed-mcp.json`, the enterprise configuration.
    Enterprise,
    /// `--mcp-config`, or the embedding program.
    Dynamic,
    /// `~/.claude.json`, for this project only.
    Local,
    /// `.mcp.json` in the project.
    Project,
    /// `~/.claude.json`, for every project.
    User,
    /// An enabled plugin.
    Plugin,
    /// The user's claude.ai connectors.
    ClaudeAi,
}

impl Scope {
    /// Every scope, strongest first.
    pub const ALL: [Self; 7] = [
        Self::Enterprise,
        Self::Dynamic,
        Self::Local,
        Self::Project,
        Self::User,
        Self::Plugin,
        Self::ClaudeAi,
    ];

    /// The name in flags and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enterprise => "enterprise",
            Self::Dynamic => "dynamic",
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
            Self::Plugin => "plugin",
            Self::ClaudeAi => "claudeai",
        }
    }

    /// Whether its entries are written by a person, rather than provided by a plugin or an account
    /// (CFG-8).
    pub fn is_manual(self) -> bool {
        !matches!(self, Self::Plugin | Self::ClaudeAi)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| format!("there is no scope \"{text}\""))
    }
}
