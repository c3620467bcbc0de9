//! The user's lists of allowed and denied servers (CFG-7). Managed lists are in `managed`.

use serde_json::{Value, json};

use crate::lab::Lab;

/// A lab with these user settings.
fn with_settings(settings: &Value) -> Lab {
    let lab = Lab::new();
    lab.write_json("home/.claude/settings.json", settings);
    lab
}

#[test]
fn a_denied_server_is_not_added() {
    let lab = with_settings(
        &json!({"deniedMcpServers": [{"serverName": "evil"}, {"serverCommand": ["npx", "-y", "evil"]},
        {"serverUrl": "https://*.evil.example/*"}]}),
    );
    let rule = |rule: &str| format!("denied by {rule} ([DIR]/home/.claude/settings.json)");
    let cases: [(&[&str], &str); 5] = [
        (&["add", "evil", "cmd"], r#"{"serverName":"evil"}"#),
        (
            &["add", "s", "--", "npx", "-y", "evil"],
            r#"{"serverCommand":["npx","-y","evil"]}"#,
        ),
        (
            &["add", "s", "https://mcp.evil.example/x"],
            r#"{"serverUrl":"https://*.evil.example/*"}"#,
        ),
        (
            &["add", "s", "HTTPS://MCP.EVIL.EXAMPLE.:443/a/../x"],
            r#"{"serverUrl":"https://*.evil.example/*"}"#,
        ),
        (
            &["add-json", "evil", r#"{"command": "x"}"#],
            r#"{"serverName":"evil"}"#,
        ),
    ];
    for (words, by) in cases {
        let name = words[1];
        lab.plainly(words).fails(
            5,
            &format!("the server \"{name}\" is blocked by policy: {}", rule(by)),
            "",
        );
    }
    assert!(!lab.at("home/.claude.json").exists());
    for words in [
        &["add", "--no-check", "a", "--", "npx", "-y", "evil2"][..],
        &["add", "--no-check", "b", "https://good.example/"],
    ] {
        assert_eq!(lab.plainly(words).code, Some(0));
    }
}

#[test]
fn an_empty_allow_list_allows_nothing() {
    let lab = with_settings(&json!({"allowedMcpServers": []}));
    lab.servers("home/.claude.json", &json!({"s": lab.marking("s")}));
    assert_eq!(lab.state("s"), "blocked");
    lab.plainly(&["call", "s", "echo"]).fails(
        5,
        "the server \"s\" does not run: blocked by policy: its name is not in allowedMcpServers \
         ([DIR]/home/.claude/settings.json)",
        "",
    );
    assert!(!lab.started("s"));
}

#[test]
fn policy_compares_the_expanded_command() {
    let lab = with_settings(
        &json!({"deniedMcpServers": [{"serverCommand": ["/bin/evil", "--now"]}, {"serverUrl": "https://evil.example/*"}]}),
    );
    lab.servers(
        "home/.claude.json",
        &json!({"a": {"command": "${EVIL}", "args": ["--${WHEN:-now}"]}, "b": {"type": "http", "url": "https://${HOST:-evil.example}/mcp"}}),
    );
    let run = lab.finish(lab.bare(&["list", "--json"]).env("EVIL", "/bin/evil"));
    let listed = run.json();
    assert_eq!(
        [&listed[0]["state"], &listed[1]["state"]],
        ["blocked", "blocked"]
    );
}

#[test]
fn a_blocked_entry_takes_nobodys_place() {
    let lab = with_settings(&json!({"deniedMcpServers": [{"serverCommand": ["evil"]}]}));
    lab.servers(".mcp-config.json", &json!({"s": {"command": "evil"}}));
    lab.servers("home/.claude.json", &json!({"s": lab.marking("s")}));
    lab.run(&["call", "s", "echo"]).is(0, "{}\n", "");
    let run = lab.run(&["list"]);
    let states: Vec<_> = run
        .out
        .lines()
        .filter(|line| line.starts_with("s "))
        .collect();
    assert_eq!(states.len(), 2, "{}", run.out);
    assert!(
        states[0].starts_with("s  blocked    dynamic "),
        "{}",
        run.out
    );
    assert!(states[1].starts_with("s  connected  user "), "{}", run.out);
}

#[test]
fn a_mistake_in_a_list_is_reported_with_its_position() {
    let lab = Lab::new();
    lab.scratch.write(
        "home/.claude/settings.json",
        "{\n  \"deniedMcpServers\": [\"evil\"]\n}",
    );
    lab.servers("home/.claude.json", &json!({"evil": lab.marking("evil")}));
    let run = lab.plainly(&["list"]);
    assert!(
        run.out.starts_with("evil  blocked"),
        "better denied too much: {}",
        run.out
    );
    assert!(
        run.out.contains("\nproblems:\n  [DIR]/home/.claude/settings.json:2:24: \"deniedMcpServers\": write {\"serverName\": …}"),
        "{}",
        run.out
    );
    assert!(!lab.started("evil"));
}
