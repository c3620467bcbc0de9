//! Builders for test tools.

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline_wire::Json;
use trunkline_wire::mcp::{Item, Tool};

use super::{PoolTool, ServerTools, ToolOptions, server_tools};

/// Builds one server's tools from listed values.
pub(crate) fn server_tools_of(
    server: &str,
    listed: impl IntoIterator<Item = Value>,
) -> Arc<ServerTools> {
    let tools = listed
        .into_iter()
        .map(|tool| Tool::from_json(Json::from(tool)).unwrap());
    let server = server.into();
    Arc::new(server_tools(&ToolOptions::plain(&server), tools.collect()).0)
}

/// Builds a pool tool from a listed value.
pub(crate) fn tool_of(server: &str, listed: &Value) -> PoolTool {
    (*server_tools_of(server, [listed.clone()])[0]).clone()
}

/// Builds a pool tool with nothing but a name.
pub(crate) fn tool(server: &str, name: &str) -> PoolTool {
    tool_of(server, &json!({"name": name}))
}
