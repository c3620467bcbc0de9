//! Tools: the pool, search, export for models, and tools that the program implements itself.

pub use crate::builtin::{Builtin, BuiltinCall, BuiltinOutput};
pub use crate::catalog::{Format, NormalizedNames, Pool, PoolTool, may_belong_to, tool_name};
pub use crate::host_tool::{HostCall, HostTool};
pub use crate::pins::{OnChange, PartChange, ToolChange};
pub use crate::search::{LoadMode, ModelTools, SearchHit, TOOL_SEARCH};
pub use trunkline_wire::mcp::{Tool, ToolHints};
