//! Signing in: discovery, registration, the browser, faults of the servers, and signing out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

use std::sync::Arc;

use common::{Called, World};
use serde_json::json;
use trunkline_auth::{
    AuthErrorKind, Grant, IdpConfig, Revocation, Secret, SignInReason, SigningKey,
};
use trunkline_config::OAuthEntry;
use trunkline_testkit::net::{OAuthOptions, OAuthServer, follow_redirect};

#[tokio::test]
async fn a_user_signs_in_with_a_browser() {
    let world = World::new();
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    assert_eq!(
        server.sign_in_demand().unwrap().reason,
        SignInReason::SignedOut
    );
    assert!(server.account().await.unwrap().is_none());

    let account = world.sign_in(&server).await.unwrap();
    assert_eq!(account.issuer, world.issuer.issuer());
    assert_eq!(account.scopes, ["read"]);
    assert!(account.can_refresh && account.expires().is_some());
    assert_eq!(server.account().await.unwrap().as_ref(), Some(&account));
    assert_eq!(world.auth().accounts(), [account]);
    assert_eq!(world.call(&server).await, Called::Ok);

    let registration = world.issuer.requests("/register")[0].json();
    assert_eq!(registration["application_type"], "native");
    assert_eq!(registration["token_endpoint_auth_method"], "none");
    assert!(
        registration["grant_types"]
            .as_array()
            .unwrap()
            .contains(&json!("refresh_token"))
    );
    let authorization = &world.issuer.authorizations()[0];
    assert_eq!(authorization["resource"], world.issuer.resource());
    assert_eq!(authorization["scope"], "read");
    assert!(authorization["redirect_uri"].starts_with("http://127.0.0.1:"));
    let form = &world.issuer.forms("/token")[0];
    assert_eq!(form["resource"], world.issuer.resource());
}

#[tokio::test]
async fn a_redirect_can_be_pasted() {
    let world = World::new();
    let server = world.server();
    let login = server.start_login().await.unwrap();
    let error = login
        .finish("http://127.0.0.1/callback?code=x&state=y")
        .await;
    assert_eq!(error.unwrap_err().kind(), AuthErrorKind::WrongRedirect);
    let redirect = world.issuer.authorize(login.url().as_str());
    login.finish(&format!("  {redirect}\n")).await.unwrap();
    // Everybody who waits learns of it.
    login.wait().await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
}

#[tokio::test]
async fn a_denied_sign_in_says_so_in_the_browser_and_here() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.deny = Some("access_denied".into()));
    let server = world.server();
    let login = server.start_login().await.unwrap();
    let redirect = world.issuer.authorize(login.url().as_str());
    let page = tokio::task::spawn_blocking(move || follow_redirect(&redirect));
    assert!(login.wait().await.unwrap_err().is_denied());
    assert!(page.await.unwrap().contains("Access was denied"));
    assert_eq!(world.issuer.count("/token"), 0);
}

#[tokio::test]
async fn a_redirect_of_another_sign_in_does_not_end_this_one() {
    let world = World::new();
    let server = world.server();
    let login = server.start_login().await.unwrap();
    let wrong = format!("{}?code=stolen&state=other", login.redirect_uri());
    let page = tokio::task::spawn_blocking(move || follow_redirect(&wrong))
        .await
        .unwrap();
    assert!(page.contains("belongs to another sign-in"), "{page}");
    assert_eq!(world.issuer.count("/token"), 0);
    let redirect = world.issuer.authorize(login.url().as_str());
    tokio::task::spawn_blocking(move || follow_redirect(&redirect))
        .await
        .unwrap();
    login.wait().await.unwrap();
}

#[tokio::test]
async fn a_redirect_from_another_issuer_is_refused() {
    let world = World::new();
    world.issuer.configure(|options| {
        options.redirect_issuer = Some("https://evil.example".into());
    });
    let server = world.server();
    let login = server.start_login().await.unwrap();
    let redirect = world.issuer.authorize(login.url().as_str());
    let error = login.finish(&redirect).await.unwrap_err();
    assert_eq!(error.kind(), AuthErrorKind::WrongRedirect);
    assert_eq!(world.issuer.count("/token"), 0);
}

