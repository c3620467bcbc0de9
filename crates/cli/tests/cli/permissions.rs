//! Calls that rules forbid (TOOL-10), tools that have changed (TOOL-11), and arguments that do not
//! fit.

use serde_json::json;
use trunkline_testkit::Script;

use crate::lab::Lab;
use crate::pty::Session;

fn described(description: &str) -> Script {
    Script::default().tool_with(
        json!({"name": "t", "description": description, "do": [{"replyText": "called"}]}),
    )
}

#[test]
fn a_rule_in_the_settings_forbids_a_call() {
    let lab = Lab::with([("s", described("x"))]);
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
    let rules = json!({"permissions": {"deny": ["mcp__s__t", "Bash(rm:*)"], "allow": ["mcp__s"]}});
    lab.write_json("home/.claude/settings.json", &rules);
    let denied = |rule: &str, file: &str| {
        let error = format!(
            "\"mcp__s__t\" may not be called: the rule \"{rule}\" of [DIR]/{file} denies it"
        );
        let hint = "to allow it, remove the rule";
        lab.run(&["call", "s", "t"]).fails(5, &error, hint);
    };
    denied("mcp__s__t", "home/.claude/settings.json");
    // A project can forbid as well.
    let rules = json!({"permissions": {"deny": ["mcp__s"]}});
    lab.write_json("home/.claude/settings.json", &json!({}));
    lab.write_json(".claude/settings.json", &rules);
    denied("mcp__s", ".claude/settings.json");
}

#[test]
fn a_tool_that_a_rule_denies_is_marked_for_people_and_not_shown_to_a_model() {
    let script = described("x").tool_with(json!({"name": "u", "description": "fine"}));
    let lab = Lab::with([("s", script.resource("file:///r", "r"))]);
    let rules = json!({"permissions": {"deny": ["mcp__s__t", "ReadMcpResource"]}});
    lab.write_json("home/.claude/settings.json", &rules);
    lab.run(&["tools"])
        .is(0, "mcp__s__t  [denied] x\nmcp__s__u  fine\n", "");
    lab.run(&["search", "select:t"])
        .is(0, "mcp__s__t  [denied] x\n", "");
    let denied = json!({"rule": "mcp__s__t", "source": "[DIR]/home/.claude/settings.json"});
    let tools = lab.run(&["tools", "--json"]).json();
    assert_eq!(tools[0]["denied"], denied);
    assert_eq!(tools[1].get("denied"), None);
    let one = lab.run(&["tools", "s", "t"]);
    let told = "  denied: the rule \"mcp__s__t\" of [DIR]/home/.claude/settings.json denies it\n";
    assert!(one.out.contains(told), "{}", one.out);
    let shown = lab.run(&["tools", "--format", "anthropic"]);
    let names: Vec<_> = shown
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["ListMcpResources", "mcp__s__u"]);
    assert_eq!(
        shown.err,
        "2 tools are denied by rules and not included; `trunkline tools` marks them\n"
    );
}

#[test]
fn a_tool_that_has_changed_is_called_only_when_that_is_accepted() {
    let lab = Lab::with([("s", described("reads mail"))]);
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
    lab.configure([("s", described("reads mail\nand sends it on"))]);
    let refused = lab.run(&["call", "s", "t"]);
    refused.is(
        5,
        "",
        "  |   description:\n  |      reads mail\n  |     +and sends it on\n\
         error: \"mcp__s__t\" may not be called: tool \"t\" of \"s\" has changed since its first call (description)\n  \
         hint: to accept the change, pass --accept-changes\n",
    );
    let refused = lab.run(&["call", "--json", "s", "t"]);
    let error: serde_json::Value = serde_json::from_str(&refused.err).unwrap();
    let diff = "  description:\n     reads mail\n    +and sends it on";
    assert_eq!(error["error"]["diff"], diff);
    let told = lab.run(&["status"]);
    assert!(
        told.out.contains("has changed since its first call"),
        "{}",
        told.out
    );
    let status = lab.run(&["status", "--json"]).json();
    let changed = json!([{"server": "s", "tool": "t", "parts": ["description"]}]);
    assert_eq!(status["changedTools"], changed);
    lab.run(&["call", "--accept-changes", "s", "t"])
        .is(0, "called\n", "");
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
}

#[test]
fn a_tool_that_the_entrys_filter_hides_is_reported_as_hidden() {
    let lab = Lab::with_entries(|lab| {
        let mut entry = lab.scratch.entry("s", &described("x"));
        entry["tools"] = json!({"deny": ["t"]});
        json!({ "s": entry })
    });
    lab.run(&["call", "s", "t"]).fails(
        2,
        "the tool \"t\" of \"s\" is hidden by tools.deny of its entry (.mcp-config.json)",
        "change tools.deny there to offer it",
    );
}

