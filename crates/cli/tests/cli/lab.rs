//! Runs the program in a directory and a home of its own, and proves each time that no process is
//! left.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testkit::{Scratch, Script, bin, wait_for};

/// The time limit of a run, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// How long after the program's exit its servers may take to disappear.
const GONE: Duration = Duration::from_secs(2);

/// Adds the server "s" with a prompt for its client secret.
pub(crate) const ADD_WITH_SECRET: [&str; 7] = [
    "add",
    "--no-check",
    "s",
    "https://h.example/mcp",
    "--client-id",
    "me",
    "--client-secret",
];

/// The home, files and servers of a test.
pub(crate) struct Lab {
    pub(crate) scratch: Scratch,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    /// Stdout, with the test's directory as `[DIR]`.
    pub(crate) out: String,
    /// Stderr, likewise, without the note below.
    pub(crate) err: String,
    /// The note that the answer comes from stored catalogs (UI-6).
    pub(crate) stored: Option<String>,
}

/// A run in progress.
pub(crate) struct Running<'a> {
    lab: &'a Lab,
    pub(crate) child: Child,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            scratch: Scratch::new(),
        }
    }

    /// A lab whose configuration has these scripted servers.
    pub(crate) fn with<S: Into<Script>>(
        servers: impl IntoIterator<Item = (&'static str, S)>,
    ) -> Self {
        let lab = Self::new();
        lab.configure(servers);
        lab
    }

    /// Writes a configuration with these scripted servers.
    pub(crate) fn configure<'a, S: Into<Script>>(
        &self,
        servers: impl IntoIterator<Item = (&'a str, S)>,
    ) {
        let servers: Vec<(&str, Script)> = servers
            .into_iter()
            .map(|(name, script)| (name, script.into()))
            .collect();
        self.scratch.config(&servers);
    }

    /// A lab whose configuration has these entries.
    pub(crate) fn with_entries(entries: impl FnOnce(&Self) -> Value) -> Self {
        let lab = Self::new();
        let entries = entries(&lab);
        lab.scratch.write(
            ".mcp-config.json",
            json!({"mcpServers": entries}).to_string(),
        );
        lab
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Returns the program with the test's configuration and these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(&["--mcp-config"]);
        command.arg(".mcp-config.json").args(arguments);
        command
    }

    /// Returns the program with these arguments alone and a clean environment.
    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        self.started_by(&[], arguments)
    }

    /// As [`Lab::bare`], started through these words.
    pub(crate) fn started_by(&self, starter: &[&str], arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_trunkline");
        let mut words = starter.iter().chain([&program]).chain(arguments);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.scratch.home())
            .envs([self.scratch.marker().env()])
            .env("NO_COLOR", "1")
            // Nobody's keychain is touched.
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .current_dir(self.scratch.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program with the test's configuration.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.finish(&mut self.command(arguments))
    }

    /// Runs the program with these arguments alone.
    pub(crate) fn plainly(&self, arguments: &[&str]) -> Run {
        self.finish(&mut self.bare(arguments))
    }

    /// Runs the program with this text on stdin.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Run {
        let mut running = self.start(self.command(arguments).stdin(Stdio::piped()));
        let mut stdin = running.child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        running.end()
    }

    pub(crate) fn finish(&self, command: &mut Command) -> Run {
        self.start(command).end()
    }

    /// Starts the program with its output in files, so that it never blocks.
    pub(crate) fn start(&self, command: &mut Command) -> Running<'_> {
        let file = |name| File::create(self.at(name)).unwrap();
        let child = command.stdout(file("stdout")).stderr(file("stderr"));
        Running {
            lab: self,
            child: child.spawn().expect("the program"),
        }
    }

    /// Replaces the parts of a text that differ between runs.
    pub(crate) fn plain(&self, text: &str) -> String {
        let server = bin("testkit-server");
        text.replace(self.scratch.path().to_str().unwrap(), "[DIR]")
            .replace(server.to_str().unwrap(), "[SERVER]")
    }

    /// Returns the content of `~/.claude.json`.
    pub(crate) fn global(&self) -> Value {
        parsed(&self.scratch.read("home/.claude.json"))
    }

    /// Returns the test directory's project in `~/.claude.json`.
    pub(crate) fn of_project(&self) -> Value {
        self.global()["projects"][self.scratch.path().to_str().unwrap()].clone()
    }

    /// Writes a file as JSON, indented.
    pub(crate) fn write_json(&self, name: &str, content: &Value) -> PathBuf {
        self.scratch
            .write(name, serde_json::to_string_pretty(content).unwrap())
    }

    /// Writes a file of servers.
    pub(crate) fn servers(&self, name: &str, servers: &Value) -> PathBuf {
        self.write_json(name, &json!({ "mcpServers": servers }))
    }

    /// Returns the entry of a server that leaves a file when started.
    pub(crate) fn marking(&self, name: &str) -> Value {
        let started = json!([{"touch": self.at(&format!("{name}.started"))}]);
        self.scratch.entry(name, &echo().on_start(started))
    }

    /// Returns whether [`Lab::marking`]'s server has started since the last call.
    pub(crate) fn started(&self, name: &str) -> bool {
        std::fs::remove_file(self.at(&format!("{name}.started"))).is_ok()
    }

    /// Returns the server's state in `list --json`.
    pub(crate) fn state(&self, name: &str) -> String {
        let listed = self.plainly(&["list", "--json"]).json();
        let mut rows = listed.as_array().unwrap().iter();
        rows.find(|row| row["name"] == name)
            .and_then(|row| row["state"].as_str())
            .unwrap_or("unknown")
            .to_owned()
    }

    /// Waits until a file exists.
    pub(crate) fn file(&self, name: &str) {
        wait_for(SOON, name, || self.at(name).exists().then_some(()));
    }

    /// Returns the number in a script's counter file.
    pub(crate) fn count(&self, file: &str) -> u32 {
        self.scratch.read(file).trim().parse().unwrap_or(0)
    }
}

