//! Arguments that do not fit a tool's schema are not sent, and results that do not fit theirs are told of (CALL-1).

use serde_json::json;
use trunkline::CallOptions;
use trunkline::call::CallErrorKind;
use trunkline_testkit::Script;

use crate::lab::{Lab, call, in_time};

#[tokio::test]
async fn arguments_are_checked_before_they_are_sent_unless_told_otherwise() {
    let lab = Lab::new();
    let tool = json!({
        "name": "add", "inputSchema": {"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}},
        "do": [{"countFile": lab.at("calls")}, {"replyText": "sum"}],
    });
    let host = lab
        .host([lab.server("s", Script::default().tool_with(tool))])
        .await;
    let error = call(&host, "mcp__s__add", json!({"a": "x"}))
        .await
        .unwrap_err();
    assert!(error.is_usage() && !error.may_have_run());
    assert_eq!(error.kind(), CallErrorKind::InvalidArguments);
    assert_eq!(error.problems(), ["\"a\" must be number, not \"x\""]);
    assert_eq!(lab.count("calls"), 0);
    call(&host, "mcp__s__add", json!({"a": 1})).await.unwrap();
    let unchecked = CallOptions::new().unchecked(true);
    let sent = host.call("mcp__s__add", json!({}), unchecked);
    in_time("the call", sent).await.unwrap();
    assert_eq!(lab.count("calls"), 2);
    lab.end(host).await;
}

#[tokio::test]
async fn a_result_that_breaks_its_promise_is_given_back_with_a_warning() {
    let lab = Lab::new();
    let tool = |name: &str, result: serde_json::Value| {
        json!({
            "name": name, "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "required": ["sum"], "properties": {"sum": {"type": "number"}}},
            "do": [{"reply": result}],
        })
    };
    let text = json!([{"type": "text", "text": "5"}]);
    let script = Script::default()
        .tool_with(tool(
            "good",
            json!({"content": text, "structuredContent": {"sum": 5}}),
        ))
        .tool_with(tool(
            "bad",
            json!({"content": text, "structuredContent": {"sum": "5"}}),
        ))
        .tool_with(tool("none", json!({"content": text})))
        .tool_with(tool("failed", json!({"content": text, "isError": true})));
    let host = lab.host([lab.server("s", script)]).await;
    for (name, warning) in [
        ("good", None),
        ("bad", Some("\"sum\" must be number, not \"5\"")),
        ("none", Some("no structured content")),
        ("failed", None),
    ] {
        let tool = format!("mcp__s__{name}");
        let called = host.call(&tool, json!({}), CallOptions::new());
        let output = in_time(name, called).await.unwrap();
        assert_eq!(output.text(), "5");
        assert_eq!(
            output.warnings.len(),
            usize::from(warning.is_some()),
            "{name}"
        );
        if let Some(warning) = warning {
            assert!(
                output.warnings[0].contains(warning),
                "{:?}",
                output.warnings
            );
        }
    }
    lab.end(host).await;
}
