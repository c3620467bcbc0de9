//! What servers offer, and the pool of all their tools.

mod fetch;
mod names;
mod pool;

use std::sync::Arc;

pub(crate) use fetch::fetch;
pub use names::{may_belong_to, tool_name};
pub(crate) use pool::{Offer, Part, part};
pub use pool::{Pool, PoolTool};
use trunkline_wire::mcp::{Prompt, Resource, ResourceTemplate};

/// What one server offers.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub(crate) tools: Arc<Part>,
    /// Its resources.
    pub resources: Arc<[Resource]>,
    /// Its resource templates.
    pub templates: Arc<[ResourceTemplate]>,
    /// Its prompts.
    pub prompts: Arc<[Prompt]>,
    /// What was wrong with its lists: bad entries, lists that could not be fetched.
    pub diagnostics: Arc<[String]>,
}

impl Catalog {
    /// Its tools, sorted by name.
    pub fn tools(&self) -> &[Arc<PoolTool>] {
        &self.tools
    }
}
