//! The output of each action.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trunkline_testkit::{Client, Script};

/// The lines a call of a tool with these actions gives, up to `count`, with the id (always 1) as
/// sent.
fn lines(actions: Value, count: usize) -> Vec<String> {
    let mut client = Client::script(&Script::default().tool("t", actions));
    client.set_modern(false);
    client.send_line(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
    client.line().unwrap();
    client.send("tools/call", json!({"name": "t", "arguments": {"a": 1}}));
    (0..count)
        .map(|_| String::from_utf8_lossy(&client.line().unwrap()).into_owned())
        .collect()
}

fn text(said: &str, id: &str) -> String {
    let said = json!(said);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{said}}}]}}}}"#
    )
}

#[test]
fn each_action_writes_what_it_says() {
    let cases: Vec<(Value, Vec<String>)> = vec![
        (json!([{"replyText": "hi"}]), vec![text("hi", "1")]),
        (json!([{"echo": true}]), vec![text(r#"{"a":1}"#, "1")]),
        (
            json!([{"echo": false}, {"replyText": "b"}]),
            vec![text("b", "1")],
        ),
        (
            json!([{"reply": {"x": [1.5]}}]),
            vec![r#"{"jsonrpc":"2.0","id":1,"result":{"x":[1.5]}}"#.into()],
        ),
        (
            json!([{"replyError": {"code": -5, "message": "m", "data": 7}}]),
            vec![r#"{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"m","data":7}}"#.into()],
        ),
        (
            json!([{"replyTwice": true}]),
            vec![text("first", "1"), text("second", "1")],
        ),
        (json!([{"replyWithId": "float"}]), vec![text("ok", "1.0")]),
        (
            json!([{"replyWithId": "string"}]),
            vec![text("ok", "\"1\"")],
        ),
        (json!([{"replyWithId": 99}]), vec![text("ok", "99")]),
        (
            json!([{"replyRaw": "{\"id\":$ID,,"}]),
            vec![r#"{"id":1,,"#.into()],
        ),
        (
            json!([{"write": "not json"}, {"replyText": "x"}]),
            vec!["not json".into(), text("x", "1")],
        ),
        (
            json!([{"writeHex": "61 62 0a"}, {"replyText": "x"}]),
            vec!["ab".into(), text("x", "1")],
        ),
        (
            json!([{"slowWrite": {"text": "{\"id\":$ID}", "chunk": 3}}]),
            vec![r#"{"id":1}"#.into()],
        ),
        (
            json!([{"hugeText": 100_000}]),
            vec![text(&"x".repeat(100_000), "1")],
        ),
        (
            json!([{"deep": 3}]),
            vec![
                r#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent":[[[]]],"content":[]}}"#
                    .into(),
            ],
        ),
        (
            json!([{"notify": {"method": "n", "params": {"b": 2}}}, {"replyText": "x"}]),
            vec![
                r#"{"jsonrpc":"2.0","method":"n","params":{"b":2}}"#.into(),
                text("x", "1"),
            ],
        ),
        (
            json!([{"replyText": "x"}, {"write": "never"}, {"exit": 3}]),
            vec![text("x", "1")],
        ),
        (
            json!([{"progress": {"steps": 2}}, {"replyText": "no token"}]),
            vec![text("no token", "1")],
        ),
    ];
    for (actions, expected) in cases {
        assert_eq!(
            lines(actions.clone(), expected.len()),
            expected,
            "{actions}"
        );
    }
}

#[test]
fn garbage_is_not_json_and_the_same_each_time() {
    let garbage = || {
        let mut client = Client::script(&Script::default().on_start(json!([{"garbage": 500}])));
        client.line().unwrap()
    };
    assert_eq!(garbage().len(), 500);
    assert!(std::str::from_utf8(&garbage()).is_err());
    assert_eq!(garbage(), garbage());
}

#[test]
fn progress_comes_in_order_before_the_reply() {
    let script = Script::default()
        .tool("t", json!([{"progress": {"steps": 3, "everyMs": 1, "total": true, "message": "m"}}, {"replyText": "x"}]));
    let mut client = Client::script(&script);
    client.send(
        "tools/call",
        json!({"name": "t", "_meta": {"progressToken": "tok"}}),
    );
    for step in 1..=3 {
        let expected =
            json!({"progressToken": "tok", "progress": step, "total": 3, "message": "m"});
        assert_eq!(client.message()["params"], expected);
    }
    assert_eq!(client.message()["id"], 1);
}

#[test]
fn calls_run_side_by_side_and_silence_holds_up_nobody() {
    let script = Script::default()
        .tool("slow", json!([{"sleepMs": 30_000}, {"replyText": "late"}]))
        .tool("mute", json!([{"silence": true}]))
        .tool("fast", json!([{"replyText": "now"}]));
    let mut client = Client::script(&script);
    client.send("tools/call", json!({"name": "slow"}));
    client.send("tools/call", json!({"name": "mute"}));
    let start = Instant::now();
    assert_eq!(client.call_text("fast", json!({})), "now");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn input_is_asked_for_round_by_round() {
    let script = Script::default().tool(
        "t",
        json!([
            {"inputRequired": {"inputRequests": {"q": {"method": "elicitation/create"}}, "requestState": "one"}},
            {"inputRequired": {"requestState": "two"}},
            {"replyInputs": true}
        ]),
    );
    let mut client = Client::script(&script);
    let first = client.call("t", json!({}))["result"].take();
    assert_eq!(
        (&first["resultType"], &first["requestState"]),
        (&json!("input_required"), &json!("one"))
    );
    let second = client.request(
        "tools/call",
        json!({"name": "t", "inputResponses": {"q": 1}, "requestState": "one"}),
    );
    assert_eq!(second["result"]["requestState"], "two");
    let third = client.request(
        "tools/call",
        json!({"name": "t", "inputResponses": {"q": 2}, "requestState": "two"}),
    );
    let expected = json!({"inputResponses": {"q": 2}, "requestState": "two"}).to_string();
    assert_eq!(third["result"]["content"][0]["text"], expected);
}

#[test]
fn the_clients_answer_to_a_request_can_be_replied() {
    let script = Script::default().tool(
        "t",
        json!([{"request": {"method": "roots/list", "params": {"p": 1}}}, {"replyAnswer": true}]),
    );
    let mut client = Client::script(&script);
    for (answer, expected) in [
        (json!({"result": {"roots": []}}), json!({"roots": []})),
        (
            json!({"error": {"code": -1, "message": "no"}}),
            json!({"code": -1, "message": "no"}),
        ),
    ] {
        let id = client.send("tools/call", json!({"name": "t"}));
        let mut message = client.message();
        assert_eq!(
            (&message["method"], &message["params"]),
            (&json!("roots/list"), &json!({"p": 1}))
        );
        let mut reply = answer;
        reply["jsonrpc"] = json!("2.0");
        reply["id"] = message["id"].take();
        client.send_line(&reply.to_string());
        assert_eq!(
            client.answer(id)["result"]["content"][0]["text"],
            expected.to_string()
        );
    }
}

#[test]
fn any_method_can_be_overridden() {
    let script = Script::default()
        .on(
            "server/discover",
            json!([{"replyError": {"code": -1, "message": "no"}}]),
        )
        .on(
            "tools/list",
            json!([{"notify": {"method": "before"}}, {"default": true}]),
        )
        .on("custom/thing", json!([{"reply": {"a": 1}}]))
        .on("notifications/hello", json!([{"write": "hello yourself"}]));
    let mut client = Client::script(&script);
    assert_eq!(
        client.request("server/discover", json!({}))["error"]["code"],
        -1
    );
    client.send("tools/list", json!({}));
    assert_eq!(client.message()["method"], "before");
    assert_eq!(client.message()["result"]["tools"], json!([]));
    assert_eq!(client.request("custom/thing", json!({}))["result"]["a"], 1);
    client.notify("notifications/hello", &json!({}));
    assert_eq!(client.line().unwrap(), b"hello yourself");
}

#[test]
fn bad_input_is_answered_with_an_error() {
    let mut client = Client::script(&Script::default());
    for (line, code) in [("{nonsense", -32700), ("[]", -32600), ("7", -32600)] {
        client.send_line(line);
        let answer = client.message();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(null), &json!(code)),
            "{line}"
        );
    }
    assert_eq!(client.call("nothing", json!({}))["error"]["code"], -32602);
    assert_eq!(
        client.request("no/such", json!({}))["error"]["code"],
        -32601
    );
}
