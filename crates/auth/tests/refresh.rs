//! Refresh (AUTH-4, AUTH-5): one request however many callers, and no login lost.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Called, World};
use trunkline_auth::{AuthErrorKind, ServerAuth, SignInReason};
use trunkline_transport::http::Credentials as _;

const LIMIT: Duration = Duration::from_secs(20);

async fn until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LIMIT, polling).await.unwrap();
}

#[tokio::test]
async fn a_valid_token_is_sent_without_a_refresh() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    for _ in 0..3 {
        assert_eq!(world.call(&server).await, Called::Ok);
    }
    assert_eq!(world.issuer.grants(), ["authorization_code"]);
    // Another process finds it in the vault.
    assert_eq!(world.call(&world.server()).await, Called::Ok);
    assert_eq!(world.issuer.count("/token"), 1);
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_expires() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    // The margin is five minutes of an hour, with jitter in its first half.
    world.advance(3600 - 301);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 0);
    world.advance(160);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
    // No request was refused for it.
    assert_eq!(world.issuer.count("/mcp"), 2);
    let form = &world.issuer.forms("/token")[1];
    assert_eq!(form["resource"], world.issuer.resource());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_refusals_lead_to_one_refresh() {
    let world = Arc::new(World::new());
    let server = world.expired().await;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (world, server) = (Arc::clone(&world), Arc::clone(&server));
            tokio::spawn(async move { world.call(&server).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Called::Ok);
    }
    assert_eq!(world.issuer.refreshes(), 1);
    let stored = world.stored(&server);
    let refresh = stored["tokens"]["refresh"].as_str().unwrap();
    assert!(world.issuer.is_unused(refresh));
}

