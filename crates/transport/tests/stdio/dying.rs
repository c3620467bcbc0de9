//! The exit of a server is noticed and explained.

use std::time::Duration;

use serde_json::json;
use trunkline_testkit::Scratch;
use trunkline_transport::StdioServer;
use trunkline_wire::RequestError;
use trunkline_wire::peer::RequestOptions;
use trunkline_wire::transport::CloseReason;

use crate::support::{Child, call_of, exited, shell, soon, tool, until, within};

fn killed_by(signal: &str) -> CloseReason {
    CloseReason::Exited {
        code: None,
        signal: Some(signal.to_owned()),
    }
}

#[tokio::test]
async fn the_exit_status_and_the_last_stderr_lines_reach_every_call() {
    let deaths = [
        (json!({"exit": 3}), exited(3)),
        (json!({"exit": 0}), exited(0)),
        (json!({"signal": "KILL"}), killed_by("SIGKILL")),
        (json!({"signal": "SEGV"}), killed_by("SIGSEGV")),
        (json!({"signal": "TERM"}), killed_by("SIGTERM")),
    ];
    for (death, expected) in deaths {
        let scratch = Scratch::new();
        let go = scratch.join("go");
        let mut last: Vec<_> = (0..30)
            .map(|line| json!({"stderr": format!("line {line}")}))
            .collect();
        last.push(death);
        let mut script = tool(&json!([{"waitForFile": go}]));
        script["tools"][0]["do"]
            .as_array_mut()
            .unwrap()
            .extend(last);
        let child = Child::scripted(&script);
        let calls: Vec<_> = (0..20)
            .map(|_| child.call(json!({}), RequestOptions::default()))
            .collect();
        let silent = child.peer.request(
            "tools/call",
            call_of(&json!({})),
            within(Duration::from_millis(1)),
        );
        // It may have exited or not; another call does no harm.
        drop(silent.await);
        scratch.write("go", "");
        for call in calls {
            let error = soon(call).await.unwrap().unwrap_err();
            let RequestError::Closed { cause, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(*cause.reason(), expected);
            let stderr = cause.stderr();
            // The first and last lines, with a mark for the others.
            assert_eq!(stderr.first().map(String::as_str), Some("line 0"));
            assert_eq!(stderr.last().map(String::as_str), Some("line 29"));
            assert!(stderr.iter().any(|line| line == "…"), "{stderr:?}");
        }
        child.assert_gone().await;
    }
}

#[tokio::test]
async fn an_early_exit_is_reported_by_status_and_stderr_not_by_a_broken_pipe() {
    for _ in 0..10 {
        let server = shell("echo 'no such module' >&2; exit 9");
        let child = Child::start(server);
        let big = json!({"big": "x".repeat(200_000)});
        let call = child.call(big, RequestOptions::default());
        let RequestError::Closed { cause, .. } = soon(call).await.unwrap().unwrap_err() else {
            panic!()
        };
        assert_eq!(*cause.reason(), exited(9));
        assert_eq!(cause.stderr(), ["no such module"]);
    }
}

#[tokio::test]
async fn an_exit_is_noticed_although_a_grandchild_holds_stdout() {
    for new_session in [false, true] {
        let child = Child::scripted(&tool(&json!([
            {"spawnGrandchild": {"holdStdout": true, "ignoreTerm": true, "newSession": new_session}},
            {"stderr": "aargh"},
            {"signal": "KILL"},
        ])));
        let call = child.call(json!({}), RequestOptions::default());
        let cause = child.closed().await;
        assert_eq!(*cause.reason(), killed_by("SIGKILL"));
        assert_eq!(cause.stderr(), ["aargh"]);
        assert!(soon(call).await.unwrap().is_err());
        if new_session {
            // It left our process group on purpose, out of reach.
            child.leftovers.0.kill_all();
        }
        child.assert_gone().await;
    }
}

#[tokio::test]
async fn an_exit_is_noticed_although_an_escaped_grandchild_keeps_writing() {
    let scratch = Scratch::new();
    let child = Child::start(StdioServer {
        cwd: Some(scratch.path().to_owned()),
        ..shell(
            "setsid sh -c 'touch up; while :; do echo noise; sleep 0.02; done' &
            while [ ! -e up ]; do sleep 0.01; done; exit 5",
        )
    });
    let cause = child.closed().await;
    assert_eq!(*cause.reason(), exited(5));
}

#[tokio::test]
async fn a_running_server_that_closes_stdout_is_reported_and_ended() {
    let script = tool(&json!([{"stderr": "tired"}, {"closeStdout": true}]));
    let child = Child::scripted(&script);
    let call = child.call(json!({}), RequestOptions::default());
    let error = soon(call).await.unwrap().unwrap_err().to_string();
    assert_eq!(
        error,
        "the connection broke: the server closed its stdout but is still running"
    );
    assert_eq!(child.closed().await.stderr(), ["tired"]);
    child.close().await;
}

#[tokio::test]
async fn a_running_server_that_closes_stdin_is_reported() {
    let child = Child::start(shell("exec 0<&-; echo ready >&2; exec sleep 60"));
    until(|| child.stderr.last_lines(1) == ["ready"]).await;
    let call = child.call(json!({}), RequestOptions::default());
    let error = soon(call).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("stdin"), "{error}");
    child.close().await;
}
