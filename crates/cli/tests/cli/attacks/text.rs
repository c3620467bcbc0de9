//! Foreign text that tries to pass for the program's own (SEC-3).

use std::process::Command;

use serde_json::{Value, json};

use crate::lab::{Lab, Run, echo};
use crate::terminal::on_a_terminal;

/// Every kind of line break, each followed by a forged line.
const FORGED: &str = "x\nerror: forged\r  hint: forged\r\n  hint: forged\u{2028}warning: forged\u{85}\"forged\" in .mcp.json\n  command: forged";

/// Long enough to reach the next row of a terminal, with a forged line at every possible width.
fn padded() -> String {
    "aaaaaaa error: forged".repeat(200)
}

/// Tabs and emoji, which some terminals show wider than others, up to a forged line.
fn stretched() -> String {
    let tabs = |count: usize| format!("boom:{}Xerror: forged\n", "\t".repeat(count));
    let family = "👩\u{200d}👩\u{200d}👧".repeat(38);
    (1..30).map(tabs).collect::<String>() + &family + "error: forged"
}

/// No line looks like one of ours. The continuation of a line is indented further, and a block has
/// its mark.
#[track_caller]
fn check_lines(text: &str) {
    let forged = [
        "error: forged",
        "warning: forged",
        "hint: forged",
        "  hint: forged",
        "\"forged\"",
        "command: forged",
        "  command: forged",
    ];
    for line in text.split(['\n', '\r', '\u{2028}', '\u{85}']) {
        let begins = forged.iter().any(|start| line.starts_with(start));
        assert!(!begins, "{line:?} in {text}");
    }
}

#[track_caller]
fn check(run: &Run) {
    assert!(run.code.is_some());
    check_lines(&run.out);
    check_lines(&run.err);
}

/// Runs commands in a pipe and on a terminal.
#[track_caller]
fn check_all(lab: &Lab, commands: &[&[&str]]) {
    for words in commands {
        check(&lab.run(words));
        check_screen(&mut lab.command(words));
    }
}

/// On a terminal, no row is left to the terminal to wrap.
#[track_caller]
fn check_screen(command: &mut Command) {
    let shown = on_a_terminal(command.env("NO_COLOR", "1"));
    // The status line and the rows of `list` replace themselves.
    let shown = crate::terminal::without_own(&shown);
    check_lines(&shown);
    assert!(!shown.contains('\t'), "{shown:?}");
    for row in shown.lines() {
        assert!(row.chars().count() <= 80, "{row:?} in {shown}");
    }
}

/// A server name with a fake entry in it.
pub(super) fn in_a_server_name() {
    let lab = Lab::new();
    let name = format!(
        "good{}\n\"forged\" in .mcp.json\n  command: forged",
        "\n".repeat(60)
    );
    lab.servers(
        ".mcp.json",
        &json!({&name: lab.marking("evil"), FORGED: lab.marking("other"), "error: forged": lab.marking("third")}),
    );
    for words in [
        &["list"][..],
        &["approve"],
        &["tools"],
        &["status"],
        &["get", &name],
        &["search", "x"],
    ] {
        check(&lab.plainly(words));
        check_screen(&mut lab.bare(words));
    }
    check(&lab.plainly(&["approve", &name]));
    assert!(!lab.started("evil") && !lab.started("other"));
}

/// Error texts and questions of a server.
pub(super) fn in_errors_of_a_server() {
    for text in [FORGED.to_owned(), padded(), stretched()] {
        let error = json!([{"replyError": {"code": -1, "message": &text}}]);
        let question = json!({"method": "elicitation/create", "params": {"message": &text, "requestedSchema": {"type": "object"}}});
        let asks = json!([{"request": question}, {"replyText": "done"}]);
        let lab = Lab::with([
            ("lists", echo().on("tools/list", error.clone())),
            (
                "calls",
                echo().tool("refuse", error.clone()).tool("ask", asks),
            ),
            (
                "starts",
                echo()
                    .on("initialize", error.clone())
                    .on("server/discover", error),
            ),
            (
                "dies",
                echo().on_start(json!([{"stderr": &text}, {"exit": 1}])),
            ),
        ]);
        check_all(
            &lab,
            &[
                &["tools"],
                &["list"],
                &["status"],
                &["search", "x"],
                &["tools", "lists"],
                &["tools", "starts"],
                &["call", "lists", "t"],
                &["call", "calls", "refuse"],
                &["call", "calls", "ask"],
                &["call", "dies", "t"],
                &["get", "starts"],
                &["prompts", "dies"],
                &["read", "dies", "x:y"],
            ],
        );
    }
}

