//! Prompts on a terminal.

use serde_json::json;

use crate::get::with_secrets;
use crate::lab::{ADD_WITH_SECRET, Lab, parsed};
use crate::pty::Session;

/// A project with one pending server.
fn project() -> Lab {
    let lab = Lab::new();
    let mut entry = lab.marking("one");
    entry["env"]["TOKEN"] = json!("hunter2");
    lab.servers(".mcp.json", &json!({ "one": entry }));
    lab
}

fn approve(lab: &Lab, words: &[&str], answer: &str) -> (Option<i32>, String) {
    let mut session = Session::start(&mut lab.bare(words));
    session.answer("approve \"one\"? [y/N] ", answer);
    let (code, shown) = session.end();
    (code, lab.plain(&shown))
}

#[test]
fn approving_shows_what_would_run_and_asks() {
    let lab = project();
    for (words, answer) in [
        (&["approve"][..], "n"),
        (&["approve", "one"], ""),
        (&["approve", "--all"], "no"),
        (&["approve"], "yess"),
    ] {
        let (code, shown) = approve(&lab, words, answer);
        assert_eq!(code, Some(0), "{shown}");
        for part in [
            "\"one\" in [DIR]/.mcp.json\n",
            "  command: \"[SERVER]\"\n",
            "  args: [\"--script\",\"[DIR]/scripts/one.json\"]\n",
            "\"TOKEN\":\"***\"",
            "nothing approved\n",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!lab.at("home/.claude.json").exists());
        assert!(!lab.at("home/.claude").exists());
    }
    assert_eq!(lab.state("one"), "pending-approval");
    let (code, shown) = approve(&lab, &["approve"], "y");
    assert_eq!(code, Some(0), "{shown}");
    // The terminal may be too narrow for the paths.
    let unwrapped = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped.contains("approved \"one\" written to [DIR]/home/.claude.json (project [DIR])"),
        "{shown}"
    );
    assert_eq!(lab.state("one"), "connected");
}

#[test]
fn a_change_is_shown_with_old_and_new() {
    let lab = project();
    lab.plainly(&["approve", "one"]);
    let mut whole = parsed(&lab.scratch.read(".mcp.json"));
    whole["mcpServers"]["one"]["args"] = json!(["--evil"]);
    whole["mcpServers"]["one"]["env"]["TOKEN"] = json!("hunter3");
    lab.write_json(".mcp.json", &whole);
    let (code, shown) = approve(&lab, &["approve"], "n");
    assert_eq!(code, Some(0));
    for part in [
        "  changed since you approved it:\n",
        "    - args: [\"--script\",\"[DIR]/scripts/one.json\"]\n    + args: [\"--evil\"]\n",
        "    ~ env.TOKEN: different value\n",
        "\"TOKEN\":\"***\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("hunter"), "{shown}");
    assert_eq!(lab.state("one"), "pending-approval");
}

#[test]
fn each_is_asked_about_alone() {
    let lab = Lab::new();
    lab.servers(
        ".mcp.json",
        &json!({"one": lab.marking("one"), "two": lab.marking("two")}),
    );
    let mut session = Session::start(&mut lab.bare(&["approve"]));
    session.answer("approve \"one\"? [y/N] ", "n");
    session.answer("approve \"two\"? [y/N] ", "Y");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(lab.of_project(), json!({"enabledMcpjsonServers": ["two"]}));
}

#[test]
fn a_closed_prompt_is_a_no() {
    let lab = project();
    let mut session = Session::start(&mut lab.bare(&["approve"]));
    // The end of the input, as Ctrl-D sends it.
    session.type_after("approve \"one\"? [y/N] ", "\u{4}");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("nothing approved\n"), "{shown}");
    assert_eq!(lab.state("one"), "pending-approval");
}

#[test]
fn yes_skips_the_prompt() {
    let lab = project();
    for words in [
        &["approve", "one", "--yes"][..],
        &["approve", "--all", "-y"],
        &["approve", "one", "--json"],
    ] {
        let (code, shown) = Session::start(&mut lab.bare(words)).end();
        assert_eq!(code, Some(0), "{shown}");
        assert!(!shown.contains("[y/N]"), "{shown}");
    }
    assert_eq!(lab.state("one"), "connected");
}

#[test]
fn secrets_are_shown_to_a_person_who_asks_for_them() {
    let lab = with_secrets();
    let (code, shown) = Session::start(&mut lab.bare(&["get", "http", "--show-secrets"])).end();
    assert_eq!(code, Some(0), "{shown}");
    for part in [
        "  url: https://me:hunter2@h.example/mcp?key=hunter2\n",
        "    Authorization: Bearer hunter2\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (code, shown) = Session::start(&mut lab.bare(&["get", "http"])).end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn import_asks_before_it_writes() {
    let lab = Lab::new();
    lab.servers(
        "home/.cursor/mcp.json",
        &json!({"one": {"command": "a"}, "two": {"command": "b"}}),
    );
    let mut session = Session::start(&mut lab.bare(&["import"]));
    session.answer("add 2 servers? [y/N] ", "n");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("add to the user scope"), "{shown}");
    assert!(!lab.at("home/.claude.json").exists());
    let mut session = Session::start(&mut lab.bare(&["import", "--only", "one"]));
    session.answer("add 1 server? [y/N] ", "y");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(lab.global()["mcpServers"].as_object().unwrap().len(), 1);
}

#[test]
fn a_client_secret_is_asked_for_and_not_echoed() {
    let lab = Lab::new();
    // A password is read from the terminal that controls the session, so there must be a session.
    let mut command = lab.started_by(&["setsid", "--ctty", "--wait"], &ADD_WITH_SECRET);
    let mut session = Session::start(&mut command);
    session.wait_for_no_echo();
    session.answer("OAuth client secret: ", "hunter2");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(
        lab.scratch
            .read("home/.claude/trunkline/secrets.json")
            .contains("hunter2")
    );
}
