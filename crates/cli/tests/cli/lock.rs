//! The supply chain of servers: pinned versions, `trunkline lock`, and what differs from the lock.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::lab::{Lab, Run};
use crate::managed::Company;

/// Writes a program into `bin` of the lab.
fn program(lab: &Lab, name: &str, script: &str) {
    let path = lab.at(&format!("bin/{name}"));
    fs::create_dir_all(lab.at("bin")).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A lab with a project, package managers that answer from a script, and a mark if a server runs.
fn lab() -> Lab {
    let lab = Lab::new();
    let npm = r#"[ "$*" = "view --json @x/y@latest version dist.integrity" ] || { echo "unexpected: $*" >&2; exit 1; }
echo '{"version": "1.2.3", "dist.integrity": "sha512-abc"}'"#;
    program(&lab, "npm", npm);
    let uv = r#"read requirement; [ "$requirement" = "z>=2" ] || { echo "unexpected: $requirement" >&2; exit 1; }
printf 'z==2.5 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n'"#;
    program(&lab, "uv", uv);
    let ran = format!("touch '{}'", lab.at("ran").display());
    program(&lab, "npx", &ran);
    program(&lab, "uvx", &ran);
    fs::create_dir_all(lab.at(".git")).unwrap();
    fs::write(lab.at("server.js"), "one").unwrap();
    servers(&lab, &["-y", "@x/y"]);
    lab
}

fn servers(lab: &Lab, npx: &[&str]) {
    lab.servers(
        ".mcp.json",
        &json!({
            "node": {"command": "node", "args": ["./server.js"]},
            "npm": {"command": "npx", "args": npx},
            "py": {"command": "uvx", "args": ["--from", "z>=2", "run-z"]},
        }),
    );
}

fn command(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.bare(words);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", lab.at("bin").display()));
    command
}

fn run(lab: &Lab, words: &[&str]) -> Run {
    lab.finish(&mut command(lab, words))
}

#[test]
fn a_project_is_locked_without_running_its_servers() {
    let lab = lab();
    let locked = run(&lab, &["lock"]);
    locked.is(
        0,
        "node  1 file\nnpm  @x/y 1.2.3\npy  z 2.5\n  written to [DIR]/.mcp.lock.json\n",
        "",
    );
    assert!(!lab.at("ran").exists(), "a server was started");
    let file = lab.scratch.read(".mcp.lock.json");
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    let npm =
        json!({"registry": "npm", "name": "@x/y", "version": "1.2.3", "integrity": ["sha512-abc"]});
    assert_eq!(file["servers"]["npm"]["package"], npm);
    let hashes = json!(["sha256:aa", "sha256:bb"]);
    assert_eq!(file["servers"]["py"]["package"]["integrity"], hashes);

    // The command still fetches whatever is current.
    let check = run(&lab, &["lock", "--check"]);
    assert_eq!(check.code, Some(1), "{check:#?}");
    assert!(
        check
            .out
            .starts_with("npm  it runs any version of @x/y, locked is 1.2.3"),
        "{}",
        check.out
    );
    servers(&lab, &["-y", "@x/y@1.2.3"]);
    let check = run(&lab, &["lock", "--check", "--json"]);
    assert!(!check.out.contains("\"npm\""), "{}", check.out);
    servers(&lab, &["-y", "@x/y@6.6.6"]);
    let check = run(&lab, &["lock", "--check"]);
    assert!(
        check
            .out
            .contains("npm  it runs @x/y 6.6.6, locked is 1.2.3\n"),
        "{}",
        check.out
    );

    fs::write(lab.at("server.js"), "two").unwrap();
    let listed = run(&lab, &["list", "--json"]).json();
    let node = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "node")
        .unwrap();
    let told = node["diagnostics"].to_string();
    assert!(told.contains("server.js is not the locked file"), "{told}");
}

#[test]
fn a_package_that_cannot_be_resolved_is_an_error_and_nothing_is_written() {
    let lab = lab();
    program(&lab, "npm", "echo 'npm error 404 Not Found' >&2; exit 1");
    let failed = run(&lab, &["lock"]);
    failed.fails(
        1,
        "the package of \"npm\" cannot be locked: npm failed: npm error 404 Not Found",
        "",
    );
    assert!(!lab.at(".mcp.lock.json").exists());
    run(&lab, &["lock", "--check"]).fails(
        2,
        "there is no [DIR]/.mcp.lock.json",
        "write it with `trunkline lock`",
    );
}