#[tokio::test]
async fn two_sign_ins_at_once_are_one_and_another_process_is_told() {
    let world = World::new();
    let server = world.server();
    let (one, two) = tokio::join!(server.start_login(), server.start_login());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(Arc::ptr_eq(&one, &two));
    let elsewhere = world.server();
    let error = elsewhere.start_login().await.unwrap_err();
    assert_eq!(error.kind(), AuthErrorKind::InProgress);
    one.cancel();
    assert_eq!(
        two.wait().await.unwrap_err().kind(),
        AuthErrorKind::Cancelled
    );
    // The registration of the cancelled sign-in is used again.
    world.sign_in(&elsewhere).await.unwrap();
    assert_eq!(world.issuer.count("/register"), 1);
}

#[tokio::test]
async fn a_sign_in_that_is_given_up_leaves_the_old_one_intact() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    // The port of the first sign-in is taken, so the client registers again.
    let port = world.stored(&server)["client"]["redirectUri"]
        .as_str()
        .and_then(|uri| uri.parse::<url::Url>().ok()?.port())
        .unwrap();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let login = server.start_login().await.unwrap();
    assert_eq!(world.issuer.count("/register"), 2);
    login.cancel();
    world.advance(3600);
    assert_eq!(world.call(&world.server()).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn dropping_the_server_closes_the_callback() {
    let world = World::new();
    let server = world.server();
    let login = server.start_login().await.unwrap();
    drop(server);
    assert_eq!(
        login.wait().await.unwrap_err().kind(),
        AuthErrorKind::Cancelled
    );
    world.sign_in(&world.server()).await.unwrap();
}

type Change = fn(&mut OAuthOptions);
type Case = (&'static str, Change, Result<(), AuthErrorKind>);

/// Starts a sign-in at a server with each fault. None of them may reach the user or send a code.
async fn check_faults(cases: &[Case]) {
    for (name, change, expected) in cases {
        let world = World::new();
        world.issuer.configure(change);
        let server = world.server();
        let started = server.start_login().await;
        let kind = started
            .as_ref()
            .map(|_| ())
            .map_err(trunkline_auth::AuthError::kind);
        assert_eq!(kind, *expected, "{name}: {:?}", started.err());
        let reached = world.issuer.count("/authorize") + world.issuer.count("/token");
        assert_eq!(reached, 0, "{name}");
    }
}

#[tokio::test]
async fn faults_of_the_metadata_have_their_outcome() {
    use AuthErrorKind::{Metadata, Refused, Unavailable};
    let honest = |o: &mut OAuthOptions| o.issuer_claim = Some("https://honest.example".into());
    let evil = |o: &mut OAuthOptions| o.resource_claim = Some("https://evil.example/mcp".into());
    check_faults(&[
        ("5xx", |o| o.metadata_status = Some(503), Err(Unavailable)),
        ("429", |o| o.metadata_status = Some(429), Err(Unavailable)),
        // As in MCP 2025-03-26: without metadata, the default endpoints.
        ("none", |o| o.metadata_status = Some(404), Ok(())),
        (
            "a page",
            |o| o.metadata_body = Some("<html>".into()),
            Ok(()),
        ),
        ("only the issuer's", |o| o.legacy = true, Ok(())),
        (
            "wrong type",
            |o| o.content_type = "text/plain".into(),
            Ok(()),
        ),
        (
            "broken",
            |o| o.metadata_body = Some("{".into()),
            Err(Metadata),
        ),
        (
            "no issuer",
            |o| o.issuer_claim = Some(String::new()),
            Err(Metadata),
        ),
        ("mixed-up issuer", honest, Err(Refused)),
        ("another resource", evil, Err(Refused)),
        (
            "no PKCE",
            |o| o.set_metadata("code_challenge_methods_supported", json!(null)),
            Err(Metadata),
        ),
    ])
    .await;
}

#[tokio::test]
async fn urls_that_lead_elsewhere_are_refused() {
    use AuthErrorKind::{Metadata, Refused};
    check_faults(&[
        (
            "a script as endpoint",
            |o| o.set_metadata("authorization_endpoint", json!("javascript:alert(1)")),
            Err(Refused),
        ),
        (
            "a file as endpoint",
            |o| o.set_metadata("authorization_endpoint", json!("file:///etc/passwd")),
            Err(Refused),
        ),
        (
            "a cloud's metadata service as endpoint",
            |o| o.set_metadata("token_endpoint", json!("https://169.254.169.254/")),
            Err(Refused),
        ),
        (
            "plain http as endpoint",
            |o| o.set_metadata("token_endpoint", json!("http://as.example/")),
            Err(Refused),
        ),
        (
            "an issuer without https",
            |o| o.authorization_servers = Some(vec!["http://as.example".into()]),
            Err(Refused),
        ),
        (
            "a redirect to another origin",
            |o| o.redirect_metadata = Some("https://evil.example/".into()),
            Err(Refused),
        ),
        (
            "a redirect without end",
            |o| o.redirect_metadata = Some("/.well-known/oauth-authorization-server".into()),
            Err(Metadata),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_challenge_that_leads_elsewhere_is_refused() {
    for url in [
        "https://169.254.169.254/latest/meta-data",
        "http://intranet.example/",
        "file:///etc/passwd",
        "https://user:password@as.example/",
    ] {
        let world = World::new();
        let server = world.server();
        let header = format!("Bearer resource_metadata=\"{url}\"");
        server.set_challenge(trunkline_auth::Challenge::parse(&header).unwrap());
        let error = server.start_login().await.unwrap_err();
        assert_eq!(error.kind(), AuthErrorKind::Refused, "{url}: {error}");
        assert!(world.issuer.http().requests().is_empty());
    }
}

#[tokio::test]
async fn a_server_without_any_metadata_has_default_endpoints() {
    let world = World::new();
    world.issuer.configure(|options| {
        options.metadata_status = Some(404);
        options.sends_issuer = false;
    });
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
}

#[tokio::test]
async fn a_refusal_without_a_challenge_leads_to_the_well_known_urls() {
    let world = World::new();
    world.issuer.configure(|options| options.challenge = false);
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    let demand = server.sign_in_demand().unwrap();
    assert_eq!(
        (demand.reason, demand.challenge),
        (SignInReason::SignedOut, None)
    );
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
}

#[tokio::test]
async fn a_metadata_document_is_preferred_to_registration() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.client_metadata = true);
    let document = "https://trunkline.example/client.json";
    let auth = world
        .builder()
        .client_metadata_url(document.parse().unwrap())
        .build();
    let server = auth.server(world.config());
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.issuer.count("/register"), 0);
    assert_eq!(world.issuer.authorizations()[0]["client_id"], document);
    world.advance(3600);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}

#[tokio::test]
async fn a_registered_client_is_preferred_to_everything() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.client_metadata = true);
    world.issuer.add_client("mine", Some("s3cret:&"));
    let secret = Secret::new("s3cret:&");
    world
        .vault()
        .set_client_secret("test", world.url().as_str(), None, &secret)
        .unwrap();
    let oauth = OAuthEntry {
        client_id: Some("mine".into()),
        ..OAuthEntry::default()
    };
    let document = "https://trunkline.example/client.json".parse().unwrap();
    let auth = world.builder().client_metadata_url(document).build();
    let server = auth.server(world.config().oauth(oauth.clone()));
    world.sign_in(&server).await.unwrap();
    let authorization = &world.issuer.authorizations()[0];
    assert_eq!(authorization["client_id"], "mine");
    // As users register it.
    assert!(authorization["redirect_uri"].starts_with("http://localhost:"));
    let request = &world.issuer.requests("/token")[0];
    assert!(
        request
            .header("authorization")
            .unwrap()
            .starts_with("Basic ")
    );
    // The Python SDK requires the id beside the header.
    let form = &world.issuer.forms("/token")[0];
    assert_eq!(form["client_id"], "mine");
    assert!(!form.contains_key("client_secret"), "{form:?}");
    // A restarted process still has the secret for a refresh.
    world.advance(3600);
    let later = world.auth().server(world.config().oauth(oauth));
    assert_eq!(world.call(&later).await, Called::Ok);
    assert_eq!(world.issuer.refreshes(), 1);
}

/// Metadata from a URL in the settings speaks only for its own issuer, and a client secret belongs
/// to that URL.
#[tokio::test]
async fn metadata_that_claims_another_issuer_is_refused() {
    let world = World::new();
    let evil = OAuthServer::start();
    let real = world.issuer.issuer();
    evil.configure(|options| options.issuer_claim = Some(real));
    let metadata = format!("{}/.well-known/oauth-authorization-server", evil.issuer());
    let oauth = OAuthEntry {
        auth_server_metadata_url: Some(metadata.clone()),
        ..OAuthEntry::default()
    };
    let server = world.auth().server(world.config().oauth(oauth));
    let error = server.start_login().await.unwrap_err();
    assert_eq!(error.kind(), AuthErrorKind::Refused, "{error}");
    assert_eq!(evil.count("/register") + evil.count("/token"), 0);

    let (vault, url) = (world.vault(), world.url());
    let secret = Secret::new("s3cret");
    vault
        .set_client_secret("test", url.as_str(), None, &secret)
        .unwrap();
    let found = |metadata: Option<&str>| vault.client_secret("test", url.as_str(), metadata);
    assert_eq!(found(Some(&metadata)).unwrap(), None);
    assert_eq!(found(None).unwrap(), Some(secret));
}

#[tokio::test]
async fn a_registered_client_is_not_used_at_another_issuer() {
    let world = World::new();
    let other = OAuthServer::start();
    for issuer in [&world.issuer, &other] {
        issuer.add_client("mine", None);
    }
    let oauth = OAuthEntry {
        client_id: Some("mine".into()),
        ..OAuthEntry::default()
    };
    let server = world.auth().server(world.config().oauth(oauth));
    world.sign_in(&server).await.unwrap();
    world
        .issuer
        .configure(|o| o.authorization_servers = Some(vec![other.issuer()]));
    let error = server.start_login().await.unwrap_err();
    assert_eq!(error.kind(), AuthErrorKind::Settings);
    server.logout().await.unwrap();
    common::sign_in(&other, &server).await.unwrap();
}

#[tokio::test]
async fn missing_scopes_are_requested_with_all_others_even_after_a_restart() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    world
        .issuer
        .configure(|options| options.required_scopes = vec!["write".into()]);
    assert_eq!(world.call(&server).await, Called::Refused(403));
    let demand = server.sign_in_demand().unwrap();
    assert_eq!(
        demand.reason,
        SignInReason::MissingScopes(vec!["write".into()])
    );
    // A refresh would not help, and the token is still good for the rest.
    assert_eq!(world.issuer.count("/token"), 1);
    assert!(server.recent_demand().await.is_none());

    let restarted = world.server();
    let account = world.sign_in(&restarted).await.unwrap();
    assert_eq!(account.scopes, ["read", "write"]);
    assert_eq!(world.call(&restarted).await, Called::Ok);
    // The first process finds the new token when it is refused again.
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.count("/token"), 2);
}

