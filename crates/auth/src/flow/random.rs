//! Randomness for states, verifiers and jitter.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::error::{AuthError, AuthErrorKind};

/// Returns 256 random bits as 43 characters that need no encoding.
pub(crate) fn random_text() -> Result<String, AuthError> {
    let mut bytes = [0; 32];
    fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns a number from 0 to 1, not for secrets; 0.5 if the system has no randomness.
pub(crate) fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    match fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), AuthError> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| AuthError::new(AuthErrorKind::Storage, "the system has no randomness"))
}