#[tokio::test]
async fn a_token_revoked_before_its_time_is_refreshed_after_a_401() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    world.advance(60);
    world.issuer.expire_access_tokens();
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn invalid_grant_ends_the_sign_in_without_a_loop() {
    for (name, response) in [
        ("as the RFC has it", None),
        (
            "Slack",
            Some((200, r#"{"ok":false,"error":"invalid_refresh_token"}"#)),
        ),
        (
            "expired",
            Some((200, r#"{"error":"expired_refresh_token"}"#)),
        ),
        ("token_expired", Some((400, r#"{"error":"token_expired"}"#))),
    ] {
        let world = World::new();
        let server = world.expired().await;
        world.issuer.revoke_refresh_tokens();
        world.issuer.configure(|options| {
            options.token_response = response.map(|(status, body)| (status, body.to_owned()));
        });
        assert_eq!(world.call(&server).await, Called::Refused(401), "{name}");
        let demand = server.sign_in_demand().unwrap();
        assert_eq!(demand.reason, SignInReason::Ended, "{name}");
        assert!(
            demand.message.contains("the sign-in has ended"),
            "{}",
            demand.message
        );
        let stored = world.stored(&server);
        assert!(stored["tokens"].is_null(), "{name}");
        // The registration is kept for the next sign-in.
        assert!(stored["client"]["id"].is_string(), "{name}");
        for _ in 0..3 {
            assert_eq!(world.call(&server).await, Called::Refused(401), "{name}");
        }
        assert_eq!(world.issuer.count("/token"), 2, "{name}");
        assert_eq!(server.sign_in_demand().unwrap().reason, SignInReason::Ended);
        // All processes remember it.
        assert!(world.server().recent_demand().await.is_some(), "{name}");

        world
            .issuer
            .configure(|options| options.token_response = None);
        world.sign_in(&server).await.unwrap();
        assert_eq!(server.sign_in_demand(), None);
        assert!(world.server().recent_demand().await.is_none(), "{name}");
        assert_eq!(world.call(&server).await, Called::Ok, "{name}");
        assert_eq!(world.issuer.count("/register"), 1, "{name}");
    }
}

#[tokio::test]
async fn a_failing_issuer_does_not_end_the_sign_in() {
    for response in [
        (500, "oops"),
        (503, r#"{"error":"temporarily_unavailable"}"#),
        (429, ""),
        (400, "nonsense"),
    ] {
        let world = World::new();
        let server = world.expired().await;
        world.issuer.configure(|options| {
            options.token_response = Some((response.0, response.1.to_owned()));
        });
        let Called::Failed(error) = world.call(&server).await else {
            panic!("{response:?}");
        };
        assert!(error.contains("could not be refreshed"), "{error}");
        assert_eq!(server.sign_in_demand(), None, "{response:?}");
        assert!(server.recent_demand().await.is_none());
        assert!(world.stored(&server)["tokens"]["refresh"].is_string());
        // The next call does not ask again at once.
        assert!(matches!(world.call(&server).await, Called::Failed(_)));
        assert_eq!(world.issuer.count("/token"), 2, "{response:?}");
        // Another process, or this one later, gets the token.
        world
            .issuer
            .configure(|options| options.token_response = None);
        assert_eq!(
            world.call(&world.server()).await,
            Called::Ok,
            "{response:?}"
        );
    }
}

#[tokio::test]
async fn an_early_refresh_that_fails_leaves_the_valid_token_in_use() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    world
        .issuer
        .configure(|options| options.token_response = Some((500, String::new())));
    world.advance(3600 - 10);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.count("/token"), 2);
}

/// Starts a refresh whose response the issuer holds back.
async fn held_refresh(world: &World) -> (Arc<ServerAuth>, tokio::task::JoinHandle<bool>) {
    let server = world.expired().await;
    world
        .issuer
        .configure(|options| options.hold_token_responses = true);
    let caller = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.token().await.is_ok() }
    });
    until(|| world.issuer.refreshes() == 1).await;
    (server, caller)
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_lose_the_rotated_token() {
    let world = World::new();
    let (server, caller) = held_refresh(&world).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    world
        .issuer
        .configure(|options| options.hold_token_responses = false);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn the_lifetime_of_a_token_counts_from_the_request() {
    let world = World::new();
    let (server, caller) = held_refresh(&world).await;
    world.advance(600);
    world
        .issuer
        .configure(|options| options.hold_token_responses = false);
    assert!(caller.await.unwrap());
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let expires = world.stored(&server)["tokens"]["expiresAt"].as_u64();
    assert!(expires.unwrap() <= now.as_secs() + 3600);
}

#[tokio::test]
async fn settling_waits_for_a_refresh() {
    let world = World::new();
    let server = world.expired().await;
    let auth = world.auth();
    let server = {
        drop(server);
        auth.server(world.config())
    };
    assert!(auth.settle(LIMIT).await);
    world
        .issuer
        .configure(|options| options.hold_token_responses = true);
    let caller = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.token().await.is_ok() }
    });
    until(|| world.issuer.refreshes() == 1).await;
    assert!(!auth.settle(Duration::from_millis(20)).await);
    world
        .issuer
        .configure(|options| options.hold_token_responses = false);
    assert!(auth.settle(LIMIT).await);
    assert!(caller.await.unwrap());
}

#[tokio::test]
async fn a_lost_response_is_survived_within_the_grace_period() {
    let world = World::new();
    let server = world.expired().await;
    world.issuer.configure(|options| {
        options.grace = Some(LIMIT);
        options.drop_token_response = true;
    });
    assert!(matches!(world.call(&server).await, Called::Failed(_)));
    assert_eq!(world.issuer.refreshes(), 1);
    world
        .issuer
        .configure(|options| options.drop_token_response = false);
    assert_eq!(world.call(&world.server()).await, Called::Ok);
}

#[tokio::test]
async fn a_lost_response_without_a_grace_period_ends_in_a_demand() {
    let world = World::new();
    let server = world.expired().await;
    world
        .issuer
        .configure(|options| options.drop_token_response = true);
    assert!(matches!(world.call(&server).await, Called::Failed(_)));
    world
        .issuer
        .configure(|options| options.drop_token_response = false);
    let later = world.server();
    assert_eq!(world.call(&later).await, Called::Refused(401));
    assert_eq!(later.sign_in_demand().unwrap().reason, SignInReason::Ended);
    assert_eq!(world.call(&later).await, Called::Refused(401));
    assert_eq!(world.issuer.count("/token"), 3);
}

#[tokio::test]
async fn a_clock_that_is_an_hour_off_does_no_harm() {
    for hours in [-1, 1] {
        let world = World::new();
        let server = world.server();
        world.advance(hours * 3600);
        world.sign_in(&server).await.unwrap();
        assert_eq!(world.call(&server).await, Called::Ok);
        assert_eq!(world.issuer.refreshes(), 0, "{hours}");
        // The clock is set right: at worst, one refresh too many.
        world.advance(-hours * 3600);
        for _ in 0..3 {
            assert_eq!(world.call(&server).await, Called::Ok, "{hours}");
        }
        assert!(world.issuer.refreshes() <= 1, "{hours}");
    }
}

#[tokio::test]
async fn a_new_token_that_is_refused_is_not_refreshed_again() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    world.issuer.expire_access_tokens();
    for _ in 0..3 {
        assert_eq!(world.call(&server).await, Called::Refused(401));
    }
    assert_eq!(
        server.sign_in_demand().unwrap().reason,
        SignInReason::TokenRefused
    );
    assert_eq!(world.issuer.count("/token"), 1);
}

/// The server rounds the lifetime down, or its clock is ahead.
#[tokio::test]
async fn a_token_that_lives_for_seconds_and_expires_early_is_refreshed() {
    let world = World::new();
    world.issuer.configure(|options| options.expires_in = 4);
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    world.issuer.expire_access_tokens();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    world.advance(3);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn a_token_without_a_refresh_token_is_used_until_it_is_refused() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.refresh_tokens = false);
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    world.advance(7200);
    // Our clock says that it has expired, but the server decides.
    assert_eq!(world.call(&server).await, Called::Ok);
    world.issuer.expire_access_tokens();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    assert_eq!(server.sign_in_demand().unwrap().reason, SignInReason::Ended);
}