#[tokio::test]
async fn a_403_for_another_reason_changes_nothing() {
    use trunkline_transport::http::{AfterRefusal, Credentials as _, Refusal};
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    for challenge in [None, Some("Bearer realm=\"x\""), Some("Basic realm=\"x\"")] {
        let refusal = Refusal {
            status: 403,
            challenge: challenge.map(str::to_owned),
            sent: server.token().await.unwrap(),
        };
        assert_eq!(server.refused(refusal).await, AfterRefusal::GiveUp);
    }
    assert_eq!(server.sign_in_demand(), None);
    assert_eq!(world.issuer.count("/token"), 1);
}

#[tokio::test]
async fn two_accounts_of_one_server_are_apart() {
    let world = World::new();
    let auth = world.auth();
    let home = auth.server(world.config());
    let work = auth.server(world.config().account("work"));
    world.sign_in(&home).await.unwrap();
    assert!(work.account().await.unwrap().is_none());
    world.sign_in(&work).await.unwrap();
    let names: Vec<_> = auth
        .accounts()
        .into_iter()
        .map(|account| account.account)
        .collect();
    assert_eq!(names, ["default", "work"]);
    home.logout().await.unwrap();
    assert_eq!(world.call(&work).await, Called::Ok);
}

#[tokio::test]
async fn a_sign_out_revokes_and_deletes() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    let access = world.stored(&server)["tokens"]["access"]
        .as_str()
        .unwrap()
        .to_owned();
    let logout = server.logout().await.unwrap();
    assert!(logout.was_signed_in);
    assert_eq!(logout.revocation, Revocation::Revoked);
    assert!(!world.issuer.accepts(&access));
    assert!(world.stored(&server).is_null());
    assert!(world.auth().accounts().is_empty());
    assert_eq!(world.call(&server).await, Called::Refused(401));
    let again = server.logout().await.unwrap();
    assert!(!again.was_signed_in);
    assert_eq!(again.revocation, Revocation::Nothing);
}

