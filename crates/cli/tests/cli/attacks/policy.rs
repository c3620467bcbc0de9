//! Entries that match an allow list but run other code, and calls that slip past the policy.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::lab::{Lab, parsed};
use crate::managed::Company;

/// Allows exactly this server's command, and every URL.
fn allow(lab: &Lab, server: &Value) {
    let mut argv = vec![server["command"].clone()];
    argv.extend(server["args"].as_array().cloned().unwrap_or_default());
    let variables = server["env"].as_object().into_iter().flatten();
    let variables: Vec<_> = variables.map(|(name, _)| name).collect();
    let command = json!({"serverCommand": argv, "env": variables});
    let rules = json!([command, {"serverUrl": "http://127.0.0.1:*/*"}]);
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"allowedMcpServers": rules}),
    );
}

/// Settings that choose the code are refused by name.
pub(super) fn by_a_variable() {
    let lab = Lab::new();
    let server = lab.marking("evil");
    allow(&lab, &server);
    lab.servers("home/.claude.json", &json!({"evil": server}));
    assert_eq!(lab.state("evil"), "connected");
    assert!(lab.started("evil"));
    let variables = [
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "NODE_OPTIONS",
        "PYTHONPATH",
        "BASH_ENV",
        "npm_config_registry",
        "TCL_LIBRARY",
        "AWS_PAGER",
        "DJANGO_SETTINGS_MODULE",
        "NAME_THAT_NOBODY_KNOWS",
    ];
    for variable in variables {
        let mut entry = server.clone();
        entry["env"][variable] = json!("/nowhere");
        lab.servers("home/.claude.json", &json!({"evil": entry}));
        let run = lab.plainly(&["call", "evil", "echo"]);
        assert_eq!(run.code, Some(5), "{run:#?}");
        let named = format!("\"env.{variable}\"");
        assert!(run.err.contains(&named), "{}", run.err);
    }
    let mut entry = server.clone();
    entry["cwd"] = json!("/");
    lab.servers("home/.claude.json", &json!({"evil": entry}));
    let run = lab.plainly(&["call", "evil", "echo"]);
    assert!(run.err.contains("\"cwd\""), "{}", run.err);
    // A name with an equals sign in it would set another variable.
    let mut entry = server;
    entry["env"]["LD_PRELOAD=/nowhere"] = json!("");
    lab.servers("home/.claude.json", &json!({"evil": entry}));
    assert_ne!(lab.state("evil"), "connected");
    assert!(!lab.started("evil"));
}

/// A command that prints headers is a command.
pub(super) fn by_a_headers_helper() {
    let lab = Lab::new();
    allow(&lab, &lab.marking("evil"));
    let helper = format!("touch '{}'; echo '{{}}'", lab.at("evil.started").display());
    let entry = json!({"type": "http", "url": "http://127.0.0.1:9/mcp", "headersHelper": helper});
    lab.servers("home/.claude.json", &json!({"evil": entry}));
    let run = lab.plainly(&["call", "evil", "echo"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert!(run.err.contains("\"headersHelper\""), "{}", run.err);
    assert!(!lab.started("evil"));
}

/// Settings that choose the peer are refused by name.
pub(super) fn by_another_peer() {
    let lab = Lab::new();
    allow(&lab, &lab.marking("evil"));
    for (field, value, named) in [
        ("tls", json!({"ca": "./ca.pem"}), "\"tls\""),
        (
            "oauth",
            json!({"authServerMetadataUrl": "https://evil.example/"}),
            "\"oauth.authServerMetadataUrl\"",
        ),
        (
            "headers",
            json!({"Host": "evil.example"}),
            "\"headers.Host\"",
        ),
    ] {
        let mut entry = json!({"type": "http", "url": "http://127.0.0.1:9/mcp"});
        entry[field] = value;
        lab.servers("home/.claude.json", &json!({"evil": entry}));
        let run = lab.plainly(&["call", "evil", "echo"]);
        assert_eq!(run.code, Some(5), "{run:#?}");
        assert!(run.err.contains(named), "{}", run.err);
    }
}

/// A malformed rule does not let anything run.
pub(super) fn by_a_mistake_in_a_rule() {
    let lab = Lab::new();
    let mut server = lab.marking("evil");
    let mut args = vec![
        json!("-c"),
        json!("exec \"$0\" \"$@\""),
        server["command"].clone(),
    ];
    args.extend(server["args"].as_array().cloned().unwrap_or_default());
    server["args"] = json!(args);
    server["command"] = json!("sh");
    lab.servers("home/.claude.json", &json!({"evil": server}));
    let state = |settings: &str| {
        lab.scratch.write("home/.claude/settings.json", settings);
        lab.state("evil")
    };
    assert_eq!(state("{}"), "connected");
    assert!(lab.started("evil"));
    for rule in [
        r#"{"serverCommand": "npx -y files"}"#,
        r#"{"serverCommand": ["npx", 5]}"#,
        r#"{"serverCommand": []}"#,
        r#"{"servercommand": ["npx"]}"#,
        r#"{"command": ["npx"]}"#,
    ] {
        let list = format!(r#"{{"allowedMcpServers": [{{"serverName": "evil"}}, {rule}]}}"#);
        assert_eq!(state(&list), "blocked", "{rule}");
    }
    for rule in [
        r#"{"serverCommand": "sh -c"}"#,
        r#"{"serverCommand": ["sh", 5]}"#,
        r#"{"servername": "evil"}"#,
        r#"{"servercommand": ["sh"]}"#,
        r#""sh -c""#,
    ] {
        let list = format!(r#"{{"deniedMcpServers": [{rule}]}}"#);
        assert_eq!(state(&list), "blocked", "{rule}");
    }
    let rule = r#""deniedMcpServers": [{"serverName": "evil"}]"#;
    let twice = format!(r#"{{{rule}, "deniedMcpServers": []}}"#);
    assert_eq!(state(&twice), "blocked");
    assert!(!lab.started("evil"));
}

/// A model gives an argument twice, or by another spelling, so that the check and the server read
/// different values.
pub(super) fn by_a_repeated_argument() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    company.settings(&json!({
        "callPolicy": {"arguments": {"mcp__git__push": {"remote": {"enum": ["origin"]}}}},
        "permissions": {"allow": ["mcp__git"]},
    }));
    let mark = json!([{"touch": lab.at("called")}, {"replyText": "done"}]);
    let script = Script::default().tool("push", mark);
    lab.configure([("git", script)]);
    let call = |arguments: &str| {
        let words = ["--mcp-config", ".mcp-config.json", "sdk"];
        let mut command = company.command(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let begin =
            r#"{"type":"control_request","request_id":"begin","request":{"subtype":"initialize"}}"#;
        let call = format!(
            r#"{{"type":"control_request","request_id":"call","request":{{"subtype":"call_tool","name":"mcp__git__push","arguments":{arguments}}}}}"#
        );
        write!(stdin, "{begin}\n{call}\n").unwrap();
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
    };
    for arguments in [
        r#"{"remote":"evil"}"#,
        r#"{"remote":"evil","remote":"origin"}"#,
        r#"{"remote":"origin","remote":"evil"}"#,
        r#"{"rem\u006fte":"evil","remote":"origin"}"#,
        r#"{"Remote":"origin"}"#,
        "{}",
    ] {
        let code = call(arguments);
        assert_eq!(code.as_deref(), Some("refused"), "{arguments}");
        assert!(!lab.at("called").exists(), "{arguments}");
    }
    assert_eq!(call(r#"{"remote":"origin"}"#), None);
    assert!(lab.at("called").exists());
}
