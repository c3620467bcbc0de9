//! The audit log (SEC-6): what it records, that changes are found, and that a required log that
//! cannot be written refuses calls.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::lab::{Lab, parsed};
use crate::managed::Company;

const DIR: &str = "home/.claude/trunkline/audit";

fn script() -> Script {
    let called = json!([{"replyText": "called"}]);
    Script::default()
        .tool("t", called.clone())
        .tool("u", called)
}

fn lab(audit: &Value) -> Lab {
    let lab = Lab::with([("s", script())]);
    lab.write_json("home/.claude/settings.json", &json!({ "audit": audit }));
    lab
}

/// The records of the log, without what differs between runs.
fn events(lab: &Lab, words: &[&str]) -> Vec<Value> {
    let run = lab
        .run(&[&["audit", "show", "--json"], words].concat())
        .json();
    run.as_array().unwrap().clone()
}

fn log_file(lab: &Lab) -> std::path::PathBuf {
    lab.at(&format!("{DIR}/audit-000000000000.jsonl"))
}

#[test]
fn calls_connections_and_changes_are_recorded() {
    let lab = lab(&json!(true));
    let run = lab.run(&["call", "s", "t", "a=1", "token=hunter2"]);
    run.is(0, "called\n", "");
    let rules = json!({"audit": true, "permissions": {"deny": ["mcp__s__u"]}});
    lab.write_json("home/.claude/settings.json", &rules);
    assert_eq!(lab.run(&["call", "s", "u"]).code, Some(5));
    assert_eq!(lab.run(&["add", "--no-check", "x", "cmd"]).code, Some(0));
    let calls = events(&lab, &["--event", "call"]);
    assert_eq!(calls.len(), 2);
    let done = &calls[0];
    assert_eq!(
        (
            &done["tool"],
            &done["server"],
            &done["name"],
            &done["outcome"]
        ),
        (&json!("mcp__s__t"), &json!("s"), &json!("t"), &json!("ok"))
    );
    assert_eq!(
        (&done["decision"], &done["resultBytes"]),
        (&json!("approved"), &json!(6))
    );
    assert_eq!(done["arguments"]["sha256"].as_str().unwrap().len(), 64);
    assert!(done["micros"].as_u64().unwrap() > 0);
    let refused = &calls[1];
    assert_eq!(
        (&refused["decision"], &refused["rule"]),
        (&json!("refused"), &json!("mcp__s__u"))
    );
    assert!(
        refused["source"]
            .as_str()
            .unwrap()
            .ends_with("settings.json")
    );
    let connected = events(&lab, &["--event", "connection", "--server", "s"]);
    assert_eq!(
        (&connected[0]["state"], &connected[0]["server"]),
        (&json!("connected"), &json!("s"))
    );
    let changed = events(&lab, &["--event", "configuration"]);
    assert_eq!(changed[0]["changes"]["added"], json!(["x"]));
    let text = fs::read_to_string(log_file(&lab)).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&log_file(&lab)), 0o600);
        assert_eq!(mode(&lab.at(DIR)), 0o700);
    }
    let verified = lab.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:#?}");
    assert!(verified.out.starts_with("intact: "), "{}", verified.out);
}

#[test]
fn arguments_are_recorded_by_rule() {
    let lab = lab(&json!({"arguments": {"*": "none", "mcp__s__t": "redacted"}}));
    lab.run(&[
        "call",
        "--json",
        "s",
        "t",
        r#"{"path": "/tmp/x", "password": "hunter2"}"#,
    ]);
    lab.run(&["call", "s", "u"]);
    let calls = events(&lab, &["--event", "call"]);
    assert_eq!(calls[0]["arguments"]["redacted"]["path"], "/tmp/x");
    assert!(!calls[0].to_string().contains("hunter2"), "{}", calls[0]);
    assert_eq!(calls[1].get("arguments"), None);
}

