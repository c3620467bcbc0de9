//! Tools for tests.

use serde_json::{Value, json};
use trunkline_wire::Json;
use trunkline_wire::mcp::{Item, Tool};

use super::{Offer, PoolTool, part};

/// A tool in the pool, as it comes of what its server lists.
pub(crate) fn tool_of(server: &str, listed: &Value) -> PoolTool {
    let tool = Tool::read(Json::from(listed.clone())).unwrap();
    let offer = Offer {
        server: &server.into(),
        filter: None,
        always_load: false,
        headers: false,
    };
    (*part(&offer, vec![tool]).0[0]).clone()
}

/// One of which nothing matters but its name.
pub(crate) fn tool(server: &str, name: &str) -> PoolTool {
    tool_of(server, &json!({"name": name}))
}
