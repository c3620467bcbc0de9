//! No process is left, however a server ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline_testkit::{Marker, Scratch, processes_in_group};
use trunkline_transport::StdioServer;
use trunkline_transport::stdio::{INTERRUPT_GRACE, STDIN_GRACE, TERMINATE_GRACE};
use trunkline_wire::RequestError;
use trunkline_wire::transport::CloseReason;

use crate::support::{Child, LIMIT, Leftovers, exited, shell, soon, until, within};

/// Servers that are more or less hard to end. Each writes `up` to stderr when it is ready.
fn hard_cases() -> Vec<(&'static str, Value)> {
    let up = json!({"stderr": "up"});
    let deaf = json!({"ignoreSignals": ["INT", "TERM", "HUP"]});
    let held = json!({"spawnGrandchild": {"ignoreTerm": true, "holdStdout": true}});
    vec![
        ("normal", json!({"onStart": [up]})),
        (
            "ignores the end of stdin",
            json!({"onStart": [up], "onEof": "ignore"}),
        ),
        (
            "ignores everything but SIGKILL",
            json!({"onStart": [deaf, up], "onEof": "ignore"}),
        ),
        (
            "has a grandchild that holds stdout",
            json!({"onStart": [held, up]}),
        ),
        (
            "has such a grandchild and ignores everything",
            json!({"onStart": [deaf, held, up], "onEof": "ignore"}),
        ),
        (
            "does not read",
            json!({"onStart": [{"stopReading": true}, deaf, up]}),
        ),
    ]
}

async fn up(child: &Child) {
    until(|| child.stderr.last_lines(1) == ["up"]).await;
}

/// Sends more than the pipe holds.
async fn fill(child: &Child) {
    for _ in 0..30 {
        let params = json!("x".repeat(100_000));
        child.peer.notify("n", Some(params.into())).await.unwrap();
    }
}

#[tokio::test]
async fn closing_leaves_no_process() {
    for (what, script) in hard_cases() {
        let child = Child::scripted(&script);
        up(&child).await;
        if what == "does not read" {
            fill(&child).await;
        }
        child.close().await;
    }
}

#[tokio::test]
async fn a_server_that_exits_by_itself_is_closed_without_waiting() {
    let child = Child::scripted(&json!({"onStart": [{"stderr": "up"}]}));
    up(&child).await;
    child.close().await;
    let reason = child.closed().await;
    assert_eq!(*reason.reason(), CloseReason::ByUs);
}

#[tokio::test]
async fn dropping_the_peer_leaves_no_process() {
    for (what, script) in hard_cases() {
        let child = Child::scripted(&script);
        up(&child).await;
        if what == "does not read" {
            fill(&child).await;
        }
        let Child {
            peer, leftovers, ..
        } = child;
        drop(peer);
        until(|| leftovers.0.processes().is_empty()).await;
    }
}

#[test]
fn dropping_the_runtime_leaves_no_process() {
    for (what, script) in hard_cases() {
        for threads in [0, 2] {
            let runtime = if threads == 0 {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
            } else {
                tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(threads)
                    .enable_all()
                    .build()
            };
            let runtime = runtime.unwrap();
            let child = runtime.block_on(async {
                let child = Child::scripted(&script);
                up(&child).await;
                child
            });
            assert!(!child.leftovers.0.processes().is_empty(), "{what}");
            drop(runtime);
            child.leftovers.0.assert_gone(LIMIT);
        }
    }
}

#[test]
fn dropping_the_runtime_immediately_leaves_no_process() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let marker = Marker::new();
    let mut server = shell("trap '' INT TERM HUP; sleep 60 & sleep 60");
    let (variable, value) = marker.env();
    server.env.insert(variable.to_owned(), value.to_owned());
    let leftovers = Leftovers(marker);
    let transport = runtime.block_on(async { server.spawn().unwrap() });
    drop(transport);
    drop(runtime);
    leftovers.0.assert_gone(LIMIT);
}

