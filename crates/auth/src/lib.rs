//! Authentication: OAuth 2.1, enterprise-managed authorization, the token vault, and the record of
//! servers that asked for a sign-in (SPEC chapter 7, AUTH).
//!
//! [`Auth`] holds everything that servers share. [`Auth::server`] gives a [`ServerAuth`], which
//! authenticates the requests of one server as the transport's [`Credentials`], refreshes tokens,
//! and starts sign-ins:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use trunkline_auth::{Auth, ServerConfig, TransportClient, Vault};
//! use trunkline_transport::net::Dialer;
//!
//! let vault = Arc::new(Vault::new("/home/me/.local/state/trunkline/secrets.json"));
//! let http = Arc::new(TransportClient::new(Dialer::from_env()));
//! let auth = Auth::builder(vault, "/home/me/.local/state/trunkline/auth", http).build();
//! let server = auth.server(ServerConfig::new("github", "https://mcp.example/mcp".parse()?));
//!
//! let login = server.start_login().await?;
//! println!("open {}", login.url());
//! let account = login.wait().await?;
//! println!("signed in at {}", account.issuer);
//! # Ok(()) }
//! ```
//!
//! Pure decisions (the reaction to a refusal, whether a token is due, which scopes to request,
//! whether a URL is allowed) are functions on data. I/O is at the edge: [`HttpClient`] for
//! requests, the [`Vault`] and a few files for storage, and the callback server.
//!
//! [`Credentials`]: trunkline_transport::http::Credentials

mod callback;
mod challenge;
mod discovery;
mod error;
mod files;
mod flow;
mod guard;
mod http;
mod needs_auth;
mod registration;
mod scopes;
mod server;
mod shared;
mod tokens;
mod vault;

pub use challenge::Challenge;
pub use error::{AuthError, AuthErrorKind};
pub use flow::{SigningKey, SigningKeyError};
pub use guard::{BrowserUrl, Reach};
pub use http::{HttpClient, HttpRequest, HttpResponse, TransportClient};
pub use needs_auth::{NEEDS_AUTH_LIFETIME, NeedsAuthMemory};
pub use server::{
    AssertionSource, DeviceLogin, Grant, IdpConfig, Login, Logout, Revocation, ServerAuth,
    ServerConfig, SignInDemand, SignInReason,
};
pub use shared::{Auth, AuthBuilder};
pub use tokens::{Account, ServerIdentity};
pub use trunkline_config::Secret;
pub use vault::{StoredIn, Vault, VaultError};
