//! The MCP types that this host uses: small, lenient, and raw where possible.
//!
//! Unknown fields stay in the raw text. A field of the wrong type counts as absent; if the item is
//! useless without it, only that item is dropped, with a reason.

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
pub use content::{CallToolResult, Content, MAX_CONTENT_BLOCKS, ResultKind};
pub(crate) use header_parameter::header_values;
pub use header_parameter::{HeaderParameter, HeaderParameterValue};
pub use list::{InvalidItem, ListKind, MAX_ITEMS, Page};
pub use prompt::{GetPromptResult, PromptArgument, PromptMessage};
pub use resource::{ReadResourceResult, ResourceBody, ResourceContent};
pub use server::{Implementation, SKILLS, ServerCapabilities, ServerIdentity, TASKS};
pub use skill::{Skill, SkillFile};
pub(crate) use task::{Task, TaskStatus};
pub use tool::{Prompt, Resource, ResourceTemplate, Tool, ToolHints};

use crate::json::Json;

/// An item of a list.
pub trait Item: Sized + Send + 'static {
    /// Reads an item. The error tells why it is invalid.
    fn from_json(raw: Json) -> Result<Self, String>;
}
