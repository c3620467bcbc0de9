//! An MCP host: it connects to MCP servers, turns what they offer into one pool of tools, and calls them.
//!
//! ```
//! use trunkline::{AllowAll, Builtin, CallOptions, Host};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let greeter = Builtin::new("greeter").tool(
//!     "hello",
//!     "Greets somebody",
//!     &serde_json::json!({"type": "object", "properties": {"name": {"type": "string"}}}),
//!     |call| async move { Ok(format!("Hello, {}!", call.text("name").unwrap_or_default()).into()) },
//! );
//! let host = Host::builder().builtin(greeter).permit(AllowAll).start();
//! host.ready().await;
//!
//! let arguments = serde_json::json!({"name": "Ada"});
//! let output = host.call("mcp__greeter__hello", arguments, CallOptions::default()).await?;
//! assert_eq!(output.text(), "Hello, Ada!");
//! host.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! [`Host::builder`] is where to begin. Servers come from configuration ([`ServerEntry`]) or from the embedding program
//! ([`Builtin`]); each is owned by one connection task, and everyone else reads immutable snapshots: [`Host::pool`],
//! [`Host::servers`].
//!
//! What is deliberately absent: JSON-RPC, processes and sockets (`trunkline-wire`, `trunkline-transport`), and any way to
//! call a tool other than [`Host::call`].

mod agent;
mod builder;
mod builtin;
mod call;
mod catalog;
mod connection;
pub mod connectors;
mod context;
mod discovery;
mod disk;
mod eras;
mod events;
mod export;
mod harmless;
mod host;
mod host_tool;
mod instructions;
mod leftovers;
mod logs;
mod permission;
mod pins;
mod result;
mod sanitize;
mod search;
mod secrets;
mod settings;
mod suggest;

pub use agent::AgentScope;
pub use builder::HostBuilder;
pub use builtin::{Builtin, BuiltinCall, BuiltinOutput};
pub use call::{CallError, CallOptions, TimeLimit};
pub use catalog::{
    Catalog, CatalogStore, Format, NormalizedNames, Pool, PoolTool, may_belong_to, tool_name,
};
pub use connection::{
    ConnectFailure, Connected, Elicit, FailureKind, Sampling, SamplingRequest, ServerStatus, State,
};
pub use context::{
    CommandLine, ContextError, LoadedSkill, Mention, PromptCommand, PromptOutput, ReadOptions,
    ResourceContents, ServerResource, ServerSkill, ServerTemplate, Skills, expand_template,
    template_variables,
};
pub use eras::EraMemory;
pub use events::{Changes, Events};
pub use harmless::{harmless, harmless_with, is_harmful};
pub use host::Host;
pub use host_tool::{HostCall, HostTool};
pub use leftovers::{KeptFiles, Leftover, LeftoverKind, leftovers};
pub use logs::{Follow, LogKind, LogLine, LogStore, ServerLog, Since, Tracer};
pub use permission::{
    AllowAll, AskReason, AskedTool, PermissionAnswer, PermissionQuestion, Permit, Rules,
};
pub use pins::{OnChange, PartChange, PinStore, ToolChange};
pub use result::{CallOutput, Results, SavedFile, infer_compact_schema};
pub use sanitize::{MAX_SHOWN, Removed, one_line, sanitize, sanitize_json, sanitize_value, shown};
pub use search::{Found, LoadMode, ModelTools, TOOL_SEARCH};
pub use secrets::Secrets;
pub use settings::Settings;
pub use suggest::nearest;
pub use trunkline_auth::Vault;
pub use trunkline_config::{
    Layout, Loader, Scope, ServerEntry, ServerSet, StdioEntry, TransportEntry, normalize_name,
};
pub use trunkline_transport::{http, net, sdk};
pub use trunkline_wire::client::Arguments;
pub use trunkline_wire::mcp::{
    Body, Completion, Content, Prompt, PromptArgument, PromptMessage, Reference, Resource,
    ResourceContent, ResourceTemplate, ServerIdentity, Skill, SkillFile, Tool, ToolHints,
};
pub use trunkline_wire::peer::Progress;
pub use trunkline_wire::version::Era;
pub use trunkline_wire::{Json, RpcError};
