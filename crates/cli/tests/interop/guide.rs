//! The guide's commands, run as a reader would type them, against the same server.
//!
//! In a `console` block, a line that starts with `$ ` is a command; the lines below it must appear
//! in its output, in this order. `…` stands for any text within a line, and a line `…` alone for
//! any lines. A command whose first expected line is `exit N` must end with that code; others with
//! 0.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trunkline_testkit::Marker;

use crate::servers::installed;

/// A command of a page, with the output that the page shows.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    exit_code: i32,
    expected: Vec<String>,
}

/// Returns the steps of all `console` blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_console = language == "console";
        } else if !is_console {
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command: command.to_owned(),
                exit_code: 0,
                expected: Vec::new(),
            });
        } else if let Some(step) = steps.last_mut() {
            match line
                .strip_prefix("exit ")
                .and_then(|code| code.parse().ok())
            {
                Some(code) if step.expected.is_empty() => step.exit_code = code,
                _ => step.expected.push(line.trim_end().to_owned()),
            }
        }
    }
    steps
}

/// Returns whether a line is as expected, where `…` stands for any text.
fn fits(line: &str, expected: &str) -> bool {
    let parts: Vec<&str> = expected.split('…').collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return false;
    };
    if parts.len() == 1 {
        return line == expected;
    }
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns the first expected line that is missing in the output.
fn missing<'a>(output: &str, expected: &'a [String]) -> Option<&'a str> {
    let mut lines = output.lines().map(str::trim_end);
    expected
        .iter()
        .map(String::as_str)
        .filter(|wanted| *wanted != "…" && !wanted.is_empty())
        .find(|wanted| !lines.any(|line| fits(line, wanted)))
}

/// A reader's machine: an empty home, a project, `trunkline` and `npx` on the path.
struct Reader {
    folder: tempfile::TempDir,
    marker: Marker,
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        // npx runs a package that is installed here without a download.
        let modules = folder.path().join("project/node_modules");
        std::os::unix::fs::symlink(installed().join("node_modules"), modules).unwrap();
        Self {
            folder,
            marker: Marker::new(),
        }
    }

    fn path() -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_trunkline")).parent().unwrap();
        let node = installed().join("node_modules/node/bin");
        let system = std::env::var("PATH").unwrap_or_default();
        format!("{}:{}:{system}", program.display(), node.display())
    }

    /// Runs a command with the shell; returns its output and exit code.
    fn run(&self, command: &str) -> (String, i32) {
        let output = Command::new("bash")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(self.folder.path().join("project"))
            .env_clear()
            .env("PATH", Self::path())
            .env("HOME", self.folder.path().join("home"))
            .env("LANG", "C.UTF-8")
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .envs([self.marker.env()])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output.status.code().unwrap_or(-1))
    }
}

fn check_page(name: &str) {
    let page: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../docs", name]
        .iter()
        .collect();
    let steps = steps(&fs::read_to_string(page).unwrap());
    assert!(!steps.is_empty(), "{name} has no commands");
    let reader = Reader::new();
    for step in &steps {
        let (output, code) = reader.run(&step.command);
        let command = &step.command;
        assert_eq!(
            code, step.exit_code,
            "{name}: `{command}` printed\n{output}"
        );
        if let Some(line) = missing(&output, &step.expected) {
            panic!("{name}: `{command}` does not print `{line}`, but\n{output}");
        }
    }
    reader
        .marker
        .assert_gone(std::time::Duration::from_millis(250));
}

#[test]
fn getting_started_is_true() {
    check_page("getting-started.md");
}

#[test]
fn scripting_is_true() {
    check_page("scripting.md");
}

#[test]
fn steps_are_read_from_console_blocks_only() {
    let page = "```sh\n$ no\n```\n```console\n$ a\nexit 3\nx\n$ b\n```\n$ no\n";
    let step = |command: &str, exit_code, expected: &[&str]| Step {
        command: command.to_owned(),
        exit_code,
        expected: expected.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(steps(page), [step("a", 3, &["x"]), step("b", 0, &[])]);
}

#[test]
fn expected_lines_are_found_in_order() {
    let cases: [(&str, &[&str], Option<&str>); 5] = [
        ("one\ntwo", &["one", "two"], None),
        ("one\ntwo", &["two", "one"], Some("one")),
        ("took 12 ms", &["took … ms"], None),
        ("took 12 s", &["took … ms"], Some("took … ms")),
        ("a\nb\nc", &["a", "…", "c"], None),
    ];
    for (output, expected, want) in cases {
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(missing(output, &expected), want, "{output:?}");
    }
}