#[test]
fn doctor_warns_of_a_version_that_is_not_pinned() {
    let lab = lab();
    lab.servers(
        "home/.claude.json",
        &json!({"mine": {"command": "npx", "args": ["-y", "@x/y"]}}),
    );
    fs::remove_file(lab.at(".mcp.json")).unwrap();
    let report = run(&lab, &["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
    let steps = report["servers"][0]["steps"].as_array().unwrap();
    let step = steps
        .iter()
        .find(|step| step["cause"] == "unpinned")
        .unwrap();
    assert_eq!(step["status"], "warning");
    assert_eq!(step["fix"], "pin its version in the command: @x/y@1.2.3");
}

#[test]
fn a_company_can_require_pinned_versions() {
    let Some(company) = Company::new() else {
        return;
    };
    company.settings(&json!({"requirePinnedServers": true}));
    let stdio = |words: &[&str]| json!({"command": words[0], "args": words[1..]});
    let entries = json!({
        "any": stdio(&["npx", "-y", "x"]),
        "hidden": stdio(&["sh", "-c", "exec npx -y x"]),
        "other": stdio(&["false"]),
        "started": stdio(&["false", "npx", "-y", "x"]),
        "unknown": stdio(&["npx", "--tag", "a@1.2.3", "x"]),
    });
    company.lab.servers("home/.claude.json", &entries);
    let listed = company.run(&["list", "--json"]).json();
    let states: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap(),
                row["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        states,
        [
            ("any", "blocked"),
            ("hidden", "blocked"),
            ("other", "failed"),
            ("started", "blocked"),
            ("unknown", "blocked")
        ]
    );
    company.run(&["call", "any", "t"]).fails(
        5,
        "the server \"any\" does not run: blocked by policy: requirePinnedServers: the version of x is not pinned (/etc/claude-code/managed-settings.json)",
        "",
    );
}

/// A repository that nobody approved chooses the words of the commands, and has an `.npmrc`.
#[test]
fn locking_runs_nothing_of_a_repository_and_hands_out_no_secret() {
    let lab = lab();
    let seen = lab.at("seen").display().to_string();
    let npm = format!(
        "{{ pwd; env; }} >> '{seen}'\necho '{{\"version\": \"1.2.3\", \"dist.integrity\": \"sha512-abc\"}}'"
    );
    program(&lab, "npm", &npm);
    program(&lab, "uv", &format!("cat >> '{seen}'; exit 1"));
    fs::write(lab.at(".npmrc"), "git=./evil.sh\n").unwrap();
    let locked = |command: &str, args: &[&str]| {
        lab.servers(
            ".mcp.json",
            &json!({"s": {"command": command, "args": args}}),
        );
        let mut lock = self::command(&lab, &["lock"]);
        lab.finish(lock.env("CLAUDE_CODE_OAUTH_TOKEN", "hunter2"))
    };
    assert_eq!(locked("npx", &["-y", "@x/y"]).code, Some(0));
    let read = lab.scratch.read("seen");
    let repository = lab.at("").display().to_string();
    assert!(read.contains("HOME="), "{read}");
    assert!(!read.contains("hunter2"), "{read}");
    let first = read.lines().next().unwrap();
    assert!(!repository.starts_with(first), "it ran in {first}");

    fs::remove_file(lab.at("seen")).unwrap();
    for (command, args) in [
        ("npx", &["-y", "git+https://127.0.0.1:9/x.git"][..]),
        ("npx", &["--userconfig", "./.npmrc", "y"]),
        ("uvx", &["x\n-e file:///repo"]),
        ("uvx", &["x @ http://127.0.0.1:9/${HOME}/x.whl"]),
    ] {
        let refused = locked(command, args);
        assert_eq!(refused.code, Some(1), "{args:?}: {refused:?}");
        assert!(!lab.at("seen").exists(), "{args:?}");
    }
}
