//! Checks the proofs of tokens that are bound to a key (DPoP, RFC 9449).

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;

use super::super::Request;
use super::encoding::{claims, unix_time};

/// A valid proof.
pub(super) struct Proof {
    /// The thumbprint of its key.
    pub(super) thumbprint: String,
    /// Its identifier.
    pub(super) id: String,
}

/// Checks the proof of a request to `url`, with `access_token` if it is for a resource. Returns the
/// error code.
pub(super) fn check(
    request: &Request,
    url: &str,
    access_token: Option<&str>,
    nonce: Option<&str>,
) -> Result<Proof, &'static str> {
    let mut proofs = request.headers.iter().filter(|(name, _)| name == "dpop");
    let (Some((_, proof)), None) = (proofs.next(), proofs.next()) else {
        return Err("invalid_dpop_proof");
    };
    let claims = claims(proof);
    let thumbprint = verify(proof).ok_or("invalid_dpop_proof")?;
    let hash = access_token.map(|token| encode(token.as_bytes()));
    let issued = claims["iat"].as_u64().unwrap_or_default();
    let is_valid = claims["htm"] == request.method.as_str()
        && claims["htu"] == url
        && claims["ath"].as_str() == hash.as_deref()
        && issued.abs_diff(unix_time()) <= 300;
    let id = claims["jti"].as_str().unwrap_or_default().to_owned();
    if !is_valid || id.is_empty() {
        return Err("invalid_dpop_proof");
    }
    if nonce.is_some_and(|nonce| claims["nonce"] != nonce) {
        return Err("use_dpop_nonce");
    }
    Ok(Proof { thumbprint, id })
}

/// Verifies the signature of a proof with its own key. Returns the thumbprint of the key.
fn verify(proof: &str) -> Option<String> {
    let (signed, signature) = proof.rsplit_once('.')?;
    let header = URL_SAFE_NO_PAD.decode(signed.split('.').next()?).ok()?;
    let header: Value = serde_json::from_slice(&header).ok()?;
    let key = &header["jwk"];
    let is_known = header["typ"] == "dpop+jwt" && header["alg"] == "ES256" && key["d"].is_null();
    let (x, y) = (key["x"].as_str()?, key["y"].as_str()?);
    let mut point = vec![4];
    point.extend(URL_SAFE_NO_PAD.decode(x).ok()?);
    point.extend(URL_SAFE_NO_PAD.decode(y).ok()?);
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?)
        .ok()?;
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    is_known.then(|| encode(canonical.as_bytes()))
}

/// The SHA-256 hash of a text.
fn encode(text: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text))
}
