//! An MCP host: it connects to MCP servers, turns what they offer into one pool of tools, and calls them.
//!
//! ```
//! use trunkline::permission::AllowAll;
//! use trunkline::{Builtin, CallOptions, Host};
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
//! let output = host.call("mcp__greeter__hello", arguments, CallOptions::new()).await?;
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
pub mod auth;
mod builder;
mod builtin;
pub mod call;
mod catalog;
pub mod config;
mod connection;
pub mod connectors;
pub mod context;
mod discovery;
mod disk;
pub mod elicit;
mod eras;
pub mod event;
mod export;
mod harmless;
mod host;
mod host_tool;
mod instructions;
mod leftovers;
pub mod log;
mod logs;
pub mod permission;
mod pins;
pub mod result;
mod sanitize;
mod search;
mod secrets;
pub mod server;
mod settings;
pub mod storage;
mod suggest;
mod telemetry;
pub mod text;
pub mod tool;
pub mod transport;

pub use agent::AgentScope;
pub use builder::HostBuilder;
pub use builtin::Builtin;
pub use call::{CallError, CallOptions};
pub use host::Host;
pub use result::CallOutput;
pub use settings::Settings;
pub use trunkline_config::ServerEntry;
pub use trunkline_wire::Json;
