//! However a host ends, nothing of its servers is left (LIF-12).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline::call::CallErrorKind;
use trunkline::{CallOptions, Host};
use trunkline_testkit::processes;

use crate::lab::{Lab, SOON, call, in_time};

/// Servers that resist termination, with the script that makes them.
fn stubborn() -> Vec<(&'static str, Value)> {
    let grandchild = |settings: Value| json!({"tools": [{"name": "t"}], "onStart": [{"spawnGrandchild": settings}]});
    vec![
        ("well-behaved", json!({"tools": [{"name": "t"}]})),
        ("ignores the end of stdin", json!({"onEof": "ignore"})),
        (
            "ignores signals",
            json!({"onEof": "ignore", "onStart": [{"ignoreSignals": ["INT", "TERM", "HUP"]}]}),
        ),
        ("leaves a grandchild", grandchild(json!({}))),
        (
            "leaves a stubborn grandchild",
            grandchild(json!({"ignoreTerm": true})),
        ),
        (
            "leaves a grandchild with its stdout",
            grandchild(json!({"ignoreTerm": true, "holdStdout": true})),
        ),
        (
            "has stopped reading",
            json!({"onEof": "ignore", "prompts": [{"name": "p"}],
            "on": {"prompts/list": [{"stopReading": true}, {"default": true}]}}),
        ),
        (
            "writes without end",
            json!({"tools": [{"name": "t"}],
            "on": {"notifications/initialized": [{"stderrFlood": 50_000_000}]}, "era": "legacy"}),
        ),
        (
            "never connects",
            json!({"on": {"server/discover": [{"silence": true}], "initialize": [{"silence": true}]}}),
        ),
    ]
}

/// Starts one of each and waits for those that connect.
async fn start_all(lab: &Lab) -> Host {
    let servers = stubborn()
        .into_iter()
        .map(|(name, script)| lab.server(name, script));
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .servers(servers)
        .start();
    for (name, _) in stubborn() {
        if name == "never connects" {
            lab.file(&format!("{name}.pid")).await;
        } else {
            crate::lab::until_connected(&host, name).await;
        }
    }
    host
}

#[tokio::test]
async fn shutdown_leaves_no_process() {
    let lab = Lab::new();
    let host = start_all(&lab).await;
    assert!(lab.scratch.marker().processes().len() >= stubborn().len() + 3);
    let started = Instant::now();
    in_time("shutdown", host.shutdown()).await;
    // All at once, within one server's grace periods.
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );
    for (name, _) in stubborn() {
        assert!(!processes::alive(lab.pid(name)), "{name}");
    }
    lab.scratch.assert_no_processes(Duration::from_secs(1));
    assert!(host.servers().is_empty() && host.pool().tools().is_empty());
}

#[tokio::test]
async fn dropping_the_host_leaves_no_process() {
    let lab = Lab::new();
    drop(start_all(&lab).await);
    lab.nothing_left().await;
}

#[test]
fn dropping_the_runtime_leaves_no_process() {
    for threads in [false, true] {
        let lab = Lab::new();
        let mut builder = if threads {
            tokio::runtime::Builder::new_multi_thread()
        } else {
            tokio::runtime::Builder::new_current_thread()
        };
        let runtime = builder.enable_all().build().unwrap();
        let host = runtime.block_on(start_all(&lab));
        drop(runtime);
        lab.scratch.assert_no_processes(SOON);
        drop(host);
    }
}

#[tokio::test]
async fn grandchild_of_a_crashed_server_is_killed() {
    let lab = Lab::new();
    let script = json!({"tools": [{"name": "t"}],
        "onStart": [{"spawnGrandchild": {"ignoreTerm": true, "holdStdout": true, "pidFile": lab.at("grandchild")}}]});
    let host = lab.host([lab.server("s", script)]).await;
    let grandchild: u32 = lab.scratch.read("grandchild").parse().unwrap();
    lab.kill("s");
    crate::lab::until_attempt(&host, "s", 1).await;
    crate::lab::eventually("the grandchild to be gone", || {
        !processes::alive(grandchild)
    })
    .await;
    lab.end(host).await;
}

#[tokio::test]
async fn shutdown_ends_calls_in_flight() {
    let lab = Lab::new();
    let script = json!({"tools": [{"name": "wait", "do": [{"touch": lab.at("called")}, {"silence": true}]}]});
    let host = lab.host([lab.server("s", script)]).await;
    let calling = host.clone();
    let waiting = tokio::spawn(async move {
        calling
            .call("mcp__s__wait", json!({}), CallOptions::new())
            .await
    });
    lab.file("called").await;
    in_time("shutdown", host.shutdown()).await;
    let error = in_time("the call", waiting).await.unwrap().unwrap_err();
    assert!(
        error.kind() == CallErrorKind::ConnectionLost && error.may_have_run(),
        "{error}"
    );
    let error = call(&host, "mcp__s__wait", json!({})).await.unwrap_err();
    assert!(error.is_usage() || error.is_connection(), "{error}");
    lab.end(host).await;
}

#[tokio::test]
async fn concurrent_and_repeated_shutdown_completes() {
    let lab = Lab::new();
    let host = lab
        .host([lab.server("s", json!({"onEof": "ignore"}))])
        .await;
    let other = host.clone();
    in_time("both", async {
        tokio::join!(host.shutdown(), other.shutdown())
    })
    .await;
    lab.end(host).await;
}
