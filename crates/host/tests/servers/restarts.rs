//! Servers that are lost and reconnect, or do not (LIF-10, CALL-1).

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use trunkline::server::State;
use trunkline::{CallOptions, Host};
use trunkline_testkit::{Script, processes};

use crate::lab::{
    LONGEST_PAUSE, Lab, call, in_time, pass, until, until_attempt, until_connected, until_failed,
};

fn echo() -> Script {
    Script::default().tool_with(json!({"name": "t"}))
}

#[tokio::test]
async fn call_waits_while_a_killed_server_restarts() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("s", echo().on_start(json!([{"stderr": "hello"}])))])
        .await;
    let killed = lab.pid("s");
    lab.kill("s");
    let failure = until_attempt(&host, "s", 1).await;
    assert_eq!(
        failure.to_string(),
        "the server's process was killed by SIGKILL"
    );
    assert_eq!(failure.stderr, ["hello"]);
    assert!(host.pool().get("mcp__s__t").is_some());

    assert_eq!(
        call(&host, "mcp__s__t", json!({"n": 1})).await.unwrap(),
        r#"{"n":1}"#
    );
    assert_eq!(lab.starts("s"), 2);
    assert!(!processes::alive(killed));
    lab.end(host).await;
}

#[tokio::test]
async fn call_waits_for_a_restart_until_its_deadline() {
    let lab = Lab::new();
    let host = lab.host([lab.breakable("s", echo())]).await;
    lab.scratch.write("s.broken", "");
    lab.kill("s");
    until_attempt(&host, "s", 1).await;
    let options = CallOptions::new().timeout(Duration::from_millis(100));
    let error = in_time("the call", host.call("mcp__s__t", json!({}), options))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server \"s\" is not connected: the server's process was killed by SIGKILL \
         (attempt 1 to reconnect is under way)"
    );
    assert!(!error.may_have_run());
    lab.end(host).await;
}

#[tokio::test]
async fn five_failed_attempts_end_reconnection() {
    let lab = Lab::new();
    let host = lab.host([lab.breakable("s", echo())]).await;
    lab.scratch.write("s.broken", "");
    lab.kill("s");
    for attempt in 1..=5 {
        let failure = until_attempt(&host, "s", attempt).await;
        let expected = if attempt == 1 {
            "the server's process was killed by SIGKILL"
        } else {
            "the server's process exited with status 7 before it was connected"
        };
        assert_eq!(failure.to_string(), expected);
        pass(LONGEST_PAUSE).await;
    }
    let failure = until_failed(&host, "s").await;
    assert_eq!(failure.stderr, ["it is broken"]);
    assert_eq!(lab.starts("s"), 1);
    lab.scratch.assert_no_processes(Duration::from_secs(2));
    lab.end(host).await;
}

/// A server that exits with status 9 when asked for its lists.
fn short_lived(lab: &Lab) -> Script {
    echo()
        .resource("file:///x", "x")
        .on(
            "resources/list",
            json!([{"waitForFile": lab.at("listed")}, {"sleepMs": 20}, {"exit": 9}]),
        )
        .on(
            "tools/list",
            json!([{"touch": lab.at("listed")}, {"default": true}]),
        )
}

#[tokio::test]
async fn server_that_crashes_after_each_connection_is_given_up() {
    let lab = Lab::new();
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", short_lived(&lab)))
        .start();
    for attempt in 1..=5 {
        let failure = until_attempt(&host, "s", attempt).await;
        assert_eq!(
            failure.to_string(),
            "the server's process exited with status 9"
        );
        pass(LONGEST_PAUSE).await;
    }
    until_failed(&host, "s").await;
    assert_eq!(lab.starts("s"), 6);
    lab.end(host).await;
}

#[tokio::test]
async fn ready_does_not_wait_for_restarts() {
    let lab = Lab::new();
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .server(lab.server("s", short_lived(&lab)))
        .start();
    until_attempt(&host, "s", 1).await;
    // The attempts would continue for half a minute.
    in_time("the host to be ready", host.ready()).await;
    lab.end(host).await;
}

#[tokio::test]
async fn stable_connection_resets_the_attempt_count() {
    let lab = Lab::new();
    let host = lab.host([lab.server("s", echo())]).await;
    for round in 1..=7 {
        pass(Duration::from_secs(61)).await;
        lab.kill("s");
        until_attempt(&host, "s", 1).await;
        pass(LONGEST_PAUSE).await;
        until_connected(&host, "s").await;
        assert_eq!(lab.starts("s"), round + 1);
    }
    lab.end(host).await;
}

#[tokio::test]
async fn call_to_a_failed_server_retries_once() {
    let lab = Lab::new();
    let host = lab.host([lab.breakable("s", echo())]).await;
    lab.scratch.write("s.broken", "");
    host.reconnect("s").await.unwrap();
    until_failed(&host, "s").await;
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert!(
        error.to_string().contains("exited with status 7"),
        "{error}"
    );
    assert_eq!(error.stderr(), ["it is broken"]);

    std::fs::remove_file(lab.at("s.broken")).unwrap();
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    lab.end(host).await;
}

#[tokio::test]
async fn concurrent_calls_to_a_failed_server_start_it_once() {
    let lab = Lab::new();
    let host = lab.host([lab.breakable("s", echo())]).await;
    lab.scratch.write("s.broken", "");
    host.reconnect("s").await.unwrap();
    until_failed(&host, "s").await;
    std::fs::remove_file(lab.at("s.broken")).unwrap();
    let before = lab.starts("s");
    let calls = (0..50).map(|n| call(&host, "mcp__s__t", json!({"n": n})));
    for (n, outcome) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(outcome.unwrap(), json!({"n": n}).to_string());
    }
    assert_eq!(lab.starts("s") - before, 1);
    until(&host, "s", "connected", |state| {
        matches!(state, State::Connected(_)).then_some(())
    })
    .await;
    lab.end(host).await;
}
