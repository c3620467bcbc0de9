//! Resources, prompts and skills (CTX-1 … CTX-4).
//!
//! Catalogs list them; they are fetched when a server connects. Contents (of resources, prompts and
//! skills) are fetched on demand, over the same connections as calls. A URI is only ever sent to
//! its server: nothing here opens a file or a URL, whatever it looks like.

mod arguments;
mod command_line;
mod expand;
mod mentions;
mod prompts;
mod request;
mod resources;
mod skills;
mod templates;
mod tools;
mod uri;
mod verify;

pub use crate::call::options::ReadOptions;
pub use command_line::CommandLine;
pub use expand::expand_template;
pub use mentions::Mention;
pub use prompts::{PromptCommand, PromptOutput};
pub use resources::{ResourceContents, ServerResource, ServerTemplate};
pub use skills::{LoadedSkill, ServerSkill, Skills};
pub use templates::template_variables;
pub(crate) use tools::{needed as tools_needed, tools};
pub use trunkline_wire::mcp::{
    Completion, Prompt, PromptArgument, PromptMessage, Reference, Resource, ResourceBody,
    ResourceContent, ResourceTemplate, Skill, SkillFile,
};
pub(crate) use uri::MAX_URI;
