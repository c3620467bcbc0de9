//! Refused requests and their messages.

use serde_json::json;

use super::embedder::Embedder;
use crate::lab::{Lab, echo};

#[test]
fn every_way_to_fail_has_a_code_and_says_whether_the_tool_may_have_run() {
    let lab = Lab::with([(
        "other",
        json!({"tools": [
            {"name": "hangs", "do": [{"silence": true}]},
            {"name": "refuses", "do": [{"replyError": {"code": -32602, "message": "not like that"}}]},
            {"name": "fails", "do": [{"reply": {"content": [], "isError": true}}]},
        ]}),
    )]);
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&["calc"]);
    let call = |name: &str| json!({"subtype": "call_tool", "name": name, "timeout_ms": 100});
    let cases = [
        (
            json!({"subtype": "call_tool", "name": "mcp__other__fail"}),
            "bad_request",
            "there is no tool \"mcp__other__fail\"",
            json!(false),
            json!("did you mean \"mcp__other__fails\"?"),
        ),
        (
            json!({"subtype": "call_tool", "name": "mcp__other__fails", "arguments": [1]}),
            "bad_request",
            "the arguments of \"mcp__other__fails\" are not a JSON object",
            json!(false),
            json!(null),
        ),
        (
            json!({"subtype": "call_tool", "name": "mcp__other__refuses"}),
            "failed",
            "the server \"other\" refused the call of \"refuses\": not like that (error -32602)",
            json!(false),
            json!(null),
        ),
    ];
    for (request, code, error, may_have_run, hint) in cases {
        let response = embedder.ask(&request);
        assert_eq!(response["error"], error);
        assert_eq!(response["code"], code);
        assert_eq!(response["may_have_run"], may_have_run, "{error}");
        assert_eq!(response["hint"], hint, "{error}");
    }
    let response = embedder.ask(&call("mcp__other__hangs"));
    assert_eq!(
        (&response["code"], &response["may_have_run"]),
        (&json!("timed_out"), &json!(true))
    );
    let failed = embedder.done(&json!({"subtype": "call_tool", "name": "mcp__other__fails"}));
    assert_eq!(failed["isError"], true);

    let cases = [
        (
            json!({"subtype": "call_tool"}),
            "not valid JSON: missing field `name` at line 1 column 23",
        ),
        (json!({"subtype": "fly"}), "unknown subtype \"fly\""),
        (json!({"subtype": "initialize"}), "already initialized"),
        (
            json!({"subtype": "tools", "server": "calk"}),
            "there is no server \"calk\"; did you mean \"calc\"?",
        ),
        (
            json!({"subtype": "reconnect", "server": "x"}),
            "there is no server \"x\"",
        ),
    ];
    for (request, error) in cases {
        assert_eq!(
            embedder.refused(&request),
            ("bad_request".to_owned(), error.to_owned())
        );
    }
    assert_eq!(embedder.finish(), "");
}

#[test]
fn bad_lines_are_reported_and_harmless() {
    let lab = Lab::with([("other", echo())]);
    let mut embedder = Embedder::start(&lab);
    embedder.say("print left in by mistake");
    embedder.say(b"\xff\xfe");
    let (code, error) = embedder.refused(&json!({"subtype": "tools"}));
    assert_eq!(
        (code.as_str(), error.as_str()),
        ("not_initialized", "\"initialize\" must come first")
    );
    let (code, _) = embedder.refused(&json!({"subtype": "initialize", "sdkMcpServers": "calc"}));
    assert_eq!(code, "bad_request");
    embedder.initialize(&["calc"]);
    for n in 0..100 {
        embedder.say(format!("garbage {n}"));
    }
    let sum = embedder.call("mcp__calc__add", &json!({"a": 2, "b": 2}));
    assert_eq!(sum["content"][0]["text"], "4");
    let err = embedder.finish();
    assert!(
        err.starts_with("warning: stdin: a line cannot be used: not valid JSON: "),
        "{err}"
    );
    assert_eq!(err.lines().count(), 21, "{err}");
    assert!(
        err.ends_with("warning: stdin: further bad lines are not reported\n"),
        "{err}"
    );
}

#[test]
fn the_embedders_servers_are_held_against_policy() {
    let lab = Lab::with([("other", echo())]);
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"deniedMcpServers": [{"serverName": "calc"}]}),
    );
    let mut embedder = Embedder::start(&lab);
    let hello = embedder.initialize(&["calc", "plugin:x"]);
    assert_eq!(hello["mcpServers"][0]["state"], "blocked");
    let notes = hello["diagnostics"].as_array().unwrap();
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0]
            .as_str()
            .unwrap()
            .contains("names that begin with \"plugin:\" are reserved"),
        "{notes:?}"
    );
    let error = "the server \"calc\" does not run: blocked by policy: denied by {\"serverName\":\"calc\"} ([DIR]/home/.claude/settings.json)";
    for request in [
        json!({"subtype": "call_tool", "name": "mcp__calc__add"}),
        json!({"subtype": "enable", "server": "calc"}),
        json!({"subtype": "tools", "server": "calc"}),
    ] {
        assert_eq!(
            embedder.refused(&request),
            ("refused".to_owned(), error.to_owned())
        );
    }
    // And nothing was ever asked of it.
    assert!(embedder.seen.is_empty(), "{:?}", embedder.seen);
    assert!(embedder.finish().contains("reserved"));
}

#[test]
fn the_projects_servers_need_approval_as_ever() {
    let lab = Lab::new();
    let marking = lab.marking("s");
    lab.servers(".mcp.json", &json!({"s": marking}));
    let mut embedder = Embedder::spawn(&lab, &mut lab.bare(&["sdk"]));
    let hello = embedder.initialize(&[]);
    assert_eq!(hello["mcpServers"][0]["state"], "pending-approval");
    let (code, error) = embedder.refused(&json!({"subtype": "call_tool", "name": "mcp__s__echo"}));
    assert_eq!(code, "refused");
    assert_eq!(
        error,
        "the server \"s\" does not run: it waits for your approval"
    );
    embedder.finish();
    assert!(!lab.started("s"));
}

#[test]
fn a_configuration_that_cannot_be_used_is_told_to_both_sides() {
    let lab = Lab::new();
    let mut embedder = Embedder::spawn(
        &lab,
        &mut lab.bare(&["sdk", "--mcp-config", "missing.json"]),
    );
    let (code, error) = embedder.refused(&json!({"subtype": "initialize"}));
    assert_eq!(code, "bad_request");
    assert_eq!(error, "the configuration is invalid; see stderr");
    assert!(embedder.finish().contains("missing.json"));
}
