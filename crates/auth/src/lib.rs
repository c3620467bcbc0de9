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

#[cfg(feature = "oauth")]
mod callback;
#[cfg(feature = "oauth")]
mod challenge;
#[cfg(feature = "oauth")]
mod discovery;
#[cfg(feature = "oauth")]
mod error;
#[cfg_attr(
    not(feature = "oauth"),
    expect(dead_code, reason = "only sign-ins need locks and lists")
)]
mod files;
#[cfg(feature = "oauth")]
mod flow;
#[cfg(feature = "oauth")]
mod guard;
#[cfg(feature = "oauth")]
mod http;
#[cfg(feature = "oauth")]
mod needs_auth;
#[cfg(feature = "oauth")]
mod registration;
#[cfg(feature = "oauth")]
mod scopes;
#[cfg(feature = "oauth")]
mod server;
#[cfg(feature = "oauth")]
mod shared;
#[cfg(feature = "oauth")]
mod tokens;
mod vault;

#[cfg(feature = "oauth")]
pub use challenge::Challenge;
#[cfg(feature = "oauth")]
pub use error::{AuthError, AuthErrorKind};
#[cfg(feature = "oauth")]
pub use flow::{SigningKey, SigningKeyError};
#[cfg(feature = "oauth")]
pub use guard::{BrowserUrl, Reach};
#[cfg(feature = "oauth")]
pub use http::{HttpClient, HttpRequest, HttpResponse, TransportClient};
#[cfg(feature = "oauth")]
pub use needs_auth::{NEEDS_AUTH_LIFETIME, NeedsAuthMemory};
#[cfg(feature = "oauth")]
pub use server::{
    AssertionSource, DeviceLogin, Grant, IdpConfig, Login, Logout, Revocation, ServerAuth,
    ServerConfig, SignInDemand, SignInReason,
};
#[cfg(feature = "oauth")]
pub use shared::{Auth, AuthBuilder};
#[cfg(feature = "oauth")]
pub use tokens::{Account, ServerIdentity};
pub use trunkline_config::Secret;
pub use vault::{StoredIn, Vault, VaultError};
