//! The host seen as one MCP server: stdio, HTTP and a socket (SPEC chapter 12, GW).
//!
//! [`Gateway`] is one host with any number of clients. Each client has a [`ClientSession`], which
//! holds all that belongs to it alone: its era, its open calls, its subscriptions, its log level,
//! and the questions that servers ask it. Endpoints are thin: they decode messages, hand methods
//! and payloads to the session, and implement [`ClientLink`] for the way back.
//!
//! Absent by design: framing (it is in `wire`), and any decision about calls. Whether a tool may
//! be called is decided in [`trunkline::Host::call`], for every caller alike.

mod caller;
mod calls;
mod client;
mod clients;
#[cfg(unix)]
pub mod daemon;
mod drain;
mod endpoint;
mod errors;
mod gateway;
pub mod http;
mod link;
mod lists;
mod logging;
mod open_call;
mod parked;
mod private;
mod profile;
mod route;
mod search;
mod session;
#[cfg(unix)]
pub mod socket;
pub mod store;
mod subscriptions;
mod trace;
mod translate;

pub use client::{ClientInfo, ConnectError, View};
pub use gateway::{Gateway, GatewayOptions};
pub use link::{ClientLink, LinkFuture};
pub use session::{ClientRequest, ClientSession};
