//! Random identifiers, and the digests under which they are stored.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::StoreError;

/// The SHA-256 digest of a secret with enough entropy to need no salt.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes a secret.
    pub fn of(secret: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, secret.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }

    /// Returns a digest that was stored.
    #[cfg(feature = "sqlite")]
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

/// Returns `bytes` random bytes in the URL-safe alphabet of base64, in which all characters are
/// visible ASCII.
pub fn random_id(bytes: usize) -> Result<String, StoreError> {
    let mut buffer = vec![0; bytes];
    SystemRandom::new()
        .fill(&mut buffer)
        .map_err(|_| StoreError::new("the operating system provides no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(buffer))
}
