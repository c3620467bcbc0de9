//! Credentials for servers, and the secrets that entries refer to.

pub use crate::secrets::Secrets;
pub use trunkline_auth::{StoredIn, Vault, VaultError};
pub use trunkline_config::{KeyringRef, Secret};
#[cfg(any(feature = "http", feature = "ws"))]
pub use trunkline_transport::credentials::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, FixedToken, Refusal, Token,
};
