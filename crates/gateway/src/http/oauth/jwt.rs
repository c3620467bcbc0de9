//! JSON Web Tokens (RFC 7519, RFC 9068): signatures by public keys only.
//!
//! The algorithm must be one of those below and belong to the type of the key. `none` and the
//! symmetric algorithms are unknown here, so a token cannot be signed with a public key as the
//! secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A token that was parsed and not verified yet.
pub(super) struct Jwt<'t> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    pub(super) claims: Claims,
    signed: &'t str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// The claims that count.
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    client_id: Option<String>,
    azp: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<f64>,
    nbf: Option<f64>,
    scope: Option<OneOrMany>,
    scp: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// An algorithm of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// The tolerated difference between the clocks, in seconds.
const LEEWAY: f64 = 60.0;

/// The reason that a token is not accepted.
pub(super) type Invalid = &'static str;

/// The requirements on a token.
pub(super) struct Expected<'e> {
    pub(super) issuer: &'e str,
    pub(super) audience: &'e str,
    pub(super) now: f64,
}

impl<'t> Jwt<'t> {
    pub(super) fn parse(token: &'t str) -> Result<Self, Invalid> {
        const MALFORMED: Invalid = "the access token is not a signed JWT";
        let (signed, signature) = token.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, claims) = signed.split_once('.').ok_or(MALFORMED)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| MALFORMED);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| MALFORMED)?;
        let algorithm = Algorithm::parse(&header.alg)
            .ok_or("the access token is not signed with an accepted algorithm")?;
        if header.crit.is_some() {
            return Err("the access token has critical headers");
        }
        // An ID token is for the client, never for us.
        let kind = header.typ.unwrap_or_default().to_ascii_lowercase();
        if !matches!(kind.as_str(), "" | "jwt" | "at+jwt" | "application/at+jwt") {
            return Err("the JWT is not an access token");
        }
        Ok(Self {
            algorithm,
            key_id: header.kid,
            claims: serde_json::from_slice(&decode(claims)?).map_err(|_| MALFORMED)?,
            signed,
            signature: decode(signature)?,
        })
    }

    /// Checks the signature.
    pub(super) fn is_signed_by(&self, key: &Key) -> bool {
        key.verifies(self.algorithm, self.signed.as_bytes(), &self.signature)
    }
}

impl Claims {
    /// Checks who issued the token, for whom and for how long.
    pub(super) fn check(&self, expected: &Expected<'_>) -> Result<(), Invalid> {
        // A slash at the end of an issuer is often lost in configuration.
        let same = |a: &str, b: &str| a.trim_end_matches('/') == b.trim_end_matches('/');
        if !self
            .iss
            .as_deref()
            .is_some_and(|iss| same(iss, expected.issuer))
        {
            return Err("the access token is of another issuer");
        }
        let mut audiences = self.aud.iter().flat_map(OneOrMany::all);
        if !audiences.any(|audience| same(audience, expected.audience)) {
            return Err("the access token is for another audience");
        }
        match self.exp {
            None => return Err("the access token never expires"),
            Some(expires) if expires + LEEWAY <= expected.now => {
                return Err("the access token has expired");
            }
            Some(_) => {}
        }
        if self.nbf.is_some_and(|from| from > expected.now + LEEWAY) {
            return Err("the access token is not valid yet");
        }
        Ok(())
    }

    pub(super) fn has_scopes(&self, scopes: &[String]) -> bool {
        let granted = self.scope.iter().chain(&self.scp);
        let granted: Vec<&str> = granted
            .flat_map(OneOrMany::all)
            .flat_map(|scopes| scopes.split(' '))
            .collect();
        scopes.iter().all(|scope| granted.contains(&scope.as_str()))
    }

    /// Returns the name of the client.
    pub(super) fn subject(&self) -> Option<&str> {
        let names = [&self.sub, &self.client_id, &self.azp];
        let mut names = names.into_iter().flatten();
        names.find(|name| !name.is_empty()).map(String::as_str)
    }
}

/// A public key of the issuer.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    /// The only algorithm that the issuer uses it for.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    /// Reads a key of a JWK set. Keys for other uses and of other types are `None`.
    pub(super) fn from_jwk(jwk: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| jwk.get(name)?.as_str();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        // An uncompressed point.
        let point = |length: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let complete = x.len() == length && y.len() == length;
            complete.then(|| [&[4], &x[..], &y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa {
                n: bytes("n")?,
                e: bytes("e")?,
            },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::parse(name)?),
            None => None,
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm,
            material,
        })
    }

    fn verifies(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.is_some_and(|own| own != algorithm) {
            return false;
        }
        let plain = |own: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(own, key)
                .verify(signed, signature)
                .is_ok()
        };
        match (&self.material, algorithm) {
            (Material::Rsa { n, e }, algorithm) => {
                let parameters = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return false,
                };
                RsaPublicKeyComponents { n, e }
                    .verify(parameters, signed, signature)
                    .is_ok()
            }
            (Material::P256(key), Algorithm::Es256) => {
                plain(&signature::ECDSA_P256_SHA256_FIXED, key)
            }
            (Material::P384(key), Algorithm::Es384) => {
                plain(&signature::ECDSA_P384_SHA384_FIXED, key)
            }
            (Material::Ed25519(key), Algorithm::EdDsa) => plain(&signature::ED25519, key),
            _ => false,
        }
    }
}
