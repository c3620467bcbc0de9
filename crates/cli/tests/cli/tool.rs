//! `trunkline tools <server> <tool>`.

use std::process::Command;

use serde_json::{Value, json};

use crate::lab::Lab;

fn issue() -> Value {
    json!({
        "name": "create issue",
        "title": "Create",
        "description": "Creates an issue.\nTells its number.",
        "annotations": {"destructiveHint": true, "openWorldHint": true},
        "_meta": {"x": 1},
        "inputSchema": {"type": "object", "required": ["title", "labels", "kind"], "properties": {
            "title": {"type": "string", "description": "What it is about"},
            "kind": {"enum": ["bug", "it's a wish"], "type": "string"},
            "labels": {"type": "array", "items": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "integer", "minimum": 1}, "colour": {"type": ["string", "null"]}}}},
            "draft": {"type": "boolean", "default": false},
        }},
        "outputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}},
        "do": [{"reply": {"content": [{"type": "text", "text": "done"}], "structuredContent": {"number": 7}}}],
    })
}

fn lab() -> Lab {
    Lab::with([("my hub", json!({"tools": [issue(), {"name": "ping"}]}))])
}

const SHOWN: &str = "\
mcp__my_hub__create_issue
  title: Create
  shown as: my hub - Create (MCP)
  server: my hub (tool create issue)
  annotations: destructive, open-world

  | Creates an issue.
  | Tells its number.

arguments:
  title  string, required
      | What it is about
  kind  one of \"bug\", \"it's a wish\", required
  labels  array of object, required
      id  integer, at least 1, required
      colour  string or null
  draft  boolean, by default false

returns:
  number  integer

example:
  trunkline call 'my hub' 'create issue' title=text kind=bug labels:='[{\"id\":1}]'
";

#[test]
fn it_is_shown_by_server_and_name_or_by_its_whole_name() {
    let lab = lab();
    for words in [
        &["tools", "my hub", "create issue"][..],
        &["tools", "my hub", "create_issue"],
        &["tools", "mcp__my_hub__create_issue"],
    ] {
        lab.run(words).is(0, SHOWN, "");
    }
    lab.run(&["tools", "my hub", "ping"]).is(
        0,
        "mcp__my_hub__ping\n  shown as: my hub - ping (MCP)\n  server: my hub (tool ping)\n\nno arguments\n\nexample:\n  trunkline call 'my hub' ping\n",
        "",
    );
}

#[test]
fn the_example_can_be_called() {
    let lab = lab();
    let (_, example) = SHOWN.split_once("example:\n  trunkline ").unwrap();
    let line = format!("\"$0\" --mcp-config .mcp-config.json {example}");
    let program = lab.bare(&[]);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).arg(program.get_program());
    let environment = program
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    shell
        .env_clear()
        .envs(environment)
        .current_dir(lab.scratch.path());
    lab.finish(&mut shell).is(0, "done\n", "");
}

#[test]
fn json_has_every_field() {
    let lab = lab();
    let shown = lab
        .run(&["tools", "my hub", "create issue", "--json"])
        .json();
    let tool = issue();
    assert_eq!(shown["name"], "mcp__my_hub__create_issue");
    assert_eq!(shown["originalName"], "create issue");
    for part in [
        "inputSchema",
        "outputSchema",
        "annotations",
        "_meta",
        "title",
    ] {
        assert_eq!(shown[part], tool[part], "{part}");
    }
    let own = lab.run(&["tools", "ToolSearch", "--json"]).json();
    assert_eq!(
        (&own["name"], own.get("server")),
        (&json!("ToolSearch"), None)
    );
    let shown = lab.run(&["tools", "my hub", "ping", "--format", "anthropic"]);
    let expected = json!([{"name": "mcp__my_hub__ping", "description": "", "input_schema": {"type": "object"}}]);
    assert_eq!(shown.json(), expected);
}

#[test]
fn an_unknown_tool_is_explained() {
    let lab = lab();
    lab.run(&["tools", "my hub", "pnig"]).fails(
        2,
        "the server \"my hub\" has no tool \"pnig\"",
        "did you mean \"ping\"?",
    );
    lab.run(&["tools", "mcp__my_hub__pong"]).fails(
        2,
        "there is no tool \"mcp__my_hub__pong\"",
        "did you mean \"mcp__my_hub__ping\"?",
    );
}

#[test]
fn schema_text_is_escaped_on_a_terminal() {
    let evil = "\u{1b}[31m\u{202e}";
    let schema = json!({"type": "object", "required": [evil], "properties": {evil: {"type": "string", "description": evil, "enum": [evil]}}});
    let lab = Lab::with([(
        "s",
        json!({"tools": [{"name": "t", "inputSchema": schema, "outputSchema": schema}]}),
    )]);
    let run = lab.run(&["tools", "s", "t"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(!run.out.contains(['\u{1b}', '\u{202e}']), "{}", run.out);
}