/// Names and descriptions of tools, prompts and resources.
pub(super) fn in_descriptions() {
    for text in [FORGED.to_owned(), padded(), stretched()] {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "description": &text}}});
        let tool = json!({"name": "t", "title": &text, "description": &text, "inputSchema": schema, "do": [{"replyText": "done"}]});
        let mut script: Value = json!({"serverInfo": {"name": &text, "version": &text}, "tools": [tool],
            "prompts": [{"name": "p", "title": &text, "description": &text}],
            "resources": [{"uri": "x:y", "name": &text, "description": &text}]});
        let lab = Lab::with([("s", script.clone())]);
        let commands: [&[&str]; 8] = [
            &["list"],
            &["get", "s"],
            &["tools"],
            &["tools", "s", "t"],
            &["search", "error"],
            &["prompts"],
            &["resources"],
            &["call", "s", "t"],
        ];
        check_all(&lab, &commands);
        // Once called, it is pinned; the difference is text of the server too.
        script["tools"][0]["description"] = json!(format!("{text}\nerror: forged"));
        lab.configure([(
            "s",
            trunkline_testkit::Script::parse(&script.to_string()).unwrap(),
        )]);
        check_all(&lab, &[&["call", "s", "t"], &["status"]]);
    }
}

/// Keys and values of a repository's file, which diagnostics repeat.
pub(super) fn in_diagnostics() {
    let lab = Lab::new();
    lab.servers(
        ".mcp.json",
        &json!({"a": {"command": 5}, FORGED: {"url": FORGED, "type": FORGED}, "b": {FORGED: 1, "command": FORGED, "env": {"A": "${error: forged\n}"}},
            "c": {"url": "http://127.0.0.1:9/\nerror: forged", "headers": {FORGED: FORGED}}}),
    );
    lab.scratch.write(
        "home/.claude.json",
        "{\"mcpServers\": {\"x\nerror: forged\": }",
    );
    for words in [
        &["list"][..],
        &["list", "--approve-project"],
        &["tools"],
        &["status"],
        &["get", "b"],
        &["approve"],
        &["remove", FORGED],
        &["enable", FORGED],
    ] {
        check(&lab.plainly(words));
        check_screen(&mut lab.bare(words));
    }
}

/// Results, which are text of the server from beginning to end.
pub(super) fn in_results() {
    for text in [FORGED.to_owned(), padded(), stretched()] {
        let said = json!([{"replyText": &text}]);
        let content = json!({"type": "text", "text": &text});
        let messages = json!([
            {"role": "user", "content": content},
            {"role": format!("x]\n{text}"), "content": content},
        ]);
        let prompted = json!([{"reply": {"messages": messages}}]);
        let script = echo()
            .tool("say", said)
            .resource("x:y", &text)
            .prompt(json!({"name": "p"}))
            .on("prompts/get", prompted);
        let lab = Lab::with([("s", script)]);
        for words in [
            &["call", "s", "say"][..],
            &["read", "s", "x:y"],
            &["prompt", "s", "p"],
        ] {
            check_screen(lab.command(words).env("PAGER", "cat"));
        }
    }
}

/// Words of the command line, which a program may have taken from elsewhere.
pub(super) fn in_arguments() {
    let lab = Lab::with([("s", echo())]);
    check_all(
        &lab,
        &[
            &[FORGED],
            &["call", FORGED, FORGED],
            &["call", "s", FORGED],
            &["call", "s", "echo", FORGED],
            &["list", FORGED],
            &["logs", FORGED],
            &["tools", "--format", FORGED],
        ],
    );
}

/// Lines of a log that the server chose.
pub(super) fn in_logs() {
    let fake = "2030-01-01T00:00:00.000Z state  connected: forged";
    let text = format!("x\n{fake}\r{fake}\u{2028}{fake}\u{85}{fake}");
    let long = format!("{}{fake}", "y".repeat(70_000));
    let heading = "log of the server \"other\"";
    let script = json!({
        "serverInfo": {"name": format!("n\n{fake}"), "version": "1"},
        "onStart": [{"stderr": &text}, {"stderr": &long}, {"stderr": heading}, {"stderr": "last"}],
        "tools": [{"name": "t", "do": [
            {"notify": {"method": "notifications/message", "params": {"level": "info", "data": format!("z\n{fake}\n{heading}")}}},
            {"write": format!("{fake}\r{fake}")},
            {"replyError": {"code": -1, "message": format!("e\n{fake}")}}]}],
    });
    let lab = Lab::with([("My Server", script)]);
    lab.run(&["call", "My Server", "t"]);
    let run = lab.run(&["logs"]);
    for line in run.out.lines() {
        // The name, the time, the kind and the text have columns of their own.
        let line = line
            .strip_prefix("My Server  ")
            .unwrap_or_else(|| panic!("{line}"));
        let (time, rest) = line.split_at("2030-01-01T00:00:00.000Z".len());
        assert!(time < "2030" && time.ends_with('Z'), "{line}");
        let forged = rest
            .strip_prefix(" state  ")
            .is_some_and(|text| text.contains("forged"));
        assert!(!forged || rest.starts_with(" state  | "), "{line}");
    }
    assert!(run.out.contains(" stderr last\n"), "{}", run.out);
    let lines = lab.run(&["logs", "--json"]).json();
    for line in lines.as_array().unwrap() {
        assert_eq!(line["server"], "My Server");
        let text = line["text"].as_str().unwrap();
        let ours = line["kind"] == "state" && !text.starts_with("| ");
        assert!(!ours || !text.starts_with("connected: forged"), "{line}");
    }
    check_screen(&mut lab.command(&["logs"]));
}
