//! The grants: authorization code with PKCE, device, client credentials, token exchange and
//! assertions; and keys that tokens are bound to.

mod authorization;
mod device;
mod dpop;
mod jwt;
mod random;
mod token_endpoint;

pub(crate) use authorization::{AuthorizationRequest, PendingAuthorization, Redirect};
pub(crate) use device::{DEVICE_GRANT, DeviceAuthorization, PollStep, next_poll};
pub(crate) use dpop::{ALGORITHM as DPOP_ALGORITHM, BoundKey, DpopKey};
pub use jwt::{SigningKey, SigningKeyError};
pub(crate) use random::random_fraction;
pub(crate) use token_endpoint::{TokenEndpoint, TokenResponse, oauth_error, revoke};
