//! The MCP types this host looks into: lean, lenient, and raw where nothing needs to look.
//!
//! An unknown field stays in the item's raw text; a field of the wrong type counts as absent unless the item makes no
//! sense without it, and then the item alone is lost, with a reason.

mod completion;
mod content;
mod header_parameter;
mod list;
mod prompt;
mod resource;
mod server;
mod skill;
mod task;
mod tool;

pub use completion::{Completion, Reference};
pub use content::{CallToolResult, Content, ResultKind};
pub use header_parameter::HeaderParameter;
pub(crate) use header_parameter::header_values;
pub use list::{InvalidItem, ListKind, MAX_ITEMS, Page};
pub use prompt::{GetPromptResult, PromptArgument, PromptMessage};
pub use resource::{ReadResourceResult, ResourceBody, ResourceContent};
pub use server::{Implementation, SKILLS, ServerCapabilities, ServerIdentity, TASKS};
pub use skill::{Skill, SkillFile};
pub(crate) use task::{Task, TaskStatus};
pub use tool::{Prompt, Resource, ResourceTemplate, Tool, ToolHints};

use crate::json::Json;

/// An entry of one of a server's lists.
pub trait Item: Sized + Send + 'static {
    /// Reads one entry; the error says what is wrong with it.
    fn from_json(raw: Json) -> Result<Self, String>;
}
