//! `trunkline approve`, `reject` and `reset-project-choices` without a terminal (CFG-6).

use serde_json::{Value, json};

use crate::lab::{Lab, parsed};

const WRITTEN: &str = "  written to [DIR]/home/.claude.json (project [DIR])\n";

/// A project with the pending servers `one` and `two`.
fn project() -> Lab {
    let lab = Lab::new();
    lab.servers(
        ".mcp.json",
        &json!({"one": lab.marking("one"), "two": lab.marking("two")}),
    );
    lab
}

/// Changes the entry of `one`.
fn change(lab: &Lab, change: impl FnOnce(&mut Value)) {
    let mut whole = parsed(&lab.scratch.read(".mcp.json"));
    change(&mut whole["mcpServers"]["one"]);
    lab.write_json(".mcp.json", &whole);
}

#[test]
fn only_approved_servers_run() {
    let lab = project();
    lab.plainly(&["approve", "one"])
        .is(0, &format!("approved \"one\"\n{WRITTEN}"), "");
    assert_eq!(lab.of_project(), json!({"enabledMcpjsonServers": ["one"]}));
    assert_eq!(lab.state("one"), "connected");
    assert_eq!(lab.state("two"), "pending-approval");
    assert!(lab.started("one") && !lab.started("two"));
    lab.plainly(&["call", "one", "echo"]).is(0, "{}\n", "");
    lab.plainly(&["approve", "--all"])
        .is(0, &format!("approved \"two\"\n{WRITTEN}"), "");
    assert_eq!(lab.state("two"), "connected");
    lab.plainly(&["approve", "--all"])
        .is(0, "no servers are pending\n", "");
    assert_eq!(
        lab.plainly(&["approve", "--all", "--json"]).json(),
        json!({"approved": []})
    );
}

#[test]
fn nothing_to_approve_is_reported() {
    let lab = Lab::new();
    lab.servers("home/.claude.json", &json!({"mine": {"command": "true"}}));
    let what = "there is no server \"nope\"";
    for command in ["approve", "reject"] {
        lab.plainly(&[command, "nope"])
            .fails(2, what, "this project has no .mcp.json");
    }
    lab.servers(".mcp.json", &json!({}));
    lab.plainly(&["approve", "nope"])
        .fails(2, what, "this project's .mcp.json has no servers");
}

#[test]
fn several_are_approved_at_once_and_again() {
    let lab = project();
    for written in [WRITTEN, &WRITTEN.replace("written to", "no change in")] {
        lab.plainly(&["approve", "one", "two", "--yes"]).is(
            0,
            &format!("approved \"one\", \"two\"\n{written}"),
            "",
        );
    }
    assert_eq!(
        lab.of_project(),
        json!({"enabledMcpjsonServers": ["one", "two"]})
    );
}

#[test]
fn json_names_the_server() {
    let lab = project();
    let document = |word: &str, names: &[&str]| json!({word: names, "file": "[DIR]/home/.claude.json", "project": "[DIR]"});
    assert_eq!(
        lab.plainly(&["approve", "one", "two", "--json"]).json(),
        document("approved", &["one", "two"])
    );
    assert_eq!(
        lab.plainly(&["reject", "one", "--json"]).json(),
        document("rejected", &["one"])
    );
    let mut expected = document("reset", &[]);
    expected["reset"] = json!(true);
    expected["files"] = json!([
        "[DIR]/home/.claude.json",
        "[DIR]/home/.claude/trunkline/approvals.json"
    ]);
    assert_eq!(
        lab.plainly(&["reset-project-choices", "--json"]).json(),
        expected
    );
}

#[test]
fn without_a_name_nothing_is_approved_by_accident() {
    let lab = project();
    for words in [
        &["approve"][..],
        &["approve", "--yes"],
        &["approve", "--json"],
    ] {
        lab.plainly(words).fails(
            2,
            "which servers?",
            "name them or pass --all; pending: one, two",
        );
    }
    assert!(!lab.at("home/.claude.json").exists());
    assert!(!lab.at("home/.claude").exists());
    assert_eq!(lab.plainly(&["reject"]).code, Some(2));
    assert_eq!(lab.plainly(&["approve", "one", "--all"]).code, Some(2));
}

