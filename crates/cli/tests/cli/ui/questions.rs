//! Questions from servers (ELI-1 … ELI-5) and from the permission rules.

use serde_json::{Value, json};

use super::screen::Tui;
use super::servers::browser;
use super::{ENTER, F5};
use crate::lab::Lab;

/// A server whose tool `ask` asks this, and replies with the answer.
fn asking(params: &Value) -> Value {
    let request = json!({"method": "elicitation/create", "params": params});
    json!({"era": "legacy", "tools": [{"name": "ask", "do": [{"request": request}, {"replyAnswer": true}]}]})
}

/// Calls the tool, and waits until the question takes keys.
fn call(tui: &mut Tui) {
    tui.at("1 tool", "/ask\r");
    tui.at("no arguments", F5);
    tui.sees("Question, s, during mcp__s__ask");
    tui.sees("keys wait");
    tui.sees_no("keys wait");
}

#[test]
fn a_form_is_answered() {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string", "minLength": 2},
        "count": {"type": "integer", "minimum": 1, "maximum": 5},
        "urgent": {"type": "boolean"},
        "size": {"type": "string", "enum": ["s", "m", "l"], "default": "m"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    }, "required": ["name", "count"]});
    let lab = Lab::with([(
        "s",
        asking(&json!({"message": "Who?", "requestedSchema": schema})),
    )]);
    let mut tui = Tui::start(&lab);
    call(&mut tui);
    tui.sees("Who?");
    tui.keys("Ada\t9\ty\t\t ");
    tui.keys("\t\u{1b}[C\u{1b}[C\r");
    tui.sees("count");
    // Back to the field with the problem.
    tui.keys("\u{7f}4\t\t\t\t\u{1b}[C\u{1b}[C\r");
    let screen = tui.sees("✓ done");
    for part in [
        "\"accept\"",
        "\"Ada\"",
        "\"count\": 4",
        "\"urgent\": true",
        "\"m\"",
        "\"a\"",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    tui.quit("\u{3}").is(0);
}

#[test]
fn a_question_is_declined_or_cancelled() {
    let lab = Lab::with([(
        "s",
        asking(&json!({"message": "Who?", "requestedSchema": {"type": "object"}})),
    )]);
    let mut tui = Tui::start(&lab);
    call(&mut tui);
    tui.keys(ENTER);
    tui.sees("\"cancel\"");
    tui.keys("r");
    tui.sees("keys wait");
    tui.sees_no("keys wait");
    tui.keys("\t\r");
    tui.sees("\"decline\"");
    tui.quit("\u{3}").is(0);
}

/// ELI-5, for the questions of a call in the modern protocol.
#[test]
fn a_cancelled_call_withdraws_its_question() {
    let params = json!({"message": "Who?", "requestedSchema": {"type": "object"}});
    let requests = json!({"who": {"method": "elicitation/create", "params": params}});
    let lab = Lab::with([(
        "s",
        json!({"tools": [{"name": "ask", "do": [
            {"inputRequired": {"inputRequests": requests, "requestState": "1"}}, {"replyInputs": true}]}]}),
    )]);
    let mut tui = Tui::start(&lab);
    call(&mut tui);
    tui.keys("\u{1b}OQ");
    tui.sees("1 question");
    tui.keys("c");
    tui.sees("○ cancelled");
    tui.sees_no("1 question");
    tui.quit("\u{3}").is(0);
}

/// ELI-3: the whole host is shown, and nothing is opened unasked.
#[test]
fn a_page_is_opened_only_after_consent() {
    let page = json!({"mode": "url", "message": "Grant access", "elicitationId": "1",
        "url": "https://grant.example:8443/x?a=b"});
    let lab = Lab::with([("s", asking(&page))]);
    let browser = browser(&lab);
    let mut tui = Tui::run(
        &lab,
        &["--mcp-config", ".mcp-config.json"],
        (80, 24),
        |command| {
            command.env("BROWSER", &browser);
        },
    );
    call(&mut tui);
    let screen = tui.sees("Grant access");
    assert!(screen.contains("grant.example:8443"), "{screen}");
    assert!(!lab.at("visited").exists());
    tui.keys("\t\t\r");
    lab.file("visited");
    // The server itself waits until the user has finished.
    tui.sees("\"accept\"");
    tui.quit("\u{3}").is(0);
}

/// TOOL-10: a rule that asks opens a dialog; the default answer denies.
#[test]
fn a_rule_that_asks_opens_a_dialog() {
    let lab = Lab::with([(
        "s",
        json!({"tools": [{"name": "ask", "do": [{"replyText": "it ran"}]}]}),
    )]);
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"permissions": {"ask": ["mcp__s__ask"]}}),
    );
    let mut tui = Tui::start(&lab);
    call(&mut tui);
    tui.sees("asks before each call");
    tui.keys(ENTER);
    let screen = tui.sees("✗ failed");
    assert!(!screen.contains("it ran"), "{screen}");
    tui.keys("r");
    tui.sees("keys wait");
    tui.sees_no("keys wait");
    tui.keys("\t\r");
    tui.sees("it ran");
    tui.quit("\u{3}").is(0);
}