#[tokio::test]
async fn a_sign_out_deletes_even_if_the_issuer_is_gone() {
    let world = World::new();
    let server = world.server();
    world.sign_in(&server).await.unwrap();
    world.issuer.http().stop();
    let logout = server.logout().await.unwrap();
    assert!(
        matches!(logout.revocation, Revocation::Failed(_)),
        "{logout:?}"
    );
    assert!(world.stored(&server).is_null());
}

#[tokio::test]
async fn a_user_signs_in_on_another_device() {
    let world = World::new();
    world.issuer.configure(|options| options.polls = 1);
    let server = world.server();
    let login = server.start_device_login().await.unwrap();
    assert_eq!(login.user_code(), "ABCD-EFGH");
    assert!(login.verification_url().as_str().ends_with("/activate"));
    assert!(login.complete_url().unwrap().as_str().contains("ABCD-EFGH"));
    let account = login.wait().await.unwrap();
    assert_eq!(account.scopes, ["read"]);
    assert_eq!(world.issuer.count("/token"), 2);
    assert_eq!(world.call(&server).await, Called::Ok);
}

#[tokio::test]
async fn a_denied_device_says_so() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.deny = Some("access_denied".into()));
    let login = world.server().start_device_login().await.unwrap();
    assert!(login.wait().await.unwrap_err().is_denied());
}

