//! `trunkline add` and `add-json` with mistakes: each explained, none repeats a secret, nothing is
//! written.

use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::lab::Lab;

#[test]
fn mistakes_are_bad_usage_and_write_nothing() {
    let lab = Lab::new();
    let cases: [(&[&str], &str, &str); 15] = [
        (
            &["add", "s"],
            "the server \"s\" has neither a command nor a URL",
            "usage: `trunkline add <name> <command or URL>`",
        ),
        (
            &["add", "a.b", "cmd"],
            "the name \"a.b\" may contain only letters, digits, \"-\" and \"_\"; write for example \"a-b\"",
            "",
        ),
        (
            &["add", "workspace", "cmd"],
            "the name \"workspace\" is reserved; rename it",
            "",
        ),
        (
            &["add", "claude.ai Slack", "cmd"],
            "names that begin with \"claude.ai \" are reserved; rename it",
            "",
        ),
        (&["add", "", "cmd"], "its name is empty; give it one", ""),
        (
            &["add", "s", ""],
            "the entry of \"s\" is invalid: its \"command\" is empty; write the program to start",
            "",
        ),
        (
            &["add", "-t", "stdio", "s", "https://h.example"],
            "\"https://h.example\" is a URL, but a stdio server needs a command",
            "omit -t, or use -t http",
        ),
        (
            &["add", "-t", "http", "s", "npx"],
            "the entry of \"s\" is invalid: its \"url\" is not a URL: relative URL without a base",
            "",
        ),
        (
            &["add", "-t", "ws", "s", "https://h.example"],
            "the entry of \"s\" is invalid: the \"url\" of a \"ws\" server begins with wss:// or ws://, not with https:",
            "",
        ),
        (
            &["add", "s", "https://h.example", "more"],
            "a remote server takes only a URL, without arguments",
            "set headers with -H 'Name: value'",
        ),
        (
            &["add", "s", "https://h.example", "-H", "hunter2"],
            "a header must have the form 'Name: value'",
            "",
        ),
        (
            &["add-json", "s", "{\"command\": \"x\", hunter2}"],
            "the entry is not valid JSON (line 1, column 18)",
            "",
        ),
        (
            &["add-json", "s", "[]"],
            "the entry is not a JSON object",
            "for example '{\"type\": \"stdio\", \"command\": \"npx\", \"args\": [\"server\"]}'",
        ),
        (
            &["add-json", "s", "{\"type\": \"stdoi\", \"command\": \"x\"}"],
            "the entry of \"s\" is invalid: unknown \"type\": \"stdoi\"; write one of stdio, http, streamable-http, sse, ws, \
             sse-ide, ws-ide, sdk, claudeai-proxy",
            "",
        ),
        (
            &["add-json", "s", "{}"],
            "the entry of \"s\" is invalid: it has neither a \"command\" nor a \"url\"",
            "",
        ),
    ];
    for (words, error, hint) in cases {
        lab.plainly(words).fails(2, error, hint);
    }
    assert!(!lab.at("home/.claude.json").exists());
}

