//! Access tokens, good and forged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use url::Url;

use super::*;

/// The modulus of an RSA key, and a token that it signed, which expires in the year 3000.
const RSA_MODULUS: &str = "qnbNPfKa29vhpwbzIw-GyLEzTH1bS5_VdoDdiULbT3ivXeSJlXPJn7iR_ctUOAApa2elXCJ59PwsbPIEyfd4kEOvZw8mg8fPxmZ95EpF-rxHldlJLiPgkfg8aYQHH99sBoXGYxtKQT1M_EXJsKG-8ibdgqz3yK5051Tu5uWjX2s-HF6gFtT0vlhtSa-fYdCOBTd4a4EMtZEowyf8X0oCG3Mj2Ujpi68jhW5SXrY9UHlkMQHAtDZp0GHhHS2YikchiertJMNFPzIvEEIpTt1KPrGmxd_xyVSXyh2LI0zVByuSj9TUaOi4H412yp5Odpvcr4vY48FxJOz6dWn7HWyqqQ";
const RSA_TOKEN: &str = "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJodHRwczovL2dhdGUuZXhhbXBsZS9tY3AiLCAic3ViIjogImFkYSIsICJleHAiOiAzMjUwMzY4MDAwMCwgInNjb3BlIjogIm1jcDp1c2UifQ.HO9dFai_2XcpC4INRfxfACTXWW4tl3qKlZV4RxzSb3Da0_fKs7ZzZj_PpbELIMSneBM3kiOhvmNlJESAzA9A7iMU-O9q9jHgfQty0IgLZ52Y3TRbJr2CinyJEEpzRZ69e76rdvzk3w0oLT6s42cqzWINKliPmvLiAzljHJyWjCKrVPC2W9jF2bC3SMWcGxXmGKMpFs1hI1ylX9F9vshKqHak4Du7EMO3XUsQNAxylQCaQfaf9gUCxuW6ZEC-fSWKsdv8_jeUiCYQ9m9_zsahuzmKMr0-8tnidJGhSgKy5QErz_a2JASuDHutV7zEbmIZncMvH7aPRFrsRTtp-2VpnA";

/// Documents by URL.
#[derive(Default)]
struct Documents {
    found: Mutex<HashMap<String, Value>>,
    requests: AtomicUsize,
}

impl Fetch for Arc<Documents> {
    fn get<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Option<Value>, String>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let found = self.found.lock().unwrap().get(url.as_str()).cloned();
        Box::pin(async { Ok(found) })
    }
}

struct Lab {
    resource: Resource,
    documents: Arc<Documents>,
    key: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Lab {
    fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let ed = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let point = key.public_key().as_ref();
        let documents = Arc::new(Documents::default());
        let keys = json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig",
             "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": encode(ed.public_key())},
            {"kty": "RSA", "kid": "rsa", "alg": "RS256", "n": RSA_MODULUS, "e": "AQAB"},
            {"kty": "oct", "kid": "secret", "k": "AAAA"},
            "junk",
        ]});
        let metadata = json!({"issuer": "https://id.example", "jwks_uri": "https://id.example/k"});
        documents.found.lock().unwrap().extend([
            (
                "https://id.example/.well-known/openid-configuration".to_owned(),
                metadata,
            ),
            ("https://id.example/k".to_owned(), keys),
        ]);
        let options = OAuthOptions {
            issuer: Url::parse("https://id.example").unwrap(),
            resource: Url::parse("https://gate.example/mcp").unwrap(),
            scopes: vec!["mcp:use".to_owned()],
            jwks: None,
            profile: None,
        };
        Self {
            resource: Resource::with_fetch(options, Box::new(Arc::clone(&documents))),
            documents,
            key,
            ed,
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(claims.to_string())
        );
        let random = SystemRandom::new();
        let signature = if header["alg"] == "EdDSA" {
            encode(self.ed.sign(signed.as_bytes()))
        } else {
            encode(self.key.sign(&random, signed.as_bytes()).unwrap())
        };
        format!("{signed}.{signature}")
    }

    async fn verify(&self, header: Value, claims: Value) -> Result<String, TokenError> {
        self.resource.verify(&self.token(&header, &claims)).await
    }
}

fn claims() -> Value {
    let now = now_millis() / 1000;
    json!({
        "iss": "https://id.example", "aud": "https://gate.example/mcp", "sub": "ada",
        "exp": now + 300, "nbf": now - 5, "scope": "openid mcp:use",
    })
}

fn es256() -> Value {
    json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"})
}

#[tokio::test]
async fn a_token_of_the_issuer_for_this_resource_is_accepted() {
    let lab = Lab::new();
    for header in [
        es256(),
        json!({"alg": "ES256", "kid": "ec"}),
        json!({"alg": "ES256"}),
        json!({"alg": "EdDSA", "kid": "ed", "typ": "JWT"}),
    ] {
        assert_eq!(lab.verify(header, claims()).await.unwrap(), "ada");
    }
    assert_eq!(lab.resource.verify(RSA_TOKEN).await.unwrap(), "ada");
    for (name, value) in [
        ("aud", json!(["x", "https://gate.example/mcp/"])),
        ("iss", json!("https://id.example/")),
        ("scope", json!(["mcp:use"])),
        ("exp", json!(now_millis() / 1000 - 30)),
    ] {
        let mut claims = claims();
        claims[name] = value;
        assert_eq!(lab.verify(es256(), claims).await.unwrap(), "ada", "{name}");
    }
    let mut machine = claims();
    machine["sub"] = Value::Null;
    machine["client_id"] = "robot".into();
    assert_eq!(lab.verify(es256(), machine).await.unwrap(), "robot");
    assert_eq!(
        lab.documents.requests.load(Ordering::SeqCst),
        3,
        "the keys are cached"
    );
}

