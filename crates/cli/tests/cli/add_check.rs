//! The check after `trunkline add`: its findings, and that it never undoes the entry.

use serde_json::{Value, json};
use trunkline_testkit::bin;

use crate::lab::Lab;

const LOCAL: &str = "  written to [DIR]/home/.claude.json (project [DIR])\n";

/// The entry that was added to the local scope.
fn added(lab: &Lab, name: &str) -> Value {
    lab.of_project()["mcpServers"][name].clone()
}

/// The words that start a scripted server.
fn working(lab: &Lab) -> Vec<String> {
    let entry = lab.marking("s");
    let args = entry["args"].as_array().unwrap().iter();
    let args = args.map(|arg| arg.as_str().unwrap().to_owned());
    let command = entry["command"].as_str().unwrap().to_owned();
    std::iter::once(command).chain(args).collect()
}

#[test]
fn a_server_that_works_is_reported_with_its_tools_and_the_next_command() {
    let lab = Lab::new();
    let server = working(&lab);
    let words: Vec<&str> = ["add", "s", "--"]
        .into_iter()
        .chain(server.iter().map(String::as_str))
        .collect();
    lab.plainly(&words).is(
        0,
        &format!("added the stdio server \"s\" to the local scope\n{LOCAL}  connected: 1 tool\n"),
        "next: trunkline tools s\n",
    );
    assert!(lab.started("s"));
    let again: Vec<&str> = ["add", "--force", "--json"]
        .into_iter()
        .chain(words[1..].iter().copied())
        .collect();
    let document = lab.plainly(&again).json();
    assert_eq!(document["replaced"], true);
    let expected = json!({"state": "connected", "tools": 1, "prompts": 0, "resources": 0});
    assert_eq!(document["check"], expected);
    assert!(lab.started("s"));
    let quiet: Vec<&str> = ["add", "--force", "--no-check"]
        .into_iter()
        .chain(words[1..].iter().copied())
        .collect();
    assert!(!lab.plainly(&quiet).out.contains("connected"));
    assert!(!lab.started("s"));
}

#[test]
fn a_server_that_does_not_work_stays_added_and_is_no_failure() {
    let lab = Lab::new();
    let run = lab.plainly(&["add", "s", "trunkline-no-such-program"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(
        run.out,
        format!("added the stdio server \"s\" to the local scope\n{LOCAL}")
    );
    let err = &run.err;
    assert!(
        err.starts_with("warning: added \"s\", but could not connect\n"),
        "{err}"
    );
    assert!(err.contains("trunkline-no-such-program"), "{err}");
    assert!(
        err.ends_with("next: change it with `trunkline edit s`, or retry with `trunkline get s`\n"),
        "{err}"
    );
    assert_eq!(added(&lab, "s")["command"], "trunkline-no-such-program");
    let document = lab
        .plainly(&["add", "--json", "t", "trunkline-no-such-program"])
        .json();
    assert_eq!(document["check"]["state"], "failed");
    let error = document["check"]["error"].as_str().unwrap();
    assert!(error.contains("trunkline-no-such-program"), "{error}");
    let run = lab.plainly(&["add", "--json", "u", "http://127.0.0.1:1/mcp"]);
    assert_eq!(run.json()["check"]["state"], "failed");
}

#[test]
fn a_project_s_server_is_not_started_before_it_is_approved() {
    let lab = Lab::new();
    let server = working(&lab);
    let words: Vec<&str> = ["add", "-s", "project", "s", "--"]
        .into_iter()
        .chain(server.iter().map(String::as_str))
        .collect();
    let run = lab.plainly(&words);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(run.err, "  needs your approval: `trunkline approve s`\n");
    assert!(!lab.started("s"));
    let run = lab.plainly(&[
        "add",
        "-s",
        "project",
        "--json",
        "t",
        "trunkline-no-such-program",
    ]);
    let check = &run.json()["check"];
    assert_eq!(check["state"], "pending-approval");
    assert_eq!(
        check["findings"][0],
        "\"trunkline-no-such-program\" is not on PATH"
    );
}

#[test]
fn a_command_line_in_one_word_is_split() {
    let lab = Lab::new();
    let run = lab.plainly(&["add", "--no-check", "s", "npx -y 'a b' pkg", "more"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(
        run.err,
        "note: split the command line into \"npx\" and 4 arguments\n"
    );
    let entry =
        json!({"type": "stdio", "command": "npx", "args": ["-y", "a b", "pkg", "more"], "env": {}});
    assert_eq!(added(&lab, "s"), entry);
    // A program whose path has a space is one.
    lab.scratch.write("my dir/server", "");
    lab.plainly(&["add", "--no-check", "t", "my dir/server"]);
    assert_eq!(added(&lab, "t")["command"], "my dir/server");
}

#[test]
fn an_address_is_not_taken_for_a_program() {
    let lab = Lab::new();
    for (words, url) in [
        (
            &["add", "s", "localhost:3000/mcp"][..],
            "http://localhost:3000/mcp",
        ),
        (
            &["add", "-t", "http", "s", "127.0.0.1:80"],
            "http://127.0.0.1:80",
        ),
        (
            &["add", "s", "mcp.sentry.dev/mcp"],
            "https://mcp.sentry.dev/mcp",
        ),
    ] {
        let typed = words[words.len() - 1];
        let error = format!("\"{typed}\" is an address without http:// or https://");
        lab.plainly(words).fails(2, &error, &format!("use {url}"));
    }
    assert!(!lab.at("home/.claude.json").exists());
}

#[test]
fn a_mistyped_launcher_gets_a_suggestion() {
    let lab = Lab::new();
    let programs = lab.scratch.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(bin("testkit-server"), programs.join("uvx")).unwrap();
    let mut command = lab.bare(&["add", "--json", "s", "uvxx"]);
    let run = lab.finish(command.env("PATH", &programs));
    assert_eq!(run.json()["check"]["hint"], "did you mean \"uvx\"?");
}

#[test]
fn literal_secrets_in_a_project_s_file_are_warned_of_by_name() {
    let lab = Lab::new();
    let run = lab.plainly(&[
        "add",
        "--no-check",
        "-s",
        "project",
        "-e",
        "API_KEY=hunter2",
        "-e",
        "LOG=debug",
        "s",
        "cmd",
    ]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    run.never_says("hunter2");
    assert!(
        run.err.starts_with(
            "warning: env.API_KEY is a literal secret in a file of the repository; \
             use \"${API_KEY}\" instead\n"
        ),
        "{}",
        run.err
    );
    assert!(!run.err.contains("LOG"), "{}", run.err);
}
