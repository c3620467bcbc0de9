//! The sandbox of an entry (SEC-5).

use serde_json::{Value, json};
use trunkline_sandbox::{Profiles, Sandbox};

use super::ServerEntry;

/// The sandbox that a server runs in, as its entry and all settings have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// No settings were consulted: the entry decides, with the default profile only.
    #[default]
    Undecided,
    /// None.
    Free,
    /// This one.
    Sandboxed(Box<Sandbox>),
    /// It needs one that cannot be determined, and must not start.
    Refused(String),
}

impl Confinement {
    /// What makes it another server; `None` if its entry says as much.
    pub(super) fn identity(&self) -> Option<Value> {
        match self {
            Self::Undecided | Self::Free => None,
            Self::Sandboxed(sandbox) => Some(json!([sandbox.profile, sandbox.ceilings])),
            Self::Refused(reason) => Some(json!(reason)),
        }
    }
}

impl ServerEntry {
    /// The sandbox that it runs in; `None` is none. An error means that it must not start.
    ///
    /// ```
    /// use trunkline_config::ServerEntry;
    ///
    /// let mut entry = ServerEntry::stdio("s", "run", [""; 0]);
    /// assert!(entry.confined().unwrap().is_none());
    /// entry.sandbox = Some(serde_json::json!(true));
    /// assert!(entry.confined().unwrap().is_some());
    /// entry.sandbox = Some(serde_json::json!("unknown"));
    /// assert!(entry.confined().is_err());
    /// ```
    pub fn confined(&self) -> Result<Option<Sandbox>, String> {
        match &self.confinement {
            Confinement::Free => Ok(None),
            Confinement::Sandboxed(sandbox) => Ok(Some((**sandbox).clone())),
            Confinement::Refused(reason) => Err(reason.clone()),
            Confinement::Undecided => {
                let (request, base) = (self.sandbox.as_ref(), self.base.as_deref());
                Profiles::default().decide(request, base, false, &[])
            }
        }
    }
}
