//! The programs about calls, permissions and results, end to end against scripted servers.
#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers fail the test by panicking"
)]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testkit::{Scratch, Script};

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Runs a program with these arguments and a scripted server's command line; returns its output.
fn run(program: &str, arguments: &[&str], script: &Script, typed: &str) -> String {
    run_in(&Scratch::new(), program, arguments, script, typed)
}

fn run_in(
    scratch: &Scratch,
    program: &str,
    arguments: &[&str],
    script: &Script,
    typed: &str,
) -> String {
    let entry = scratch.entry("s", script);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (variable, value) = scratch.marker().env();
    let mut child = Command::new(program)
        .args(arguments)
        .arg(text(&entry["command"]))
        .args(entry["args"].as_array().unwrap().iter().map(text))
        .current_dir(scratch.path())
        .env("HOME", scratch.home())
        .env_remove("CLAUDE_CONFIG_DIR")
        .env(variable, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // A program that asks nothing may be gone already.
    let _ = input.write_all(typed.as_bytes());
    drop(input);
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    scratch.assert_no_processes(Duration::from_secs(5));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_error_has_a_message_and_a_remedy() {
    let schema = json!({"type": "object", "required": ["n"]});
    let script: Script = json!({"tools": [
        {"name": "fine", "do": [{"replyText": "done"}]},
        {"name": "fails", "do": [{"reply": {"content": [], "isError": true}}]},
        {"name": "strict", "inputSchema": schema, "do": [{"replyText": "done"}]},
        {"name": "delete_all", "do": [{"replyText": "gone"}]},
        {"name": "rejects", "do": [{"replyError": {"code": -32602, "message": "not so"}}]},
        {"name": "silent", "do": [{"silence": true}]},
        {"name": "crash", "do": [{"exit": 3}]},
    ]})
    .into();
    let program = env!("CARGO_BIN_EXE_stdio-errors");
    for (tool, expected) in [
        ("fine", "done\n"),
        ("fails", "the tool failed: "),
        ("fin", "remedy: offer the model the tools"),
        ("fin", "hint: did you mean \"mcp__local__fine\"?"),
        ("strict", "remedy: let the model correct the arguments"),
        ("delete_all", "remedy: a rule, a pin, policy or the user"),
        ("rejects", "remedy: let the model read the server's message"),
        ("silent", "remedy: give the call more time"),
        ("silent", "the tool may have run"),
        ("crash", "remedy: the server reconnects by itself"),
    ] {
        let out = run(program, &[tool, "{}"], &script, "");
        assert!(out.contains(expected), "{tool}: {out}");
    }
    let out = run(program, &["fine", "[]"], &script, "");
    assert!(out.contains("not a JSON object"), "{out}");
}

#[test]
fn always_is_stored_as_a_rule_and_a_form_is_filled_in() {
    let schema = json!({"type": "object", "required": ["age"], "properties": {
        "age": {"type": "integer", "title": "Your age"},
        "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
    }});
    let question = json!({"method": "elicitation/create",
        "params": {"message": "who are you?", "requestedSchema": schema}});
    let script: Script = json!({"era": "legacy", "tools": [
        {"name": "ask", "do": [{"request": question}, {"replyAnswer": true}]},
    ]})
    .into();
    let program = env!("CARGO_BIN_EXE_permissions");
    let scratch = Scratch::new();
    let arguments = ["rules.json", "mcp__local__ask", "{}"];
    let out = run_in(&scratch, program, &arguments, &script, "no\n");
    assert!(
        out.contains("error: \"mcp__local__ask\" may not be called"),
        "{out}"
    );
    let out = run_in(
        &scratch,
        program,
        &arguments,
        &script,
        "always\nold\n36\n\n",
    );
    assert!(
        out.contains("local asks terminal (mcp__local__ask)\nwho are you?"),
        "{out}"
    );
    assert!(out.contains("\"Your age\" must be a whole number"), "{out}");
    assert!(
        out.contains("\"age\":36") && out.contains("\"size\":\"m\""),
        "{out}"
    );
    assert_eq!(
        scratch.read("rules.json"),
        r#"{"allow":["mcp__local__ask"]}"#
    );
    // The second run asks for no permission; at the end of the input, the form is cancelled.
    let out = run_in(&scratch, program, &arguments, &script, "");
    assert!(!out.contains("call mcp__local__ask with"), "{out}");
    assert!(out.contains("cancel"), "{out}");
}

#[test]
fn a_result_is_shown_as_each_api_takes_it() {
    let long = "line\n".repeat(100_000);
    let script: Script = json!({"tools": [
        {"name": "chart", "do": [{"reply": {"content": [
            {"type": "text", "text": "sales\u{200b}"},
            {"type": "image", "mimeType": "image/png", "data": PIXEL},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
        ]}}]},
        {"name": "long", "do": [{"replyText": long}]},
    ]})
    .into();
    let program = env!("CARGO_BIN_EXE_model-results");
    for (api, expected) in [
        ("anthropic", "\"media_type\":\"image/png\""),
        ("openai", "sales\\n[image image/png"),
        ("openai-responses", "\"image_url\":\"data:image/png;base64,"),
    ] {
        let arguments = ["results", api, "mcp__local__chart", "{}"];
        let out = run(program, &arguments, &script, "");
        assert!(out.contains("text: 5 characters\nimage: "), "{api}: {out}");
        assert!(out.contains("link: file:///a"), "{api}: {out}");
        assert!(out.contains(expected), "{api}: {out}");
    }
    let arguments = ["results", "openai", "mcp__local__long", "{}"];
    let out = run(program, &arguments, &script, "");
    assert!(out.contains("saved: text/plain"), "{out}");
    assert!(out.len() < 200_000, "{}", out.len());
}
