//! A company's files (CFG-1, CFG-7). They live in `/etc/claude-code`, which a test must not touch:
//! the program runs where a directory of the test's own is mounted over `/etc`.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::lab::{Lab, Run, skipped};

/// A machine with managed settings.
pub(crate) struct Company {
    pub(crate) lab: Lab,
    unshare: &'static [&'static str],
}

impl Company {
    /// Returns `None`, with a note, if the system does not allow mounts.
    pub(crate) fn new() -> Option<Self> {
        let permitted = |flags: &&&[&str]| {
            let mut probe = Command::new("unshare");
            probe
                .args(**flags)
                .args(["mount", "--bind", "/tmp", "/etc"]);
            probe.stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        };
        let ways: [&[&str]; 2] = [&["-m"], &["-Urm"]];
        let Some(unshare) = ways.iter().find(permitted) else {
            skipped("nothing can be mounted here");
            return None;
        };
        let lab = Lab::new();
        std::fs::create_dir(lab.at("etc")).unwrap();
        Some(Self { lab, unshare })
    }

    pub(crate) fn settings(&self, settings: &Value) {
        self.lab
            .write_json("etc/claude-code/managed-settings.json", settings);
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let line = "mount -n --bind etc /etc && exec \"$@\"";
        let starter = [&["unshare"], self.unshare, &["sh", "-c", line, "sh"]].concat();
        self.lab.started_by(&starter, words)
    }

    pub(crate) fn run(&self, words: &[&str]) -> Run {
        self.lab.finish(&mut self.command(words))
    }

    /// Returns the states of all servers by name.
    fn states(&self) -> Value {
        let listed = self.run(&["list", "--json"]).json();
        let rows = listed.as_array().unwrap().iter();
        let rows = rows.map(|row| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["state"].clone(),
            )
        });
        Value::Object(rows.collect())
    }
}

const MANAGED: &str = "/etc/claude-code/managed-mcp.json";

/// Commands that change the configured servers.
const CHANGES: [&[&str]; 7] = [
    &["edit", "mine", "--timeout", "1"],
    &["add", "s", "cmd"],
    &["add", "-s", "project", "s", "https://h.example"],
    &["add-json", "s", "{\"command\": \"cmd\"}"],
    &["remove", "mine"],
    &["remove", "mine", "-s", "user"],
    &["import", "--yes"],
];

#[test]
fn only_enterprise_servers_load() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    lab.servers(
        "etc/claude-code/managed-mcp.json",
        &json!({"theirs": lab.marking("theirs")}),
    );
    lab.servers("home/.claude.json", &json!({"mine": lab.marking("mine")}));
    lab.servers(".mcp.json", &json!({"project": lab.marking("project")}));
    lab.servers(
        ".mcp-config.json",
        &json!({"dynamic": lab.marking("dynamic")}),
    );
    lab.servers("plugin/.mcp.json", &json!({"p": lab.marking("plugin")}));
    let before = lab.scratch.read("home/.claude.json");
    assert_eq!(company.states(), json!({"theirs": "connected"}));
    let run = company.run(&["list"]);
    run.is(0, "theirs  connected  enterprise  stdio       1 tool\n", "");
    let run = company.run(&["clean"]);
    assert_eq!((run.code, run.out.as_str()), (Some(5), ""), "{run:#?}");
    let run = company.run(&[
        "--mcp-config",
        ".mcp-config.json",
        "--plugin-dir",
        "plugin",
        "--approve-project",
        "tools",
    ]);
    run.is(
        0,
        "mcp__theirs__echo  Echoes\n",
        &format!("warning: --mcp-config: ignored, because the enterprise configuration ({MANAGED}) has exclusive control\n"),
    );
    let run = company.run(&[
        "--mcp-config",
        ".mcp-config.json",
        "--strict-mcp-config",
        "call",
        "dynamic",
        "echo",
    ]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    for name in ["mine", "project", "dynamic", "plugin"] {
        assert!(!lab.started(name), "{name}");
    }
    for words in CHANGES {
        company.run(words).fails(
            5,
            &format!("the enterprise configuration {MANAGED} has exclusive control, so servers cannot be added or removed here"),
            "ask the administrator of this machine",
        );
    }
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
    company.run(&["call", "theirs", "echo"]).is(0, "{}\n", "");
}

