//! Search mode (GW-3): `ToolSearch` and `CallTool` instead of every tool.

use serde_json::json;
use trunkline::CallOptions;
use trunkline::tool::{Format, LoadMode, TOOL_SEARCH};
use trunkline_wire::version::Era;
use trunkline_wire::{Json, RpcError};

use crate::client::View;
use crate::errors::rpc_error;
use crate::session::ClientSession;
use crate::translate::{self, Caching};

/// The tool that calls a tool that the search found.
pub(crate) const CALL_TOOL: &str = "CallTool";

const CALL_DESCRIPTION: &str = "Calls a tool that ToolSearch returned, by its name, with arguments that fit its inputSchema. \
The result is the tool's.";

impl ClientSession {
    /// Whether the client sees a search instead of all tools.
    pub(crate) fn searches(&self) -> bool {
        self.options().search && *self.view() == View::All
    }

    /// Calls `visit` with the definitions of the search and of `CallTool`.
    pub(crate) fn search_tools(&self, mut visit: impl FnMut(&Json)) {
        let mut tools = self.host().pool().for_model(LoadMode::Search, 0);
        tools.loaded.clear();
        tools.own.retain(|tool| tool.name == TOOL_SEARCH);
        if let Ok(definitions) = Json::parse(tools.export(Format::Mcp)) {
            definitions.elements(|definition| visit(&definition));
        }
        visit(&Json::from(json!({
            "name": CALL_TOOL,
            "description": CALL_DESCRIPTION,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of the tool, as ToolSearch returned it"},
                    "arguments": {"type": "object", "description": "The arguments of the tool"},
                },
                "required": ["name"],
            },
        })));
    }

    /// Runs a search.
    pub(crate) async fn search(&self, era: Era, arguments: Json) -> Result<Json, RpcError> {
        let options = CallOptions::new().client(std::sync::Arc::clone(self.key()));
        let output = self.host().call(TOOL_SEARCH, arguments, options).await;
        let output = output.map_err(|error| rpc_error(&error))?;
        Ok(translate::result(era, output.to_json(), Caching::None))
    }
}
