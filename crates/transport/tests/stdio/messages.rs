//! Messages of every size and spelling.

use std::fmt::Write as _;

use serde_json::json;
use trunkline_transport::MAX_MESSAGE_BYTES;
use trunkline_wire::peer::RequestOptions;

use crate::support::{Child, call_of, soon, tool};

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

#[tokio::test]
async fn a_call_gets_its_response() {
    let child = Child::scripted(&tool(&json!([{"echo": true}])));
    let text = child.call_text(json!({"a": "é\n\u{1}"})).await.unwrap();
    assert_eq!(text, r#"{"a":"é\n\u0001"}"#);
    child.close().await;
    assert!(child.nonsense.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_message_of_40_mb_arrives_whole() {
    let child = Child::scripted(&tool(&json!([{"hugeText": 40_000_000}])));
    let text = child.call_text(json!({})).await.unwrap();
    assert_eq!(text.len(), 40_000_000);
    child.close().await;
}

#[tokio::test]
async fn a_line_over_the_limit_fails_its_call_and_the_next_is_intact() {
    let mut script = tool(&json!([{"hugeText": MAX_MESSAGE_BYTES}]));
    let small = json!({"name": "small", "do": [{"replyText": "fine"}]});
    script["tools"].as_array_mut().unwrap().push(small);
    let child = Child::scripted(&script);
    let huge = child.call(json!({}), RequestOptions::default());
    let error = soon(huge).await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("is over the limit of 67108864"),
        "{error}"
    );
    let mut params = call_of(&json!({})).to_value().unwrap();
    params["name"] = json!("small");
    let options = RequestOptions::default();
    let small = child.peer.request("tools/call", params.into(), options);
    let result = soon(small).await.unwrap();
    assert!(result.as_str().contains("fine"), "{result}");
    child.close().await;
}

#[tokio::test]
async fn messages_of_100_kb_go_both_ways_many_times() {
    let child = Child::scripted(&tool(&json!([{"echo": true}])));
    let big = "x".repeat(100_000);
    for round in 0..10 {
        let calls: Vec<_> = (0..10)
            .map(|number| {
                let arguments = json!({"n": [round, number], "big": big});
                let sent = arguments.to_string();
                (sent, child.call(arguments, RequestOptions::default()))
            })
            .collect();
        for (sent, call) in calls {
            let result = soon(call).await.unwrap().unwrap().to_value().unwrap();
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text == sent, "round {round}: {} bytes back", text.len());
        }
    }
    child.close().await;
}

#[tokio::test]
async fn lines_may_end_with_lf_or_crlf() {
    let last = hex(r#"{"id":1,"result":"ok"}"#);
    let cases = [
        (
            "CRLF",
            json!([{"replyRaw": "{\"id\":$ID,\"result\":\"ok\"}\r"}]),
        ),
        (
            "blank lines around",
            json!([{"write": ""}, {"write": " \r"}, {"replyRaw": "  {\"id\":$ID,\"result\":\"ok\"} "}]),
        ),
        (
            "no newline, then the end",
            json!([{"writeHex": last}, {"exit": 0}]),
        ),
        (
            "no newline, then stdout closes",
            json!([{"writeHex": last}, {"closeStdout": true}]),
        ),
        (
            "byte by byte",
            json!([{"slowWrite": {"text": r#"{"id":$ID,"result":"ok"}"#, "chunk": 1, "everyMs": 1}}]),
        ),
        (
            "behind garbage",
            json!([{"garbage": 10_000}, {"replyRaw": r#"{"id":$ID,"result":"ok"}"#}]),
        ),
    ];
    for (what, actions) in cases {
        let child = Child::scripted(&tool(&actions));
        let call = child.call(json!({}), RequestOptions::default());
        let result = soon(call).await.unwrap();
        assert_eq!(result.unwrap().as_str(), r#""ok""#, "{what}");
        child.close().await;
    }
}
