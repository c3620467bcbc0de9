//! Proof of possession (DPoP, RFC 9449): tokens that are bound to a key, and the proofs that their
//! sender holds it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, Method};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use trunkline_transport::http::ProofKey;
use url::Url;

use super::random::random_text;
use crate::Secret;
use crate::error::{AuthError, AuthErrorKind};
use crate::shared::Clock;

/// The algorithm of our keys.
pub(crate) const ALGORITHM: &str = "ES256";

/// The longest nonce that is kept.
const MAX_NONCE: usize = 4096;

/// A key that tokens are bound to: one per sign-in, P-256.
pub(crate) struct DpopKey {
    pair: EcdsaKeyPair,
    /// PKCS#8 in base64, for the vault.
    secret: Secret,
    /// The header of every proof, encoded.
    header: String,
    thumbprint: String,
    /// The authorization server's.
    pub(crate) issuer_nonce: Nonce,
    /// The MCP server's.
    resource_nonce: Nonce,
}

impl DpopKey {
    pub(crate) fn generate() -> Result<Self, AuthError> {
        let unusable = || AuthError::new(AuthErrorKind::Storage, "no DPoP key could be generated");
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|_| unusable())?;
        Self::from_secret(&Secret::new(STANDARD.encode(pkcs8))).ok_or_else(unusable)
    }

    /// Reads a key from the vault.
    pub(crate) fn from_secret(secret: &Secret) -> Option<Self> {
        let pkcs8 = STANDARD.decode(secret.expose()).ok()?;
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &random).ok()?;
        // An uncompressed point: a byte 4, then both coordinates.
        let point = pair.public_key().as_ref().get(1..)?;
        let (x, y) = point.split_at_checked(32)?;
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let header = json!({
            "typ": "dpop+jwt",
            "alg": ALGORITHM,
            "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y},
        });
        Some(Self {
            secret: secret.clone(),
            header: URL_SAFE_NO_PAD.encode(header.to_string()),
            thumbprint: thumbprint(&x, &y),
            issuer_nonce: Nonce::default(),
            resource_nonce: Nonce::default(),
            pair,
        })
    }

    /// The key for the vault.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The thumbprint of the public key (RFC 7638), for `dpop_jkt`.
    pub(crate) fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Signs a proof for one request to the token endpoint.
    pub(crate) fn token_proof(&self, url: &Url, now: SystemTime) -> Result<HeaderValue, AuthError> {
        let proof = self.proof(&Method::POST, url, now, &self.issuer_nonce, None);
        proof.ok_or_else(|| AuthError::new(AuthErrorKind::Storage, "the DPoP key cannot sign"))
    }

    fn proof(
        &self,
        method: &Method,
        url: &Url,
        now: SystemTime,
        nonce: &Nonce,
        token_hash: Option<&str>,
    ) -> Option<HeaderValue> {
        let mut url = url.clone();
        url.set_query(None);
        url.set_fragment(None);
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut claims = json!({
            "jti": random_text().ok()?,
            "htm": method.as_str(),
            "htu": url.as_str(),
            "iat": now,
        });
        if let Some(hash) = token_hash {
            claims["ath"] = hash.into();
        }
        if let Some(nonce) = nonce.get() {
            claims["nonce"] = nonce.into();
        }
        let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signed = format!("{}.{claims}", self.header);
        let signature = self
            .pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .ok()?;
        let signature = URL_SAFE_NO_PAD.encode(signature);
        HeaderValue::try_from(format!("{signed}.{signature}")).ok()
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "DpopKey({})", self.thumbprint)
    }
}

/// The last nonce of a server.
#[derive(Default)]
pub(crate) struct Nonce(Mutex<Option<String>>);

impl Nonce {
    fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, nonce: &HeaderValue) {
        if let Ok(nonce) = nonce.to_str()
            && nonce.len() <= MAX_NONCE
        {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(nonce.to_owned());
        }
    }

    /// Takes the nonce of a response. Returns whether there is one.
    pub(crate) fn take(&self, headers: &HeaderMap) -> bool {
        let nonce = headers.get("dpop-nonce");
        if let Some(nonce) = nonce {
            self.set(nonce);
        }
        nonce.is_some()
    }
}

/// The key of one access token, as the transport uses it.
pub(crate) struct BoundKey {
    key: Arc<DpopKey>,
    token_hash: String,
    clock: Clock,
}

impl BoundKey {
    pub(crate) fn new(key: Arc<DpopKey>, access_token: &Secret, clock: Clock) -> Self {
        Self {
            key,
            token_hash: token_hash(access_token.expose()),
            clock,
        }
    }
}

