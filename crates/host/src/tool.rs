//! Tools: the pool, search, export for models, and tools implemented in the program.
//!
//! ```
//! use trunkline::tool::Format;
//! use trunkline::{Builtin, Host};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let schema = serde_json::json!({"type": "object"});
//! let clock = Builtin::new("clock")
//!     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
//! let host = Host::builder().builtin(clock).start();
//! host.ready().await;
//!
//! let tools = host.tools_for_model(200_000).export_value(Format::Anthropic);
//! assert_eq!(tools[0]["name"], "mcp__clock__now");
//! assert_eq!(host.pool().search("what time is it", 5)[0].tool.name, "mcp__clock__now");
//! # host.shutdown().await;
//! # }
//! ```

pub use crate::builtin::{Builtin, BuiltinCall};
pub use crate::catalog::{Format, NormalizedNames, Pool, PoolTool, may_belong_to, tool_name};
pub use crate::host_tool::{HostCall, HostTool};
pub use crate::pins::{OnChange, PartChange, ToolChange};
pub use crate::search::{LoadMode, ModelTools, SearchHit, TOOL_SEARCH};
pub use crate::tool_output::{ToolError, ToolOutput};
pub use trunkline_wire::mcp::{HeaderParameter, HeaderParameterValue, Item, Tool, ToolHints};
