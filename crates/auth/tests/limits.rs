//! Servers and issuers that try to fill the vault, or to keep us waiting.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod common;

use common::World;
use serde_json::json;
use trunkline_auth::AuthErrorKind;
use trunkline_transport::http::{AfterRefusal, Credentials as _, Refusal};

/// All servers share the vault's file, and one that is too large cannot be read.
#[tokio::test]
async fn new_scopes_in_each_refusal_do_not_fill_the_vault() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    let sent = server.token().await.unwrap();
    for round in 0..100 {
        let scopes: Vec<String> = (0..1000).map(|n| format!("scope-{round}-{n}")).collect();
        let scopes = scopes.join(" ");
        let refusal = Refusal {
            status: 403,
            challenge: Some(format!(
                "Bearer error=\"insufficient_scope\", scope=\"{scopes}\""
            )),
            sent: sent.clone(),
        };
        assert_eq!(server.refused(refusal).await, AfterRefusal::GiveUp);
    }
    let size = world.stored(&server).to_string().len();
    assert!(size < 64 * 1024, "{size}");
    // The next sign-in still works, with a URL of a sensible length.
    let login = server.start_login().await.unwrap();
    let length = login.url().as_str().len();
    assert!(length < 32 * 1024, "{length}");
}

#[tokio::test]
async fn scopes_of_metadata_and_tokens_are_bounded_and_harmless() {
    let world = World::new();
    let mut scopes: Vec<String> = (0..50_000).map(|n| format!("s{n}")).collect();
    scopes.insert(0, "\u{1b}[31mred".to_owned());
    world
        .issuer
        .configure(|options| options.scopes = scopes.clone());
    let server = world.server();
    let account = world.sign_in(&server).await.unwrap();
    assert!(account.scopes.len() < 5000 && account.scopes[0] == "s0");

    let body = json!({"access_token": "a", "scope": "x ".repeat(50_000) + "\u{9b}31m"});
    world
        .issuer
        .configure(|options| options.token_response = Some((200, body.to_string())));
    world.advance(7200);
    assert!(server.token().await.is_ok());
    let account = server.account().await.unwrap().unwrap();
    let text = account.scopes.join(" ");
    assert!(text.len() <= 8 * 1024 && text.is_ascii(), "{}", text.len());
}

#[tokio::test]
async fn a_token_that_cannot_be_sent_or_stored_is_refused() {
    let large = "a".repeat(200_000);
    for token in ["", "a b", "a\r\nx-evil: 1", "é", &large] {
        let world = World::new();
        let body = json!({"access_token": token, "token_type": "Bearer"}).to_string();
        world
            .issuer
            .configure(|options| options.token_response = Some((200, body)));
        let server = world.server();
        let error = world.sign_in(&server).await.unwrap_err();
        assert_eq!(error.kind(), AuthErrorKind::Rejected, "{error}");
        assert_eq!(server.account().await.unwrap(), None);
    }
}

/// A user who signs in twice is told, and the first sign-in goes on.
#[tokio::test]
async fn a_sign_in_in_another_process_is_named() {
    let world = World::new();
    let (one, other) = (world.server(), world.server());
    let login = one.start_login().await.unwrap();
    let error = other.start_login().await.unwrap_err();
    assert_eq!(error.kind(), AuthErrorKind::InProgress);
    assert_eq!(error.process(), Some(std::process::id()));
    login.cancel();
    assert!(world.sign_in(&other).await.is_ok());
}

/// A server can be signed out of after its entry is gone.
#[tokio::test]
async fn stored_sign_ins_end_without_their_settings() {
    let world = World::new();
    let work = world.auth().server(world.config().account("work"));
    for server in [world.server(), work] {
        world.sign_in(&server).await.unwrap();
    }
    let auth = world.auth();
    assert_eq!(auth.logout_stored("other", None).await.unwrap(), None);
    let logout = auth.logout_stored("test", Some("work")).await.unwrap();
    assert!(logout.unwrap().was_signed_in);
    assert_eq!(auth.accounts().len(), 1);
    assert!(auth.logout_stored("test", None).await.unwrap().is_some());
    assert_eq!(auth.accounts(), []);
    assert_eq!(world.issuer.count("/revoke"), 4);
}
