//! The endpoint as a protected resource of an issuer.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use trunkline_gateway::http::OAuthOptions;
use trunkline_gateway::store::now_millis;
use trunkline_testkit::net::RawHttp;
use url::Url;

use crate::lab::{Lab, modern};

const RESOURCE: &str = "https://gate.example/mcp";

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn sign(key: &EcdsaKeyPair, claims: &Value) -> String {
    let header = json!({"alg": "ES256", "kid": "k", "typ": "at+jwt"});
    let signed = format!(
        "{}.{}",
        encode(header.to_string()),
        encode(claims.to_string())
    );
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", encode(signature))
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
}

/// An issuer that publishes this key.
fn issuer(key: &EcdsaKeyPair) -> RawHttp {
    let point = key.public_key().as_ref();
    let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
    let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": x, "y": y}]});
    RawHttp::start(move |request, reply| {
        let host = request.header("host").unwrap();
        match request.path.as_str() {
            "/.well-known/oauth-authorization-server" => {
                let metadata = json!({
                    "issuer": format!("http://{host}"), "jwks_uri": format!("http://{host}/keys"),
                });
                reply.json(200, &metadata);
            }
            "/keys" => {
                reply.json(200, &keys);
            }
            _ => {
                reply.status(404);
            }
        }
    })
}

#[test]
fn access_tokens_of_the_issuer_are_accepted_and_others_are_challenged() {
    let (key, forger) = (key(), key());
    let issuer = issuer(&key);
    let url = format!("http://{}", issuer.address());
    let lab = Lab::with(|options| {
        options.oauth = Some(OAuthOptions {
            issuer: Url::parse(&url).unwrap(),
            resource: Url::parse(RESOURCE).unwrap(),
            scopes: vec!["mcp:use".to_owned()],
            jwks: None,
            profile: None,
        });
    });
    let list = modern("/mcp", "tools/list", json!({}));
    let missing = lab.send(&list);
    let metadata_url = "https://gate.example/.well-known/oauth-protected-resource/mcp";
    assert_eq!(missing.status, 401);
    assert_eq!(
        missing.header("www-authenticate").unwrap(),
        format!("Bearer resource_metadata=\"{metadata_url}\", scope=\"mcp:use\"")
    );
    let metadata = lab.get("/.well-known/oauth-protected-resource/mcp").json();
    assert_eq!(metadata["resource"], RESOURCE);
    assert_eq!(metadata["authorization_servers"], json!([url]));

    let claims = |audience: &str, scope: &str| {
        json!({"iss": url, "aud": audience, "sub": "ada", "scope": scope,
            "exp": now_millis() / 1000 + 60})
    };
    let send = |token: &str| {
        lab.send(list.replace("Host:", &format!("Authorization: Bearer {token}\r\nHost:")))
    };
    let good = sign(&key, &claims(RESOURCE, "mcp:use"));
    assert_eq!(send(&good).status, 200);
    let foreign = send(&sign(&key, &claims("https://other.example/mcp", "mcp:use")));
    assert_eq!(foreign.status, 401);
    assert!(
        foreign
            .header("www-authenticate")
            .unwrap()
            .ends_with("error=\"invalid_token\"")
    );
    assert!(
        foreign.text().contains("another audience"),
        "{}",
        foreign.text()
    );
    let forged = send(&sign(&forger, &claims(RESOURCE, "mcp:use")));
    assert_eq!(forged.status, 401);
    let narrow = send(&sign(&key, &claims(RESOURCE, "openid")));
    assert_eq!(narrow.status, 403);
    let challenge = narrow.header("www-authenticate").unwrap();
    assert!(challenge.contains("insufficient_scope"), "{challenge}");
    // Our own tokens work beside those of the issuer.
    let own = lab.token("laptop");
    assert_eq!(send(&own).status, 200);
    assert_eq!(issuer.requests().len(), 2, "the keys are cached");
}
