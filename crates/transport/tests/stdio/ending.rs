//! However a server is let go, no process of it is left.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline_testkit::{Marker, Scratch, processes_in_group};
use trunkline_transport::StdioServer;
use trunkline_transport::stdio::{INTERRUPT_GRACE, STDIN_GRACE, TERMINATE_GRACE};
use trunkline_wire::RequestError;
use trunkline_wire::transport::CloseReason;

use crate::lab::{Child, LIMIT, Leftovers, exited, shell, soon, until, within};

/// Servers that differ in how hard they are to end. Each has answered `up` on stderr when it is ready.
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
async fn a_server_that_ends_by_itself_is_closed_without_waiting() {
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
fn dropping_the_runtime_at_once_leaves_no_process() {
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
async fn calls_to_a_server_that_stopped_reading_end_by_their_deadlines() {
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

/// A wrapper that dies of SIGINT at once, in front of a server that minds neither that nor the end of its stdin,
/// and on SIGTERM takes a moment to end in good order and say so in the file `clean`.
const WRAPPED: &str = "sh -c 'trap \"sleep 0.1; touch clean; exit\" TERM; echo up >&2;
        while :; do sleep 0.01; done' </dev/null &
    trap - INT; exec sleep 60";

#[tokio::test]
async fn a_server_behind_a_wrapper_has_its_time_to_end_in_good_order() {
    let scratch = Scratch::new();
    let child = Child::start(StdioServer {
        cwd: Some(scratch.path().to_owned()),
        ..shell(WRAPPED)
    });
    up(&child).await;
    soon(child.peer.close()).await;
    // At once: the program may end now.
    assert_eq!(processes_in_group(child.pid), [0; 0]);
    assert!(scratch.join("clean").exists());
    child.assert_gone().await;
}

#[tokio::test]
async fn a_wrapped_server_that_ignores_everything_is_killed_and_waited_for() {
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
async fn what_a_dead_wrapper_leaves_behind_may_put_things_in_order() {
    let scratch = Scratch::new();
    let child = Child::start(StdioServer {
        cwd: Some(scratch.path().to_owned()),
        ..shell(
            "sh -c 'trap \"sleep 0.1; touch clean; exit\" TERM; touch up;
                while :; do sleep 0.01; done' </dev/null >/dev/null 2>&1 &
            while [ ! -e up ]; do sleep 0.01; done; exit 4",
        )
    });
    // Its death is told before the rest has ended.
    assert_eq!(*child.closed().await.reason(), exited(4));
    soon(child.peer.close()).await;
    assert_eq!(processes_in_group(child.pid), [0; 0]);
    assert!(scratch.join("clean").exists());
}

#[tokio::test]
async fn zombies_that_nobody_reaps_keep_nobody_waiting() {
    // One process in the group is dead, and its parent, which leaves the group, never reaps it.
    let server = shell("sh -c ': & echo up >&2; exec setsid sleep 60' & exec cat >/dev/null");
    let child = Child::start(server);
    up(&child).await;
    let start = Instant::now();
    soon(child.peer.close()).await;
    assert!(start.elapsed() < STDIN_GRACE + INTERRUPT_GRACE);
    child.leftovers.0.kill_all();
}
