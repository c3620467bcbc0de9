//! Faults of one server do not affect other calls or servers (CALL-5, CALL-7).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use trunkline::call::CallErrorKind;
use trunkline::{CallError, CallOptions, Host};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, eventually, in_time, until_attempt, until_connected};

/// A server whose tool `wait` counts calls and answers once the file `go` exists.
fn waiting(lab: &Lab, name: &str, annotations: &Value) -> Script {
    let called = lab.at(&format!("{name}.called"));
    Script::default()
        .tool_with(json!({"name": "wait", "annotations": annotations,
            "do": [{"countFile": called}, {"waitForFile": lab.at("go")}, {"echo": true}]}))
        .tool("t", json!([{"echo": true}]))
}

fn many(
    host: &Host,
    tool: &'static str,
    count: usize,
) -> Vec<tokio::task::JoinHandle<Result<String, CallError>>> {
    let one = |n| {
        let host = host.clone();
        tokio::spawn(async move { call(&host, tool, json!({"n": n})).await })
    };
    (0..count).map(one).collect()
}

#[tokio::test]
async fn killing_a_server_fails_its_own_calls_only_and_restarts_it() {
    let lab = Lab::new();
    let host = lab
        .host([
            lab.server("doomed", waiting(&lab, "doomed", &json!({}))),
            lab.server("spared", waiting(&lab, "spared", &json!({}))),
        ])
        .await;
    let doomed = many(&host, "mcp__doomed__wait", 100);
    let spared = many(&host, "mcp__spared__wait", 100);
    eventually("all calls to be in flight", || {
        lab.count("doomed.called") == 100 && lab.count("spared.called") == 100
    })
    .await;
    lab.kill("doomed");
    for task in doomed {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the connection to \"doomed\" was lost during the call of \"wait\": \
             the server's process was killed by SIGKILL; the tool may have run"
        );
        assert!(error.is_connection() && error.may_have_run());
    }
    let failure = until_attempt(&host, "doomed", 1).await;
    assert!(failure.to_string().contains("SIGKILL"));
    lab.scratch.write("go", "");
    for (n, task) in spared.into_iter().enumerate() {
        assert_eq!(task.await.unwrap().unwrap(), json!({"n": n}).to_string());
    }
    until_connected(&host, "doomed").await;
    assert_eq!((lab.starts("doomed"), lab.starts("spared")), (2, 1));
    assert_eq!(
        call(&host, "mcp__doomed__t", json!({})).await.unwrap(),
        "{}"
    );
    assert_eq!(
        (lab.count("doomed.called"), lab.count("spared.called")),
        (100, 100)
    );
    lab.end(host).await;
}

