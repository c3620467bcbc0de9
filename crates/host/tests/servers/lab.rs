//! The fixture of these tests: a scratch directory with servers, and helpers that wait.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use trunkline::config::{StdioEntry, TransportEntry};
use trunkline::server::{ConnectFailure, Connected, State};
use trunkline::{CallError, CallOptions, Host, HostBuilder, ServerEntry};
use trunkline_config::Secret;
use trunkline_testkit::{Action, Scratch, Script};

/// Time limit for conditions, generous for busy machines.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Longer than any delay between two attempts (LIF-10).
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(31);

/// The servers and files of one test.
pub(crate) struct Lab {
    pub(crate) scratch: Scratch,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            scratch: Scratch::new(),
        }
    }

    /// Returns a path in the scratch directory.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// A scripted server that counts its starts and records its process ID.
    pub(crate) fn server(&self, name: &str, script: impl Into<Script>) -> ServerEntry {
        let mut script = script.into();
        let noted: Vec<Action> = serde_json::from_value(json!([
            {"countFile": self.at(&format!("{name}.starts"))},
            {"writePid": self.at(&format!("{name}.pid"))},
        ]))
        .unwrap();
        script.on_start.splice(0..0, noted);
        let written = self.scratch.entry(name, &script);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let args = written["args"].as_array().unwrap().iter().map(text);
        let mut entry = ServerEntry::stdio(name, text(&written["command"]), args);
        if let TransportEntry::Stdio(stdio) = &mut entry.transport {
            let (variable, value) = self.scratch.marker().env();
            stdio.env.insert(variable.to_owned(), Secret::new(value));
        }
        entry
    }

    /// Like [`Lab::server`], but exits with status 7 while the file `<name>.broken` exists.
    pub(crate) fn breakable(&self, name: &str, script: impl Into<Script>) -> ServerEntry {
        let mut entry = self.server(name, script);
        if let TransportEntry::Stdio(StdioEntry { command, args, .. }) = &mut entry.transport {
            let broken = self.at(&format!("{name}.broken"));
            let line = r#"broken=$0; if [ -e "$broken" ]; then echo "it is broken" >&2; exit 7; fi; exec "$@""#;
            let mut wrapped = vec!["-c".to_owned(), line.to_owned(), text_of(broken)];
            wrapped.push(std::mem::replace(command, "/bin/sh".to_owned()));
            wrapped.append(args);
            *args = wrapped;
        }
        entry
    }

    /// Starts a host with these servers and waits until each has connected or failed.
    pub(crate) async fn host(&self, servers: impl IntoIterator<Item = ServerEntry>) -> Host {
        self.ready(
            Host::builder()
                .permit(trunkline::permission::AllowAll)
                .servers(servers),
        )
        .await
    }

    /// Starts the host and waits until each server has connected or failed.
    pub(crate) async fn ready(&self, builder: HostBuilder) -> Host {
        let host = builder.start();
        in_time("the host to be ready", host.ready()).await;
        host
    }

    /// Returns how often a server was started.
    pub(crate) fn starts(&self, name: &str) -> u32 {
        self.count(&format!("{name}.starts"))
    }

    /// Returns the number in a counter file.
    pub(crate) fn count(&self, file: &str) -> u32 {
        self.scratch.read(file).trim().parse().unwrap_or(0)
    }

    /// Returns the process ID of a server's last start.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        let text = self.scratch.read(format!("{name}.pid"));
        text.parse().expect("the server wrote down its process id")
    }

    pub(crate) fn kill(&self, name: &str) {
        let pid = Pid::from_raw(self.pid(name).cast_signed()).unwrap();
        kill_process(pid, Signal::KILL).expect("a server to kill");
    }

    /// Waits until a file exists.
    pub(crate) async fn file(&self, name: &str) {
        let path = self.at(name);
        eventually(&format!("the file {name}"), || path.exists()).await;
    }

    /// Waits until no process of this test is left.
    pub(crate) async fn nothing_left(&self) {
        let marker = self.scratch.marker();
        eventually("all processes to be gone", || marker.processes().is_empty()).await;
    }

    /// Shuts the host down and checks that nothing is left.
    pub(crate) async fn end(&self, host: Host) {
        in_time("shutdown", host.shutdown()).await;
        self.scratch.assert_no_processes(Duration::from_secs(2));
    }
}

fn text_of(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}

/// Waits for `condition` while the host runs.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < SOON, "waited for {what}, in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the outcome of `work`, which must complete.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(SOON, work).await;
    outcome.unwrap_or_else(|_| panic!("waited for {what}, in vain"))
}

/// Waits until `wanted` accepts a server's state.
pub(crate) async fn until<T>(
    host: &Host,
    server: &str,
    what: &str,
    mut wanted: impl FnMut(&State) -> Option<T>,
) -> T {
    let mut found = None;
    eventually(&format!("{server} to be {what}"), || {
        found = host.server(server).and_then(|status| wanted(&status.state));
        found.is_some()
    })
    .await;
    found.unwrap()
}

pub(crate) async fn until_connected(host: &Host, server: &str) -> Arc<Connected> {
    until(host, server, "connected", |state| match state {
        State::Connected(connected) => Some(Arc::clone(connected)),
        _ => None,
    })
    .await
}

/// Waits until attempt `wanted` is announced and returns the previous failure.
pub(crate) async fn until_attempt(host: &Host, server: &str, wanted: u32) -> Arc<ConnectFailure> {
    let what = format!("pending with attempt {wanted}");
    until(host, server, &what, |state| match state {
        State::Pending {
            attempt,
            last_failure: Some(failure),
        } if *attempt == wanted => Some(Arc::clone(failure)),
        _ => None,
    })
    .await
}

pub(crate) async fn until_failed(host: &Host, server: &str) -> Arc<ConnectFailure> {
    until(host, server, "failed", |state| match state {
        State::Failed(failure) => Some(Arc::clone(failure)),
        _ => None,
    })
    .await
}

/// Returns the connection of a connected server.
pub(crate) fn connected(host: &Host, server: &str) -> Arc<Connected> {
    match &host.server(server).expect("a server").state {
        State::Connected(connected) => Arc::clone(connected),
        state => panic!("{server} is {state:?}"),
    }
}

/// Returns the failure of a failed server.
pub(crate) fn failure(host: &Host, server: &str) -> Arc<ConnectFailure> {
    match &host.server(server).expect("a server").state {
        State::Failed(failure) => Arc::clone(failure),
        state => panic!("{server} is {state:?}"),
    }
}

/// Calls a tool and returns its text.
pub(crate) async fn call(host: &Host, tool: &str, arguments: Value) -> Result<String, CallError> {
    let call = host.call(tool, arguments, CallOptions::new());
    in_time(tool, call).await.map(|output| output.text())
}

/// Advances paused time; single-threaded runtimes only.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