#[tokio::test]
async fn an_issuer_without_rotation_keeps_its_refresh_token() {
    let world = World::new();
    world.issuer.configure(|options| options.rotate = false);
    let server = world.expired().await;
    let before = world.stored(&server)["tokens"]["refresh"].clone();
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.stored(&server)["tokens"]["refresh"], before);
}

#[tokio::test]
async fn an_expired_client_registration_ends_the_sign_in_and_is_renewed() {
    // By its date, and because the issuer has forgotten it.
    for expires in [true, false] {
        let world = World::new();
        let soon = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        world.issuer.configure(|options| {
            options.client_secret_expires_at = Some(if expires { soon - 60 } else { 0 });
        });
        let server = world.expired().await;
        if !expires {
            world.issuer.forget_clients();
        }
        assert_eq!(world.call(&server).await, Called::Refused(401));
        let demand = server.sign_in_demand().unwrap();
        assert!(
            demand.message.contains("registration"),
            "{}",
            demand.message
        );
        assert!(world.stored(&server)["client"].is_null());
        world
            .issuer
            .configure(|options| options.client_secret_expires_at = Some(0));
        world.sign_in(&server).await.unwrap();
        assert_eq!(world.call(&server).await, Called::Ok);
        assert_eq!(world.issuer.count("/register"), 2);
    }
}

#[tokio::test]
async fn a_changed_authorization_server_gets_nothing_of_the_old_one() {
    let world = World::new();
    let other = trunkline_testkit::net::OAuthServer::start();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    let old_client = world.stored(&server)["client"]["id"].clone();
    world.advance(60);
    world.issuer.expire_access_tokens();
    world.issuer.configure(|options| {
        options.authorization_servers = Some(vec![other.issuer()]);
    });
    assert_eq!(world.call(&server).await, Called::Refused(401));
    let demand = server.sign_in_demand().unwrap();
    assert!(demand.message.contains("has changed"), "{}", demand.message);
    // The old issuer was not asked for a refresh.
    assert_eq!(world.issuer.grants(), ["authorization_code"]);
    let account = common::sign_in(&other, &server).await.unwrap();
    assert_eq!(account.issuer, other.issuer());
    assert_eq!(other.count("/register"), 1);
    assert_ne!(other.authorizations()[0]["client_id"], old_client);
    assert_ne!(other.forms("/token")[0]["client_id"], old_client);
}

#[tokio::test]
async fn a_stored_sign_in_that_is_unreadable_is_an_error_and_a_sign_in_repairs_it() {
    let world = World::new();
    let server = world.server();
    let key = server.identity().key().to_owned();
    let vault = world.vault();
    vault
        .set(
            "trunkline OAuth",
            &key,
            &trunkline_auth::Secret::new("hunter2"),
        )
        .unwrap();
    let Called::Failed(error) = world.call(&server).await else {
        panic!("it was used");
    };
    assert!(
        error.contains("sign in again") && !error.contains("hunter2"),
        "{error}"
    );
    assert_eq!(
        server.account().await.unwrap_err().kind(),
        AuthErrorKind::Storage
    );
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
}

#[cfg(unix)]
#[tokio::test]
async fn new_tokens_that_cannot_be_stored_are_used_with_a_warning() {
    let world = World::new();
    let server = world.expired().await;
    assert!(server.storage_warning().unwrap().contains("no keychain"));
    assert!(server.account().await.unwrap().is_some());
    // The temporary file of the vault cannot be created where a directory is.
    let blocked = world.folder.path().join("secrets.json.new/in the way");
    std::fs::create_dir_all(&blocked).unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
    let warning = server.storage_warning().unwrap();
    assert!(warning.contains("could not be stored"), "{warning}");
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}
