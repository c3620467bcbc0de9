//! Signed JSON Web Tokens, for `private_key_jwt`.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

use crate::Secret;
use crate::error::{AuthError, AuthErrorKind};

/// A private key that signs assertions: RSA, P-256, P-384 or Ed25519.
pub struct SigningKey {
    kind: KeyKind,
    key_id: Option<String>,
}

enum KeyKind {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// The key is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the private key is not a PKCS#8 key for RSA, P-256, P-384 or Ed25519; \
     `openssl pkcs8 -topk8 -nocrypt` converts other formats"
)]
pub struct SigningKeyError;

impl SigningKey {
    /// Reads a private key in PEM format: PKCS#8, or PKCS#1 for RSA.
    pub fn from_pem(pem: &Secret) -> Result<Self, SigningKeyError> {
        let (label, der) = decode_pem(pem.expose()).ok_or(SigningKeyError)?;
        let random = SystemRandom::new();
        let kind = if label == "RSA PRIVATE KEY" {
            RsaKeyPair::from_der(&der)
                .ok()
                .map(|key| KeyKind::Rsa(Box::new(key)))
        } else {
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random)
                .map(KeyKind::P256)
                .or_else(|_| {
                    EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &der, &random)
                        .map(KeyKind::P384)
                })
                .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(KeyKind::Ed25519))
                .or_else(|_| RsaKeyPair::from_pkcs8(&der).map(|key| KeyKind::Rsa(Box::new(key))))
                .ok()
        };
        Ok(Self {
            kind: kind.ok_or(SigningKeyError)?,
            key_id: None,
        })
    }

    /// Sets the `kid` header of tokens.
    #[must_use]
    pub fn with_key_id(mut self, key_id: impl Into<String>) -> Self {
        self.key_id = Some(key_id.into());
        self
    }

    fn algorithm(&self) -> &'static str {
        match self.kind {
            KeyKind::Rsa(_) => "RS256",
            KeyKind::P256(_) => "ES256",
            KeyKind::P384(_) => "ES384",
            KeyKind::Ed25519(_) => "EdDSA",
        }
    }

    /// Signs claims as a JWT.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, AuthError> {
        let mut header = json!({"alg": self.algorithm(), "typ": "JWT"});
        if let Some(key_id) = &self.key_id {
            header["kid"] = key_id.as_str().into();
        }
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = self.signature(signed.as_bytes()).ok_or_else(|| {
            AuthError::new(AuthErrorKind::Settings, "the private key cannot sign")
        })?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn signature(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.kind {
            KeyKind::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .ok()?;
                Some(signature)
            }
            KeyKind::P256(key) | KeyKind::P384(key) => {
                let signature = key.sign(&random, message).ok()?;
                Some(signature.as_ref().to_vec())
            }
            KeyKind::Ed25519(key) => Some(key.sign(message).as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}

/// The claims of an assertion.
pub(crate) fn claims(
    issuer: &str,
    subject: &str,
    audience: &str,
    now: SystemTime,
    lifetime: Duration,
) -> Value {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    json!({
        "iss": issuer,
        "sub": subject,
        "aud": audience,
        "iat": now,
        "exp": now + lifetime.as_secs(),
    })
}

/// The label and the bytes of the first private key of a PEM file.
fn decode_pem(pem: &str) -> Option<(&str, Vec<u8>)> {
    let start = pem.find("-----BEGIN ")?;
    let (label, rest) = pem[start + "-----BEGIN ".len()..].split_once("-----")?;
    if !label.ends_with("PRIVATE KEY") {
        return None;
    }
    let (body, _) = rest.split_once("-----END ")?;
    let compact: String = body.split_whitespace().collect();
    Some((label, STANDARD.decode(compact).ok()?))
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    use super::*;

    fn pem(der: &[u8]) -> Secret {
        Secret::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(der)
        ))
    }

    #[test]
    fn a_signed_token_verifies() {
        let der =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .unwrap();
        let key = SigningKey::from_pem(&pem(der.as_ref())).unwrap();
        let claims = claims("me", "me", "https://as.example", UNIX_EPOCH, ASSERTION);
        let token = key.with_key_id("k1").sign(&claims).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            der.as_ref(),
            &SystemRandom::new(),
        )
        .unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
            .verify(
                signed.as_bytes(),
                &URL_SAFE_NO_PAD.decode(signature).unwrap(),
            )
            .unwrap();
        let part = |n: usize| -> Value {
            let part = token.split('.').nth(n).unwrap();
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        assert_eq!(part(0), json!({"alg": "ES256", "typ": "JWT", "kid": "k1"}));
        assert_eq!(part(1)["exp"], 60);
        assert_eq!(part(1)["aud"], "https://as.example");
    }

    const ASSERTION: Duration = Duration::from_mins(1);

    #[test]
    fn an_ed25519_key_is_recognised() {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = SigningKey::from_pem(&pem(der.as_ref())).unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(EdDSA)");
    }

    #[test]
    fn other_text_is_not_a_key() {
        for text in [
            "",
            "hunter2",
            "-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        ] {
            let error = SigningKey::from_pem(&Secret::new(text)).unwrap_err();
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
