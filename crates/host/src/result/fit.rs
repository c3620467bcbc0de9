//! The last step of a call: what came back is made fit for a model.

use trunkline_wire::mcp::CallToolResult;

use super::{About, CallOutput};
use crate::call::HOST;
use crate::catalog::PoolTool;
use crate::connection::Connection;
use crate::host::Host;

impl Host {
    /// What a tool gave back, as a model is shown it (RES-1 … RES-7).
    pub(crate) async fn fit_for_model(
        &self,
        tool: &PoolTool,
        connection: &Connection,
        result: CallToolResult,
    ) -> CallOutput {
        let about = About {
            server: &tool.server,
            tool: &tool.tool.name,
            ide: connection.is_ide(),
            max_chars: tool.max_result_chars,
        };
        self.results().process(&about, result).await
    }

    /// What one of the host's own tools gave back, unless it is wanted as it is.
    pub(crate) async fn fit_own(&self, tool: &str, output: CallOutput, raw: bool) -> CallOutput {
        if raw {
            return output;
        }
        let about = About {
            server: HOST,
            tool,
            ide: false,
            max_chars: None,
        };
        self.results().process(&about, output).await
    }
}