#[test]
fn a_malformed_command_line_is_bad_usage() {
    let lab = Lab::new();
    for (words, part) in [
        (&["add"][..], "NAME COMMAND|URL ARGS"),
        (&["add", "s", "npx", "-y", "pkg"], "'-y'"),
        (
            &["add", "-s", "moon", "s", "cmd"],
            "possible values: local, project, user",
        ),
        (
            &["add", "-t", "telepathy", "s", "cmd"],
            "possible values: stdio, sse, http, ws",
        ),
        (
            &["add", "s", "https://h", "--callback-port", "99999"],
            "99999",
        ),
        (&["add-json", "s"], "<ENTRY>"),
    ] {
        let run = lab.plainly(words);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
    assert!(!lab.at("home/.claude.json").exists());
    assert!(!lab.at(".mcp.json").exists());
}

#[test]
fn a_mistake_never_repeats_what_may_be_a_secret() {
    let lab = Lab::new();
    let cases: [&[&str]; 7] = [
        &["add", "-e", "hunter2", "s", "cmd"],
        &["add", "-e", "=hunter2", "s", "cmd"],
        &["add", "s", "cmd", "-H", "Authorization: hunter2"],
        &["add", "s", "https://h.example", "-H", "hunter2"],
        &["add", "-t", "stdio", "s", "https://me:hunter2@h.example"],
        &[
            "add",
            "s",
            "https://h.example",
            "Authorization: Bearer hunter2",
        ],
        &[
            "add-json",
            "s",
            r#"{"command": "x", "env": {"TOKEN": ["hunter2"]}}"#,
        ],
    ];
    for words in cases {
        let run = lab.plainly(words);
        assert_eq!(run.code, Some(2), "{run:#?}");
        run.never_says("hunter2");
    }
}

#[test]
fn a_field_of_the_wrong_kind_is_named() {
    let lab = Lab::new();
    for (entry, field) in [
        (r#"{"command": 5}"#, "command"),
        (r#"{"command": "x", "args": "hunter2"}"#, "args"),
        (r#"{"command": "x", "env": ["hunter2"]}"#, "env"),
        (r#"{"command": "x", "env": {"TOKEN": 5}}"#, "env"),
        (r#"{"command": "x", "timeout": "hunter2"}"#, "timeout"),
        (
            r#"{"url": "https://h.example", "headers": "hunter2"}"#,
            "headers",
        ),
    ] {
        let run = lab.plainly(&["add-json", "s", entry]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
        assert!(
            run.err
                .starts_with("error: the entry of \"s\" is invalid: "),
            "{}",
            run.err
        );
        assert!(
            run.err.contains(&format!("\"{field}")),
            "{entry}: {}",
            run.err
        );
        run.never_says("hunter2");
    }
}

#[test]
fn a_broken_file_is_left_alone() {
    for (broken, problem) in [
        ("{\"mcpServers\": {", ":1:16: not valid JSON"),
        ("[]", ":1:1: expected an object, found a list"),
        ("{\"mcpServers\": []}", "\"mcpServers\" is not an object"),
        ("\"hunter2\"", ":1:1: expected an object, found a string"),
    ] {
        let lab = Lab::new();
        lab.scratch.write("home/.claude.json", broken);
        lab.scratch.write(".mcp.json", broken);
        for (scope, file) in [("user", "home/.claude.json"), ("project", ".mcp.json")] {
            let run = lab.plainly(&["add", "--no-check", "-s", scope, "s", "cmd"]);
            assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
            assert!(
                run.err.starts_with(&format!("error: [DIR]/{file}:")),
                "{}",
                run.err
            );
            assert!(run.err.contains(problem), "{}", run.err);
            assert_eq!(
                run.err.matches("by hand").count() + run.err.matches("fix the file").count(),
                1,
                "{}",
                run.err
            );
            run.never_says("hunter2");
            assert_eq!(lab.scratch.read(file), broken);
        }
    }
}

#[test]
fn a_place_that_cannot_be_written_is_explained() {
    let lab = Lab::new();
    let run = lab.finish(
        lab.bare(&["add", "s", "cmd"])
            .env("HOME", "/proc/1/nothing"),
    );
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
    assert!(run.err.starts_with("error: /proc/1/nothing"), "{}", run.err);
}

#[test]
fn a_working_directory_that_is_gone_is_explained_and_nothing_is_written_elsewhere() {
    let lab = Lab::new();
    let line = "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"";
    for words in [
        &["add", "s", "cmd"][..],
        &["approve", "--all"],
        &["reset-project-choices"],
    ] {
        let mut command = lab.started_by(&["sh", "-c", line, "sh"], words);
        let run = lab.finish(&mut command);
        assert_eq!(
            (run.code, run.out.as_str()),
            (Some(2), ""),
            "{words:?}: {run:#?}"
        );
        assert!(run.err.contains("working directory"), "{}", run.err);
    }
    assert!(!lab.at("home/.claude.json").exists());
}

#[test]
fn a_directory_whose_name_is_not_text_is_no_reason_to_panic() {
    let lab = Lab::new();
    let odd = |bytes: &[u8]| {
        let directory = lab.scratch.path().join(std::ffi::OsStr::from_bytes(bytes));
        std::fs::create_dir(&directory).unwrap();
        directory
    };
    let [one, two] = [odd(b"\xff\xfe"), odd(b"\xfe\xff")];
    for directory in [&one, &two] {
        for words in [
            &["add", "--no-check", "-s", "project", "s", "cmd"][..],
            &["list", "--json"],
            &["get", "s", "--json"],
            &["import", "--json"],
        ] {
            let run = lab.finish(lab.bare(words).current_dir(directory));
            assert_eq!(run.code, Some(0), "{words:?}: {run:#?}");
        }
    }
    // Both paths would have the same key in the file, so nothing is stored for either.
    for words in [
        &["add", "t", "cmd"][..],
        &["approve", "s"],
        &["reject", "s"],
        &["disable", "s"],
    ] {
        let run = lab.finish(lab.bare(words).current_dir(&one));
        assert_eq!(
            (run.code, run.out.as_str()),
            (Some(2), ""),
            "{words:?}: {run:#?}"
        );
        assert!(run.err.contains("is not UTF-8"), "{}", run.err);
    }
    let run = lab.finish(lab.bare(&["list", "--json"]).current_dir(&two));
    assert_eq!(run.json()[0]["state"], json!("pending-approval"));
}
