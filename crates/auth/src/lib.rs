//! Who we are to a server: OAuth 2.1, enterprise-managed authorization, the token vault and the memory of
//! servers that asked for a sign-in (SPEC chapter 7, AUTH).
//!
//! So far there is the [`Vault`], which keeps secrets. What also
//! belongs here: discovery, registration, the browser flow, refresh, step-up and revocation. What does not: how a request
//! carries a token, which is the transport's business and which it knows only as a trait that this crate will implement.

mod vault;

pub use trunkline_config::Secret;
pub use vault::{Kept, Vault, VaultError};
