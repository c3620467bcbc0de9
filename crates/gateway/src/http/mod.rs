//! The gateway over HTTP: Streamable HTTP in both eras, and HTTP+SSE (GW-1, GW-2, GW-4).
//!
//! | path | |
//! |---|---|
//! | `/mcp` | Streamable HTTP, all servers |
//! | `/mcp/<server>` | one server, with its own names |
//! | `/sse`, `/sse/<server>`, `/messages` | HTTP+SSE for old clients |
//! | `/healthz`, `/readyz`, `/metrics` | for whoever operates it |
//! | `/.well-known/oauth-protected-resource` | RFC 9728, with an issuer |
//!
//! `server` accepts connections; `endpoint` checks each request (`guard`, `identity`, limits) and
//! routes it; `post`, `listen` and `old_sse` handle messages. A request runs on a task of its own
//! and writes to a `stream`, which becomes a JSON response if the answer comes alone, and an event
//! stream (`sse`) otherwise. A modern request ends with its response; one of a legacy session
//! (`session`, `table`) goes on, and its stream can be resumed.
//!
//! hyper frames messages. It treats a request with both `Content-Length` and `Transfer-Encoding` as
//! chunked and closes the connection after it, so nothing behind it is read as a request (RFC 9112,
//! 6.1).
//!
//! Absent by design: HTTP/2. Every known client of MCP speaks HTTP/1.1, and a reverse proxy
//! translates where more is wanted.

mod accept;
mod body;
mod calls;
mod endpoint;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod identity;
mod io;
mod link;
mod listen;
mod metrics;
mod modern;
mod oauth;
mod old_sse;
mod options;
mod param_headers;
mod post;
mod respond;
mod route;
mod server;
mod session;
mod sse;
mod stream;
mod table;
mod tls;

pub use error::HttpError;
pub use options::{HttpLimits, HttpOptions, OAuthOptions, TlsIdentity};
pub use server::HttpServer;
