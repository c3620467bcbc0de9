//! Each mistake affects only itself.

use std::path::Path;

use trunkline_config::import::{Client, parse};

/// Parses `text`, whose only good server may be called `good`, and compares the diagnostics.
#[track_caller]
fn check(client: Client, text: &str, expected: &[&str]) {
    let found = parse(client, Path::new("f"), text);
    assert_eq!(super::shown(&found), expected, "{text}");
    let good = usize::from(text.contains("good"));
    assert_eq!(found.servers.len(), good, "{text}");
}

#[test]
fn a_bad_json_file_is_one_diagnostic_at_its_place() {
    let cases = [
        ("{", "f:1:1: not valid JSON: EOF while parsing an object"),
        ("[]", "f:1:1: the file is not a JSON object"),
        (
            "{\n \"mcpServers\": []}",
            "f:2:16: its \"mcpServers\" is not an object",
        ),
        (
            "{\"mcpServers\": {}} x",
            "f:1:20: not valid JSON: trailing characters",
        ),
        (
            "{// é\n\"mcpServers\": {\"a\": {\"command\" \"c\"}}}",
            "f:2:32: not valid JSON: expected `:`",
        ),
        ("{} /* open", "f:1:4: not valid JSON: trailing characters"),
    ];
    for (text, expected) in cases {
        check(Client::Cursor, text, &[expected]);
    }
}

#[test]
fn a_file_without_servers_is_no_mistake() {
    let nothing = [
        "",
        "\u{feff} \r\n",
        "{}",
        "// nothing yet\n{\"mcpServers\": {},}",
        "{\"mcpServers\": null}",
    ];
    for text in nothing {
        check(Client::Cursor, text, &[]);
    }
    check(Client::Codex, "model = 'x'", &[]);
    check(Client::Goose, "# nothing\n", &[]);
    check(Client::Goose, "extensions:\n", &[]);
}

#[test]
fn a_file_copied_from_a_near_relative_is_told() {
    check(
        Client::VsCode,
        "{\"mcpServers\": {}}",
        &["f:1:1: it has \"mcpServers\" where VS Code reads \"servers\"; rename it"],
    );
    check(
        Client::Windsurf,
        "{\"servers\": {}}",
        &["f:1:1: it has \"servers\" where Windsurf reads \"mcpServers\"; rename it"],
    );
}

#[test]
fn a_bad_entry_costs_itself() {
    let cases = [
        (
            "5",
            "f:2:6: server \"x\": it is not an object; write {\"command\": …} or {\"url\": …}",
        ),
        (
            "{}",
            "f:2:6: server \"x\": it has neither a \"command\" nor a \"url\"",
        ),
        (
            "{\"command\": 5}",
            "f:2:18: server \"x\": its \"command\" is not a string",
        ),
        (
            "{\"command\": \" \"}",
            "f:2:6: server \"x\": its \"command\" is empty; write the program to start",
        ),
        (
            "{\"type\": \"stdio\", \"url\": \"https://x\"}",
            "f:2:6: server \"x\": a \"stdio\" server needs a \"command\"",
        ),
        (
            "{\"type\": \"pigeon\", \"command\": \"c\"}",
            "f:2:6: server \"x\": unknown \"type\": \"pigeon\"; write one of stdio, http, sse",
        ),
        (
            "{\"url\": \"ftp://hunter2@x\"}",
            "f:2:6: server \"x\": its \"url\" does not begin with http:// or https://",
        ),
        (
            "{\"command\": \"c\", \"args\": \"-v\"}",
            "f:2:31: server \"x\": its \"args\" is not a list of strings",
        ),
        (
            "{\"command\": \"c\", \"env\": \"K=hunter2\"}",
            "f:2:30: server \"x\": its \"env\" is not an object of strings",
        ),
        (
            "{\"command\": \"c\", \"env\": {\"K\": [\"hunter2\"]}}",
            "f:2:30: server \"x\": its \"env\" is not an object of strings",
        ),
        (
            "{\"url\": \"https://x\", \"headers\": [\"hunter2\"]}",
            "f:2:38: server \"x\": its \"headers\" is not an object of strings",
        ),
        (
            "{\"command\": \"c\", \"disabled\": \"yes\"}",
            "f:2:35: server \"x\": its \"disabled\" is not true or false",
        ),
        (
            "{\"command\": \"\\ud800\"}",
            "f:2:25: server \"x\": not valid JSON: unexpected end of hex escape",
        ),
    ];
    for (entry, expected) in cases {
        let text =
            format!("{{\"mcpServers\": {{\"good\": {{\"command\": \"c\"}},\n\"x\": {entry}}}}}");
        check(Client::Cursor, &text, &[expected]);
    }
}

