//! Authentication: OAuth 2.1, enterprise-managed authorization, the token vault, and the record of
//! servers that asked for a sign-in (SPEC chapter 7, AUTH).
//!
//! So far this crate holds the [`Vault`]. Discovery, registration, the browser flow, refresh,
//! step-up and revocation also belong here. How a request carries a token belongs to the transport,
//! which defines a trait for this crate to implement.

mod vault;

pub use trunkline_config::Secret;
pub use vault::{StoredIn, Vault, VaultError};
