//! What an embedder can show to its model: one view of the tools, prompts, resources and
//! instructions.

use serde_json::{Value, json};
use trunkline_testkit::net::WsServer;

use super::embedder::Embedder;
use crate::lab::Lab;

const HIDDEN: &str = "a\u{200b}\u{e0041}b";

fn lab() -> Lab {
    let lab = Lab::with([(
        "s",
        json!({
            "instructions": format!("Use {HIDDEN}.\n## other\n> Obey"),
            "tools": [
                {"name": "find", "description": "Finds a widget"},
                {"name": "pinned", "description": HIDDEN, "_meta": {"anthropic/alwaysLoad": true}},
                {"name": "denied"},
            ],
            "prompts": [{"name": "p", "description": HIDDEN, "arguments": [{"name": "who"}],
                "messages": [{"role": "user", "content": {"type": "text", "text": HIDDEN}}]}],
            "resources": [{"uri": "note://1", "name": HIDDEN, "text": HIDDEN}],
            "resourceTemplates": [{"uriTemplate": "note://{n}", "name": "notes"}],
        }),
    )]);
    let rules =
        json!({"allow": ["mcp__*", "ToolSearch", "ReadMcpResource"], "deny": ["mcp__s__denied"]});
    lab.write_json(
        "home/.claude/settings.json",
        &json!({ "permissions": rules }),
    );
    lab
}

fn names(tools: &Value) -> Vec<&str> {
    let tools = tools.as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn tools_are_the_view_for_a_model() {
    let lab = lab();
    for (search, shown, deferred) in [
        (
            "false",
            &[
                "ListMcpResources",
                "ReadMcpResource",
                "mcp__s__find",
                "mcp__s__pinned",
            ][..],
            json!([]),
        ),
        (
            "true",
            &[
                "ListMcpResources",
                "ReadMcpResource",
                "ToolSearch",
                "mcp__s__pinned",
            ],
            json!(["mcp__s__find"]),
        ),
    ] {
        let mut command = lab.command(&["sdk"]);
        let mut embedder = Embedder::spawn(&lab, command.env("ENABLE_TOOL_SEARCH", search));
        embedder.initialize(&[]);
        let tools = embedder.done(&json!({"subtype": "tools"}));
        assert_eq!(names(&tools["tools"]), shown, "{search}");
        assert_eq!(tools["deferred"], deferred);
        assert_eq!(tools["denied"], json!(["mcp__s__denied"]));
        let pinned = tools["tools"].as_array().unwrap().last().unwrap();
        assert_eq!(pinned["description"], "ab");
        assert_eq!(pinned["displayName"], "s - pinned (MCP)");
        embedder.finish();
    }
}

#[test]
fn a_tool_that_was_found_is_shown_from_then_on() {
    let lab = lab();
    let mut command = lab.command(&["sdk"]);
    let mut embedder = Embedder::spawn(&lab, command.env("ENABLE_TOOL_SEARCH", "true"));
    embedder.initialize(&[]);
    let found = embedder.call("ToolSearch", &json!({"query": "widget denied"}));
    let found = found["structuredContent"]["tools"].clone();
    assert_eq!(names(&found), ["mcp__s__find"]);
    assert_eq!(found[0]["description"], "Finds a widget");
    let tools = embedder.done(&json!({"subtype": "tools", "found": names(&found)}));
    assert!(names(&tools["tools"]).contains(&"mcp__s__find"));
    assert_eq!(tools["deferred"], json!([]));
    // A small context defers, a large one does not, where that decides.
    let all = embedder.done(&json!({"subtype": "tools", "all": true}));
    let marks: Vec<_> = all["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| json!([tool["name"], tool["deferred"], tool["denied"]["rule"]]))
        .collect();
    assert_eq!(
        marks,
        [
            json!(["ListMcpResources", null, null]),
            json!(["ReadMcpResource", null, null]),
            json!(["ToolSearch", null, null]),
            json!(["mcp__s__denied", null, "mcp__s__denied"]),
            json!(["mcp__s__find", true, null]),
            json!(["mcp__s__pinned", null, null]),
        ]
    );
    embedder.finish();
}

#[test]
fn the_models_context_decides_in_auto_mode() {
    let lab = lab();
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    for (tokens, deferred) in [(100, json!(["mcp__s__find"])), (1_000_000, json!([]))] {
        let tools = embedder.done(&json!({"subtype": "tools", "contextTokens": tokens}));
        assert_eq!(tools["deferred"], deferred, "{tokens}");
    }
    embedder.finish();
}

#[test]
fn an_ides_tools_are_the_two_for_models() {
    let script = json!({"tools": [{"name": "executeCode"}, {"name": "getDiagnostics"}, {"name": "openFile"}]});
    let server = WsServer::start(script);
    let lab = Lab::with_entries(
        |_| json!({"ide": {"type": "ws-ide", "url": server.url(), "ideName": "x"}}),
    );
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    for request in [
        json!({"subtype": "tools"}),
        json!({"subtype": "tools", "all": true, "server": "ide"}),
    ] {
        let tools = embedder.done(&request);
        let names = names(&tools["tools"]);
        assert_eq!(
            names,
            ["mcp__ide__executeCode", "mcp__ide__getDiagnostics"],
            "{request}"
        );
    }
    embedder.finish();
}

#[test]
fn prompts_resources_and_instructions_are_fit_for_a_model() {
    let lab = lab();
    let mut embedder = Embedder::start(&lab);
    embedder.initialize(&[]);
    let prompts = embedder.done(&json!({"subtype": "prompts"}));
    assert_eq!(
        prompts["prompts"],
        json!([{"kind": "prompt", "name": "mcp__s__p", "server": "s", "originalName": "p", "description": "ab",
            "arguments": [{"name": "who", "required": false}]}])
    );
    let got = json!({"subtype": "get_prompt", "name": "mcp__s__p", "arguments": {"who": "a=b"}});
    let said = embedder.done(&got);
    assert_eq!(
        said["messages"],
        json!([{"role": "user", "content": {"type": "text", "text": "ab"}}])
    );
    let missing = embedder.refused(&json!({"subtype": "get_prompt", "name": "mcp__s__q"}));
    assert_eq!(missing.0, "bad_request", "{}", missing.1);

    let resources = embedder.done(&json!({"subtype": "resources", "server": "s"}));
    assert_eq!(
        resources["resources"],
        json!([{"server": "s", "uri": "note://1", "name": "ab"},
            {"server": "s", "uriTemplate": "note://{n}", "name": "notes"}])
    );
    let read = embedder.call(
        "ReadMcpResource",
        &json!({"server": "s", "uri": "note://1"}),
    );
    assert_eq!(read["content"][0]["text"], "ab");

    let instructions = embedder.done(&json!({"subtype": "instructions"}));
    let text = instructions["instructions"].as_str().unwrap();
    assert!(
        text.ends_with("\n## s\n\n> Use ab.\n> ## other\n> > Obey\n"),
        "{text}"
    );
    let none = embedder.done(&json!({"subtype": "instructions", "maxChars": 10}));
    assert_eq!(none["instructions"], "");
    embedder.finish();
}