impl ProofKey for BoundKey {
    fn proof(&self, method: &Method, url: &Url) -> Option<HeaderValue> {
        let nonce = &self.key.resource_nonce;
        let now = (self.clock)();
        self.key
            .proof(method, url, now, nonce, Some(&self.token_hash))
    }

    fn set_nonce(&self, nonce: &HeaderValue) {
        self.key.resource_nonce.set(nonce);
    }
}

/// The `ath` claim for an access token.
fn token_hash(access_token: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, access_token.as_bytes()))
}

/// The thumbprint of a P-256 key by its coordinates (RFC 7638).
fn thumbprint(x: &str, y: &str) -> String {
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    fn parts(proof: &HeaderValue) -> (Value, Value) {
        let mut parts = proof.to_str().unwrap().split('.');
        let mut part = || -> Value {
            let bytes = URL_SAFE_NO_PAD.decode(parts.next().unwrap()).unwrap();
            serde_json::from_slice(&bytes).unwrap()
        };
        (part(), part())
    }

    /// Verifies a proof with the key in its own header.
    fn verify(proof: &HeaderValue) {
        let (signed, signature) = proof.to_str().unwrap().rsplit_once('.').unwrap();
        let (header, _) = parts(proof);
        let mut point = vec![4];
        for coordinate in ["x", "y"] {
            let text = header["jwk"][coordinate].as_str().unwrap();
            point.extend(URL_SAFE_NO_PAD.decode(text).unwrap());
        }
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(
                signed.as_bytes(),
                &URL_SAFE_NO_PAD.decode(signature).unwrap(),
            )
            .unwrap();
    }

    #[test]
    fn the_examples_of_rfc_9449_verify() {
        // Section 6.1: the thumbprint of the key of section 4.1.
        assert_eq!(
            thumbprint(
                "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
                "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"
            ),
            "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
        );
        // Section 7.1: the hash of the access token.
        assert_eq!(
            token_hash("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"),
            "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
        );
        // Section 4.1: a whole proof, so that `verify` is known to be right.
        verify(&HeaderValue::from_static(
            "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg",
        ));
    }

    #[test]
    fn a_proof_is_for_one_request() {
        let key = DpopKey::generate().unwrap();
        let url: Url = "https://as.example:8443/token?tenant=1#x".parse().unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        let proof = key.token_proof(&url, now).unwrap();
        verify(&proof);
        let (header, claims) = parts(&proof);
        assert_eq!(
            (&header["typ"], &header["alg"]),
            (&json!("dpop+jwt"), &json!("ES256"))
        );
        assert!(header["jwk"].get("d").is_none());
        let jti = claims["jti"].as_str().unwrap();
        let expected = json!({
            "jti": jti, "htm": "POST", "htu": "https://as.example:8443/token", "iat": 1000,
        });
        assert_eq!(claims, expected);
        let (_, again) = parts(&key.token_proof(&url, now).unwrap());
        assert_ne!(again["jti"], jti);
    }

    #[test]
    fn each_server_has_its_nonce() {
        let key = Arc::new(DpopKey::generate().unwrap());
        let url: Url = "https://a.example/mcp".parse().unwrap();
        let token = Secret::new("t");
        let bound = BoundKey::new(Arc::clone(&key), &token, Arc::new(SystemTime::now));
        bound.set_nonce(&HeaderValue::from_static("n1"));
        let (_, claims) = parts(&ProofKey::proof(&bound, &Method::GET, &url).unwrap());
        assert_eq!(
            (&claims["nonce"], &claims["htm"]),
            (&json!("n1"), &json!("GET"))
        );
        assert_eq!(claims["ath"], token_hash("t"));
        let now = SystemTime::now();
        let (_, claims) = parts(&key.token_proof(&url, now).unwrap());
        assert_eq!(claims.get("nonce"), None);
        let mut headers = HeaderMap::new();
        assert!(!key.issuer_nonce.take(&headers));
        headers.insert("dpop-nonce", HeaderValue::from_static("n2"));
        assert!(key.issuer_nonce.take(&headers));
        let (_, claims) = parts(&key.token_proof(&url, now).unwrap());
        assert_eq!(claims["nonce"], "n2");
    }

    #[test]
    fn a_key_survives_the_vault() {
        let key = DpopKey::generate().unwrap();
        let copy = DpopKey::from_secret(key.secret()).unwrap();
        assert_eq!(copy.thumbprint(), key.thumbprint());
        assert!(DpopKey::from_secret(&Secret::new("hunter2")).is_none());
        assert!(!format!("{key:?}").contains(key.secret().expose()));
    }
}