fn machine(id: &str) -> OAuthEntry {
    OAuthEntry {
        client_id: Some(id.to_owned()),
        ..OAuthEntry::default()
    }
}

#[tokio::test]
async fn a_machine_signs_in_with_its_secret() {
    let world = World::new();
    world.issuer.add_client("robot", Some("s3cret"));
    let config = world
        .config()
        .oauth(machine("robot"))
        .client_secret(Secret::new("s3cret"))
        .grant(Grant::ClientCredentials { key: None });
    let server = world.auth().server(config.clone());
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.grants(), ["client_credentials"]);
    // The grant is repeated in place of a refresh.
    world.advance(3600);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.count("/token"), 2);
    // More scopes need no user either.
    world
        .issuer
        .configure(|options| options.required_scopes = vec!["write".into()]);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(world.issuer.forms("/token")[2]["scope"], "read write");
    let error = server.start_login().await.unwrap_err();
    assert_eq!(error.kind(), AuthErrorKind::Settings);

    world.issuer.forget_clients();
    world.issuer.expire_access_tokens();
    world.advance(60);
    assert_eq!(world.call(&server).await, Called::Refused(401));
    assert_eq!(server.sign_in_demand().unwrap().reason, SignInReason::Ended);
}

#[tokio::test]
async fn a_machine_signs_in_with_its_key_even_if_its_clock_is_wrong() {
    use base64::Engine as _;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    let random = ring::rand::SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
    let encoded = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{encoded}\n-----END PRIVATE KEY-----");
    let key = Arc::new(SigningKey::from_pem(&Secret::new(pem)).unwrap());
    for (hours, requests) in [(0, 1), (1, 2), (-1, 2)] {
        let world = World::new();
        world
            .issuer
            .add_client_with_key("robot", pair.public_key().as_ref());
        let config = world
            .config()
            .oauth(machine("robot"))
            .grant(Grant::ClientCredentials {
                key: Some(Arc::clone(&key)),
            });
        world.advance(hours * 3600);
        let server = world.auth().server(config);
        assert_eq!(world.call(&server).await, Called::Ok, "{hours}");
        assert_eq!(world.issuer.count("/token"), requests, "{hours}");
    }
}