#[tokio::test]
async fn claims_for_others_or_of_another_time_are_refused() {
    let lab = Lab::new();
    for (name, value) in [
        ("iss", json!("https://evil.example")),
        ("iss", Value::Null),
        ("aud", json!("https://other.example/mcp")),
        ("aud", json!([])),
        ("aud", Value::Null),
        ("exp", json!(now_millis() / 1000 - 120)),
        ("exp", Value::Null),
        ("exp", json!("never")),
        ("nbf", json!(now_millis() / 1000 + 120)),
        ("sub", Value::Null),
    ] {
        let mut claims = claims();
        claims[name] = value.clone();
        let refused = lab.verify(es256(), claims).await;
        assert!(
            matches!(refused, Err(TokenError::Invalid(_))),
            "{name} {value}"
        );
    }
    let mut claims = claims();
    claims["scope"] = "openid mcp:user".into();
    let refused = lab.verify(es256(), claims).await;
    assert_eq!(refused, Err(TokenError::InsufficientScope));
}

#[tokio::test]
async fn forged_signatures_and_confused_algorithms_are_refused() {
    let lab = Lab::new();
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "None"}),
        json!({"alg": "HS256", "kid": "ec"}),
        json!({"alg": "HS256", "kid": "secret"}),
        json!({"alg": "ES256", "kid": "ed"}),
        json!({"alg": "RS256", "kid": "ec"}),
        json!({"alg": "ES256", "kid": "rsa"}),
        json!({"alg": "ES384", "kid": "ec"}),
        json!({"alg": "ES256", "kid": "ec", "crit": ["exp"]}),
        json!({"alg": "ES256", "kid": "ec", "typ": "id_token+jwt"}),
        json!({"kid": "ec"}),
    ] {
        let refused = lab.verify(header.clone(), claims()).await;
        assert!(matches!(refused, Err(TokenError::Invalid(_))), "{header}");
    }
    // The public key of the issuer as the secret of a symmetric algorithm.
    let signed = format!(
        "{}.{}",
        encode(json!({"alg": "HS256", "kid": "ec"}).to_string()),
        encode(claims().to_string())
    );
    let secret = lab.key.public_key().as_ref();
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let tag = encode(ring::hmac::sign(&secret, signed.as_bytes()));
    let good = lab.token(&es256(), &claims());
    let (body, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = body.split_once('.').unwrap();
    let mut more = claims();
    more["sub"] = "root".into();
    let mut ps = RSA_TOKEN.replacen(
        RSA_TOKEN.split('.').next().unwrap(),
        &encode(r#"{"alg":"PS256","kid":"rsa"}"#),
        1,
    );
    for token in [
        format!("{signed}.{tag}"),
        format!("{body}."),
        body.to_owned(),
        format!("{header}.{}.{signature}", encode(more.to_string())),
        format!("{good}.x"),
        format!("{good}="),
        std::mem::take(&mut ps),
        String::new(),
        "..".to_owned(),
        "a.b.c".to_owned(),
    ] {
        let refused = lab.resource.verify(&token).await;
        assert!(matches!(refused, Err(TokenError::Invalid(_))), "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_looked_up_once_in_a_while() {
    let lab = Lab::new();
    let unknown = || json!({"alg": "ES256", "kid": "new"});
    for _ in 0..20 {
        assert!(lab.verify(unknown(), claims()).await.is_err());
    }
    assert_eq!(lab.documents.requests.load(Ordering::SeqCst), 3);
    // The issuer rotates its keys.
    {
        let mut found = lab.documents.found.lock().unwrap();
        found.get_mut("https://id.example/k").unwrap()["keys"][0]["kid"] = "new".into();
    }
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    assert_eq!(lab.verify(unknown(), claims()).await.unwrap(), "ada");
}

#[tokio::test]
async fn metadata_of_another_issuer_or_without_tls_gives_no_keys() {
    for (name, value) in [
        ("issuer", json!("https://evil.example")),
        ("jwks_uri", json!("http://id.example/k")),
        ("jwks_uri", Value::Null),
        ("jwks_uri", json!("https://id.example/absent")),
    ] {
        let lab = Lab::new();
        let url = "https://id.example/.well-known/openid-configuration";
        lab.documents.found.lock().unwrap().get_mut(url).unwrap()[name] = value.clone();
        let refused = lab.verify(es256(), claims()).await;
        assert!(
            matches!(refused, Err(TokenError::Unavailable(_))),
            "{name} {value}"
        );
    }
}

#[test]
fn the_metadata_and_the_challenge_name_the_resource_and_its_issuer() {
    let lab = Lab::new();
    let metadata = lab.resource.metadata();
    assert_eq!(metadata["resource"], "https://gate.example/mcp");
    assert_eq!(metadata["authorization_servers"][0], "https://id.example");
    let challenge = lab.resource.challenge(Some("invalid_token")).unwrap();
    assert_eq!(
        challenge,
        "Bearer resource_metadata=\"https://gate.example/.well-known/oauth-protected-resource/mcp\", \
         scope=\"mcp:use\", error=\"invalid_token\""
    );
}
