//! `trunkline daemon`: one process of each server for all clients (GW-5).

mod gateway_socket;
mod hand_over;
mod hostile;
mod kills;
mod sharing;

use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testkit::{Client, Script, wait_until};

use crate::lab::{Lab, Run, SOON, parsed};

/// A lab with a running daemon, which ends with it.
pub(super) struct DaemonLab {
    pub(super) lab: Lab,
}

impl DaemonLab {
    pub(super) fn with<S: Into<Script>>(
        servers: impl IntoIterator<Item = (&'static str, S)>,
        options: &[&str],
    ) -> Self {
        let this = Self {
            lab: Lab::with(servers),
        };
        this.start(options);
        this
    }

    pub(super) fn start(&self, options: &[&str]) {
        let run = self.run(&[&["daemon", "start"], options].concat());
        assert_eq!(run.code, Some(0), "{run:#?}");
    }

    /// Runs the program with the test's configuration. Processes may be left.
    pub(super) fn run(&self, arguments: &[&str]) -> Run {
        let Output {
            status,
            stdout,
            stderr,
        } = self.lab.command(arguments).output().unwrap();
        let plain = |bytes: &[u8]| self.lab.plain(&String::from_utf8_lossy(bytes));
        Run {
            code: status.code(),
            out: plain(&stdout),
            err: plain(&stderr),
            stored: None,
        }
    }

    pub(super) fn status(&self) -> Value {
        let run = self.run(&["daemon", "status", "--json"]);
        assert_eq!(run.code, Some(0), "{run:#?}");
        parsed(&run.out)
    }

    pub(super) fn pid(&self) -> i32 {
        pid(&self.status()["pid"])
    }

    /// The process of a server.
    pub(super) fn server_pid(&self, name: &str) -> Option<i32> {
        let status = self.status();
        let servers = status["servers"].as_array().unwrap();
        let server = servers.iter().find(|server| server["name"] == name)?;
        server["pid"].as_i64().map(|pid| pid.try_into().unwrap())
    }

    /// Starts `trunkline serve`, as an agent does, and performs the legacy handshake.
    pub(super) fn agent(&self) -> Client {
        let mut agent = Client::spawn(&mut self.lab.command(&["-v", "serve"]));
        agent.initialize("2025-11-25");
        agent
    }

    pub(super) fn socket(&self) -> std::path::PathBuf {
        self.lab.at("home/.local/state/trunkline/run/daemon.sock")
    }

    pub(super) fn log(&self) -> String {
        self.lab
            .scratch
            .read("home/.local/state/trunkline/daemon.log")
    }
}

impl Drop for DaemonLab {
    fn drop(&mut self) {
        let run = self.run(&["daemon", "stop"]);
        if std::thread::panicking() {
            self.lab.scratch.marker().kill_all();
            return;
        }
        assert_eq!(run.code, Some(0), "{run:#?}");
        self.lab
            .scratch
            .assert_no_processes(Duration::from_secs(10));
    }
}

pub(super) fn pid(value: &Value) -> i32 {
    value.as_i64().and_then(|pid| pid.try_into().ok()).unwrap()
}

pub(super) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// The text of a tool's result, or the message of an error.
pub(super) fn outcome(answer: &Value) -> Result<String, String> {
    let text = answer["result"]["content"][0]["text"].as_str();
    match text.filter(|_| answer["result"]["isError"] != json!(true)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(text.map_or_else(|| answer["error"].to_string(), str::to_owned)),
    }
}

/// How often a test kills something.
pub(super) fn rounds() -> usize {
    let rounds = std::env::var("TRUNKLINE_KILL_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}

#[test]
fn it_starts_once_says_how_it_is_and_stops() {
    let lab = DaemonLab::with([("s", Script::default())], &[]);
    let pid = lab.pid();
    let again = lab.run(&["daemon", "start"]);
    assert_eq!(
        again.out,
        format!("the daemon is running already (pid {pid})\n")
    );
    let status = lab.run(&["daemon", "status"]);
    assert!(status.out.contains("no servers"), "{status:#?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(lab.socket()).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let stopped = lab.run(&["daemon", "stop"]);
    assert_eq!(stopped.out, format!("the daemon has stopped (pid {pid})\n"));
    assert!(!lab.socket().exists());
    let gone = lab.run(&["daemon", "status", "--json"]);
    assert_eq!(
        (gone.code, &parsed(&gone.out)["running"]),
        (Some(3), &json!(false))
    );
    let logs = lab.run(&["daemon", "logs"]);
    assert!(logs.out.contains("it was told to"), "{logs:#?}");
}

#[test]
fn a_server_without_clients_stops_after_a_while() {
    let lab = DaemonLab::with([("s", crate::lab::echo())], &["--server-idle", "10ms"]);
    let run = lab.run(&["call", "s", "echo", "n=1"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    wait_until(SOON, || lab.status()["servers"] == json!([]));
}

#[test]
fn units_for_systemd_are_written_and_removed() {
    let lab = Lab::new();
    let run = lab.plainly(&["daemon", "install"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let service = lab
        .scratch
        .read("home/.config/systemd/user/trunkline.service");
    assert!(service.contains("daemon run --exit-idle 1h"), "{service}");
    let socket = lab
        .scratch
        .read("home/.config/systemd/user/trunkline.socket");
    assert!(socket.contains("SocketMode=0600"), "{socket}");
    let run = lab.plainly(&["daemon", "uninstall", "--json"]);
    assert_eq!(run.json()["removed"].as_array().unwrap().len(), 2);
    lab.scratch
        .write("home/.config/systemd/user/trunkline.service", "mine");
    lab.plainly(&["daemon", "install"]).fails(
        2,
        "[DIR]/home/.config/systemd/user/trunkline.service was not written by trunkline",
        "move it away first",
    );
}