#[tokio::test]
async fn an_enterprise_sign_in_serves_servers_silently() {
    let world = World::new();
    let idp_server = OAuthServer::start();
    idp_server.add_client("desk", Some("idp-secret"));
    world.issuer.add_client("robot", Some("s3cret"));
    let auth = world.auth();
    let idp = IdpConfig::new(&idp_server.issuer(), "desk")
        .unwrap()
        .client_secret(Secret::new("idp-secret"));
    let idp = auth.idp(idp);
    let config = world
        .config()
        .oauth(OAuthEntry {
            xaa: true,
            ..machine("robot")
        })
        .client_secret(Secret::new("s3cret"))
        .grant(Grant::Enterprise(Arc::clone(&idp)));
    let server = auth.server(config);
    assert_eq!(world.call(&server).await, Called::Refused(401));
    let demand = server.sign_in_demand().unwrap();
    assert!(demand.message.contains("xaa login"), "{}", demand.message);

    common::sign_in(&idp_server, &idp).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
    let exchange = &idp_server.forms("/token")[1];
    assert_eq!(exchange["audience"], world.issuer.issuer());
    assert_eq!(exchange["resource"], world.issuer.resource());
    assert!(exchange["requested_token_type"].ends_with(":id-jag"));
    assert_eq!(world.issuer.count("/authorize"), 0);
    // Renewal is silent too.
    world.issuer.expire_access_tokens();
    world.advance(60);
    assert_eq!(world.call(&server).await, Called::Ok);
    assert_eq!(idp_server.count("/authorize"), 1);
}

/// OpenID Connect allows a refresh without an ID token.
#[tokio::test]
async fn a_refresh_at_an_identity_provider_keeps_the_rotated_token_in_any_case() {
    let world = World::new();
    let idp_server = OAuthServer::start();
    idp_server.add_client("desk", None);
    world.issuer.add_client("robot", Some("s3cret"));
    let auth = world.auth();
    let idp = auth.idp(IdpConfig::new(&idp_server.issuer(), "desk").unwrap());
    let config = world
        .config()
        .oauth(OAuthEntry {
            xaa: true,
            ..machine("robot")
        })
        .client_secret(Secret::new("s3cret"))
        .grant(Grant::Enterprise(Arc::clone(&idp)));
    let server = auth.server(config);
    common::sign_in(&idp_server, &idp).await.unwrap();
    let before = world.stored(&idp)["tokens"].clone();
    world.advance(30 * 24 * 3600);
    assert!(!matches!(world.call(&server).await, Called::Ok));
    let after = world.stored(&idp)["tokens"].clone();
    assert!(after["refresh"].is_string());
    assert_ne!(after["refresh"], before["refresh"]);
    assert_eq!(after["id"], before["id"]);
}

/// An unsigned JWT.
fn jwt(claims: &serde_json::Value) -> Secret {
    use base64::Engine as _;
    let encode = |value: &serde_json::Value| {
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
    };
    Secret::new(format!("{}.{}.", encode(&json!({})), encode(claims)))
}

#[tokio::test]
async fn a_program_that_signs_users_in_supplies_the_id_token() {
    let idp_server = OAuthServer::start();
    idp_server.add_client("desk", None);
    let issuer = idp_server.issuer();
    let cases = [
        (json!({"iss": issuer, "aud": "desk", "exp": u32::MAX}), true),
        (
            json!({"iss": issuer, "aud": "other", "exp": u32::MAX}),
            false,
        ),
        (
            json!({"iss": "https://evil.example", "aud": "desk", "exp": u32::MAX}),
            false,
        ),
        (json!({"iss": issuer, "aud": "desk", "exp": 1}), false),
    ];
    for (claims, accepted) in cases {
        let world = World::new();
        world.issuer.add_client("robot", Some("s3cret"));
        let auth = world.auth();
        let (id_token, expected) = (jwt(&claims), issuer.clone());
        let idp = IdpConfig::new(&issuer, "desk")
            .unwrap()
            .id_tokens(move |issuer: &str| {
                assert_eq!(issuer, expected);
                Ok(id_token.clone())
            });
        let idp = auth.idp(idp);
        let config = world
            .config()
            .oauth(machine("robot"))
            .client_secret(Secret::new("s3cret"))
            .grant(Grant::Enterprise(Arc::clone(&idp)));
        let exchanges = idp_server.count("/token");
        let called = world.call(&auth.server(config)).await;
        assert_eq!(called == Called::Ok, accepted, "{claims}: {called:?}");
        // An unsuitable token goes nowhere.
        assert_eq!(
            idp_server.count("/token") - exchanges,
            usize::from(accepted)
        );
        let error = idp.start_login().await.unwrap_err();
        assert_eq!(error.kind(), AuthErrorKind::Settings);
    }
    assert_eq!(idp_server.count("/authorize"), 0);
}

