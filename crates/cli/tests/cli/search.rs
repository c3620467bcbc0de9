//! `trunkline search`.

use serde_json::json;

use crate::lab::Lab;

fn lab() -> Lab {
    Lab::with([
        (
            "files",
            json!({"tools": [
                {"name": "read_file", "description": "Reads a file", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}},
                {"name": "list_directory", "description": "Lists a directory"},
            ]}),
        ),
        (
            "chat",
            json!({"tools": [{"name": "send", "description": "Sends a message"}, {"name": "read", "description": "Reads messages"}]}),
        ),
    ])
}

#[test]
fn the_tools_that_fit_are_shown_the_best_first() {
    let lab = lab();
    let run = lab.run(&["search", "reading", "files", "--limit", "1"]);
    assert_eq!(run.out, "mcp__files__read_file  Reads a file\n");
    assert!(
        run.err.starts_with("1 of ") && run.err.ends_with(" matches; show all with -n 3\n"),
        "{}",
        run.err
    );
    let run = lab.run(&["search", "show folder", "-n1"]);
    assert_eq!(run.out, "mcp__files__list_directory  Lists a directory\n");
    lab.run(&["search", "-n", "4", "+mcp__chat"]).is(
        0,
        "mcp__chat__read  Reads messages\nmcp__chat__send  Sends a message\n",
        "",
    );
    lab.run(&["search", "-n", "1", "+mcp__chat"]).is(
        0,
        "mcp__chat__read  Reads messages\n",
        "1 of 2 matches; show all with -n 2\n",
    );
    let found = lab.run(&["search", "+chat", "read"]);
    assert!(found.out.starts_with("mcp__chat__read  "), "{}", found.out);
    assert!(!found.out.contains("mcp__files"), "{}", found.out);
}

#[test]
fn names_are_selected_in_the_order_asked_for() {
    lab()
        .run(&["search", "select:send,mcp__files__read_file"])
        .is(
            0,
            "mcp__chat__send  Sends a message\nmcp__files__read_file  Reads a file\n",
            "",
        );
}

#[test]
fn as_json_a_tool_has_its_score() {
    let found = lab()
        .run(&["search", "--json", "-n", "1", "read", "file"])
        .json();
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    let tool = &found[0];
    assert_eq!(tool["name"], "mcp__files__read_file");
    assert_eq!(tool["inputSchema"]["properties"]["path"]["type"], "string");
    assert!(tool["score"].as_f64().is_some_and(|score| score > 0.0));
}

#[test]
fn no_matches_is_not_an_error() {
    let lab = lab();
    lab.run(&["search", "quantum"])
        .is(0, "", "no matches among 4 tools\n");
    lab.run(&["search", "quantum", "--json"]).is(0, "[]\n", "");
    assert_eq!(lab.run(&["search"]).code, Some(2));
    assert_eq!(lab.run(&["search", "-n", "0", "file"]).code, Some(2));
    let run = lab.run(&["search", " "]);
    assert_eq!(run.code, Some(2));
    assert!(
        run.err.starts_with("error: the search is empty\n"),
        "{}",
        run.err
    );
}
