//! The last step of a call: prepares the result for a model.

use trunkline_wire::mcp::CallToolResult;

use super::{CallOutput, ResultOrigin};
use crate::call::HOST;
use crate::catalog::PoolTool;
use crate::connection::Connection;
use crate::host::Host;

impl Host {
    /// Prepares a tool's result for a model (RES-1 … RES-7).
    pub(crate) async fn prepare_result(
        &self,
        tool: &PoolTool,
        connection: &Connection,
        result: CallToolResult,
    ) -> CallOutput {
        let origin = ResultOrigin {
            server: &tool.server,
            tool: &tool.tool.name,
            ide: connection.is_ide(),
            max_chars: tool.max_result_chars,
        };
        self.results().process(&origin, result).await
    }

    /// Prepares a host tool's result, unless the caller wants it raw.
    pub(crate) async fn prepare_host_result(
        &self,
        tool: &str,
        output: CallOutput,
        raw: bool,
    ) -> CallOutput {
        if raw {
            return output;
        }
        let origin = ResultOrigin {
            server: HOST,
            tool,
            ide: false,
            max_chars: None,
        };
        self.results().process(&origin, output).await
    }
}
