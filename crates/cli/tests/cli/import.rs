//! `trunkline import`: shows the servers of other clients before it writes them (CFG-11).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::lab::{Lab, parsed};

/// The file of each client, and its sample.
const FILES: [(&str, &str, &str); 9] = [
    (
        "claude-desktop",
        "home/.config/Claude/claude_desktop_config.json",
        "claude-desktop/claude_desktop_config.json",
    ),
    ("cursor", "home/.cursor/mcp.json", "cursor/mcp.json"),
    (
        "vscode",
        "home/.config/Code/User/mcp.json",
        "vscode/mcp.json",
    ),
    (
        "windsurf",
        "home/.codeium/windsurf/mcp_config.json",
        "windsurf/mcp_config.json",
    ),
    ("zed", "home/.config/zed/settings.json", "zed/settings.json"),
    (
        "gemini",
        "home/.gemini/settings.json",
        "gemini/settings.json",
    ),
    ("codex", "home/.codex/config.toml", "codex/config.toml"),
    (
        "opencode",
        "home/.config/opencode/opencode.json",
        "opencode/opencode.json",
    ),
    (
        "goose",
        "home/.config/goose/config.yaml",
        "goose/config.yaml",
    ),
];

/// Returns the samples of the tests of `config`.
fn samples() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/tests");
    let places = ["import/samples", "samples"].map(|place| tests.join(place));
    places
        .into_iter()
        .find(|place| place.is_dir())
        .expect("the samples")
}

/// A lab with the files of every client.
fn with_every_client() -> Lab {
    let lab = Lab::new();
    for (_, file, sample) in FILES {
        lab.scratch
            .write(file, std::fs::read(samples().join(sample)).unwrap());
    }
    lab
}

/// A lab with one file of Cursor.
fn with_cursor(servers: &Value) -> Lab {
    let lab = Lab::new();
    lab.servers("home/.cursor/mcp.json", servers);
    lab
}

const NOT_YET: &str = "nothing written; pass --yes to write\n";

#[test]
fn it_shows_what_it_would_write_and_writes_nothing() {
    let lab = with_cursor(
        &json!({"files": {"command": "npx", "args": ["-y", "files"], "env": {"TOKEN": "hunter2", "REF": "${env:X}"}}}),
    );
    let shown = "Cursor: [DIR]/home/.cursor/mcp.json\n  files  add to the user scope\n    \
        {\"type\":\"stdio\",\"command\":\"npx\",\"args\":[\"-y\",\"files\"],\"env\":{\"TOKEN\":\"***\",\"REF\":\"${X}\"}}\n";
    lab.plainly(&["import"]).is(0, shown, NOT_YET);
    lab.plainly(&["import", "--dry-run"]).is(0, shown, "");
    lab.plainly(&["import", "cursor"]).is(0, shown, NOT_YET);
    assert!(!lab.at("home/.claude.json").exists());
    lab.plainly(&["import", "--yes"]).is(
        0,
        shown,
        "added \"files\" to [DIR]/home/.claude.json\nnext: trunkline list\n",
    );
    assert_eq!(
        lab.global(),
        json!({"mcpServers": {"files": {"type": "stdio", "command": "npx", "args": ["-y", "files"], "env": {"TOKEN": "hunter2", "REF": "${X}"}}}})
    );
    let before = lab.scratch.read("home/.claude.json");
    let again = shown.replace("add to the user scope", "already exists");
    lab.plainly(&["import", "--yes"]).is(0, &again, "");
    lab.plainly(&["import"]).is(0, &again, "");
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
}