#[test]
fn at_a_terminal_a_change_is_shown_and_asked_about() {
    let lab = Lab::with([("s", described("reads mail"))]);
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
    lab.configure([("s", described("sends mail"))]);
    for (answer, code) in [("n", 5), ("y", 0)] {
        let mut session = Session::start(&mut lab.command(&["call", "s", "t"]));
        session.answer("accept the change and call it? [y/N] ", answer);
        let (ended, shown) = session.end();
        assert_eq!(ended, Some(code), "{shown}");
        assert_eq!(shown.matches("+sends mail").count(), 1, "{shown}");
    }
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
}

#[test]
fn invalid_arguments_are_reported_and_sent_only_on_request() {
    let schema = json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}});
    let script = Script::default()
        .tool_with(json!({"name": "t", "inputSchema": schema, "do": [{"echo": true}]}));
    let lab = Lab::with([("s", script)]);
    let hint = "see `trunkline tools s t` for its arguments; --no-validate sends them anyway";
    for (arguments, problem) in [
        (&[][..], "\"path\" is missing"),
        (&["path=x", "n:=1.5"], "\"n\" must be integer, not 1.5"),
    ] {
        let words = [&["call", "s", "t"], arguments].concat();
        let error = format!("the arguments do not fit \"t\" of \"s\": {problem}");
        lab.run(&words).fails(2, &error, hint);
    }
    lab.run(&["call", "--no-validate", "s", "t"])
        .is(0, "{}\n", "");
}

#[test]
fn status_shows_everything_as_one_document() {
    let script = described("x")
        .prompt(json!({"name": "p"}))
        .resource("file:///r", "r");
    let lab = Lab::with([("my server", script)]);
    let status = lab.run(&["status", "--json"]).json();
    assert_eq!(status["clients"][0]["type"], "connected");
    assert_eq!(status["configs"]["my server"]["scope"], "dynamic");
    let tools = status["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["isMcp"] == true).unwrap();
    assert_eq!(tool["name"], "mcp__my_server__t");
    assert_eq!(tool["originalToolName"], "t");
    assert_eq!(status["resources"]["my server"][0]["uri"], "file:///r");
    assert_eq!(status["prompts"]["my server"][0]["name"], "p");
    assert_eq!(status["normalizedNames"]["my_server"], "my server");
}

#[test]
fn nothing_of_a_denied_server_is_read() {
    let script = described("x")
        .prompt(json!({"name": "p"}))
        .resource("file:///r", "r");
    let lab = Lab::with([("s", script)]);
    lab.run(&["read", "s", "file:///r"]).is(0, "r\n", "");
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"permissions": {"deny": ["mcp__s"]}}),
    );
    let error = "nothing of \"s\" may be used: the rule \"mcp__s\" of [DIR]/home/.claude/settings.json denies it";
    for words in [
        &["read", "s", "file:///r"][..],
        &["read", "@s:file:///r"],
        &["prompt", "s", "p"],
        &["prompt", "mcp__s__p"],
    ] {
        lab.run(words).fails(5, error, "");
    }
}

#[test]
fn colliding_prompt_names_are_reported() {
    let script = || Script::default().prompt(json!({"name": "p"}));
    let lab = Lab::with([("x.y", script()), ("x_y", script())]);
    let status = lab.run(&["status", "--json"]).json();
    assert_eq!(status["normalizedNames"], json!({"x_y": ["x.y", "x_y"]}));
    let said = status["diagnostics"].to_string();
    assert!(
        said.contains("the prompt \\\"p\\\" of \\\"x_y\\\" is called mcp__x_y__p_"),
        "{said}"
    );
}

#[test]
fn a_default_that_is_made_from_a_set_is_no_change() {
    let fields = |default: &str| {
        let schema = json!({
            "type": "object",
            "properties": {"fields": {"type": "string", "default": default}},
        });
        let tool = json!({"name": "t", "inputSchema": schema, "do": [{"replyText": "called"}]});
        Script::default().tool_with(tool)
    };
    let lab = Lab::with([("s", fields("priority,updated,status"))]);
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
    lab.configure([("s", fields("updated,status,priority"))]);
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
    lab.configure([("s", fields("updated,status,priority,password"))]);
    assert_eq!(lab.run(&["call", "s", "t"]).code, Some(5));
}

#[test]
fn unreadable_settings_are_named_as_such_and_not_as_a_rule() {
    let lab = Lab::with([("s", crate::lab::echo())]);
    let settings = ".claude/settings.json";
    std::fs::create_dir_all(lab.scratch.home().join(".claude")).unwrap();
    for text in [
        r#"{"permissions": {"deny": ["mcp__x"]"#,
        r#"{"permissions": {"deny": {"mcp__x": 1}}}"#,
    ] {
        std::fs::write(lab.scratch.home().join(settings), text).unwrap();
        let run = lab.run(&["call", "s", "echo", "n:=1"]);
        assert_eq!(run.code, Some(5), "{run:#?}");
        let told = ".claude/settings.json may have rules that deny it, but cannot be read";
        assert!(run.err.contains(told), "{run:#?}");
        assert!(!run.err.contains("mcp__*"), "{run:#?}");
    }
}
