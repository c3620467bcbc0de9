//! Calls and what they give back (CALL-1, CALL-4, CALL-5, CALL-6).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use trunkline::{CallError, CallOptions, Host, Json};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, eventually, in_time};

/// A host with one server `s` whose tool `t` does `actions`.
async fn host_doing(lab: &Lab, era: &str, actions: Value) -> Host {
    let script = json!({"era": era, "tools": [{"name": "t", "do": actions}],
        "cancelLog": lab.at("cancelled"), "receivedLog": lab.at("received")});
    lab.host([lab.server("s", script)]).await
}

fn within(milliseconds: u64) -> CallOptions<'static> {
    CallOptions::new().timeout(Duration::from_millis(milliseconds))
}

/// Calls a tool and gives its text, of whatever size.
async fn call_raw(host: &Host, tool: &str, arguments: Value) -> Result<String, CallError> {
    let options = CallOptions::new().raw(true);
    let call = host.call(tool, arguments, options);
    in_time(tool, call).await.map(|output| output.text())
}

/// The last call that the server received.
fn received_call(lab: &Lab) -> Value {
    let log = lab.scratch.read("received");
    let line = log
        .lines()
        .rfind(|line| line.contains("\"tools/call\""))
        .unwrap();
    serde_json::from_str(line).unwrap()
}

#[tokio::test]
async fn results_arrive_as_they_were_sent() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        (
            json!({"content": [text("one"), text("two")]}),
            "one\ntwo",
            None,
            false,
        ),
        (json!({"content": []}), "", None, false),
        (
            json!({"content": [text("x")], "structuredContent": {"a": [1, null]}}),
            "x",
            Some(r#"{"a":[1,null]}"#),
            false,
        ),
        (
            json!({"content": [text("no such file")], "isError": true}),
            "no such file",
            None,
            true,
        ),
        (
            json!({"content": [{"type": "text", "text": "annotated", "annotations": {"priority": 1}}]}),
            "annotated",
            None,
            false,
        ),
        (
            json!({"content": [text("a"), {"type": "hologram", "beam": 7}, text("b")], "future": 1}),
            "a\nb",
            None,
            false,
        ),
        (
            json!({"structuredContent": [1, 2]}),
            "",
            Some("[1,2]"),
            false,
        ),
        (json!({}), "", None, false),
    ];
    for era in ["modern", "legacy"] {
        for (result, text, structured, is_error) in &cases {
            let lab = Lab::new();
            let host = host_doing(&lab, era, json!([{"reply": result}])).await;
            let output = host
                .call("mcp__s__t", json!({}), CallOptions::new())
                .await
                .unwrap();
            assert_eq!(output.text(), *text, "{result}");
            assert_eq!(
                output.structured_content.as_ref().map(Json::as_str),
                *structured,
                "{result}"
            );
            assert_eq!(output.is_error, *is_error, "{result}");
            let blocks: Vec<_> = output
                .content
                .iter()
                .map(|block| block.to_json().to_value().unwrap())
                .collect();
            assert_eq!(json!(blocks), *result.get("content").unwrap_or(&json!([])));
            lab.end(host).await;
        }
    }
}

#[tokio::test]
async fn a_protocol_error_is_a_refusal() {
    let lab = Lab::new();
    let error = json!({"code": -32602, "message": "n must be positive", "data": {"n": -1}});
    let host = host_doing(&lab, "dual", json!([{ "replyError": error }])).await;
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server \"s\" refused the call of \"t\": n must be positive (error -32602)"
    );
    let data = &error.rpc().unwrap().data;
    assert_eq!(data.as_ref().unwrap().as_str(), r#"{"n":-1}"#);
    lab.end(host).await;
}

#[tokio::test]
async fn what_cannot_be_called_is_explained_without_asking_the_server() {
    let lab = Lab::new();
    let host = host_doing(&lab, "dual", json!([{"echo": true}])).await;
    let before = lab.scratch.read("received").len();
    let error = call(&host, "mcp__s__tt", json!({})).await.unwrap_err();
    assert!(
        error.is_usage() && error.to_string() == "there is no tool \"mcp__s__tt\"",
        "{error}"
    );
    assert_eq!(error.hint().unwrap(), "did you mean \"mcp__s__t\"?");
    let error = call(&host, "unrelated", json!({})).await.unwrap_err();
    assert!(error.is_usage() && error.hint().is_none());
    for arguments in [json!([1]), json!("x"), json!(null), json!(7)] {
        let error = call(&host, "mcp__s__t", arguments).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the arguments of \"mcp__s__t\" are not a JSON object"
        );
    }
    assert_eq!(lab.scratch.read("received").len(), before);
    lab.end(host).await;
}

#[tokio::test]
async fn a_call_that_times_out_is_cancelled_at_the_server() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let host = host_doing(&lab, era, json!([{"silence": true}])).await;
        let error = in_time("the call", host.call("mcp__s__t", json!({}), within(200)))
            .await
            .unwrap_err();
        assert!(error.is_timeout() && error.may_have_run(), "{error}");
        let said = error.to_string();
        assert!(
            said.starts_with("\"t\" of \"s\" did not answer within 2")
                && said.ends_with("; the tool may have run"),
            "{said}"
        );
        let id = received_call(&lab)["id"].to_string();
        eventually("the cancellation", || {
            lab.scratch.read("cancelled").trim() == id
        })
        .await;
        lab.end(host).await;
    }
}

