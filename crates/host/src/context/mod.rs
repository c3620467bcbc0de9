//! What servers offer beside tools: resources, prompts and skills (CTX-1 … CTX-4).
//!
//! What there is comes from the catalogs, which are fetched as a server connects. What is in it (the content of a resource, the messages
//! of a prompt, the text of a skill) is fetched when somebody asks, over the same connections as calls. An address is only ever sent to the
//! server that it was asked of: nothing here opens a file or a URL, whatever it looks like.

mod arguments;
mod ask;
mod clean;
mod error;
mod expand;
mod line;
mod mentions;
mod prompts;
mod resources;
mod skills;
mod templates;
mod tools;
mod uri;
mod verify;

pub use ask::ReadOptions;
pub use error::ContextError;
pub use expand::expand_template;
pub use line::CommandLine;
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