#[tokio::test]
async fn an_issuer_for_programs_signs_no_user_in() {
    let world = World::new();
    world.issuer.configure(|options| {
        options.set_metadata("grant_types_supported", json!(["client_credentials"]));
    });
    let error = world.server().start_login().await.unwrap_err();
    assert_eq!(error.kind(), AuthErrorKind::UnsupportedGrant);
    assert_eq!(world.issuer.count("/register"), 0);
}

#[tokio::test]
async fn a_workload_signs_in_with_its_assertion() {
    use base64::Engine as _;
    struct Platform(String);
    impl trunkline_auth::AssertionSource for Platform {
        fn assertion(&self, issuer: &str) -> Result<Secret, String> {
            assert_eq!(issuer, self.0);
            let encode = |value: serde_json::Value| {
                base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
            };
            let claims = encode(json!({"aud": issuer}));
            Ok(Secret::new(format!("{}.{claims}.", encode(json!({})))))
        }
    }
    let world = World::new();
    world.issuer.add_client("robot", None);
    let platform = Arc::new(Platform(world.issuer.issuer()));
    let config = world
        .config()
        .oauth(machine("robot"))
        .grant(Grant::Workload(platform));
    assert_eq!(world.call(&world.auth().server(config)).await, Called::Ok);
}

#[tokio::test]
async fn a_rejected_workload_asks_once() {
    struct Platform;
    impl trunkline_auth::AssertionSource for Platform {
        fn assertion(&self, _: &str) -> Result<Secret, String> {
            Ok(Secret::new("nonsense"))
        }
    }
    let world = World::new();
    world.issuer.add_client("robot", None);
    let config = world
        .config()
        .oauth(machine("robot"))
        .grant(Grant::Workload(Arc::new(Platform)));
    let server = world.auth().server(config);
    assert_eq!(world.call(&server).await, Called::Refused(401));
    assert_eq!(world.issuer.count("/token"), 1);
}

#[tokio::test]
async fn a_token_of_claude_code_is_used_but_never_refreshed() {
    let world = World::new();
    // Somebody else signs in at the same server.
    let elsewhere = World::new();
    let other = trunkline_auth::ServerConfig::new("test", world.url());
    let theirs = elsewhere.auth().server(other);
    world.sign_in(&theirs).await.unwrap();
    let tokens = elsewhere.stored(&theirs)["tokens"].clone();
    let file = world.folder.path().join(".credentials.json");
    let write = |access: &str, expires: u64| {
        let entry = json!({
            "serverName": "test", "serverUrl": world.url().as_str(), "accessToken": access,
            "refreshToken": tokens["refresh"], "expiresAt": expires * 1000,
        });
        std::fs::write(&file, json!({"mcpOAuth": {"test|1": entry}}).to_string()).unwrap();
    };
    let expires = tokens["expiresAt"].as_u64().unwrap();
    write(tokens["access"].as_str().unwrap(), expires);
    let before = std::fs::read(&file).unwrap();
    let server = world
        .builder()
        .claude_code_credentials(&file)
        .build()
        .server(world.config());
    assert_eq!(world.call(&server).await, Called::Ok);
    // It belongs to no other account.
    let auth = world.builder().claude_code_credentials(&file).build();
    let work = auth.server(world.config().account("work"));
    assert_eq!(world.call(&work).await, Called::Refused(401));

    world.issuer.expire_access_tokens();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    assert!(server.sign_in_demand().is_some());
    assert_eq!(world.issuer.count("/token"), 1);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(world.stored(&server).is_null());

    write(tokens["access"].as_str().unwrap(), expires);
    let robot = auth.server(
        world
            .config()
            .oauth(machine("robot"))
            .grant(Grant::ClientCredentials { key: None }),
    );
    assert!(!matches!(world.call(&robot).await, Called::Ok));
    assert!(!robot.uses_foreign_token());
}