#[test]
fn a_broken_company_file_keeps_control() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    lab.servers("home/.claude.json", &json!({"mine": lab.marking("mine")}));
    let cases: [(&[u8], &str); 5] = [
        (
            b"{\n  \"mcpServers\": {,}\n}",
            ":2:18: not valid JSON: key must be a string",
        ),
        (b"", ":1:1: the file is empty"),
        (b"[]", ":1:1: "),
        (b"\xff\xfe", ": the file is not UTF-8 text"),
        (b"{\"mcpServers\": 5}", ":1:16: \"mcpServers\""),
    ];
    for (text, problem) in cases {
        lab.scratch.write("etc/claude-code/managed-mcp.json", text);
        let run = company.run(&["list"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:#?}");
        assert!(
            run.out
                .contains(&format!("\nproblems:\n  {MANAGED}{problem}")),
            "{}",
            run.out
        );
        assert!(!run.out.contains("mine"), "{}", run.out);
        // To add one is what cannot be done here.
        assert!(!run.out.contains("trunkline add"), "{}", run.out);
        assert_eq!(company.run(&["list", "--json"]).json(), json!([]));
        for words in CHANGES {
            let run = company.run(words);
            assert_eq!(
                (run.code, run.out.as_str()),
                (Some(5), ""),
                "{words:?}: {run:#?}"
            );
            assert!(run.err.contains("has exclusive control"), "{}", run.err);
        }
        let run = company.run(&["call", "mine", "echo"]);
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(!lab.started("mine"));
    }
}

#[test]
fn a_company_file_that_is_not_even_a_file_keeps_control() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    lab.servers("home/.claude.json", &json!({"mine": lab.marking("mine")}));
    std::fs::create_dir_all(lab.at("etc/claude-code/managed-mcp.json")).unwrap();
    assert_eq!(company.run(&["add", "s", "cmd"]).code, Some(5));
    assert_eq!(company.states(), json!({}));
    std::fs::remove_dir(lab.at("etc/claude-code/managed-mcp.json")).unwrap();
    std::os::unix::fs::symlink("/nowhere", lab.at("etc/claude-code/managed-mcp.json")).unwrap();
    assert_eq!(company.run(&["add", "s", "cmd"]).code, Some(5));
    assert_eq!(company.states(), json!({}));
    assert!(!lab.started("mine"));
}

