//! Tools for tests.

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline_wire::Json;
use trunkline_wire::mcp::{Item, Tool};

use super::{Offer, Part, PoolTool, part};

/// One server's part of the pool, as it comes of what the server lists.
pub(crate) fn part_of(server: &str, listed: impl IntoIterator<Item = Value>) -> Arc<Part> {
    let tools = listed
        .into_iter()
        .map(|tool| Tool::read(Json::from(tool)).unwrap());
    let server = server.into();
    Arc::new(part(&Offer::plain(&server), tools.collect()).0)
}

/// A tool in the pool.
pub(crate) fn tool_of(server: &str, listed: &Value) -> PoolTool {
    (*part_of(server, [listed.clone()])[0]).clone()
}

/// One of which nothing matters but its name.
pub(crate) fn tool(server: &str, name: &str) -> PoolTool {
    tool_of(server, &json!({"name": name}))
}
