//! Runs the program in a scratch home with third-party servers.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};
use trunkline_testkit::{Marker, wait_for};

use crate::servers::Server;

/// How long a killed process may take to leave the process table after the program has ended.
const GONE_WITHIN: Duration = Duration::from_millis(250);

/// The time limit of a run in the background, on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_mins(1);

/// One test's own home and project, gone when the test ends.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
    /// The program's working directory, which is also the only root the filesystem and git servers
    /// may touch.
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
                let env: Map<String, Value> = self
                    .server_env()
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.into()))
                    .collect();
                let entry = json!({ "command": command, "args": args, "env": env });
                (server.name().to_owned(), entry)
            })
            .collect();
        self.write_servers(&Value::Object(entries));
    }

    /// What every server finds in its environment.
    pub(crate) fn server_env(&self) -> [(&'static str, String); 8] {
        let (mark, value) = self.marker.env();
        let memory = self.project.join("memory.jsonl").display().to_string();
        [
            (mark, value.to_owned()),
            ("MEMORY_FILE_PATH", memory),
            ("GIT_AUTHOR_NAME", "Ada".to_owned()),
            ("GIT_AUTHOR_EMAIL", "ada@example.com".to_owned()),
            ("GIT_COMMITTER_NAME", "Ada".to_owned()),
            ("GIT_COMMITTER_EMAIL", "ada@example.com".to_owned()),
            // Without one its tools are not listed; nobody is asked for anything with it.
            ("NOTION_TOKEN", "ntn_none".to_owned()),
            // It would start a process in a session of its own, which outlives it by design, to ask
            // for its newest version.
            ("CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS", "1".to_owned()),
        ]
    }

    /// The server itself, as the program would start it, for a client that is not ours.
    pub(crate) fn server(&self, server: Server) -> Command {
        let (program, args) = server.command(&self.project);
        let mut command = self.command(program);
        command.args(args).envs(self.server_env());
        command
    }

    /// Replaces the servers in the config.
    pub(crate) fn write_servers(&self, entries: &Value) {
        let text = json!({ "mcpServers": entries }).to_string();
        fs::write(self.config(), text).unwrap();
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Makes a directory the user's alone.
    pub(crate) fn private(&self, directory: &std::path::Path) {
        use std::os::unix::fs::PermissionsExt as _;

        assert!(directory.starts_with(self.folder.path()));
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("mcp.json")
    }

    /// A program in the project, with the scratch home and nothing of the developer's environment
    /// but `PATH`.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
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
        let mut command = self.program(args);
        let output = command.envs(env.iter().copied()).output().unwrap();
        let ran = Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        self.marker.assert_gone(GONE_WITHIN);
        ran
    }

    /// The program with the lab's config.
    pub(crate) fn program(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_trunkline"));
        command.arg("--mcp-config").arg(self.config()).args(args);
        command
    }

    /// Starts a program with its output in files.
    pub(crate) fn start(&self, command: &mut Command) -> Running<'_> {
        let file = |name| fs::File::create(self.folder.path().join(name)).unwrap();
        let child = command.stdout(file("stdout")).stderr(file("stderr"));
        Running {
            lab: self,
            child: child.spawn().unwrap(),
        }
    }

    /// Runs the program with a terminal for its output (made by `script`, an essential Debian
    /// program); returns all that was written on it.
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

/// A run in progress.
pub(crate) struct Running<'a> {
    lab: &'a Lab,
    child: Child,
}

impl Running<'_> {
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.lab.folder.path().join(name)).unwrap()
    }

    /// What it has written to stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Waits for its end, and proves that it leaves no process behind.
    pub(crate) fn end(mut self) -> Ran {
        let status = wait_for(ENDS_WITHIN, "the program's end", || {
            self.child.try_wait().unwrap()
        });
        self.lab.marker.assert_gone(GONE_WITHIN);
        Ran {
            code: status.code(),
            stdout: self.read("stdout"),
            stderr: self.read("stderr"),
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Checks for exit code 0.
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Returns the JSON document on stdout.
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