#[test]
fn managed_policy_denies_by_name_command_and_url() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    company.settings(&json!({"deniedMcpServers": [{"serverName": "evil.one"}, {"serverCommand": ["npx", "-y", "evil"]},
        {"serverUrl": "https://evil.example/*"}, {"serverUrl": "https://xn--bcher-kva.example/*"}]}));
    let source = "(/etc/claude-code/managed-settings.json)";
    let http = |url: &str| json!({"type": "http", "url": url});
    let entries = json!({
        "evil_one": {"command": "fine"},
        "argv": {"command": "npx", "args": ["-y", "evil"]},
        "plain": http("https://evil.example/mcp"),
        "case": http("HTTPS://Evil.Example:443/mcp"),
        "user": http("https://me@evil.example/mcp"),
        "userinfo": http("https://good.example@evil.example/mcp"),
        "dots": http("https://evil.example/a/%2e%2e/mcp"),
        "trailing": http("https://evil.example./mcp"),
        "unicode": http("https://bücher.example/mcp"),
        "unicode-case": http("https://BÜCHER.example/mcp"),
        "fullwidth": http("https://ｅｖｉｌ.example/mcp"),
        "backslash": http("https:\\\\evil.example\\mcp"),
        "tab": http("https://ev\til.example/mcp"),
        "slashes": http("https:///evil.example/mcp"),
        "untyped": {"url": "https://evil.example/mcp"},
        "sse": {"type": "sse", "url": "https://evil.example/mcp"},
    });
    lab.servers("home/.claude.json", &entries);
    let states = company.states();
    for (name, state) in states.as_object().unwrap() {
        assert_eq!(state, "blocked", "{name}");
    }
    assert_eq!(
        states.as_object().unwrap().len(),
        entries.as_object().unwrap().len(),
        "{states}"
    );
    lab.scratch.write("home/.claude.json", "{}");
    for (name, entry) in entries.as_object().unwrap() {
        let run = company.run(&["add-json", "--no-check", name, &entry.to_string()]);
        assert_eq!(
            (run.code, run.out.as_str()),
            (Some(5), ""),
            "{name}: {run:#?}"
        );
        assert!(
            run.err.starts_with(&format!(
                "error: the server \"{name}\" is blocked by policy: "
            )) && run.err.contains(source),
            "{}",
            run.err
        );
    }
    assert_eq!(lab.scratch.read("home/.claude.json"), "{}");
    let run = company.run(&["add", "--no-check", "argv2", "--", "npx", "-y", "good"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn a_name_is_not_enough_where_commands_are_listed() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    let good = lab.marking("good");
    let argv: Vec<Value> = std::iter::once(&good["command"])
        .chain(good["args"].as_array().unwrap())
        .cloned()
        .collect();
    let variables = good["env"].as_object().into_iter().flatten();
    let variables: Vec<_> = variables.map(|(name, _)| name).collect();
    let command = json!({"serverCommand": argv, "env": variables});
    company.settings(
        &json!({"allowedMcpServers": [{"serverName": "evil"}, {"serverName": "remote"}, command]}),
    );
    lab.servers(
        "home/.claude.json",
        &json!({"good": good, "evil": lab.marking("evil"), "remote": {"type": "http", "url": "http://127.0.0.1:9/"},
            "other": {"type": "http", "url": "http://127.0.0.1:9/x"}}),
    );
    let expected =
        json!({"good": "connected", "evil": "blocked", "remote": "failed", "other": "blocked"});
    assert_eq!(company.states(), expected);
    assert!(!lab.started("evil"));
    let run = company.run(&["list"]);
    assert!(
        run.out.contains("blocked by policy: its command is not in allowedMcpServers (/etc/claude-code/managed-settings.json)\n"),
        "{}",
        run.out
    );
}

#[test]
fn user_lists_extend_managed_lists_unless_forbidden() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    lab.servers("home/.claude.json", &json!({"theirs": lab.marking("theirs"), "mine": lab.marking("mine"), "no": lab.marking("no")}));
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"allowedMcpServers": [{"serverName": "mine"}, {"serverName": "no"}], "deniedMcpServers": [{"serverName": "no"}]}),
    );
    let allow = json!([{"serverName": "theirs"}]);
    company.settings(&json!({"allowedMcpServers": allow}));
    assert_eq!(
        company.states(),
        json!({"theirs": "connected", "mine": "connected", "no": "blocked"})
    );
    company.settings(&json!({"allowedMcpServers": allow, "allowManagedMcpServersOnly": true}));
    assert_eq!(
        company.states(),
        json!({"theirs": "connected", "mine": "blocked", "no": "blocked"})
    );
}

#[test]
fn unreadable_managed_settings_block_everything() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    lab.servers("home/.claude.json", &json!({"mine": lab.marking("mine")}));
    lab.scratch.write(
        "etc/claude-code/managed-settings.json",
        "{\"deniedMcpServers\": [",
    );
    assert_eq!(company.states(), json!({"mine": "blocked"}));
    let run = company.run(&["call", "mine", "echo"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert!(!lab.started("mine"));
    assert_eq!(company.run(&["add", "s", "cmd"]).code, Some(5));
}

#[test]
fn managed_settings_approve_and_reject() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    lab.servers(
        ".mcp.json",
        &json!({"yes": lab.marking("yes"), "no": lab.marking("no"), "other": lab.marking("other")}),
    );
    company.settings(&json!({"enabledMcpjsonServers": ["yes"], "disabledMcpjsonServers": ["no"]}));
    company.run(&["approve", "no"]);
    assert_eq!(
        company.states(),
        json!({"yes": "connected", "no": "rejected", "other": "pending-approval"})
    );
}

#[test]
fn no_variable_bypasses_managed_settings() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    company.settings(&json!({"deniedMcpServers": [{"serverName": "mine"}]}));
    lab.servers("moved/.claude.json", &json!({"mine": lab.marking("mine")}));
    let mut command = company.command(&["list", "--json"]);
    command.env("CLAUDE_CONFIG_DIR", lab.at("moved"));
    let listed = lab.finish(&mut command).json();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["state"]),
        (&json!("mine"), &json!("blocked"))
    );
    assert!(!lab.started("mine"));
}