#[tokio::test]
async fn dropping_a_call_cancels_it_at_the_server() {
    let lab = Lab::new();
    let host = host_doing(
        &lab,
        "dual",
        json!([{"touch": lab.at("called")}, {"silence": true}]),
    )
    .await;
    tokio::select! {
        outcome = call(&host, "mcp__s__t", json!({})) => panic!("{outcome:?}"),
        () = lab.file("called") => {}
    }
    let id = received_call(&lab)["id"].to_string();
    eventually("the cancellation", || {
        lab.scratch.read("cancelled").trim() == id
    })
    .await;
    lab.end(host).await;
}

#[tokio::test]
async fn an_entrys_timeout_holds_unless_the_call_has_its_own() {
    let lab = Lab::new();
    let script = json!({"tools": [{"name": "t", "do": [{"silence": true}]}, {"name": "slow", "do": [{"sleepMs": 600}, {"echo": true}]}]});
    let mut entry = lab.server("s", script);
    entry.timeout = Some(Duration::from_millis(200));
    let host = lab.host([entry]).await;
    let error = call(&host, "mcp__s__t", json!({})).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let output = in_time(
        "the call",
        host.call("mcp__s__slow", json!({}), within(15_000)),
    )
    .await;
    assert_eq!(output.unwrap().text(), "{}");
    lab.end(host).await;
}

#[tokio::test]
async fn progress_arrives_in_order_and_before_the_result() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let steps = json!([{"progress": {"steps": 200, "total": true, "message": "working"}}, {"replyText": "done"}]);
        let host = host_doing(&lab, era, steps).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noting = Arc::clone(&seen);
        let options = CallOptions::new().on_progress(move |progress| {
            noting.lock().unwrap().push(progress);
        });
        let output = in_time("the call", host.call("mcp__s__t", json!({}), options))
            .await
            .unwrap();
        assert_eq!(output.text(), "done");
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let steps: Vec<f64> = seen.iter().map(|progress| progress.progress).collect();
        assert_eq!(steps, (1..=200).map(f64::from).collect::<Vec<_>>());
        assert!(
            seen.iter()
                .all(|one| one.total == Some(200.0) && one.message.as_deref() == Some("working"))
        );
        lab.end(host).await;
    }
}

#[tokio::test]
async fn the_callers_metadata_goes_along_and_the_protocols_own_cannot_be_replaced() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let host = host_doing(&lab, era, json!([{"echo": true}])).await;
        let meta = json!({"com.example/trace": {"id": [1, 2]}, "progressToken": "mine",
            "io.modelcontextprotocol/protocolVersion": "1999-01-01"});
        let options = CallOptions::new().meta(meta);
        in_time("the call", host.call("mcp__s__t", json!({"a": 1}), options))
            .await
            .unwrap();
        let params = received_call(&lab)["params"].clone();
        assert_eq!(params["arguments"], json!({"a": 1}));
        assert_eq!(params["_meta"]["com.example/trace"], json!({"id": [1, 2]}));
        assert!(params["_meta"]["progressToken"].is_number());
        let version = params["_meta"].get("io.modelcontextprotocol/protocolVersion");
        assert_eq!(version, (era == "modern").then_some(&json!("2026-07-28")));
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_result_of_40_mb_arrives_whole_while_small_calls_go_on() {
    let lab = Lab::new();
    let script = Script::default()
        .tool("huge", json!([{"hugeText": 40_000_000}]))
        .tool("small", json!([{"echo": true}]));
    let host = lab.host([lab.server("s", script)]).await;
    let small = join_all((0..20).map(|n| call(&host, "mcp__s__small", json!({"n": n}))));
    let (huge, small) = tokio::join!(call_raw(&host, "mcp__s__huge", json!({})), small);
    assert_eq!(huge.unwrap().len(), 40_000_000);
    for (n, outcome) in small.into_iter().enumerate() {
        assert_eq!(outcome.unwrap(), json!({"n": n}).to_string());
    }
    lab.end(host).await;
}

#[tokio::test]
async fn arguments_of_several_megabytes_go_through() {
    let lab = Lab::new();
    let host = host_doing(&lab, "dual", json!([{"echo": true}])).await;
    let text = "é".repeat(2_000_000);
    let said = call_raw(&host, "mcp__s__t", json!({"text": text}))
        .await
        .unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(said == json!({"text": text}));
    lab.end(host).await;
}

#[tokio::test]
async fn deeply_nested_structured_content_arrives_byte_for_byte() {
    for depth in [100, 10_000, 1_000_000] {
        let lab = Lab::new();
        let host = host_doing(&lab, "dual", json!([{"deep": depth}])).await;
        let options = CallOptions::new().raw(true);
        let output = in_time("the call", host.call("mcp__s__t", json!({}), options))
            .await
            .unwrap();
        let structured = output.structured_content.unwrap();
        let expected = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(
            structured.as_str().contains(&expected),
            "{depth}: {} bytes",
            structured.as_str().len()
        );
        lab.end(host).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_calls_at_once_each_get_their_own_answer() {
    let lab = Lab::new();
    let script = (0..10).fold(Script::default(), |script, n: u64| {
        script.tool(
            &format!("t{n}"),
            json!([{"sleepMs": n * 37 % 50}, {"echo": true}]),
        )
    });
    let host = lab.host([lab.server("s", script)]).await;
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let host = host.clone();
            tokio::spawn(async move {
                call(&host, &format!("mcp__s__t{}", n % 10), json!({"n": n})).await
            })
        })
        .collect();
    for (n, task) in calls.into_iter().enumerate() {
        assert_eq!(task.await.unwrap().unwrap(), json!({"n": n}).to_string());
    }
    lab.end(host).await;
}
