//! A scratch home, a config with foreign servers in it, and the real program run there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};
use trunkline_testkit::{Marker, wait_for};

/// How long a killed process may take to leave the process table after the program has ended.
const GONE_WITHIN: Duration = Duration::from_millis(250);

/// The foreign servers that `cargo xtask interop` installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Everything,
    Filesystem,
    Memory,
    SequentialThinking,
    Time,
    Git,
}

impl Server {
    pub(crate) const ALL: [Self; 6] = [
        Self::Everything,
        Self::Filesystem,
        Self::Memory,
        Self::SequentialThinking,
        Self::Time,
        Self::Git,
    ];

    /// Its name in the config.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Filesystem => "filesystem",
            Self::Memory => "memory",
            Self::SequentialThinking => "sequential-thinking",
            Self::Time => "time",
            Self::Git => "git",
        }
    }

    /// What the program connects to: command and arguments.
    fn command(self, project: &Path) -> (PathBuf, Vec<String>) {
        let project = project.display().to_string();
        match self {
            Self::Everything => self.node(&["stdio"]),
            Self::Filesystem => self.node(&[&project]),
            Self::Memory | Self::SequentialThinking => self.node(&[]),
            Self::Time => python("mcp_server_time", &["--local-timezone", "UTC"]),
            Self::Git => python("mcp_server_git", &["--repository", &project]),
        }
    }

    fn node(self, args: &[&str]) -> (PathBuf, Vec<String>) {
        let modules = installed().join("node_modules");
        let entry = modules.join(format!(
            "@modelcontextprotocol/server-{}/dist/index.js",
            self.name()
        ));
        let args = std::iter::once(entry.display().to_string())
            .chain(args.iter().map(ToString::to_string))
            .collect();
        (modules.join("node/bin/node"), args)
    }
}

fn python(module: &str, args: &[&str]) -> (PathBuf, Vec<String>) {
    let args = ["-m", module]
        .iter()
        .chain(args)
        .map(ToString::to_string)
        .collect();
    (installed().join("venv/bin/python"), args)
}

pub(crate) fn installed() -> PathBuf {
    std::env::var_os("TRUNKLINE_INTEROP")
        .map(PathBuf::from)
        .expect("TRUNKLINE_INTEROP is not set: run these tests with `cargo xtask interop`")
}

/// One test's own home and project, gone when the test ends.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
    /// The program's working directory, which is also the only root the filesystem and git servers may touch.
    pub(crate) project: PathBuf,
    /// By which the servers' processes are recognised afterwards.
    marker: Marker,
}

impl Lab {
    /// A lab whose config names these servers.
    pub(crate) fn with(servers: &[Server]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        let lab = Self {
            folder,
            project,
            marker: Marker::new(),
        };
        lab.write_config(servers);
        lab
    }

    fn write_config(&self, servers: &[Server]) {
        let entries: Map<String, Value> = servers
            .iter()
            .map(|server| {
                let (command, args) = server.command(&self.project);
                let (mark, value) = self.marker.env();
                let env = json!({
                    mark: value,
                    "MEMORY_FILE_PATH": self.project.join("memory.jsonl"),
                    "GIT_AUTHOR_NAME": "Ada",
                    "GIT_AUTHOR_EMAIL": "ada@example.com",
                    "GIT_COMMITTER_NAME": "Ada",
                    "GIT_COMMITTER_EMAIL": "ada@example.com",
                });
                let entry = json!({ "command": command, "args": args, "env": env });
                (server.name().to_owned(), entry)
            })
            .collect();
        self.write_servers(&Value::Object(entries));
    }

    /// Replaces the servers in the config.
    pub(crate) fn write_servers(&self, entries: &Value) {
        let text = json!({ "mcpServers": entries }).to_string();
        fs::write(self.config(), text).unwrap();
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("mcp.json")
    }

    /// A program in the project, with the scratch home and nothing of the developer's environment but `PATH`.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.project)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
            .stdin(Stdio::null());
        command
    }

    /// Runs git in the project, to set a scene or to check one.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.command("git").args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program with the lab's config, and proves that it leaves no process behind.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(&[], args)
    }

    /// As [`Lab::run`], with more variables.
    pub(crate) fn run_with(&self, env: &[(&str, &str)], args: &[&str]) -> Ran {
        let output = self
            .command(env!("CARGO_BIN_EXE_trunkline"))
            .envs(env.iter().copied())
            .arg("--mcp-config")
            .arg(self.config())
            .args(args)
            .output()
            .unwrap();
        let ran = Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        self.marker.assert_gone(GONE_WITHIN);
        ran
    }

    /// Runs the program with a terminal for its output (made by `script`, an essential Debian program); returns all that
    /// was written on it.
    pub(crate) fn run_on_terminal(&self, args: &[&str]) -> String {
        let words = [env!("CARGO_BIN_EXE_trunkline"), "--mcp-config"];
        let config = self.config().display().to_string();
        let line: Vec<String> = words
            .iter()
            .chain([&config.as_str()])
            .chain(args)
            .map(|word| format!("'{word}'"))
            .collect();
        let output = self
            .command("script")
            .args(["--quiet", "--return", "--command", &line.join(" ")])
            .arg("/dev/null")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        self.marker.assert_gone(GONE_WITHIN);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `call` for a result that must be good, as text.
    pub(crate) fn call(&self, args: &[&str]) -> String {
        self.run(&[&["call"], args].concat()).done().stdout
    }

    /// Runs `call --json` for a result that must be good.
    pub(crate) fn call_json(&self, args: &[&str]) -> Value {
        let result = self
            .run(&[&["call", "--json"], args].concat())
            .done()
            .json();
        assert_eq!(result["isError"], false, "{result}");
        result
    }
}

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// It must have ended with exit code 0.
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Its stdout, which must be one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

#[test]
fn a_process_left_behind_is_seen() {
    let lab = Lab::with(&[]);
    let mut command = lab.command("sleep");
    let mut sleeper = command.arg("60").envs([lab.marker.env()]).spawn().unwrap();
    // It carries the marker once it has been executed.
    let left = wait_for(Duration::from_secs(5), "the sleeper", || {
        Some(lab.marker.processes()).filter(|left| !left.is_empty())
    });
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(left, [sleeper.id()]);
    lab.marker.assert_gone(GONE_WITHIN);
}
