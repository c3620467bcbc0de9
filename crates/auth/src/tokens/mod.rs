//! Stored sign-ins: their schema, where they are stored, and when tokens are due.

mod claude_code;
mod identity;
mod policy;
mod record;
mod store;

pub(crate) use claude_code::ClaudeCodeTokens;
pub use identity::ServerIdentity;
pub(crate) use policy::{RefreshTiming, is_due, refresh_time};
pub(crate) use record::{Endpoints, Record, Tokens, exposed};
pub use store::Account;
pub(crate) use store::TokenStore;
