//! Sign-in and other credentials for servers, and the secrets that entries refer to.

pub use crate::secrets::Secrets;
#[cfg(feature = "http")]
pub use crate::sign_in::server_config;
#[cfg(feature = "http")]
pub use trunkline_auth::{
    Account, AssertionSource, Auth, AuthBuilder, AuthError, AuthErrorKind, BrowserUrl, Challenge,
    DeviceLogin, Grant, HttpClient, HttpRequest, HttpResponse, IdpConfig, Login, Logout,
    NeedsAuthMemory, Reach, Revocation, ServerAuth, ServerConfig, ServerIdentity, SignInDemand,
    SignInReason, SigningKey, SigningKeyError, TransportClient,
};
pub use trunkline_auth::{StoredIn, Vault, VaultError};
pub use trunkline_config::{KeyringRef, Secret};
#[cfg(any(feature = "http", feature = "ws"))]
pub use trunkline_transport::credentials::{
    AfterRefusal, BoxFuture, Credentials, CredentialsError, FixedToken, ProofKey, Refusal, Token,
};
