//! `ToolSearch`: lets a model find tools that it does not see.

use serde_json::json;
use trunkline_wire::Json;
use trunkline_wire::mcp::ToolHints;

use super::SearchHit;
use crate::catalog::{Definition, Format, export};
use crate::host::Host;
use crate::host_tool::{HostCall, HostTool};
use crate::result::CallOutput;

/// The tool's name.
pub const TOOL_SEARCH: &str = "ToolSearch";

/// Default number of results.
const DEFAULT_RESULTS: usize = 5;
/// Maximum number of results.
const MAX_RESULTS: usize = 50;

const DESCRIPTION: &str = "Finds tools that are available but not shown, and returns their full definitions. \
Call it before concluding that there is no tool for something. A tool that it returned can be called at once.\n\
Queries: words for what the tool should do (\"send a slack message\"); \"+slack send\" where a word must be in the tool's name; \
\"select:name,name\" for tools whose names are known.";

/// Adds the search to the host's own tools, unless the program has its own.
pub(crate) fn add_tool_search(own: &mut Vec<HostTool>) {
    if own.iter().any(|tool| tool.name == TOOL_SEARCH) {
        return;
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool should do, or select:<name>[,<name>…]"},
            "max_results": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_RESULTS,
                "default": DEFAULT_RESULTS,
                "description": "How many tools to return at most",
            },
        },
        "required": ["query"],
    });
    let tool = HostTool::new(TOOL_SEARCH, DESCRIPTION, schema, |call| async move {
        Ok(run(&call)?.into())
    });
    let hints = ToolHints {
        read_only: true,
        idempotent: true,
        ..ToolHints::default()
    };
    own.push(tool.hints(hints).for_every_agent());
}

/// Searches without denied tools, which a model could not call.
fn permitted(host: &Host, query: &str, most: usize) -> Vec<SearchHit> {
    let pool = host.pool();
    let mut limit = most;
    loop {
        let mut found = pool.search(query, limit);
        let complete = found.len() < limit;
        found.retain(|found| host.denial(&found.tool.name).is_none());
        if complete || found.len() >= most {
            found.truncate(most);
            return found;
        }
        limit = limit.saturating_mul(4);
    }
}

fn run(call: &HostCall) -> Result<CallOutput, String> {
    let query: Option<String> = call.arguments.field("query");
    let query = query.ok_or("the argument \"query\" is missing: say what the tool should do")?;
    let most: Option<usize> = call.arguments.field("max_results");
    let most = most.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS);
    let pool = call.host.pool();
    let found = permitted(&call.host, &query, most);
    if found.is_empty() {
        let count = pool.offered().count();
        return Ok(CallOutput::of_text(format!(
            "No tool fits this query. {count} tools were searched; try other words."
        )));
    }
    let tools = export(
        Format::Mcp,
        found.iter().map(|found| Definition::Server(&found.tool)),
    );
    let text = format!("{{\"tools\":{tools}}}");
    Ok(CallOutput {
        structured_content: Json::parse(text.clone()).ok(),
        ..CallOutput::of_text(text)
    })
}
