//! An MCP host: connects to MCP servers, pools their tools, and calls them.
//!
//! ```
//! use trunkline::permission::AllowAll;
//! use trunkline::{Builtin, CallOptions, Host};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = serde_json::json!({"type": "object", "properties": {"name": {"type": "string"}}});
//! let greeter = Builtin::new("greeter").tool("hello", "Greets", &schema, |call| async move {
//!     Ok(format!("Hello, {}!", call.text("name").unwrap_or_default()).into())
//! });
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
//! | Task | Start at, with an example |
//! |---|---|
//! | Embed a host | above, [`Host::builder`] |
//! | Discover configured servers, or configure them in code | [`config`], [`ServerEntry`] |
//! | Implement a server or a tool in the program | [`Builtin`], [`tool`] |
//! | Show tools to a model | [`Host::tools_for_model`] |
//! | Call a tool | [`CallOptions`], [`call`] |
//! | Read a result, or send it to a model | [`result`], [`CallOutput::for_model`] |
//! | Decide about calls | [`permission`] |
//! | Answer servers' requests for input | [`elicit`] |
//! | Read resources, prompts and skills | [`context`] |
//! | Give a sub-agent a restricted view | [`AgentScope`] |
//! | Follow changes, messages and logs | [`event`], [`log`] |
//! | Keep state on disk | [`storage`] |
//! | Record calls for an audit | [`audit`] |
//!
//! Each server is owned by one connection task; everything else reads immutable snapshots
//! ([`Host::pool`], [`Host::servers`]). [`Host::call`] is the only way to a tool.
//!
//! # Features
//!
//! All are on by default. What needs a feature that is left out fails with a message that names it.
//!
//! | Feature | Provides |
//! |---|---|
//! | `http` | Streamable HTTP and HTTP+SSE |
//! | `ws` | WebSocket |
//! | `discovery` | [`HostBuilder::discover`]: the servers of configuration files |
//! | `connectors` | [`connectors`] of a claude.ai account; implies `http` and `discovery` |
//! | `keychain` | The OS keychain in [`auth::Vault`] |
//! | `images` | Scaling and checking of images in results |
//! | `validation` | Arguments, results and forms checked against schemas, skills against listings |

mod absent;
mod agent;
pub mod audit;
pub mod auth;
mod builder;
mod builtin;
pub mod call;
mod catalog;
mod closure;
pub mod config;
mod connection;
#[cfg(feature = "connectors")]
pub mod connectors;
pub mod context;
#[cfg(feature = "discovery")]
mod discovery;
mod disk;
pub mod elicit;
mod eras;
pub mod event;
mod export;
mod harmless;
mod hooks;
mod host;
mod host_tool;
mod instructions;
mod leftovers;
pub mod log;
mod logs;
#[cfg(any(feature = "http", feature = "ws"))]
#[cfg_attr(
    not(feature = "http"),
    expect(dead_code, reason = "only HTTP takes credentials")
)]
mod network;
pub mod permission;
mod pins;
pub mod result;
pub mod sandbox;
mod sanitize;
mod search;
mod secrets;
pub mod server;
mod settings;
#[cfg(feature = "http")]
mod sign_in;
pub mod storage;
mod telemetry;
pub mod text;
pub mod tool;
mod tool_output;
pub mod transport;

#[cfg(all(feature = "discovery", not(feature = "connectors")))]
use absent::connectors;
#[cfg(not(feature = "discovery"))]
use absent::discovery;
#[cfg(not(any(feature = "http", feature = "ws")))]
use absent::network;

pub use agent::AgentScope;
pub use builder::HostBuilder;
pub use builtin::Builtin;
pub use call::{CallError, CallOptions};
pub use host::Host;
pub use result::CallOutput;
pub use settings::Settings;
pub use trunkline_config::ServerEntry;
pub use trunkline_wire::Json;

/// Compiles the program in the page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;
