//! Profiles: what a client may see and do (AGT-2).

use trunkline::tool::PoolTool;
use trunkline_wire::RpcError;

use crate::session::ClientSession;

/// The restrictions of a client.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    pub(crate) read_only: bool,
}

impl Profile {
    /// Counts a tool call against the client's limits.
    pub(crate) fn admit(&self, _tool: &str) -> Result<(), RpcError> {
        self.admit_request()
    }

    /// Counts a request against the client's limits.
    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "rates follow"
    )]
    pub(crate) fn admit_request(&self) -> Result<(), RpcError> {
        Ok(())
    }
}

impl ClientSession {
    /// Whether the client's profile has a tool.
    pub(crate) fn profile_allows(&self, tool: &PoolTool) -> bool {
        !self.profile().read_only || tool.is_read_only()
    }
}
