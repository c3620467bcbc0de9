//! What the interface knows about servers: plain data, read from the host by `snapshot`.

use std::sync::Arc;
use std::time::Instant;

use trunkline::tool::PoolTool;
use trunkline_config::ServerSet;

use super::doc::{DocLine, Tone};

/// Identifies a row: two scopes may have a server of one name.
pub(super) type Key = (Arc<str>, &'static str);

/// The group of servers that no file configures.
pub(super) const BUILT_IN: &str = "in-process";

/// The state of a server, connection and configuration together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Connected,
    Connecting {
        attempt: u32,
        retry_at: Option<Instant>,
    },
    /// Starts with its first call.
    Lazy,
    NeedsAuth,
    Failed,
    Disabled,
    PendingApproval {
        changed: bool,
    },
    Rejected,
    Blocked,
    Suppressed,
    /// Its entry cannot be read.
    Invalid,
}

impl Status {
    /// Returns the word for the state.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Connecting { retry_at: None, .. } => "connecting",
            Self::Connecting { .. } => "waiting to reconnect",
            Self::Lazy => "starts when called",
            Self::NeedsAuth => "needs sign-in",
            Self::Failed => "failed",
            Self::Disabled => "off",
            Self::PendingApproval { changed: false } => "needs approval",
            Self::PendingApproval { changed: true } => "changed since approval",
            Self::Rejected => "rejected",
            Self::Blocked => "blocked by policy",
            Self::Suppressed => "duplicate",
            Self::Invalid => "invalid entry",
        }
    }

    /// Returns the glyph for the state, never the only sign of it.
    pub(super) fn glyph(self) -> &'static str {
        match self {
            Self::Connected => "✓",
            Self::Connecting { .. } => "◌",
            Self::NeedsAuth | Self::PendingApproval { .. } => "!",
            Self::Failed | Self::Invalid | Self::Blocked => "✗",
            Self::Lazy | Self::Disabled | Self::Rejected | Self::Suppressed => "○",
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self.glyph() {
            "✓" => Tone::Good,
            "!" | "◌" => Tone::Warn,
            "✗" => Tone::Bad,
            _ => Tone::Dim,
        }
    }
}

/// A resource or a template of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceItem {
    pub(super) uri: String,
    pub(super) name: String,
    pub(super) about: String,
    pub(super) is_template: bool,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptParameter {
    pub(super) name: String,
    pub(super) about: Option<String>,
    pub(super) required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptItem {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) parameters: Vec<PromptParameter>,
}

/// What a server offers.
#[derive(Debug, Default)]
pub(super) struct Offers {
    pub(super) tools: Vec<Arc<PoolTool>>,
    pub(super) resources: Vec<ResourceItem>,
    pub(super) prompts: Vec<PromptItem>,
    /// Whether the lists are those of an earlier connection.
    pub(super) cached: bool,
}

/// One server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) key: Key,
    pub(super) transport: &'static str,
    pub(super) status: Status,
    /// Why it is not connected, in one line, escaped; empty if it is.
    pub(super) cause: String,
    /// The line of its stderr that best explains the last failure; escaped.
    pub(super) said: String,
    pub(super) offers: Arc<Offers>,
    /// Whether the user can sign in to it.
    pub(super) takes_sign_in: bool,
    /// The position of its entry in the configuration.
    pub(super) entry: Option<usize>,
}

impl Server {
    pub(super) fn name(&self) -> &str {
        &self.key.0
    }

    /// Returns whether a connection exists that can be made anew.
    pub(super) fn runs(&self) -> bool {
        use Status::{Connected, Connecting, Failed, Lazy, NeedsAuth};
        let status = self.status;
        matches!(
            status,
            Connected | Connecting { .. } | Failed | Lazy | NeedsAuth
        )
    }

    /// Returns the key and the command that help, for the row's end.
    pub(super) fn cure(&self) -> Option<(&'static str, &'static str)> {
        match self.status {
            Status::NeedsAuth if self.takes_sign_in => Some(("l", "login")),
            Status::Failed | Status::Invalid => Some(("enter", "why")),
            Status::Disabled => Some(("space", "on")),
            Status::PendingApproval { .. } | Status::Rejected => Some(("a", "review")),
            _ => None,
        }
    }
}

/// All servers, sorted by scope and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) servers: Vec<Server>,
    pub(super) set: Arc<ServerSet>,
    /// Problems of whole files, one line each, escaped.
    pub(super) problems: Vec<String>,
}

impl Snapshot {
    pub(super) fn position(&self, key: &Key) -> Option<usize> {
        self.servers.iter().position(|server| server.key == *key)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Server> {
        self.servers.iter().find(|server| server.key == *key)
    }

    /// Returns the server of this name that runs, otherwise any.
    pub(super) fn named(&self, name: &str) -> Option<&Server> {
        let named = || self.servers.iter().filter(|server| server.name() == name);
        named()
            .find(|server| server.runs())
            .or_else(|| named().next())
    }
}

/// The overview of one server.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) key: Key,
    pub(super) lines: Vec<DocLine>,
}
