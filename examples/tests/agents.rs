//! The example agents, end to end: a real program, a real server, and a model that is not real but
//! makes real tool calls.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers fail the test by panicking"
)]

mod model;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use model::{Api, FakeModel};
use serde_json::{Value, json};
use trunkline_testkit::{Scratch, Script};

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// One agent's run: what it printed, and what the model was sent.
struct Run {
    out: String,
    err: String,
    requests: Vec<Value>,
}

/// Runs an agent whose model wants to call `tool`, with `typed` on its standard input.
fn run(api: Api, script: &Script, tool: &str, arguments: &Value, typed: &str) -> Run {
    run_with(api, script, tool, arguments, typed, "auto")
}

/// The same, with this value of `ENABLE_TOOL_SEARCH`.
fn run_with(
    api: Api,
    script: &Script,
    tool: &str,
    arguments: &Value,
    typed: &str,
    search: &str,
) -> Run {
    let scratch = Scratch::new();
    let mut entry = scratch.entry("s", script);
    let (variable, value) = scratch.marker().env();
    entry["env"] = json!({variable: value});
    let config = json!({"mcpServers": {"s": entry}});
    scratch.write("home/.claude.json", config.to_string());
    let model = FakeModel::start(api, tool, arguments.clone());
    let program = match api {
        Api::Anthropic => env!("CARGO_BIN_EXE_anthropic-agent"),
        Api::OpenAi => env!("CARGO_BIN_EXE_openai-agent"),
    };
    let mut child = Command::new(program)
        .arg("what is it?")
        .current_dir(scratch.path())
        .env("HOME", scratch.home())
        .env_remove("CLAUDE_CONFIG_DIR")
        .env("NO_PROXY", "127.0.0.1")
        .env("ENABLE_TOOL_SEARCH", search)
        .env("ANTHROPIC_BASE_URL", model.url())
        .env("ANTHROPIC_API_KEY", "key")
        .env("OPENAI_BASE_URL", model.url())
        .env("OPENAI_API_KEY", "key")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(typed.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{err}");
    scratch.assert_no_processes(Duration::from_secs(5));
    Run {
        out: String::from_utf8(output.stdout).unwrap(),
        err,
        requests: model.requests(),
    }
}

const BOTH: [Api; 2] = [Api::Anthropic, Api::OpenAi];

fn adding() -> Script {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}});
    Script::default().tool_with(
        json!({"name": "add", "description": "Adds", "inputSchema": schema, "do": [{"echo": true}]}),
    )
}

#[test]
fn the_model_calls_a_tool_and_answers_with_what_it_said() {
    for api in BOTH {
        let arguments = json!({"a": 2, "b": 3});
        let run = run(api, &adding(), "mcp__s__add", &arguments, "yes\n");
        assert_eq!(
            run.out, "Let me see. The tool said: {\"a\":2,\"b\":3}\n",
            "{}",
            run.err
        );
        assert!(run.err.contains("call mcp__s__add with {\"a\":2,\"b\":3}"));
        assert_eq!(run.requests.len(), 2);
        let tools = run.requests[0]["tools"].to_string();
        assert!(
            tools.contains("mcp__s__add") && tools.contains("Adds"),
            "{tools}"
        );
        // What stays the same stays the same byte for byte.
        assert_eq!(tools, run.requests[1]["tools"].to_string());
    }
}

#[test]
fn what_the_user_refuses_is_not_called_and_the_model_learns_it() {
    for api in BOTH {
        let scratch = Scratch::new();
        let mark = scratch.join("called");
        let script = Script::default().tool("t", json!([{"touch": mark}, {"replyText": "x"}]));
        let run = run(api, &script, "mcp__s__t", &json!({}), "no\n");
        assert!(
            run.out
                .contains("The tool said: \"mcp__s__t\" may not be called: the user said no"),
            "{}",
            run.out
        );
        assert!(!mark.exists());
    }
}

#[test]
fn arguments_that_do_not_fit_are_explained_to_the_model() {
    for api in BOTH {
        let run = run(api, &adding(), "mcp__s__add", &json!({"a": "two"}), "yes\n");
        assert!(
            run.out.contains("\"a\" must be number, not \"two\""),
            "{}",
            run.out
        );
    }
}

#[test]
fn a_server_can_ask_the_user_in_the_middle_of_a_call() {
    let ask = json!({"method": "elicitation/create", "params": {
        "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
    }});
    for api in BOTH {
        let script = Script {
            era: trunkline_testkit::Era::Legacy,
            ..Script::default()
        };
        let script = script.tool("t", json!([{"request": ask}, {"replyAnswer": true}]));
        let run = run(api, &script, "mcp__s__t", &json!({}), "always\nAda\n36\n");
        assert!(run.err.contains("s asks: Who are you?"), "{}", run.err);
        let answer = r#"{"action":"accept","content":{"name":"Ada","age":36}}"#;
        assert!(run.out.contains(answer), "{}", run.out);
    }
}

#[test]
fn an_image_reaches_a_model_that_takes_images() {
    let image = json!({"content": [{"type": "image", "mimeType": "image/png", "data": PIXEL}]});
    let script = Script::default().tool("t", json!([{"reply": image}]));
    let seen = run(Api::Anthropic, &script, "mcp__s__t", &json!({}), "yes\n");
    let last = &seen.requests[1]["messages"][2]["content"][0]["content"][0];
    assert_eq!(
        last["source"],
        json!({"type": "base64", "media_type": "image/png", "data": PIXEL})
    );
    let told = run(Api::OpenAi, &script, "mcp__s__t", &json!({}), "yes\n");
    assert!(told.out.contains("[image image/png"), "{}", told.out);
}

#[test]
fn a_tool_that_the_model_has_searched_for_is_shown_from_then_on() {
    let script = Script {
        instructions: Some("Numbers are decimal.".to_owned()),
        ..adding()
    };
    for api in BOTH {
        let query = json!({"query": "adds numbers"});
        let run = run_with(api, &script, "ToolSearch", &query, "", "true");
        let tools: Vec<_> = run
            .requests
            .iter()
            .map(|sent| sent["tools"].to_string())
            .collect();
        assert!(
            tools[0].contains("ToolSearch") && !tools[0].contains("mcp__s__add"),
            "{}",
            tools[0]
        );
        assert!(run.out.contains("mcp__s__add"), "{}", run.out);
        assert!(tools[1].contains("mcp__s__add"), "{}", tools[1]);
        let first = run.requests[0].to_string();
        assert!(
            first.contains("## s\\n\\n> Numbers are decimal."),
            "{first}"
        );
    }
}
