//! `trunkline get`, and that no command shows a secret (SEC-1).

use serde_json::json;

use crate::lab::{Lab, echo};

/// A lab with secrets in every field of an entry that may have one.
pub(crate) fn with_secrets() -> Lab {
    let lab = Lab::new();
    let mut stdio = lab.scratch.entry("stdio", &echo());
    stdio["env"]["TOKEN"] = json!("hunter2");
    lab.servers(
        "home/.claude.json",
        &json!({
            "stdio": stdio,
            "http": {"type": "http", "url": "https://me:hunter2@h.example/mcp?key=hunter2", "headers": {"Authorization": "Bearer hunter2", "X-Ref": "${TOKEN}"},
                "oauth": {"clientId": "public", "clientSecret": "hunter2"}},
            "ide": {"type": "ws-ide", "url": "ws://127.0.0.1:9/", "authToken": "hunter2"},
        }),
    );
    lab
}

#[test]
fn one_server_is_shown_with_its_entry() {
    let lab = Lab::new();
    let entry = lab.marking("s");
    lab.servers(
        "home/.claude.json",
        &json!({"s": entry, "other": lab.marking("other")}),
    );
    let run = lab.plainly(&["get", "s"]);
    let variable = lab.scratch.marker().env().0;
    run.is(
        0,
        &format!(
            "s  connected  user        stdio       1 tool  (testkit 1.0.0)  2026-07-28\n  from [DIR]/home/.claude.json\n  \
             command: [SERVER]\n  args: [\"--script\",\"[DIR]/scripts/s.json\"]\n  env:\n    {variable}: ***\n  \
             remove with: trunkline remove -s user s\n"
        ),
        "",
    );
    assert!(lab.started("s") && !lab.started("other"));
    let shown = lab.plainly(&["get", "s", "--json", "--refresh"]).json();
    assert_eq!(
        shown,
        json!({"name": "s", "scope": "user", "transport": "stdio", "state": "connected", "tools": 1, "prompts": 0, "resources": 0,
            "source": "[DIR]/home/.claude.json", "protocolVersion": "2026-07-28", "serverInfo": {"name": "testkit", "version": "1.0.0"},
            "config": {"command": "[SERVER]", "args": ["--script", "[DIR]/scripts/s.json"], "env": {variable: "***"}}})
    );
}

#[test]
fn every_entry_of_a_name_is_shown_and_the_one_that_counts_first() {
    let lab = Lab::new();
    for scope in ["user", "project", "local"] {
        lab.plainly(&["add", "--no-check", "-s", scope, "s", &format!("./{scope}")]);
    }
    let run = lab.plainly(&["get", "s"]);
    let lines: Vec<_> = run
        .out
        .lines()
        .filter(|line| !line.starts_with(' '))
        .collect();
    assert_eq!(
        lines,
        [
            "s  failed  local       stdio",
            "s  pending-approval  project     stdio",
            "s  shadowed  user        stdio",
        ]
    );
    for part in [
        "  shadows user ([DIR]/home/.claude.json)\n",
        "  an entry of the same name shadows it: local ([DIR]/home/.claude.json)\n",
        "  hint: review it with `trunkline approve s`\n",
        "  remove with: trunkline remove -s project s\n",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let document = lab.plainly(&["get", "s", "--json"]).json();
    assert_eq!(document["config"]["command"], "./local");
    assert_eq!(document["others"][0]["state"], "pending-approval");
    assert_eq!(document["others"][1]["state"], "shadowed");
}

#[test]
fn a_server_that_is_not_there_is_bad_usage() {
    let lab = Lab::new();
    lab.plainly(&["get", "s"])
        .fails(2, "there is no server \"s\"", "no servers are configured");
    lab.plainly(&["add", "--no-check", "github", "cmd"]);
    lab.plainly(&["get", "githbu"]).fails(
        2,
        "there is no server \"githbu\"",
        "did you mean \"github\"?",
    );
    lab.plainly(&["get", "githbu", "--json"]).fails(
        2,
        "there is no server \"githbu\"",
        "did you mean \"github\"?",
    );
}

/// The table of attacks has every command and every place; this one has the commands that change
/// something.
#[test]
fn no_command_that_writes_prints_a_secret() {
    let lab = with_secrets();
    lab.servers(
        ".mcp.json",
        &json!({"shared": {"command": "cmd", "env": {"TOKEN": "hunter2"}, "args": ["-e", "API_KEY=hunter2"]}}),
    );
    let cases: [&[&str]; 7] = [
        &["get", "ide"],
        &["approve"],
        &["approve", "shared"],
        &["reject", "shared"],
        &["disable", "stdio"],
        &[
            "add-json",
            "new",
            r#"{"command": "x", "args": ["--token=hunter2"]}"#,
        ],
        &["remove", "http"],
    ];
    for words in cases {
        let run = lab.plainly(words);
        assert!(run.code.is_some(), "{run:#?}");
        run.never_says("hunter2");
    }
    let kept = lab.scratch.read("home/.claude/trunkline/approvals.json");
    assert!(kept.contains("shared"), "{kept}");
}

#[test]
fn a_reference_to_a_variable_is_no_secret() {
    let lab = with_secrets();
    let run = lab.plainly(&["get", "http"]);
    for part in [
        "  url: https://***@h.example/mcp?key=***\n",
        "    Authorization: Bearer ***\n",
        "    X-Ref: ${TOKEN}\n",
        "    clientId: public\n",
        "    clientSecret: ***\n",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
}

#[test]
fn secrets_are_not_shown_to_a_pipe() {
    let lab = with_secrets();
    for words in [
        &["get", "stdio", "--show-secrets"][..],
        &["get", "stdio", "--show-secrets", "--json"],
    ] {
        lab.plainly(words).fails(
            2,
            "--show-secrets works only on a terminal",
            "scripts can read the configuration file",
        );
    }
}
