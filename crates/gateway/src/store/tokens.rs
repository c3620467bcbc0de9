//! Bearer tokens of clients: generated here, shown once, stored as digests.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Digest, StoreError, StoreFuture, random_id};

/// Every token begins with this, so that scanners recognise a leaked one.
const PREFIX: &str = "trunkline_";

/// The random bytes of a token.
const SECRET_BYTES: usize = 32;

/// The random bytes of the identifier by which a token is listed and revoked.
const ID_BYTES: usize = 6;

/// A stored token: who uses it and what it allows, never the token itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// The identifier for listing and revoking. Not secret.
    pub id: String,
    /// The client that uses it.
    pub label: String,
    /// The digest of the token.
    pub digest: Digest,
    /// The profile of the client; `None` for the gateway's default.
    pub profile: Option<String>,
    /// The time of its creation.
    pub created: u64,
    /// The time from which it is refused.
    pub expires: Option<u64>,
    /// The time of its revocation.
    pub revoked: Option<u64>,
}

/// Whether a token may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStatus {
    /// It may.
    Valid,
    /// It has expired.
    Expired,
    /// It was revoked.
    Revoked,
}

impl TokenRecord {
    /// Returns the status at a time.
    pub fn status(&self, now: u64) -> TokenStatus {
        if self.revoked.is_some() {
            TokenStatus::Revoked
        } else if self.expires.is_some_and(|expires| expires <= now) {
            TokenStatus::Expired
        } else {
            TokenStatus::Valid
        }
    }
}

/// A new token: the record to store, and the text to show once.
pub struct NewToken {
    /// The record.
    pub record: TokenRecord,
    /// The token. It is stored nowhere.
    pub token: String,
}

impl NewToken {
    /// Generates a token.
    pub fn generate(
        label: &str,
        profile: Option<&str>,
        created: u64,
        expires: Option<u64>,
    ) -> Result<Self, StoreError> {
        let token = format!("{PREFIX}{}", random_id(SECRET_BYTES)?);
        // A hyphen in front would look like an option to the command that revokes it.
        let id = random_id(ID_BYTES)?.replace('-', "a");
        let record = TokenRecord {
            id,
            label: label.to_owned(),
            digest: Digest::of(&token),
            profile: profile.map(str::to_owned),
            created,
            expires,
            revoked: None,
        };
        Ok(Self { record, token })
    }
}

/// Stores tokens.
pub trait TokenStore: Send + Sync + 'static {
    /// Stores a new token.
    fn insert(&self, record: TokenRecord) -> StoreFuture<'_, ()>;

    /// Finds a token by its digest, whatever its status.
    fn find(&self, digest: Digest) -> StoreFuture<'_, Option<TokenRecord>>;

    /// Returns all tokens, oldest first.
    fn list(&self) -> StoreFuture<'_, Vec<TokenRecord>>;

    /// Revokes the tokens whose identifier or label is `name`, and returns those that were not
    /// revoked before.
    fn revoke<'a>(&'a self, name: &'a str, now: u64) -> StoreFuture<'a, Vec<TokenRecord>>;
}

/// Tokens in memory.
#[derive(Default)]
pub struct MemoryTokenStore(Mutex<HashMap<Digest, TokenRecord>>);

impl TokenStore for MemoryTokenStore {
    fn insert(&self, record: TokenRecord) -> StoreFuture<'_, ()> {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(record.digest, record);
        Box::pin(async { Ok(()) })
    }

    fn find(&self, digest: Digest) -> StoreFuture<'_, Option<TokenRecord>> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tokens.get(&digest).cloned();
        Box::pin(async { Ok(found) })
    }

    fn list(&self) -> StoreFuture<'_, Vec<TokenRecord>> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = tokens.values().cloned().collect();
        all.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Box::pin(async { Ok(all) })
    }

    fn revoke<'a>(&'a self, name: &'a str, now: u64) -> StoreFuture<'a, Vec<TokenRecord>> {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut revoked = Vec::new();
        for record in tokens.values_mut() {
            if record.revoked.is_none() && (record.id == name || record.label == name) {
                record.revoked = Some(now);
                revoked.push(record.clone());
            }
        }
        Box::pin(async { Ok(revoked) })
    }
}