#[test]
fn mistakes_are_explained() {
    let lab = project();
    lab.plainly(&["add", "--no-check", "-s", "user", "mine", "cmd"]);
    for command in ["approve", "reject"] {
        lab.plainly(&[command, "onne"]).fails(
            2,
            "there is no server \"onne\"",
            "did you mean \"one\"?",
        );
        lab.plainly(&[command, "weather"]).fails(
            2,
            "there is no server \"weather\"",
            "available: one, two",
        );
    }
    lab.plainly(&["approve", "mine"]).fails(
        2,
        "\"mine\" is in the user scope and needs no approval",
        "only servers of a project's .mcp.json need it",
    );
    // One wrong name approves none.
    let run = lab.plainly(&["approve", "one", "onne"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(lab.state("one"), "pending-approval");
}

#[test]
fn a_rejection_holds_until_an_approval() {
    let lab = project();
    lab.plainly(&["approve", "one"]);
    lab.plainly(&["reject", "one"])
        .is(0, &format!("rejected \"one\"\n{WRITTEN}"), "");
    assert_eq!(
        lab.of_project(),
        json!({"enabledMcpjsonServers": [], "disabledMcpjsonServers": ["one"]})
    );
    lab.plainly(&["call", "one", "echo"]).fails(
        5,
        "the server \"one\" does not run: you rejected it ([DIR]/home/.claude.json)",
        "to allow it again, run `trunkline approve one`",
    );
    assert_eq!(lab.state("one"), "rejected");
    // Not even for once.
    let run = lab.plainly(&["--approve-project", "call", "one", "echo"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    assert!(!lab.started("one"));
    lab.plainly(&["approve", "one"])
        .is(0, &format!("approved \"one\"\n{WRITTEN}"), "");
    lab.plainly(&["call", "one", "echo"]).is(0, "{}\n", "");
}

#[test]
fn choices_are_forgotten_on_demand() {
    let lab = project();
    lab.plainly(&["approve", "one"]);
    lab.plainly(&["reject", "two"]);
    lab.plainly(&["reset-project-choices"]).is(
        0,
        &format!(
            "forgot all approvals and rejections of this project\n{WRITTEN}  \
             written to [DIR]/home/.claude/trunkline/approvals.json\n"
        ),
        "",
    );
    assert_eq!(lab.state("one"), "pending-approval");
    assert_eq!(lab.state("two"), "pending-approval");
    let run = lab.plainly(&["list"]);
    assert!(!run.out.contains("changed"), "{}", run.out);
    assert!(!lab.started("one") && !lab.started("two"));
    lab.plainly(&["reset-project-choices"]).is(
        0,
        "this project has no approvals or rejections\n",
        "",
    );
    let empty = Lab::new();
    let nothing = json!({"reset": false, "files": []});
    assert_eq!(
        empty.plainly(&["reset-project-choices", "--json"]).json(),
        nothing
    );
    assert!(!empty.at("home/.claude.json").exists());
    assert!(!empty.at("home/.claude").exists());
}

#[test]
fn an_unchanged_file_is_not_reported_as_written() {
    let lab = project();
    for words in [
        &["approve", "one"][..],
        &["reject", "one"],
        &["disable", "one"],
    ] {
        let run = lab.plainly(words);
        assert!(
            run.out.contains("\n  written to [DIR]/home/.claude.json"),
            "{run:#?}"
        );
        let again = lab.plainly(words);
        assert!(
            again
                .out
                .contains("\n  no change in [DIR]/home/.claude.json"),
            "{again:#?}"
        );
    }
}

#[test]
fn a_change_of_what_would_run_is_pending_again_and_shown() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, Value); 6] = [
        (
            |entry| entry["tools"] = json!({"allow": ["*"]}),
            "tools",
            json!({"allow": ["*"]}),
        ),
        (
            |entry| entry["args"].as_array_mut().unwrap().push(json!("--evil")),
            "args",
            Value::Null,
        ),
        (
            |entry| entry["command"] = json!("/bin/sh"),
            "command",
            json!("/bin/sh"),
        ),
        (
            |entry| entry["env"]["LD_PRELOAD"] = json!("./evil.so"),
            "env.LD_PRELOAD",
            json!("***"),
        ),
        (|entry| entry["cwd"] = json!("/"), "cwd", json!("/")),
        (
            |entry| {
                *entry = json!({"type": "http", "url": "https://evil.example", "headersHelper": "./evil"});
            },
            "url",
            json!("https://evil.example"),
        ),
    ];
    for (swap, field, new) in cases {
        let lab = project();
        lab.plainly(&["approve", "one"]);
        lab.plainly(&["call", "one", "echo"]).is(0, "{}\n", "");
        assert!(lab.started("one"));
        change(&lab, swap);
        lab.plainly(&["call", "one", "echo"]).fails(
            5,
            "the server \"one\" does not run: it has changed since you approved it",
            "review the change with `trunkline approve one`",
        );
        let listed = lab.plainly(&["list", "--json"]).json();
        assert_eq!(listed[0]["state"], "pending-approval");
        let changes = listed[0]["changes"].as_array().unwrap();
        let found = changes.iter().find(|change| change["field"] == field);
        let found = found.unwrap_or_else(|| panic!("{field}: {changes:?}"));
        if !new.is_null() {
            assert_eq!(found["new"], new);
        }
        let shown = lab.plainly(&["list"]);
        assert!(
            shown
                .out
                .contains("  it has changed since you approved it\n"),
            "{}",
            shown.out
        );
        assert!(
            shown.out.contains(&format!("    + {field}: ")),
            "{}",
            shown.out
        );
        assert!(!lab.started("one"));
        lab.plainly(&["approve", "one"]);
        assert!(lab.plainly(&["list", "--json"]).json()[0]["changes"].is_null());
    }
}

#[test]
fn a_change_of_a_secret_says_that_and_not_the_secret() {
    let lab = Lab::new();
    let entry = |secret: &str| {
        json!({"type": "http", "url": format!("https://me:{secret}@h.example/mcp?key={secret}"),
            "headers": {"Authorization": format!("Bearer {secret}")}, "oauth": {"clientId": "me", "clientSecret": secret}})
    };
    lab.servers(".mcp.json", &json!({"one": entry("hunter2")}));
    lab.plainly(&["approve", "one"]).never_says("hunter2");
    let kept = lab.scratch.read("home/.claude/trunkline/approvals.json");
    assert!(!kept.contains("hunter2"), "{kept}");
    lab.servers(".mcp.json", &json!({"one": entry("hunter3")}));
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["get", "one"],
        &["get", "one", "--json"],
        &["approve"],
        &["approve", "one", "--json"],
    ] {
        let run = lab.plainly(words);
        run.never_says("hunter2");
        run.never_says("hunter3");
        if words == ["list"] {
            assert!(
                run.out.contains("headers.Authorization: different value"),
                "{}",
                run.out
            );
        }
    }
}

