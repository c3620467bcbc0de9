//! Permission questions to the embedder (TOOL-10).

use serde_json::{Value, json};

use super::embedder::{Embedder, SETTINGS};
use crate::lab::{Lab, echo};

const CALL: &str = "mcp__other__echo";

fn lab(permissions: &Value) -> Lab {
    let lab = Lab::with([("other", echo())]);
    lab.write_json(SETTINGS, &json!({ "permissions": permissions }));
    lab
}

fn initialize(embedder: &mut Embedder) {
    embedder.done(&json!({"subtype": "initialize", "canUseTool": true}));
}

/// Makes a call, and returns the question about it and the response.
fn asked(embedder: &mut Embedder, answer: Value) -> (Value, Value) {
    let call =
        embedder.begin(&json!({"subtype": "call_tool", "name": CALL, "arguments": {"n": 1}}));
    let question = embedder.hear();
    let mut answer = answer;
    answer["request_id"] = question["request_id"].clone();
    embedder.say(json!({"type": "control_response", "response": answer}).to_string());
    (question["request"].clone(), embedder.end(&call))
}

fn success(response: &Value) -> Value {
    json!({"subtype": "success", "response": response})
}

#[test]
fn the_embedder_decides_and_is_told_why_it_is_asked() {
    for (permissions, reason, rule) in [
        (json!({}), "no_rule", json!(null)),
        (
            json!({"ask": ["mcp__other"], "allow": ["mcp__*"]}),
            "rule",
            json!("mcp__other"),
        ),
    ] {
        let lab = lab(&permissions);
        let mut embedder = Embedder::start(&lab);
        initialize(&mut embedder);
        let answers = [
            (
                success(&json!({"behavior": "deny", "message": "not today"})),
                "not today",
            ),
            (
                success(&json!("yes")),
                "the embedding program said neither \"allow\" nor \"deny\"",
            ),
            (
                json!({"subtype": "error", "error": "I know no such thing"}),
                "the embedding program did not agree: I know no such thing",
            ),
        ];
        for (answer, why) in answers {
            let (question, end) = asked(&mut embedder, answer);
            assert_eq!(
                (&question["subtype"], &question["tool_name"]),
                (&json!("can_use_tool"), &json!(CALL))
            );
            assert_eq!(question["server_name"], "other");
            assert_eq!(question["input"], json!({"n": 1}));
            assert_eq!(
                (&question["reason"], &question["rule"]),
                (&json!(reason), &rule)
            );
            assert_eq!(
                (&end["code"], &end["may_have_run"]),
                (&json!("refused"), &json!(false))
            );
            assert_eq!(end["error"], format!("\"{CALL}\" may not be called: {why}"));
        }
        // Once is once, and always is as long as it runs.
        for behavior in [
            json!({"behavior": "allow"}),
            json!({"behavior": "allow", "always": true}),
        ] {
            let (_, end) = asked(&mut embedder, success(&behavior));
            assert_eq!(end["response"]["content"][0]["text"], r#"{"n":1}"#);
        }
        embedder.call(CALL, &json!({}));
        assert!(embedder.seen.is_empty(), "{:?}", embedder.seen);
        assert_eq!(embedder.finish(), "");
    }
}

#[test]
fn where_the_embedder_takes_no_questions_only_rules_allow() {
    for (permissions, why) in [
        (
            json!({"ask": ["mcp__other"]}),
            "the rule \"mcp__other\" asks about it, and the embedding program takes no questions (\"canUseTool\")".to_owned(),
        ),
        (
            json!({}),
            format!("no rule allows it, and the embedding program takes no questions (\"canUseTool\"); \"{CALL}\" under \"permissions\", \"allow\" of ~/.claude/settings.json allows it"),
        ),
    ] {
        let lab = lab(&permissions);
        let mut embedder = Embedder::start(&lab);
        embedder.initialize(&[]);
        let refused = embedder.refused(&json!({"subtype": "call_tool", "name": CALL}));
        let error = format!("\"{CALL}\" may not be called: {why}");
        assert_eq!(refused, ("refused".to_owned(), error));
        assert!(embedder.seen.is_empty(), "{:?}", embedder.seen);
        assert_eq!(embedder.finish(), "");
    }
    let lab = lab(&json!({"allow": ["mcp__other__echo"]}));
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    embedder.call(CALL, &json!({}));
    assert_eq!(embedder.finish(), "");
}

#[test]
fn a_tool_that_has_changed_is_shown_to_the_embedder() {
    let described = |text: &str| json!({"tools": [{"name": "echo", "description": text, "do": [{"echo": true}]}]});
    let lab = lab(&json!({"allow": ["mcp__*"]}));
    lab.configure([("other", described("reads"))]);
    let mut embedder = Embedder::start(&lab);
    initialize(&mut embedder);
    embedder.call(CALL, &json!({}));
    embedder.finish();
    lab.configure([("other", described("mails"))]);
    let mut embedder = Embedder::start(&lab);
    initialize(&mut embedder);
    let (question, end) = asked(&mut embedder, success(&json!({"behavior": "deny"})));
    assert_eq!(question["reason"], "changed");
    assert_eq!(question["change"], "  description:\n    -reads\n    +mails");
    assert_eq!(end["code"], "refused");
    let (_, end) = asked(
        &mut embedder,
        success(&json!({"behavior": "allow", "always": true})),
    );
    assert_eq!(end["subtype"], "success");
    embedder.call(CALL, &json!({}));
    assert_eq!(embedder.finish(), "");
}

#[test]
fn a_question_is_withdrawn_with_its_call() {
    let lab = lab(&json!({}));
    let mut embedder = Embedder::start(&lab);
    initialize(&mut embedder);
    let call = embedder.begin(&json!({"subtype": "call_tool", "name": CALL}));
    let question = embedder.hear();
    assert_eq!(question["request"]["subtype"], "can_use_tool");
    embedder.say(json!({"type": "control_cancel_request", "request_id": call}).to_string());
    assert_eq!(
        embedder.hear(),
        json!({"type": "control_cancel_request", "request_id": question["request_id"]})
    );
    assert_eq!(embedder.finish(), "");
}
