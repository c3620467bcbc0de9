//! Refresh across processes: exactly one request, and no login lost when a process dies.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failure here is a failed test"
)]

mod common;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Called, World};
use trunkline_auth::SignInReason;
use trunkline_testkit::wait_until;

const LIMIT: Duration = Duration::from_mins(1);
const PROCESSES: usize = 12;
const REQUESTS: usize = 20;

/// The program `examples/token_client.rs`, which Cargo builds with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    profile.join("examples").join("token_client")
}

fn start(world: &World, requests: usize) -> Child {
    Command::new(program())
        .arg(world.folder.path())
        .arg(world.issuer.resource())
        .arg(requests.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The stored refresh token must be the newest one: unused and known to the issuer.
fn assert_stored_token_is_newest(world: &World) {
    let stored = world.stored(&world.server());
    let refresh = stored["tokens"]["refresh"].as_str().unwrap();
    assert!(world.issuer.is_unused(refresh), "{refresh}");
    assert!(
        world
            .issuer
            .accepts(stored["tokens"]["access"].as_str().unwrap())
    );
}

#[tokio::test]
async fn many_processes_with_an_expired_token_refresh_once() {
    let world = World::new();
    world.expired().await;
    let children: Vec<_> = (0..PROCESSES).map(|_| start(&world, REQUESTS)).collect();
    for child in children {
        assert_eq!(lines(child), vec!["ok"; REQUESTS]);
    }
    assert_eq!(world.issuer.refreshes(), 1);
    assert_eq!(world.issuer.count("/token"), 2);
    assert_stored_token_is_newest(&world);
}

#[tokio::test]
async fn many_processes_with_a_revoked_token_refresh_once() {
    let world = World::new();
    let server = world.server();
    // Signed in a minute ago, so the token is not new, but valid by its date.
    world.advance(-60);
    world.sign_in(&server).await.unwrap();
    world.advance(60);
    world.issuer.expire_access_tokens();
    let children: Vec<_> = (0..PROCESSES).map(|_| start(&world, REQUESTS)).collect();
    for child in children {
        assert_eq!(lines(child), vec!["ok"; REQUESTS]);
    }
    assert_eq!(world.issuer.refreshes(), 1);
    assert_stored_token_is_newest(&world);
}

/// Kills a process after the issuer has rotated the token and before the response arrives.
fn kill_mid_refresh(world: &World) {
    let before = world.issuer.refreshes();
    world
        .issuer
        .configure(|options| options.hold_token_responses = true);
    let mut child = start(world, 1);
    wait_until(LIMIT, || world.issuer.refreshes() > before);
    child.kill().unwrap();
    child.wait().unwrap();
    world
        .issuer
        .configure(|options| options.hold_token_responses = false);
}

#[tokio::test]
async fn a_process_killed_in_a_refresh_loses_no_login_within_the_grace_period() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.grace = Some(LIMIT));
    world.expired().await;
    kill_mid_refresh(&world);
    let children: Vec<_> = (0..4).map(|_| start(&world, 5)).collect();
    for child in children {
        assert_eq!(lines(child), vec!["ok"; 5]);
    }
    // The lost one, and one for all processes.
    assert_eq!(world.issuer.refreshes(), 2);
    assert_stored_token_is_newest(&world);
}

#[tokio::test]
async fn a_process_killed_in_a_refresh_without_a_grace_period_ends_in_a_demand() {
    let world = World::new();
    world.expired().await;
    kill_mid_refresh(&world);
    let children: Vec<_> = (0..4).map(|_| start(&world, 5)).collect();
    for child in children {
        assert_eq!(lines(child), vec!["refused: 401"; 5]);
    }
    // The sign-in, the lost refresh, and one that learned of the loss.
    assert_eq!(world.issuer.count("/token"), 3);
    let server = world.server();
    assert_eq!(world.call(&server).await, Called::Refused(401));
    assert_eq!(
        server.sign_in_demand().unwrap().reason,
        SignInReason::SignedOut
    );
    world.sign_in(&server).await.unwrap();
    assert_eq!(world.call(&server).await, Called::Ok);
}

#[tokio::test]
async fn processes_that_die_at_random_lose_no_login() {
    let world = World::new();
    world
        .issuer
        .configure(|options| options.grace = Some(LIMIT));
    world.expired().await;
    for round in 0..10 {
        // Expire the stored token for everybody, and let processes race for a refresh.
        make_stored_token_expire(&world);
        let requests = world.issuer.count("/token");
        let mut children: Vec<_> = (0..4).map(|_| start(&world, 3)).collect();
        let mut victim = children.swap_remove(round % 4);
        if round % 2 == 0 {
            wait_until(LIMIT, || world.issuer.count("/token") > requests);
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        for child in children {
            assert_eq!(lines(child), vec!["ok"; 3], "round {round}");
        }
        assert_stored_token_is_newest(&world);
    }
}

/// Moves the times of the stored token into the past.
fn make_stored_token_expire(world: &World) {
    let server = world.server();
    let mut stored = world.stored(&server);
    for name in ["obtainedAt", "expiresAt"] {
        let time = stored["tokens"][name].as_u64().unwrap();
        stored["tokens"][name] = (time - 4000).into();
    }
    let text = trunkline_auth::Secret::new(stored.to_string());
    let key = server.identity().key().to_owned();
    world.vault().set("trunkline OAuth", &key, &text).unwrap();
    world.issuer.expire_access_tokens();
}