#[test]
fn each_other_client_has_its_own_mistakes() {
    check(
        Client::Codex,
        "[mcp_servers.x]\ncommand = 'c'\ncommand = 'd'",
        &["f:3:1: not valid TOML: duplicate key"],
    );
    check(
        Client::Codex,
        "[mcp_servers]\ny = 5\n[mcp_servers.good]\ncommand = 'c'\n[mcp_servers.x]\nurl = 'https://x'\nbearer_token_env_var = 'a b'",
        &[
            "f:2:1: server \"y\": it is not a table; write [mcp_servers.NAME]",
            "f:5:14: server \"x\": its \"bearer_token_env_var\" does not name an environment variable",
        ],
    );
    check(
        Client::Codex,
        "mcp_servers = 5",
        &["f:1:15: its \"mcp_servers\" is not a table"],
    );
    check(
        Client::Zed,
        r#"{"context_servers": {"good": {"command": "c"}, "x": {"command": {"args": []}}}}"#,
        &["f:1:65: server \"x\": its \"command\" is not {\"path\", \"args\", \"env\"}"],
    );
    check(
        Client::Opencode,
        r#"{"mcp": {"good": {"command": ["c"]}, "x": {"type": "local", "command": []}, "y": {"type": "remote"}, "z": {"type": "q"}}}"#,
        &[
            "f:1:43: server \"x\": its \"command\" is empty; write the program to start",
            "f:1:82: server \"y\": a remote server needs a \"url\"",
            "f:1:107: server \"z\": its \"type\" is neither \"local\" nor \"remote\"",
        ],
    );
    check(
        Client::Goose,
        "extensions:\n  good: {type: stdio, cmd: c}\n  x: {cmd: c}\n  y: 5\n  z: {type: pigeon}\n  b: {type: builtin}\n",
        &[
            "f:3:6: server \"x\": it has no \"type\"",
            "f:4:6: server \"y\": it is not a mapping; write \"type: …\" below its name",
            "f:5:6: server \"z\": unknown \"type\": \"pigeon\"",
            "f:6:6: left out what only goose itself can start: b",
        ],
    );
    check(
        Client::Goose,
        "extensions: 5",
        &["f:1:13: its \"extensions\" is not a mapping"],
    );
    check(
        Client::Goose,
        "- a",
        &["f:1:1: the file is not a YAML mapping"],
    );
}

#[test]
fn of_two_entries_with_one_name_the_later_is_used() {
    let later = "the file has a later entry with this name, which is used instead";
    let text = r#"{"mcpServers": {"good": {"command": "one"}, "good": {"command": "two"}}}"#;
    check(
        Client::Cursor,
        text,
        &[&format!("f:1:25: server \"good\": {later}")],
    );
    let found = parse(Client::Cursor, Path::new("f"), text);
    assert_eq!(found.servers[0].entry["command"], "two");
    let text = "extensions:\n  good: {type: stdio, cmd: a}\n  good: {type: stdio, cmd: b}\n";
    check(
        Client::Goose,
        text,
        &[&format!("f:2:9: server \"good\": {later}")],
    );
}

#[test]
fn a_syntax_error_does_not_quote_what_may_be_a_secret() {
    let texts = [
        (
            Client::Cursor,
            "{\"mcpServers\": {\"a\": {\"command\": \"c\", \"env\": {\"K\": \"hunter2}}}}",
        ),
        (
            Client::Cursor,
            "{\"mcpServers\": {\"a\": {\"command\": \"c\", \"env\": {\"K\": hunter2}}}}",
        ),
        (Client::Codex, "[mcp_servers.a]\nenv = { K = hunter2 }"),
        (Client::Codex, "[mcp_servers.a.env]\nK = \"hunter2"),
        (Client::Codex, "[mcp_servers.a.env]\nK = 12hunter2"),
        (
            Client::Goose,
            "extensions:\n  a:\n    envs:\n      K: \"hunter2\n",
        ),
        (
            Client::Goose,
            "extensions:\n  a:\n    envs:\n      K: *hunter2\n",
        ),
        (
            Client::Goose,
            "extensions:\n  a:\n    envs:\n      K: !hunter2!x y\n",
        ),
        (
            Client::Goose,
            "extensions:\n  a:\n    envs:\n      K: hunter2: x\n",
        ),
    ];
    for (client, text) in texts {
        let found = super::shown(&parse(client, Path::new("f"), text));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(!found[0].contains("hunter2"), "{found:?}");
    }
}

#[test]
fn deep_and_huge_files_are_diagnostics_and_take_no_time() {
    let deep = 200_000;
    let entry = |value: String| {
        format!(
            "{{\"mcpServers\":{{\"a\":{{\"command\":\"c\",\"x\":{value}}},\"good\":{{\"command\":\"c\"}}}}}}"
        )
    };
    let nested = entry("[".repeat(deep) + &"]".repeat(deep));
    // Without `check`, which would print the text.
    let found = parse(Client::Cursor, Path::new("f"), &nested);
    let expected = "f:1:166: server \"a\": it is nested too deeply";
    assert_eq!(super::shown(&found), [expected]);
    assert_eq!(found.servers.len(), 1);
    for (client, text) in [
        (Client::Cursor, "[".repeat(deep)),
        (Client::Cursor, "{\"mcpServers\":".repeat(deep)),
        (Client::Codex, format!("a = {}", "[".repeat(deep))),
        (Client::Codex, format!("{}a = 1", "a.".repeat(deep))),
        (Client::Codex, format!("[{}a]", "a.".repeat(deep))),
        (Client::Codex, "a={".repeat(deep)),
        (Client::Goose, format!("extensions: {}", "[".repeat(deep))),
        (Client::Goose, "- ".repeat(deep)),
        (Client::Goose, "? ".repeat(deep)),
    ] {
        let found = parse(client, Path::new("f"), &text);
        assert_eq!(found.diagnostics.len(), 1, "{client} {}", &text[..20]);
    }
    let huge = format!("{{\"x\": \"{}\"}}", "a".repeat(16 << 20));
    let found = parse(Client::Cursor, Path::new("f"), &huge);
    assert_eq!(super::shown(&found), ["f: the file is larger than 16 MB"]);
}

#[test]
fn many_bad_entries_are_located_in_one_pass() {
    let entries: Vec<String> = (0..50_000).map(|n| format!("\"{n}\":{n}")).collect();
    let text = format!("{{\"mcpServers\":{{{}}}}}", entries.join(","));
    let found = parse(Client::Cursor, Path::new("f"), &text);
    assert_eq!(found.diagnostics.len(), 50_000);
    assert_eq!(found.diagnostics[1].column, Some(26));
}