#[test]
fn every_client_is_read_and_a_second_time_changes_nothing() {
    let lab = with_every_client();
    let run = lab.plainly(&["import", "--yes", "--json"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let first = run.json();
    let first = first.as_array().unwrap();
    for (client, file, _) in FILES {
        let of_client = first.iter().filter(|server| server["client"] == client);
        let files: Vec<_> = of_client.map(|server| &server["file"]).collect();
        assert!(!files.is_empty(), "{client}: {}", run.err);
        assert!(
            files.iter().all(|found| **found == format!("[DIR]/{file}")),
            "{files:?}"
        );
    }
    let added = first
        .iter()
        .filter(|server| server["state"] == "added")
        .count();
    assert_eq!(lab.global()["mcpServers"].as_object().unwrap().len(), added);
    for secret in [
        "ghp_0123456789abcdef",
        "s3cr3t",
        "sk-0123",
        "tok_live_42",
        "Bearer abc",
        "shh",
        "ghp_zzz",
        "pa$word",
    ] {
        run.never_says(secret);
        lab.plainly(&["import"]).never_says(secret);
    }
    let before = lab.scratch.read("home/.claude.json");
    let second = lab.plainly(&["import", "--yes", "--json"]).json();
    let second = second.as_array().unwrap();
    assert_eq!(second.len(), first.len());
    for (first, second) in first.iter().zip(second) {
        let expected = match first["state"].as_str().unwrap() {
            "added" => "known",
            other => other,
        };
        assert_eq!(second["state"], expected, "{second}");
    }
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
}

#[test]
fn as_json_it_is_one_document() {
    let lab = with_cursor(
        &json!({"my files": {"command": "npx", "env": {"TOKEN": "hunter2"}, "envFile": ".env"}}),
    );
    let expected = |state: &str| {
        json!([{"client": "cursor", "file": "[DIR]/home/.cursor/mcp.json", "name": "my-files", "originalName": "my files",
            "state": state, "config": {"type": "stdio", "command": "npx", "args": [], "env": {"TOKEN": "***"}},
            "notes": ["envFile is not imported"]}])
    };
    let import = |words: &[&str]| {
        let mut found = lab.plainly(&[&["import", "--json"], words].concat()).json();
        let notes = found[0]["notes"].as_array_mut().unwrap();
        // Whether the new name is worth a note is not the question here.
        notes.retain(|note| note.as_str().is_some_and(|note| note.contains("envFile")));
        found
    };
    assert_eq!(import(&[]), expected("new"));
    assert_eq!(import(&["--dry-run"]), expected("new"));
    assert!(!lab.at("home/.claude.json").exists());
    assert_eq!(import(&["--yes"]), expected("added"));
    assert_eq!(import(&["--yes"]), expected("known"));
    lab.servers(
        "home/.claude.json",
        &json!({"my-files": {"command": "other"}}),
    );
    let mut taken = expected("taken");
    taken[0]["reason"] = json!("the user scope has a different server of that name");
    taken[0]["hint"] = json!(
        "`trunkline import cursor -s user --only my-files` with --force replaces it, with --as NAME keeps both"
    );
    assert_eq!(import(&["--yes"]), taken);
}

#[test]
fn as_json_it_says_what_is_left_out_and_why() {
    let lab = with_cursor(&json!({"mine": {"command": "mine"}}));
    let secret = json!({"command": "s", "env": {"API_KEY": "hunter2"}});
    lab.servers(".cursor/mcp.json", &json!({"secret": secret}));
    let run = lab.plainly(&["import", "cursor", "--json", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let warnings = &parsed(&run.err)["warnings"];
    assert_eq!(
        warnings[0],
        "skipped the project's servers: secret ([DIR]/.cursor/mcp.json); import them for approval \
         with `trunkline import cursor -s project`"
    );
    let run = lab.plainly(&["import", "cursor", "-s", "project", "--json", "--yes"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    run.never_says("hunter2");
    let told = parsed(&run.err);
    assert_eq!(
        told["error"],
        json!({"kind": "refused", "exitCode": 5,
            "message": "\"secret\" is skipped: it would write a literal secret into the repository: env.API_KEY",
            "hint": "write \"${API_KEY}\" in [DIR]/.cursor/mcp.json and set API_KEY"})
    );
    let warning = told["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("skipped your own servers: mine ("),
        "{warning}"
    );
}

#[test]
fn a_named_file_that_does_not_fit_the_scope_is_an_error() {
    let lab = Lab::new();
    let servers = json!({"a": {"command": "a"}, "b": {"command": "b"}});
    lab.servers(".cursor/mcp.json", &servers);
    let words = ["import", "cursor", "-s", "user", "--yes"];
    let file = [&words[..], &["--file", ".cursor/mcp.json"]].concat();
    lab.plainly(&file).fails(
        2,
        "nothing to import: .cursor/mcp.json belongs to the project (it has a, b)",
        "import it with -s project, then approve it",
    );
    // Without --file, nothing was asked for by name.
    let run = lab.plainly(&words);
    assert_eq!((run.code, &*run.out), (Some(0), "nothing to import\n"));
    assert!(
        run.err.starts_with("skipped the project's servers: a, b ("),
        "{}",
        run.err
    );
    assert!(!lab.at("home/.claude.json").exists());
}

#[test]
fn the_project_s_servers_are_skipped_with_a_reason() {
    let lab = with_cursor(&json!({"mine": {"command": "mine"}}));
    lab.servers(
        ".cursor/mcp.json",
        &json!({"shared": {"command": "shared"}}),
    );
    let words = ["import", "cursor", "-s", "user", "-y", "--only", "shared"];
    let file = lab.at(".cursor/mcp.json");
    let named = ["--file", file.to_str().unwrap()];
    for more in [&[][..], &["--from-user"], &named] {
        lab.plainly(&[&words[..], more].concat()).fails(
            2,
            "\"shared\" is skipped: [DIR]/.cursor/mcp.json belongs to the project",
            "import it with -s project, then approve it",
        );
    }
    // The others are taken all the same.
    let run = lab.plainly(&[&words[..], &["--only", "mine", "--only", "nobody"]].concat());
    assert_eq!(run.code, Some(2), "{run:#?}");
    for part in ["\"shared\" is skipped", "no client has a server \"nobody\""] {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
    assert_eq!(lab.global()["mcpServers"]["mine"]["command"], "mine");
    assert_eq!(lab.global()["mcpServers"].as_object().unwrap().len(), 1);
}

#[test]
fn one_client_alone_can_be_read() {
    let lab = with_every_client();
    for (client, ..) in FILES {
        let found = lab.plainly(&["import", client, "--json"]).json();
        let found = found.as_array().unwrap();
        assert!(
            !found.is_empty() && found.iter().all(|server| server["client"] == client),
            "{client}"
        );
        assert!(
            found.iter().all(|server| server["state"] != "added"),
            "{client}"
        );
    }
    assert!(!lab.at("home/.claude.json").exists());
}

#[test]
fn some_servers_alone_can_be_taken_into_any_scope() {
    let lab = with_cursor(
        &json!({"a": {"command": "a"}, "b": {"command": "b"}, "c d": {"command": "c"}}),
    );
    let run = lab.plainly(&[
        "import",
        "--yes",
        "--from-user",
        "--only",
        "b",
        "--only",
        "c d",
        "-s",
        "project",
    ]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.out
            .contains("    note: renamed from \"c d\": names may contain only letters"),
        "{}",
        run.out
    );
    let written: Value = serde_json::from_str(&lab.scratch.read(".mcp.json")).unwrap();
    let names: Vec<_> = written["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0], "b");
    assert!(!names[1].contains(' '), "{names:?}");
    assert!(!lab.at("home/.claude.json").exists());
    let run = lab.plainly(&["import", "--yes", "--only", "a", "-s", "local"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(lab.of_project()["mcpServers"]["a"]["command"], "a");
    let run = lab.plainly(&["import", "--only", "nothing"]);
    assert!(
        !run.out.contains("no servers of other clients found\n"),
        "there are some, of other names: {}",
        run.out
    );
}

#[test]
fn a_file_can_be_named() {
    let lab = Lab::new();
    lab.servers("elsewhere/my.json", &json!({"a": {"command": "a"}}));
    std::fs::create_dir(lab.at("project")).unwrap();
    let words = [
        "import",
        "cursor",
        "--file",
        "../elsewhere/my.json",
        "--yes",
    ];
    let run = lab.finish(lab.bare(&words).current_dir(lab.at("project")));
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(lab.global()["mcpServers"]["a"]["command"], "a");
    let run = lab.plainly(&["import", "cursor", "--file", "missing.json"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
    assert!(
        run.err
            .starts_with("error: missing.json: the file cannot be read: "),
        "{}",
        run.err
    );
    lab.scratch.write("broken.json", "{\"mcpServers\": {\"a\"");
    let run = lab.plainly(&["import", "cursor", "--file", "broken.json"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
    assert!(run.err.starts_with("error: broken.json:1:"), "{}", run.err);
    let run = lab.plainly(&["import", "--file", "elsewhere/my.json"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let lab = Lab::new();
    lab.scratch.write("large.json", vec![b' '; 17 << 20]);
    lab.scratch
        .write("home/.cursor/mcp.json", vec![b' '; 17 << 20]);
    let run = lab.plainly(&["import", "cursor", "--file", "large.json"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:#?}");
    assert!(run.err.contains("larger than 16 MB"), "{}", run.err);
    let run = lab.plainly(&["import"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.err.contains("larger than 16 MB"), "{}", run.err);
}

#[test]
fn a_name_that_is_taken_is_left_alone() {
    let lab = with_cursor(&json!({"a": {"command": "theirs"}, "b": {"command": "b"}}));
    lab.servers("home/.claude.json", &json!({"a": {"command": "mine"}}));
    let run = lab.plainly(&["import", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.out
            .contains("  a  skip: the user scope has a different server of that name\n"),
        "{}",
        run.out
    );
    assert_eq!(lab.global()["mcpServers"]["a"]["command"], "mine");
    assert_eq!(lab.global()["mcpServers"]["b"]["command"], "b");
}

#[test]
fn the_first_of_two_clients_with_one_name_wins() {
    let lab = with_cursor(&json!({"a": {"command": "cursor"}, "same": {"command": "same"}}));
    lab.servers(
        "home/.codeium/windsurf/mcp_config.json",
        &json!({"a": {"command": "windsurf"}, "same": {"command": "same"}}),
    );
    let run = lab.plainly(&["import", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(lab.global()["mcpServers"]["a"]["command"], "cursor");
    let (_, windsurf) = run.out.split_once("Windsurf: ").unwrap();
    let line = windsurf
        .lines()
        .find(|line| line.starts_with("  a  "))
        .unwrap();
    assert!(
        line.starts_with("  a  skip: ") && line.contains("Cursor"),
        "{line}"
    );
}

#[test]
fn denied_servers_are_omitted() {
    let lab = with_cursor(&json!({"a": {"command": "evil"}, "b": {"command": "b"}}));
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"deniedMcpServers": [{"serverCommand": ["evil"]}]}),
    );
    let run = lab.plainly(&["import", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.out
            .contains("  a  skip: the server \"a\" is blocked by policy: denied by "),
        "{}",
        run.out
    );
    assert_eq!(
        lab.global()["mcpServers"],
        json!({"b": {"type": "stdio", "command": "b", "args": [], "env": {}}})
    );
}

#[test]
fn mistakes_are_explained() {
    let lab = Lab::new();
    lab.plainly(&["import"])
        .is(0, "no servers of other clients found\n", "");
    assert_eq!(lab.plainly(&["import", "--json"]).json(), json!([]));
    lab.plainly(&["import", "curser"]).fails(
        2,
        "there is no client \"curser\"",
        "did you mean \"cursor\"?",
    );
    lab.plainly(&["import", "emacs"]).fails(
        2,
        "there is no client \"emacs\"",
        "available: claude-desktop, cursor, vscode, windsurf, zed, gemini, codex, opencode, goose",
    );
    assert_eq!(lab.plainly(&["import", "--yes", "--dry-run"]).code, Some(2));
    lab.scratch
        .write("home/.cursor/mcp.json", "{\"mcpServers\": {\"hunter2");
    lab.servers(
        "home/.codeium/windsurf/mcp_config.json",
        &json!({"a": {"command": "a"}}),
    );
    let run = lab.plainly(&["import", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.err
            .starts_with("warning: [DIR]/home/.cursor/mcp.json:1:"),
        "{}",
        run.err
    );
    run.never_says("hunter2");
    assert_eq!(lab.global()["mcpServers"]["a"]["command"], "a");
    lab.scratch.write("home/.claude.json", "{broken");
    let run = lab.plainly(&["import", "--yes"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert_eq!(lab.scratch.read("home/.claude.json"), "{broken");
}

#[test]
fn the_users_servers_enter_a_project_only_by_name() {
    let lab = with_cursor(&json!({"mine": {"command": "mine"}}));
    lab.servers(
        ".cursor/mcp.json",
        &json!({"shared": {"command": "shared"}}),
    );
    let run = lab.plainly(&["import", "cursor", "-s", "project", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.err
            .starts_with("skipped your own servers: mine ([DIR]/home/.cursor/mcp.json); "),
        "{}",
        run.err
    );
    let names = || {
        let written: Value = serde_json::from_str(&lab.scratch.read(".mcp.json")).unwrap();
        let names = written["mcpServers"].as_object().unwrap().keys();
        names.cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(), ["shared"]);
    lab.plainly(&[
        "import", "cursor", "-s", "project", "--only", "mine", "--yes",
    ])
    .fails(
        2,
        "\"mine\" is skipped: [DIR]/home/.cursor/mcp.json is your own file, not the project's",
        "to share it in .mcp.json, add --from-user --only NAME",
    );
    let file = lab.at("home/.cursor/mcp.json");
    let words = ["import", "cursor", "-s", "project", "--yes", "--file"];
    lab.plainly(&[&words[..], &[file.to_str().unwrap()]].concat());
    // A link into the user's home is the user's file as well.
    std::fs::remove_file(lab.at(".cursor/mcp.json")).unwrap();
    std::os::unix::fs::symlink(&file, lab.at(".cursor/mcp.json")).unwrap();
    lab.plainly(&["import", "cursor", "-s", "project", "--yes"]);
    assert_eq!(names(), ["shared"]);
    assert_eq!(
        lab.plainly(&["import", "-s", "project", "--from-user"])
            .code,
        Some(2),
        "it needs names"
    );
    let run = lab.plainly(&[
        "import",
        "-s",
        "project",
        "--from-user",
        "--only",
        "mine",
        "--yes",
    ]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.err.ends_with("next: trunkline approve\n"),
        "{}",
        run.err
    );
    assert_eq!(names(), ["shared", "mine"]);
}

#[test]
fn a_literal_secret_is_never_imported_into_a_repository() {
    let lab = with_cursor(&json!({
        "a": {"command": "a", "env": {"GITHUB_TOKEN": "hunter2", "LOG": "debug"}},
        "b": {"command": "b", "args": ["--api-key", "hunter2"]},
        "c": {"url": "https://h.example/mcp", "headers": {"Authorization": "Bearer hunter2"}},
        "d": {"url": "https://me:hunter2@h.example/mcp"},
        "e": {"command": "e", "env": {"TOKEN": "${env:TOKEN}", "LOG": "debug"}},
    }));
    let words = ["import", "-s", "project", "--from-user", "--yes"];
    let only = ["a", "b", "c", "d", "e"]
        .map(|name| ["--only", name])
        .concat();
    let run = lab.plainly(&[&words[..], &only[..]].concat());
    assert_eq!(run.code, Some(5), "{run:#?}");
    run.never_says("hunter2");
    for (name, field, variable) in [
        ("a", "env.GITHUB_TOKEN", "GITHUB_TOKEN"),
        ("b", "args[1]", "API_KEY"),
        ("c", "headers.Authorization", "C_TOKEN"),
        ("d", "url", "D_PASSWORD"),
    ] {
        let told = format!(
            "  {name}  skip: it would write a literal secret into the repository: {field}\n"
        );
        assert!(run.out.contains(&told), "{told}: {}", run.out);
        let hint = format!(
            "    hint: write \"${{{variable}}}\" in [DIR]/home/.cursor/mcp.json and set {variable}; \
             or import it with -s user\n"
        );
        assert!(run.out.contains(&hint), "{hint}: {}", run.out);
    }
    let written = lab.scratch.read(".mcp.json");
    assert!(!written.contains("hunter2"), "{written}");
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["mcpServers"].as_object().unwrap().len(), 1);
    assert_eq!(written["mcpServers"]["e"]["command"], "e");
}

#[test]
fn a_taken_name_can_be_overwritten_or_avoided() {
    let lab = with_cursor(&json!({"a": {"command": "theirs"}}));
    lab.servers(
        "home/.claude.json",
        &json!({"a": {"command": "mine", "env": {"T": "hunter2"}}}),
    );
    let run = lab.plainly(&["import", "--yes"]);
    assert!(
        run.out.contains(
            "    hint: `trunkline import cursor -s user --only a` with --force replaces it, with --as NAME keeps both\n"
        ),
        "{}",
        run.out
    );
    let run = lab.plainly(&["import", "--yes", "--as", "b"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.out.contains("  b  add to the user scope\n"),
        "{}",
        run.out
    );
    assert!(
        run.out.contains("    note: renamed from \"a\" by --as\n"),
        "{}",
        run.out
    );
    assert_eq!(lab.global()["mcpServers"]["b"]["command"], "theirs");
    assert_eq!(lab.global()["mcpServers"]["a"]["command"], "mine");
    let run = lab.plainly(&["import", "--yes", "--force"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    run.never_says("hunter2");
    assert!(
        run.out
            .contains("  a  replace in the user scope\n    was: {\"command\":\"mine\""),
        "{}",
        run.out
    );
    assert!(
        run.err
            .starts_with("replaced \"a\" in [DIR]/home/.claude.json\n"),
        "{}",
        run.err
    );
    assert_eq!(lab.global()["mcpServers"]["a"]["command"], "theirs");
    lab.servers(
        "home/.cursor/mcp.json",
        &json!({"a": {"command": "a"}, "b": {"command": "b"}}),
    );
    lab.plainly(&["import", "--as", "c"]).fails(
        2,
        "--as takes exactly one server, but 2 were found",
        "select one with a client and --only NAME",
    );
}

#[test]
fn a_command_line_in_one_word_is_split_and_said_so() {
    let lab = with_cursor(&json!({"a": {"command": "npx -y pkg", "args": ["x"]}}));
    let run = lab.plainly(&["import", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(
        run.out
            .contains("    note: its command is a whole command line"),
        "{}",
        run.out
    );
    let entry = &lab.global()["mcpServers"]["a"];
    assert_eq!(entry["command"], "npx");
    assert_eq!(entry["args"], json!(["-y", "pkg", "x"]));
}