#[tokio::test]
async fn calls_to_a_server_that_stopped_reading_time_out() {
    let script = json!({"onStart": [{"stopReading": true}, {"stderr": "up"}]});
    let child = Child::scripted(&script);
    up(&child).await;
    let limit = Duration::from_secs(1);
    let start = Instant::now();
    let calls: Vec<_> = (0..1000)
        .map(|number| {
            let arguments = json!({"n": number, "more": "x".repeat(2000)});
            child.call(arguments, within(limit))
        })
        .collect();
    let mut unsent = 0;
    for call in calls {
        match soon(call).await.unwrap() {
            Err(RequestError::Timeout { sent, .. }) => unsent += usize::from(!sent),
            other => panic!("{other:?}"),
        }
    }
    let took = start.elapsed();
    assert!(took < limit + Duration::from_secs(5), "{took:?}");
    assert!(unsent > 0, "two megabytes do not fit into a pipe");
    child.close().await;
}

/// A wrapper that exits on SIGINT, in front of a server that ignores SIGINT and the end of stdin,
/// and exits cleanly on SIGTERM after a moment, creating the file `clean`.
const WRAPPED: &str = "sh -c 'trap \"sleep 0.1; touch clean; exit\" TERM; echo up >&2;
        while :; do sleep 0.01; done' </dev/null &
    trap - INT; exec sleep 60";

#[tokio::test]
async fn a_server_behind_a_wrapper_has_time_to_exit_cleanly() {
    let scratch = Scratch::new();
    let child = Child::start(StdioServer {
        cwd: Some(scratch.path().to_owned()),
        ..shell(WRAPPED)
    });
    up(&child).await;
    soon(child.peer.close()).await;
    // Immediately: the program may exit now.
    assert_eq!(processes_in_group(child.pid), [0; 0]);
    assert!(scratch.join("clean").exists());
    child.assert_gone().await;
}

#[tokio::test]
async fn a_wrapped_server_that_ignores_signals_is_killed() {
    let child = Child::start(shell(
        "sh -c 'trap \"\" INT TERM HUP; echo up >&2; while :; do sleep 0.01; done' &
        trap - INT; exec sleep 60",
    ));
    up(&child).await;
    let start = Instant::now();
    soon(child.peer.close()).await;
    assert!(start.elapsed() >= STDIN_GRACE + INTERRUPT_GRACE + TERMINATE_GRACE);
    assert_eq!(processes_in_group(child.pid), [0; 0]);
    child.assert_gone().await;
}

#[tokio::test]
async fn a_server_may_clean_up_after_its_wrapper_has_exited() {
    let scratch = Scratch::new();
    let child = Child::start(StdioServer {
        cwd: Some(scratch.path().to_owned()),
        ..shell(
            "sh -c 'trap \"sleep 0.1; touch clean; exit\" TERM; touch up;
                while :; do sleep 0.01; done' </dev/null >/dev/null 2>&1 &
            while [ ! -e up ]; do sleep 0.01; done; exit 4",
        )
    });
    // Its exit is reported before the rest has ended.
    assert_eq!(*child.closed().await.reason(), exited(4));
    soon(child.peer.close()).await;
    assert_eq!(processes_in_group(child.pid), [0; 0]);
    assert!(scratch.join("clean").exists());
}

#[tokio::test]
async fn unreaped_zombies_do_not_delay_closing() {
    // One process of the group is a zombie whose parent, outside the group, never reaps it.
    let server = shell("sh -c ': & echo up >&2; exec setsid sleep 60' & exec cat >/dev/null");
    let child = Child::start(server);
    up(&child).await;
    let start = Instant::now();
    soon(child.peer.close()).await;
    assert!(start.elapsed() < STDIN_GRACE + INTERRUPT_GRACE);
    child.leftovers.0.kill_all();
}