impl Running<'_> {
    /// Waits for the program.
    pub(crate) fn status(&mut self) -> ExitStatus {
        wait_for(SOON, "the program's end", || self.child.try_wait().unwrap())
    }

    /// Waits for the program and checks that no process is left.
    pub(crate) fn end(mut self) -> Run {
        let status = self.status();
        self.lab.scratch.assert_no_processes(GONE);
        let read = |name| self.lab.plain(&self.lab.scratch.read(name));
        let err = read("stderr");
        let is_note = |line: &&str| line.trim_end().ends_with("; --refresh connects");
        let stored = err.split_inclusive('\n').find(is_note).map(str::to_owned);
        Run {
            code: status.code(),
            out: read("stdout"),
            err: err
                .split_inclusive('\n')
                .filter(|line| !is_note(line))
                .collect(),
            stored,
        }
    }
}

impl Run {
    /// Checks exit code, stdout and stderr.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, out: &str, err: &str) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert_eq!(self.out, out, "standard output");
        assert_eq!(self.err, err, "standard error");
    }

    /// Checks exit code, error and hint, as text or JSON, and that stdout is empty.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, error: &str, hint: &str) {
        if self.err.starts_with('{') {
            assert_eq!(
                (self.code, self.out.as_str()),
                (Some(code), ""),
                "{self:#?}"
            );
            let document = parsed(&self.err);
            assert_eq!(document["error"]["message"], error);
            assert_eq!(document["error"]["hint"].as_str().unwrap_or_default(), hint);
            return;
        }
        let hint = if hint.is_empty() {
            String::new()
        } else {
            format!("  hint: {hint}\n")
        };
        self.is(code, "", &format!("error: {error}\n{hint}"));
    }

    /// Checks that the output does not contain the text.
    #[track_caller]
    pub(crate) fn never_says(&self, text: &str) {
        assert!(!self.out.contains(text), "{text}: {}", self.out);
        assert!(!self.err.contains(text), "{text}: {}", self.err);
    }

    /// Returns the JSON document of a successful run without other output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.document()
    }

    /// Returns the JSON document on stdout.
    #[track_caller]
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Parses JSON.
#[track_caller]
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A server with a tool `echo`.
pub(crate) fn echo() -> Script {
    Script::default().tool_with(json!({"name": "echo", "description": "Echoes", "inputSchema": {"type": "object",
        "properties": {"n": {"type": "integer"}, "on": {"type": "boolean"}, "s": {"type": "string"}}, "additionalProperties": true}}))
}

/// Returns whether a path is below another.
pub(crate) fn files_under(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files_under(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// Reports that a test cannot run here, and why. In CI, where nothing may be missing, it fails.
#[track_caller]
#[allow(clippy::print_stderr, reason = "whoever reads the output should know")]
pub(crate) fn skipped(reason: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "this test must run in CI: {reason}");
    eprintln!("skipped: {reason}");
}
