//! How commands that change or explain something look on a terminal: snapshots at 80 and 160
//! columns, with and without colours.

use serde_json::json;

use crate::lab::{Lab, echo};
use crate::look::{marked, screen, stable, text};

/// A project with a server that works, one that cannot be reached and one that waits for approval.
fn project() -> Lab {
    let lab = Lab::new();
    let works = lab.scratch.entry("works", &echo());
    let nowhere = json!({"type": "http", "url": "http://127.0.0.1:9/mcp"});
    lab.servers(
        "home/.claude.json",
        &json!({"works": works, "nowhere": nowhere}),
    );
    lab.servers(".mcp.json", &json!({"shared": {"command": "cat"}}));
    lab
}

/// Removes the names of files, whose length decides where a line is broken.
fn without_files(shown: &str) -> String {
    let mut is_written = false;
    let kept: Vec<&str> = shown
        .lines()
        .filter(|line| {
            let is_more = is_written && line.starts_with("    ");
            is_written = is_more || line.contains("written to");
            !is_written && !line.contains("[DIR]")
        })
        .collect();
    kept.join("\n") + "\n"
}

/// Checks a command, on a project of its own at each width.
#[track_caller]
fn check(name: &str, words: &[&str]) {
    for columns in [80, 160] {
        let lab = project();
        let mut command = lab.bare(words);
        let shown = screen(command.env_remove("NO_COLOR"), columns);
        let plain = without_files(&stable(&lab, &text(&shown)));
        let coloured = without_files(&stable(&lab, &marked(&shown)));
        let snapshot = format!("{plain}=== in colours ===\n{coloured}");
        insta::assert_snapshot!(format!("{name}_{columns}"), snapshot);
    }
}

#[test]
fn changes_have_their_look() {
    for (name, words) in [
        ("add", &["add", "other", "--no-check", "--", "cat"][..]),
        ("remove", &["remove", "works"]),
        ("disable", &["disable", "works"]),
        ("edit", &["edit", "works", "-e", "LEVEL=2"]),
        ("approve", &["approve", "--all", "--yes"]),
        ("reject", &["reject", "shared"]),
    ] {
        check(name, words);
    }
}

#[test]
fn reports_have_their_look() {
    for (name, words) in [
        ("status", &["status"][..]),
        ("doctor", &["doctor"]),
        ("get_works", &["get", "works", "--refresh"]),
        ("accounts", &["accounts"]),
        ("policy", &["policy", "show"]),
        ("import_nothing", &["import"]),
    ] {
        check(name, words);
    }
}

#[test]
fn mistakes_have_their_look() {
    for (name, words) in [
        (
            "add_again",
            &["add", "works", "-s", "user", "--", "cat"][..],
        ),
        ("add_bad_name", &["add", "a b", "--", "cat"]),
        ("remove_unknown", &["remove", "wroks"]),
        ("login_stdio", &["login", "works"]),
        ("login_nowhere", &["login", "nowhere"]),
        ("audit_off", &["audit", "show"]),
        ("unknown_command", &["lst"]),
        ("missing_argument", &["call"]),
        ("refused", &["call", "shared", "t"]),
    ] {
        check(name, words);
    }
}
