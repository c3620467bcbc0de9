//! The echo server of the benchmarks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::process::Command;

use serde_json::{Value, json};
use trunkline_testkit::{Client, bin};

fn echo(arguments: &[&str]) -> Client {
    Client::spawn(Command::new(bin("testkit-echo")).args(arguments))
}

#[test]
fn texts_come_back_as_they_were() {
    let mut client = echo(&[]);
    for text in [
        "",
        "plain",
        "tab\t \"quoted\" \\ é \u{1f600} \u{7f}",
        &"long ".repeat(1 << 20),
    ] {
        assert_eq!(client.call_text("echo", json!({"text": text})), text);
    }
    client.send_line(r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"text":"\u0041\/"}}}"#);
    let line = String::from_utf8(client.line().unwrap()).unwrap();
    assert!(
        line.contains(r#""id":"x""#) && line.contains(r#""text":"\u0041\/""#),
        "{line}"
    );
}

#[test]
fn many_lines_at_once_are_all_answered_in_order() {
    let mut client = echo(&[]);
    let one = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"arguments":{{"text":"{id}"}}}}}}"#
        )
    };
    client.send_line(&(0..5000).map(one).collect::<Vec<_>>().join("\n"));
    for id in 0..5000 {
        let message = client.message();
        assert_eq!(
            (&message["id"], &message["result"]["content"][0]["text"]),
            (&json!(id), &json!(id.to_string()))
        );
    }
}

#[test]
fn each_method_has_its_answer() {
    type Check = fn(&Value) -> bool;
    let cases: [(&[&str], &str, Value, Check); 9] = [
        (&[], "server/discover", json!({}), |m| {
            m["result"]["supportedVersions"] == json!(["2026-07-28"])
        }),
        (&["--legacy"], "server/discover", json!({}), |m| {
            m["error"]["code"] == -32601
        }),
        (
            &[],
            "initialize",
            json!({"protocolVersion": "2025-03-26"}),
            |m| m["result"]["protocolVersion"] == "2025-03-26",
        ),
        (&[], "initialize", json!({"protocolVersion": "1999"}), |m| {
            m["result"]["protocolVersion"] == "2025-11-25"
        }),
        (&[], "ping", json!({}), |m| m["result"] == json!({})),
        (&[], "tools/list", json!({}), |m| {
            m["result"]["tools"].as_array().unwrap().len() == 1
        }),
        (&["--tools", "50"], "tools/list", json!({}), |m| {
            m["result"]["tools"].as_array().unwrap().len() == 51
        }),
        (&[], "tools/call", json!({"arguments": {"text": 1}}), |m| {
            m["error"]["code"] == -32602
        }),
        (&[], "no/such", json!({}), |m| m["error"]["code"] == -32601),
    ];
    for (arguments, method, params, check) in cases {
        let answer = echo(arguments).request(method, params.clone());
        assert!(check(&answer), "{arguments:?} {method} {params}: {answer}");
    }
}

#[test]
fn notifications_are_ignored_and_the_end_of_stdin_ends_it() {
    let mut client = echo(&[]);
    client.notify("notifications/initialized", &json!({}));
    client.send_line("");
    assert_eq!(client.request("ping", json!({}))["id"], 1);
    client.close_stdin();
    assert_eq!(client.wait().code(), Some(0));
    assert_eq!(client.line(), None);
}

#[test]
fn the_raw_limit_returns_each_line_unread() {
    let mut client = echo(&["--raw-limit"]);
    for line in ["not json", "{}", &"x".repeat(3 << 20)] {
        client.send_line(line);
        assert_eq!(client.line().unwrap(), line.as_bytes());
    }
}
