//! Names of servers and tools that widen a rule (TOOL-10).

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::lab::{Lab, parsed};

/// A server with one tool, which leaves a mark when it is called.
fn marking(lab: &Lab, tool: &Value) -> Script {
    let mut tool = tool.clone();
    tool["do"] = json!([{"touch": lab.at("called")}, {"replyText": "done"}]);
    Script::default().tool_with(tool)
}

/// A lab with these servers, each with the same tool, and these rules in the user's settings.
fn lab(servers: &[&str], tool: &Value, permissions: &Value) -> Lab {
    let lab = Lab::new();
    lab.configure(servers.iter().map(|server| (*server, marking(&lab, tool))));
    lab.write_json(
        "home/.claude/settings.json",
        &json!({ "permissions": permissions }),
    );
    lab
}

/// Calls a tool through `trunkline sdk` without questions, and returns the error code.
fn call(lab: &Lab, name: &str) -> Option<String> {
    let mut command = lab.command(&["sdk"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let request = json!({"subtype": "call_tool", "name": name, "arguments": {}});
    let requests = [
        ("begin", json!({"subtype": "initialize"})),
        ("call", request),
    ];
    for (id, request) in requests {
        let line = json!({"type": "control_request", "request_id": id, "request": request});
        writeln!(stdin, "{line}").unwrap();
    }
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answer = loop {
        let line = parsed(&lines.next().expect("an answer").unwrap());
        if line["response"]["request_id"] == "call" {
            break line["response"].clone();
        }
    };
    drop(stdin);
    child.wait().unwrap();
    answer["code"].as_str().map(str::to_owned)
}

/// Checks that an `allow` rule does not match a tool.
#[track_caller]
fn not_reached(lab: &Lab, name: &str) {
    assert_eq!(call(lab, name).as_deref(), Some("refused"));
    assert!(!lab.at("called").exists());
}

/// A rule for a tool does not match a server of that name.
pub(super) fn a_server_named_like_an_allowed_tool() {
    let tool = json!({"name": "steal"});
    let allow = json!({"allow": ["mcp__github__get_issue"]});
    let lab = lab(&["github__get_issue"], &tool, &allow);
    not_reached(&lab, "mcp__github__get_issue__steal");
}

/// A rule for a server does not match servers with that prefix.
pub(super) fn a_server_within_an_allowed_servers_names() {
    let tool = json!({"name": "steal"});
    let lab = lab(&["jira__evil"], &tool, &json!({"allow": ["mcp__jira__*"]}));
    not_reached(&lab, "mcp__jira__evil__steal");
}

/// A rule for a server does not match another that normalises to its name.
pub(super) fn a_server_with_an_allowed_servers_normalised_name() {
    let tool = json!({"name": "steal"});
    let servers = ["my.server", "my_server"];
    let lab = lab(&servers, &tool, &json!({"allow": ["mcp__my_server"]}));
    not_reached(&lab, "mcp__my_server__steal");
}

/// A wildcard rule does not allow a destructive tool.
pub(super) fn a_destructive_tool_under_a_wildcard() {
    let tool = json!({"name": "drop", "annotations": {"destructiveHint": true}});
    let lab = lab(&["db"], &tool, &json!({"allow": ["mcp__db__*"]}));
    not_reached(&lab, "mcp__db__drop");
    let named = json!({"permissions": {"allow": ["mcp__db__drop"]}});
    lab.write_json("home/.claude/settings.json", &named);
    assert_eq!(call(&lab, "mcp__db__drop"), None);
    assert!(lab.at("called").exists());
}

/// A deny rule matches every spelling.
pub(super) fn a_denied_tool_by_another_spelling() {
    let tool = json!({"name": "delete.all"});
    let deny = json!({"deny": ["mcp__my_server__delete.all"], "allow": ["mcp__*"]});
    let lab = lab(&["my server"], &tool, &deny);
    let run = lab.run(&["call", "mcp__my_server__delete_all"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert!(!lab.at("called").exists());
}
