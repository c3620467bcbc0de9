//! `trunkline add` and `add-json`: output and written files, byte for byte.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::lab::{ADD_WITH_SECRET, Lab, Run, parsed};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A file as `JSON.stringify(…, null, 2)` writes it, with a line end.
fn stringified(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

const LOCAL: &str = "  written to [DIR]/home/.claude.json (project [DIR])\n";

/// A command line, the server's name and type, and its entry.
type Typed<'a> = (&'a [&'a str], &'a str, &'a str, Value);

/// Adds each to an empty home and compares the file byte for byte.
#[track_caller]
fn check(cases: &[Typed]) {
    for (words, name, kind, entry) in cases {
        let lab = Lab::new();
        lab.plainly(&[&["add", "--no-check"], *words].concat()).is(
            0,
            &format!("added the {kind} server \"{name}\" to the local scope\n{LOCAL}"),
            "",
        );
        let project = lab.scratch.path().to_str().unwrap();
        let whole = json!({"projects": {project: {"mcpServers": {*name: entry}}}});
        assert_eq!(
            lab.scratch.read("home/.claude.json"),
            stringified(&whole),
            "{words:?}"
        );
        assert_eq!(mode(&lab.at("home/.claude.json")), 0o600);
    }
}

#[test]
fn what_people_type_for_claude_code_adds_the_same_commands() {
    let stdio = |command: &str, args: &[&str], env: Value| json!({"type": "stdio", "command": command, "args": args, "env": env});
    check(&[
        (
            &[
                "--transport",
                "stdio",
                "--env",
                "AIRTABLE_API_KEY=YOUR_KEY",
                "airtable",
                "--",
                "npx",
                "-y",
                "airtable-mcp-server",
            ],
            "airtable",
            "stdio",
            stdio(
                "npx",
                &["-y", "airtable-mcp-server"],
                json!({"AIRTABLE_API_KEY": "YOUR_KEY"}),
            ),
        ),
        (
            &[
                "airtable",
                "--env",
                "AIRTABLE_API_KEY=YOUR_KEY",
                "--",
                "npx",
                "-y",
                "airtable-mcp-server",
            ],
            "airtable",
            "stdio",
            stdio(
                "npx",
                &["-y", "airtable-mcp-server"],
                json!({"AIRTABLE_API_KEY": "YOUR_KEY"}),
            ),
        ),
        (
            &["-e", "A=1", "name", "--", "cmd"],
            "name",
            "stdio",
            stdio("cmd", &[], json!({"A": "1"})),
        ),
        (
            &["-e", "A=1", "name", "cmd"],
            "name",
            "stdio",
            stdio("cmd", &[], json!({"A": "1"})),
        ),
        (
            &["name", "-e", "A=1", "B=2", "--", "cmd", "--port", "8080"],
            "name",
            "stdio",
            stdio("cmd", &["--port", "8080"], json!({"A": "1", "B": "2"})),
        ),
        (
            &["my-server", "/path/to/server", "arg1", "arg2"],
            "my-server",
            "stdio",
            stdio("/path/to/server", &["arg1", "arg2"], json!({})),
        ),
        (
            &["windows", "--", "cmd", "/c", "npx", "-y", "@some/package"],
            "windows",
            "stdio",
            stdio("cmd", &["/c", "npx", "-y", "@some/package"], json!({})),
        ),
        (
            &["keeps", "${HOME}/bin/server", "$TOKEN"],
            "keeps",
            "stdio",
            stdio("${HOME}/bin/server", &["$TOKEN"], json!({})),
        ),
    ]);
}

#[test]
fn what_people_type_for_claude_code_adds_the_same_addresses() {
    check(&[
        (
            &[
                "--transport",
                "http",
                "notion",
                "https://mcp.notion.com/mcp",
            ],
            "notion",
            "http",
            json!({"type": "http", "url": "https://mcp.notion.com/mcp"}),
        ),
        (
            &[
                "--transport",
                "http",
                "secure-api",
                "https://api.example.com/mcp",
                "--header",
                "Authorization: Bearer your-token",
            ],
            "secure-api",
            "http",
            json!({"type": "http", "url": "https://api.example.com/mcp", "headers": {"Authorization": "Bearer your-token"}}),
        ),
        (
            &[
                "--transport",
                "sse",
                "private-api",
                "https://api.company.com/sse",
                "--header",
                "X-API-Key: your-key-here",
            ],
            "private-api",
            "sse",
            json!({"type": "sse", "url": "https://api.company.com/sse", "headers": {"X-API-Key": "your-key-here"}}),
        ),
        (
            &[
                "-t",
                "http",
                "-H",
                "A: 1",
                "-H",
                "B: 2",
                "h",
                "https://h.example/",
            ],
            "h",
            "http",
            json!({"type": "http", "url": "https://h.example/", "headers": {"A": "1", "B": "2"}}),
        ),
        (
            &["--transport", "ws", "live", "wss://h.example/mcp"],
            "live",
            "ws",
            json!({"type": "ws", "url": "wss://h.example/mcp"}),
        ),
        (
            &[
                "--transport",
                "http",
                "--client-id",
                "abc",
                "--callback-port",
                "8080",
                "oauth",
                "https://h.example/mcp",
            ],
            "oauth",
            "http",
            json!({"type": "http", "url": "https://h.example/mcp", "oauth": {"clientId": "abc", "callbackPort": 8080}}),
        ),
    ]);
}

#[test]
fn each_scope_has_its_file() {
    let lab = Lab::new();
    let entry = json!({"type": "stdio", "command": "cmd", "args": [], "env": {}});
    lab.plainly(&["add", "--no-check", "-s", "user", "s", "cmd"]).is(
        0,
        "added the stdio server \"s\" to the user scope\n  written to [DIR]/home/.claude.json\n",
        "",
    );
    assert_eq!(
        lab.scratch.read("home/.claude.json"),
        stringified(&json!({"mcpServers": {"s": entry}}))
    );
    lab.plainly(&["add", "--no-check", "--scope", "project", "s", "cmd"])
        .is(
            0,
            "added the stdio server \"s\" to the project scope\n  written to [DIR]/.mcp.json\n",
            "  needs your approval: `trunkline approve s`\n",
        );
    assert_eq!(
        lab.scratch.read(".mcp.json"),
        stringified(&json!({"mcpServers": {"s": entry}}))
    );
    // It is for everybody who works on the project.
    assert_ne!(mode(&lab.at(".mcp.json")) & 0o044, 0);
    lab.plainly(&["add", "--no-check", "s", "cmd", "--scope=local"])
        .is(
            0,
            &format!("added the stdio server \"s\" to the local scope\n{LOCAL}"),
            "",
        );
    let left: Vec<_> = std::fs::read_dir(lab.scratch.home())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".claude")
        .collect();
    assert_eq!(
        left,
        [".claude.json"],
        "no lock and no temporary file stays"
    );
}

#[test]
fn local_means_the_repository_and_project_means_the_directory() {
    let lab = Lab::new();
    lab.scratch
        .write("repo/.git/HEAD", "ref: refs/heads/main\n");
    lab.scratch.write("repo/.mcp.json", "{\"mcpServers\": {}}");
    lab.scratch.write("repo/deep/er/file", "");
    let add = |scope: &str| {
        lab.finish(
            lab.bare(&["add", "--no-check", "-s", scope, "s", "cmd"])
                .current_dir(lab.at("repo/deep/er")),
        )
    };
    add("local").is(
        0,
        "added the stdio server \"s\" to the local scope\n  \
         written to [DIR]/home/.claude.json (project [DIR]/repo)\n",
        "",
    );
    add("project").is(
        0,
        "added the stdio server \"s\" to the project scope\n  written to [DIR]/repo/deep/er/.mcp.json\n",
        "  needs your approval: `trunkline approve s`\n\
         warning: \"s\" of the local scope takes precedence over this entry ([DIR]/home/.claude.json)\n",
    );
    let repo = lab.at("repo");
    assert!(lab.global()["projects"][repo.to_str().unwrap()]["mcpServers"]["s"].is_object());
    assert_eq!(lab.scratch.read("repo/.mcp.json"), "{\"mcpServers\": {}}");
}

#[test]
fn the_files_can_be_moved() {
    let lab = Lab::new();
    let mut command = lab.bare(&["add", "--no-check", "-s", "user", "s", "cmd"]);
    lab.finish(command.env("CLAUDE_CONFIG_DIR", lab.at("moved"))).is(
        0,
        "added the stdio server \"s\" to the user scope\n  written to [DIR]/moved/.claude.json\n",
        "",
    );
    assert_eq!(mode(&lab.at("moved/.claude.json")), 0o600);
    assert!(!lab.at("home/.claude.json").exists());
    assert!(!lab.at("home/.claude").exists());
}

#[test]
fn an_existing_file_keeps_every_other_byte_and_its_mode() {
    // Not as anybody would write it: tabs, CRLF, spaces, exponents, escapes, repeated keys, no line
    // end.
    let before = "\u{feff}{\"numStartups\" :  1.50e+3,\r\n\t\"tipsHistory\":{ \"a\":1 , \"b\":[ ]},\r\n\
        \t\"x\": \"\\u00e9\\/\\ud800\",\r\n\t\"x\": \"again\",\r\n\
        \t\"mcpServers\": {\r\n\t\t\"old\": {\"command\": \"old\"}\r\n\t},\r\n\
        \t\"projects\": {}, \"last\":null}";
    let lab = Lab::new();
    let file = lab.scratch.write("home/.claude.json", before);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let run = lab.plainly(&["add", "--no-check", "-s", "user", "new", "cmd"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let after = std::fs::read_to_string(&file).unwrap();
    let at = before.find("\r\n\t},").unwrap();
    let added = after.strip_prefix(&before[..at]).unwrap();
    let added = added.strip_suffix(&before[at..]).unwrap();
    let added = added.strip_prefix(",\r\n\t\t\"new\": ").unwrap();
    assert_eq!(parsed(added)["command"], "cmd");
    assert_eq!(mode(&file), 0o640);
    let run = lab.plainly(&["remove", "new"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_link_stays_a_link() {
    let lab = Lab::new();
    lab.scratch.write("dotfiles/claude.json", "{}\n");
    let link = lab.at("home/.claude.json");
    std::os::unix::fs::symlink(lab.at("dotfiles/claude.json"), &link).unwrap();
    let run = lab.plainly(&["add", "--no-check", "-s", "user", "s", "cmd"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let whole = parsed(&lab.scratch.read("dotfiles/claude.json"));
    assert_eq!(whole["mcpServers"]["s"]["command"], "cmd");
}

#[test]
fn a_name_is_taken_only_in_its_own_scope() {
    let lab = Lab::new();
    for scope in ["user", "project", "local"] {
        let run = lab.plainly(&["add", "--no-check", "-s", scope, "s", "one"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
    }
    let before = lab.scratch.read("home/.claude.json");
    for (scope, file) in [
        ("user", "home/.claude.json"),
        ("project", ".mcp.json"),
        ("local", "home/.claude.json"),
    ] {
        let error = format!("the {scope} scope already has a server \"s\" ([DIR]/{file})");
        let hint =
            format!("replace it with --force, or change it with `trunkline edit s -s {scope}`");
        lab.plainly(&["add", "--no-check", "-s", scope, "s", "two"])
            .fails(2, &error, &hint);
        lab.plainly(&[
            "add-json",
            "--no-check",
            "-s",
            scope,
            "s",
            r#"{"command": "two"}"#,
        ])
        .fails(2, &error, &hint);
    }
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
}

#[test]
fn adding_a_shadowed_server_warns() {
    let lab = Lab::new();
    lab.plainly(&["add", "--no-check", "s", "cmd"]);
    lab.plainly(&["add", "--no-check", "-s", "user", "s", "cmd"]).is(
        0,
        "added the stdio server \"s\" to the user scope\n  written to [DIR]/home/.claude.json\n",
        "warning: \"s\" of the local scope takes precedence over this entry ([DIR]/home/.claude.json)\n",
    );
}

#[test]
fn adding_a_server_that_cannot_run_warns() {
    let lab = Lab::new();
    let add = |scope: &str| {
        let run = lab.plainly(&["add", "--no-check", "-s", scope, "s", "cmd"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        run
    };
    add("local");
    lab.plainly(&["disable", "s"]);
    lab.plainly(&["remove", "s"]);
    let run = add("local");
    assert!(run.err.contains("trunkline enable s"), "{run:#?}");
    lab.plainly(&["enable", "s"]);
    lab.plainly(&["remove", "s"]);
    add("project");
    lab.plainly(&["reject", "s"]);
    lab.plainly(&["remove", "s"]);
    let run = add("project");
    assert!(run.err.contains("rejected"), "{run:#?}");
    lab.plainly(&["remove", "s"]);
    lab.plainly(&["reset-project-choices"]);
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"enableAllProjectMcpServers": true}),
    );
    assert_eq!(add("project").err, "", "it runs at once");
}

#[test]
fn as_json_it_says_what_was_written_where() {
    let lab = Lab::new();
    let dir = lab.scratch.path().to_str().unwrap().to_owned();
    let add = |words: &[&str]| {
        let run = lab.finish(&mut lab.bare(&[&["--json"], words].concat()));
        assert_eq!(run.code, Some(0), "{run:#?}");
        run.json()
    };
    assert_eq!(
        add(&["add", "--no-check", "s", "cmd"]),
        json!({"added": "s", "scope": "local", "file": "[DIR]/home/.claude.json", "project": "[DIR]"})
    );
    assert_eq!(
        add(&["add", "--no-check", "-s", "user", "s", "cmd"]),
        json!({"added": "s", "scope": "user", "file": "[DIR]/home/.claude.json"})
    );
    assert_eq!(
        add(&[
            "add-json",
            "--no-check",
            "j",
            "{\"command\":\"cmd\"}",
            "-s",
            "project"
        ]),
        json!({"added": "j", "scope": "project", "file": "[DIR]/.mcp.json"})
    );
    assert!(lab.global()["projects"][dir].is_object());
}

#[test]
fn json_is_written_as_it_is() {
    let cases = [
        r#"{"type":"http","url":"https://api.weather.com/mcp","headers":{"Authorization":"Bearer token"}}"#,
        r#"{"type":"stdio","command":"/path/to/weather-cli","args":["--api-key","abc123"],"env":{"CACHE_DIR":"/tmp"}}"#,
        r#"{"url":"https://h.example/mcp","unknown":{"z":1,"a":[null,true]},"timeout":5000}"#,
        r#"{"type":"streamable-http","url":"https://h.example/mcp","headersHelper":"print-headers"}"#,
    ];
    for entry in cases {
        let lab = Lab::new();
        let run = lab.plainly(&["add-json", "--no-check", "weather", entry]);
        let note = if entry.contains("headersHelper") {
            "  needs your approval: `trunkline approve weather`\n"
        } else {
            ""
        };
        assert_eq!((run.code, run.err.as_str()), (Some(0), note), "{run:#?}");
        assert!(run.out.ends_with(LOCAL), "{}", run.out);
        let written = &lab.of_project()["mcpServers"]["weather"];
        assert_eq!(
            written.to_string(),
            parsed(entry).to_string(),
            "in its order"
        );
    }
    let lab = Lab::new();
    let mut command = lab.bare(&["add-json", "--no-check", "s", "-"]);
    let mut running = lab.start(command.stdin(Stdio::piped()));
    std::io::Write::write_all(
        &mut running.child.stdin.take().unwrap(),
        b"{\n  \"command\": \"cmd\"\n}\n",
    )
    .unwrap();
    let run = running.end();
    run.is(
        0,
        &format!("added the server \"s\" to the local scope\n{LOCAL}"),
        "",
    );
}

/// Adds a server with a client secret.
fn add_with_secret(lab: &Lab) -> Run {
    lab.finish(
        lab.bare(&ADD_WITH_SECRET)
            .env("MCP_CLIENT_SECRET", "hunter2"),
    )
}

#[test]
fn a_client_secret_is_kept_where_only_its_owner_can_read_it() {
    let lab = Lab::new();
    let run = add_with_secret(&lab);
    run.never_says("hunter2");
    run.is(
        0,
        &format!("added the http server \"s\" to the local scope\n{LOCAL}"),
        "warning: no keychain is available, so the secret is stored in [DIR]/home/.claude/trunkline/secrets.json, \
         readable only by you\n",
    );
    assert!(!lab.scratch.read("home/.claude.json").contains("hunter2"));
    let secrets = lab.at("home/.claude/trunkline/secrets.json");
    assert_eq!(mode(&secrets), 0o600);
    assert!(
        std::fs::read_to_string(secrets)
            .unwrap()
            .contains("hunter2")
    );
}

#[test]
fn a_client_secret_that_nobody_can_give_is_bad_usage() {
    let lab = Lab::new();
    lab.plainly(&ADD_WITH_SECRET).fails(
        2,
        "cannot prompt for the client secret without a terminal",
        "set MCP_CLIENT_SECRET",
    );
    assert!(!lab.at("home/.claude.json").exists());
}
