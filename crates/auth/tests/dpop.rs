//! Tokens that are bound to a key (DPoP, RFC 9449). The test issuer and its server check every
//! proof: signature, method, URL, time, token hash, nonce, and that none is used twice.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

use common::{Called, World};
use serde_json::json;
use trunkline_auth::{Grant, Secret, SignInReason};
use trunkline_config::OAuthEntry;
use trunkline_testkit::net::OAuthOptions;

fn world(change: impl FnOnce(&mut OAuthOptions)) -> World {
    let world = World::new();
    world.issuer.configure(|options| {
        options.dpop = true;
        change(options);
    });
    world
}

#[tokio::test]
async fn a_sign_in_is_bound_to_a_key_that_survives_refreshes_and_restarts() {
    let world = world(|_| {});
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(
        world.issuer.authorizations()[0]
            .get("dpop_jkt")
            .map(String::len),
        Some(43)
    );
    let key = world.stored(&server)["tokens"]["dpopKey"].clone();
    assert!(key.is_string());

    // Another process has the key, and refreshes with it.
    let restarted = world.server();
    assert_eq!(world.call(&restarted).await, Called::Ok);
    world.issuer.expire_access_tokens();
    world.advance(60);
    assert_eq!(world.call(&restarted).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
    assert_eq!(world.stored(&restarted)["tokens"]["dpopKey"], key);
    // This one finds the new token.
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn nonces_are_learned_from_both_servers_and_kept() {
    let world = world(|options| options.dpop_nonce = Some("n1".into()));
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    world.sign_in(&server).await.unwrap();
    // Once without a nonce, once with it; the code was not used up.
    assert_eq!(world.issuer.count("/token"), 2);
    let before = world.issuer.count("/mcp");
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.count("/mcp"), before + 2);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.count("/mcp"), before + 3);
    // A new nonce is learned in the same way, and the old tokens stay.
    world
        .issuer
        .configure(|options| options.dpop_nonce = Some("n2".into()));
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 0);
}

#[tokio::test]
async fn a_server_that_takes_no_bound_tokens_gets_bearer_tokens() {
    let world = World::new();
    world.issuer.configure(|options| {
        // The issuer could, but the server does not ask for it.
        options.set_metadata("dpop_signing_alg_values_supported", json!(["ES256"]));
    });
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
    let request = &world.issuer.requests("/token")[0];
    assert_eq!(request.header("dpop"), None);
    assert!(world.stored(&server)["tokens"]["dpopKey"].is_null());
}

#[tokio::test]
async fn an_issuer_without_our_algorithm_gets_no_proof() {
    let world = world(|options| {
        options.set_metadata("dpop_signing_alg_values_supported", json!(["PS256"]));
    });
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    assert!(world.sign_in(&server).await.is_err());
    assert_eq!(world.issuer.requests("/token")[0].header("dpop"), None);
}

#[tokio::test]
async fn missing_scopes_of_a_bound_token_need_a_sign_in() {
    let world = world(|_| {});
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    world.sign_in(&server).await.unwrap();
    world
        .issuer
        .configure(|options| options.required_scopes = vec!["write".into()]);
    assert_eq!(world.call(&server).await, Called::Refused(403));
    assert_eq!(
        server.sign_in_demand().unwrap().reason,
        SignInReason::MissingScopes(vec!["write".into()])
    );
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
}

#[tokio::test]
async fn a_machine_gets_bound_tokens_too() {
    let world = world(|options| options.dpop_nonce = Some("n1".into()));
    world.issuer.add_client("robot", Some("s3cret"));
    let oauth = OAuthEntry {
        client_id: Some("robot".into()),
        ..OAuthEntry::default()
    };
    let config = world
        .config()
        .oauth(oauth)
        .client_secret(Secret::new("s3cret"))
        .grant(Grant::ClientCredentials { key: None });
    let server = world.auth().server(config);
    assert_eq!(world.call(&server).await, Called::Ok);
    // The same key, and the nonce that it has learned, serve the next token.
    let key = world.stored(&server)["tokens"]["dpopKey"].clone();
    let before = world.issuer.count("/token");
    world.advance(60);
    world.issuer.expire_access_tokens();
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.count("/token"), before + 1);
    assert_eq!(world.stored(&server)["tokens"]["dpopKey"], key);
}