#[tokio::test]
async fn a_harmless_call_is_repeated_once_after_a_crash_and_any_other_is_not() {
    let cases = [
        (json!({"readOnlyHint": true}), true),
        (json!({"idempotentHint": true}), true),
        (
            json!({"readOnlyHint": false, "destructiveHint": true}),
            false,
        ),
        (json!({}), false),
    ];
    for (annotations, repeated) in cases {
        let lab = Lab::new();
        let host = lab
            .host([lab.server("s", waiting(&lab, "s", &annotations))])
            .await;
        let mut calls = many(&host, "mcp__s__wait", 1);
        eventually("the call", || lab.count("s.called") == 1).await;
        lab.kill("s");
        until_attempt(&host, "s", 1).await;
        lab.scratch.write("go", "");
        let outcome = calls.remove(0).await.unwrap();
        assert_eq!(outcome.is_ok(), repeated, "{annotations}: {outcome:?}");
        until_connected(&host, "s").await;
        assert_eq!(
            (lab.count("s.called"), lab.starts("s")),
            (1 + u32::from(repeated), 2),
            "{annotations}"
        );
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_call_that_kills_its_server_each_time_is_not_repeated_for_ever() {
    let lab = Lab::new();
    let script = Script::default().tool_with(
        json!({"name": "crash", "annotations": {"readOnlyHint": true},
        "do": [{"countFile": lab.at("called")}, {"stderr": "segfault in crash()"}, {"exit": 139}]}),
    );
    let host = lab.host([lab.server("s", script)]).await;
    let error = call(&host, "mcp__s__crash", json!({})).await.unwrap_err();
    assert!(
        error.to_string().contains("exited with status 139"),
        "{error}"
    );
    assert_eq!(error.stderr(), ["segfault in crash()"]);
    assert_eq!((lab.count("called"), lab.starts("s")), (2, 2));
    lab.end(host).await;
}

#[tokio::test]
async fn calls_to_a_server_that_stopped_reading_end_by_their_deadline() {
    let lab = Lab::new();
    let deaf = Script::default()
        .tool(
            "stop",
            json!([{"stopReading": true}, {"replyText": "stopped"}]),
        )
        .tool("t", json!([{"echo": true}]));
    let host = lab
        .host([
            lab.server("deaf", deaf),
            lab.server("other", waiting(&lab, "other", &json!({}))),
        ])
        .await;
    assert_eq!(
        call(&host, "mcp__deaf__stop", json!({})).await.unwrap(),
        "stopped"
    );
    let started = Instant::now();
    let limit = Duration::from_secs(2);
    // More than the queue and the pipe hold.
    let calls: Vec<_> = (0..1500)
        .map(|n| {
            let host = host.clone();
            tokio::spawn(async move {
                let options = CallOptions::new().timeout(limit);
                let outcome = host
                    .call(
                        "mcp__deaf__t",
                        json!({"n": n, "text": "x".repeat(500)}),
                        options,
                    )
                    .await;
                (outcome, started.elapsed())
            })
        })
        .collect();
    assert_eq!(call(&host, "mcp__other__t", json!({})).await.unwrap(), "{}");
    let mut may_have_run = 0;
    for task in calls {
        let (outcome, after) = in_time("the call", task).await.unwrap();
        let error = outcome.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(
            after >= limit && after < limit + Duration::from_secs(3),
            "{after:?}"
        );
        may_have_run += usize::from(error.may_have_run());
    }
    assert!((1..1500).contains(&may_have_run), "{may_have_run}");
    assert_eq!(call(&host, "mcp__other__t", json!({})).await.unwrap(), "{}");
    lab.end(host).await;
}

#[tokio::test]
async fn shutdown_does_not_wait_for_calls_to_a_server_that_stopped_reading() {
    let lab = Lab::new();
    let deaf = Script::default()
        .tool(
            "stop",
            json!([{"stopReading": true}, {"replyText": "stopped"}]),
        )
        .tool("t", json!([{"echo": true}]));
    let host = lab.host([lab.server("deaf", deaf)]).await;
    call(&host, "mcp__deaf__stop", json!({})).await.unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let calls: Vec<_> = (0..1000)
        .map(|n| {
            let (host, begun) = (host.clone(), Arc::clone(&begun));
            tokio::spawn(async move {
                begun.fetch_add(1, Ordering::SeqCst);
                call(
                    &host,
                    "mcp__deaf__t",
                    json!({"n": n, "text": "x".repeat(500)}),
                )
                .await
            })
        })
        .collect();
    eventually("all calls to be made", || {
        begun.load(Ordering::SeqCst) == 1000
    })
    .await;
    lab.end(host).await;
    for outcome in join_all(calls).await {
        let error = outcome.unwrap().unwrap_err();
        assert!(error.is_connection(), "{error}");
    }
}

#[tokio::test]
async fn garbage_between_messages_harms_nobody() {
    let response_to_nobody = r#"{"jsonrpc":"2.0","id":99999,"result":{}}"#;
    let garbage = [
        json!({"garbage": 5000}),
        json!({"write": "DEBUG: connecting to the database"}),
        json!({"write": ""}),
        json!({"write": "{\"jsonrpc\":\"2.0\",\"id\":"}),
        json!({"write": response_to_nobody}),
        json!({"write": r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#}),
        json!({"write": "[1,2,3]"}),
        json!({"write": "[]"}),
        json!({"write": "null"}),
        json!({"write": "\"text\""}),
        json!({"writeHex": "ff fe 00 0a"}),
        json!({"writeHex": "0d 0a"}),
        json!({"write": r#"{"method":"notifications/unheard_of","params":[1]}"#}),
        json!({"write": r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":12345,"progress":1}}"#}),
        json!({"write": r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#}),
    ];
    let mut before = garbage.to_vec();
    before.push(json!({"echo": true}));
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let script =
            json!({"era": era, "onStart": garbage, "tools": [{"name": "t", "do": before}]});
        let host = lab.host([lab.server("s", script)]).await;
        let outcomes = join_all((0..50).map(|n| call(&host, "mcp__s__t", json!({"n": n})))).await;
        for (n, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(outcome.unwrap(), json!({"n": n}).to_string());
        }
        assert_eq!(lab.starts("s"), 1);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn odd_answers_end_their_own_call_only() {
    let lab = Lab::new();
    let cases: [(&str, Value, Result<&str, &str>); 6] = [
        ("twice", json!([{"replyTwice": true}]), Ok("first")),
        ("float", json!([{"replyWithId": "float"}]), Ok("ok")),
        ("string", json!([{"replyWithId": "string"}]), Ok("ok")),
        (
            "array",
            json!([{"replyRaw": r#"{"jsonrpc":"2.0","id":$ID,"result":[1]}"#}]),
            Err("not an object"),
        ),
        (
            "kind",
            json!([{"replyRaw": r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"poem"}}"#}]),
            Err("poem"),
        ),
        (
            "both",
            json!([{"replyRaw": r#"{"jsonrpc":"2.0","id":$ID}"#}]),
            Err("cannot be used"),
        ),
    ];
    let script = cases
        .iter()
        .fold(Script::default(), |script, (name, actions, _)| {
            script.tool(name, actions.clone())
        });
    let host = lab
        .host([lab.server("s", script.tool("t", json!([{"echo": true}])))])
        .await;
    for (name, _, expected) in cases {
        let outcome = call(&host, &format!("mcp__s__{name}"), json!({})).await;
        match (outcome, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{name}: {error}"),
            (outcome, _) => panic!("{name}: {outcome:?}"),
        }
        assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    }
    assert_eq!(lab.starts("s"), 1);
    lab.end(host).await;
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_message_is_a_lost_connection() {
    let lab = Lab::new();
    let half = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","te"#;
    let hex: Vec<_> = half.bytes().map(|byte| format!("{byte:02x}")).collect();
    let script = Script::default()
        .tool(
            "crash",
            json!([{"writeHex": hex.concat()}, {"signal": "KILL"}]),
        )
        .tool("t", json!([{"echo": true}]));
    let host = lab.host([lab.server("s", script)]).await;
    let error = call(&host, "mcp__s__crash", json!({})).await.unwrap_err();
    assert!(
        error.kind() == CallErrorKind::ConnectionLost && error.may_have_run(),
        "{error}"
    );
    assert!(error.to_string().contains("SIGKILL"), "{error}");
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    lab.end(host).await;
}

#[tokio::test]
async fn a_server_that_closes_its_stdout_is_restarted() {
    let lab = Lab::new();
    let script = Script::default()
        .tool("close", json!([{"closeStdout": true}]))
        .tool("t", json!([{"echo": true}]));
    let host = lab.host([lab.server("s", script)]).await;
    let error = call(&host, "mcp__s__close", json!({})).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("closed its stdout but is still running"),
        "{error}"
    );
    assert_eq!(call(&host, "mcp__s__t", json!({})).await.unwrap(), "{}");
    assert_eq!(lab.starts("s"), 2);
    lab.end(host).await;
}
