//! The state of a connection, and the catalog of its server.

use std::fmt;

pub use trunkline_config::SecretError;
pub use trunkline_transport::SpawnError;
pub use trunkline_wire::RequestError;
pub use trunkline_wire::client::ConnectError;
pub use trunkline_wire::mcp::{Implementation, ServerCapabilities, ServerIdentity};
pub use trunkline_wire::transport::{CloseReason, Closed, DeliveryError, DeliveryErrorKind};
pub use trunkline_wire::version::Era;

pub use crate::catalog::Catalog;
pub use crate::connection::{
    ConnectFailure, ConnectTimeout, Connected, FailureKind, ServerStatus, State,
};
use trunkline_config::nearest;

/// The host, or the agent, has no server of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownServer {
    name: String,
    suggestion: Option<String>,
}

impl UnknownServer {
    pub(crate) fn new<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Self {
        Self {
            name: name.to_owned(),
            suggestion: nearest(name, known).map(str::to_owned),
        }
    }

    /// The name that was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A known server with a similar name.
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }
}

impl fmt::Display for UnknownServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "there is no server \"{}\"", self.name)
    }
}

impl std::error::Error for UnknownServer {}
