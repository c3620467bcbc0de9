//! The state of a connection, and the catalog of its server.

pub use crate::catalog::Catalog;
pub use crate::connection::{
    ConnectFailure, ConnectTimeout, Connected, FailureKind, ServerStatus, State,
};
pub use trunkline_wire::mcp::ServerIdentity;
pub use trunkline_wire::version::Era;