#[tokio::test]
async fn after_a_logout_the_token_of_claude_code_is_not_used() {
    let world = World::new();
    let elsewhere = World::new();
    let theirs = elsewhere
        .auth()
        .server(trunkline_auth::ServerConfig::new("test", world.url()));
    world.sign_in(&theirs).await.unwrap();
    let tokens = elsewhere.stored(&theirs)["tokens"].clone();
    let file = world.folder.path().join(".credentials.json");
    let entry = json!({
        "serverName": "test", "serverUrl": world.url().as_str(), "accessToken": tokens["access"],
    });
    std::fs::write(&file, json!({"mcpOAuth": {"test|1": entry}}).to_string()).unwrap();
    let server = || {
        let auth = world.builder().claude_code_credentials(&file).build();
        auth.server(world.config())
    };
    let used = server();
    assert_eq!(world.call(&used).await, Called::Ok);
    assert!(used.logout().await.unwrap().was_signed_in);
    assert_eq!(world.call(&used).await, Called::Refused(401));
    // In no process.
    assert_eq!(world.call(&server()).await, Called::Refused(401));
    assert!(!server().logout().await.unwrap().was_signed_in);
}

#[tokio::test]
async fn no_secret_is_printed() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.client_secret_expires_at = Some(0));
    let server = world.server();
    let login = server.start_login().await.unwrap();
    let redirect = world.issuer.authorize(login.url().as_str());
    let account = login.finish(&redirect).await.unwrap();
    let stored = world.stored(&server);
    world.issuer.configure(|options| {
        options.token_response = Some((200, stored["tokens"].to_string()));
    });
    world.advance(7200);
    let failed = world.call(&server).await;
    let printed = format!(
        "{server:?} {login:?} {account:?} {failed:?} {:?}",
        server.sign_in_demand()
    );
    let files = ["accounts.json", "needs-auth.json"].map(|name| {
        std::fs::read_to_string(world.folder.path().join("auth").join(name)).unwrap_or_default()
    });
    let secrets = [
        &stored["tokens"]["access"],
        &stored["tokens"]["refresh"],
        &stored["client"]["secret"],
    ];
    for secret in secrets {
        let secret = secret.as_str().unwrap();
        assert!(!printed.contains(secret), "{printed}");
        assert!(!files.iter().any(|file| file.contains(secret)), "{files:?}");
    }
}

/// An authorization server may quote a request in its error.
#[tokio::test]
async fn a_secret_that_the_issuer_repeats_is_not_shown() {
    let world = World::new();
    let server = world.server();
    world.issuer.configure(|options| options.echo_errors = true);
    let login = server.start_login().await.unwrap();
    let redirect = world.issuer.authorize(login.url().as_str());
    let denied = login.finish(&redirect).await.unwrap_err();
    let form = world.issuer.forms("/token").remove(0);
    assert!(denied.to_string().contains("code=***"), "{denied}");
    for name in ["code", "code_verifier"] {
        assert!(!format!("{denied:?}").contains(&form[name]), "{denied}");
    }

    world
        .issuer
        .configure(|options| options.echo_errors = false);
    world.sign_in(&server).await.unwrap();
    world.issuer.configure(|options| options.echo_errors = true);
    world.advance(7200);
    let Called::Failed(failed) = world.call(&server).await else {
        panic!("it was refreshed");
    };
    let form = world.issuer.forms("/token").pop().unwrap();
    assert!(failed.contains("refresh_token=***"), "{failed}");
    assert!(!failed.contains(&form["refresh_token"]), "{failed}");

    let logout = server.logout().await.unwrap();
    let form = world.issuer.forms("/revoke").remove(0);
    let shown = format!("{logout:?}");
    assert!(shown.contains("token=***"), "{shown}");
    assert!(!shown.contains(&form["token"]), "{shown}");
}