#[test]
fn fields_that_do_not_affect_execution_need_no_new_approval() {
    let lab = project();
    lab.plainly(&["approve", "one"]);
    change(&lab, |entry| {
        entry["timeout"] = json!(5000);
        entry["alwaysLoad"] = json!(true);
    });
    lab.plainly(&["call", "one", "echo"]).is(0, "{}\n", "");
}

#[test]
fn an_approval_of_claude_code_counts_for_what_it_was_given_for() {
    let lab = project();
    let dir = lab.scratch.path().to_str().unwrap();
    lab.write_json(
        "home/.claude.json",
        &json!({"projects": {dir: {"enabledMcpjsonServers": ["one"]}}}),
    );
    lab.plainly(&["call", "one", "echo"]).is(0, "{}\n", "");
    change(&lab, |entry| {
        entry["args"].as_array_mut().unwrap().push(json!("--evil"));
    });
    assert_eq!(lab.plainly(&["call", "one", "echo"]).code, Some(5));
    assert_eq!(lab.state("one"), "pending-approval");
}

#[test]
fn an_ineffective_approval_warns() {
    let lab = project();
    lab.write_json(
        ".claude/settings.json",
        &json!({"disabledMcpjsonServers": ["one"]}),
    );
    let run = lab.plainly(&["approve", "one"]);
    run.is(
        0,
        &format!("approved \"one\"\n{WRITTEN}"),
        "warning: \"one\" still does not run: it is rejected in [DIR]/.claude/settings.json\n",
    );
}

#[test]
fn one_run_can_be_approved_without_a_trace() {
    let lab = project();
    for words in [
        &["--approve-project", "call", "one", "echo"][..],
        &["call", "one", "echo", "--approve-project"],
    ] {
        lab.plainly(words).is(0, "{}\n", "");
        assert!(lab.started("one") && !lab.started("two"));
    }
    let listed = lab.plainly(&["list", "--approve-project", "--json"]).json();
    assert_eq!(listed[0]["state"], "connected");
    assert!(!lab.at("home/.claude.json").exists());
    assert!(!lab.at("home/.claude").exists());
    assert_eq!(lab.state("one"), "pending-approval");
}