#[test]
fn without_the_setting_nothing_is_recorded() {
    let lab = Lab::with([("s", script())]);
    lab.run(&["call", "s", "t"]).is(0, "called\n", "");
    assert!(!lab.at(DIR).exists());
    lab.run(&["audit", "show"]).fails(
        2,
        "there is no audit log",
        "switch it on with \"audit\": true in ~/.claude/settings.json",
    );
    // A repository does not decide about it.
    lab.write_json(".claude/settings.json", &json!({"audit": true}));
    let run = lab.run(&["call", "s", "t"]);
    assert!(run.err.contains("\"audit\" counts only in"), "{}", run.err);
    assert!(!lab.at(DIR).exists());
}

#[test]
fn a_removed_or_changed_line_is_found() {
    let lab = lab(&json!(true));
    for _ in 0..3 {
        lab.run(&["call", "s", "t"]).is(0, "called\n", "");
    }
    assert_eq!(lab.run(&["audit", "verify"]).code, Some(0));
    let file = log_file(&lab);
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let without = |at: usize| {
        let mut lines = lines.clone();
        lines.remove(at);
        lines.join("\n") + "\n"
    };
    for (text, problem) in [
        (
            without(1),
            "audit-000000000000.jsonl:2: records 1 to 1 are missing\n",
        ),
        (without(lines.len() - 1), "are missing at the end\n"),
        (whole.replacen("\"ok\"", "\"no\"", 1), "was changed\n"),
        (String::new(), "are missing at the end\n"),
    ] {
        fs::write(&file, text).unwrap();
        let run = lab.run(&["audit", "verify"]);
        assert_eq!(run.code, Some(1), "{run:#?}");
        assert!(
            run.out.contains(problem) && run.out.contains("not intact: "),
            "{}",
            run.out
        );
        let report = parsed(&lab.run(&["audit", "verify", "--json"]).out);
        assert_eq!(report["intact"], json!(false));
    }
    fs::write(&file, whole).unwrap();
    assert_eq!(lab.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn tail_prints_records_as_they_come() {
    let lab = lab(&json!(true));
    lab.run(&["call", "s", "t"]);
    let mut command = lab.command(&["audit", "tail", "--json", "--event", "call"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || parsed(&lines.next().unwrap().unwrap());
    assert_eq!(next()["name"], "t");
    // `Lab::run` would wait for the first program.
    let called = lab.command(&["call", "s", "u"]).output().unwrap();
    assert!(called.status.success());
    assert_eq!(next()["name"], "u");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_required_log_that_cannot_be_written_refuses_calls() {
    let Some(company) = Company::new() else {
        return;
    };
    let lab = &company.lab;
    let mark = json!([{"touch": lab.at("called")}, {"replyText": "called"}]);
    lab.configure([("s", Script::default().tool("t", mark))]);
    let log = lab.at("log");
    // A file is in the way of the directory.
    fs::write(&log, "").unwrap();
    company.settings(&json!({"audit": {"directory": log, "sync": "always"}}));
    // The user cannot switch it off.
    lab.write_json("home/.claude/settings.json", &json!({"audit": false}));
    let call = || company.run(&["--mcp-config", ".mcp-config.json", "call", "s", "t"]);
    let run = call();
    assert_eq!(run.code, Some(5), "{run:#?}");
    let told = "\"mcp__s__t\" may not be called: the audit log in [DIR]/log, which \
                /etc/claude-code/managed-settings.json requires, cannot be written: ";
    assert!(run.err.contains(told), "{}", run.err);
    assert!(!lab.at("called").exists());
    fs::remove_file(&log).unwrap();
    call().is(0, "called\n", "");
    let shown = company
        .run(&["audit", "show", "--json", "--tool", "t"])
        .json();
    let events: Vec<_> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|record| &record["event"])
        .collect();
    // It was on disk before it was sent.
    assert_eq!(events, ["call-started", "call"]);
    assert_eq!(company.run(&["audit", "verify"]).code, Some(0));
}
