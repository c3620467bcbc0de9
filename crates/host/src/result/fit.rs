//! The last step of a call: what came back is made fit for a model.

use trunkline_wire::mcp::CallResult;

use super::{About, CallOutput};
use crate::catalog::PoolTool;
use crate::connection::Connection;
use crate::host::Host;

/// The member of a tool's `_meta` by which it asks for more, or less, than the usual limit (TOOL-5).
const MAX_RESULT_CHARS: &str = "anthropic/maxResultSizeChars";

impl Host {
    /// What a tool gave back, as a model is shown it (RES-1 … RES-7).
    pub(crate) async fn fit_for_model(
        &self,
        tool: &PoolTool,
        connection: &Connection,
        result: CallResult,
    ) -> CallOutput {
        let about = About {
            server: &tool.server,
            tool: &tool.tool.name,
            ide: connection.is_ide(),
            max_chars: max_result_chars(tool),
        };
        self.results().process(&about, result).await
    }
}

/// How many characters a tool wants its results to have at most.
fn max_result_chars(tool: &PoolTool) -> Option<usize> {
    let meta = tool.tool.meta.as_ref()?;
    let chars = meta.field::<usize>(MAX_RESULT_CHARS)?;
    (chars > 0).then_some(chars)
}
