//! A child process.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use trunkline::config::TransportEntry;
use trunkline::server::Era;
use trunkline::{HostBuilder, ServerEntry};
use trunkline_config::Secret;
use trunkline_testkit::{Scratch, Script};

use crate::lab::{self, Lab};

pub(crate) struct Stdio {
    scratch: Scratch,
    script: Script,
}

impl Stdio {
    /// Uses the test's own script.
    pub(crate) fn with(scratch: Scratch, script: Script) -> Self {
        let script = script.on_start(json!([{"writePid": scratch.join("pid")}]));
        Self { scratch, script }
    }

    /// Signals the process that was started last, if it still exists.
    fn signal(&self, signal: Signal) {
        let pid = self
            .scratch
            .read("pid")
            .parse()
            .ok()
            .and_then(Pid::from_raw);
        kill_process(pid.expect("the server's process id"), signal).ok();
    }
}

impl Lab for Stdio {
    const ERA: Era = Era::Modern;
    const SLOW: &'static str = "drip";

    fn start() -> Self {
        let scratch = Scratch::new();
        let script = lab::script(&scratch);
        Self::with(scratch, script)
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn builder(&self) -> HostBuilder {
        let written = self.scratch.entry("s", &self.script);
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let args = written["args"].as_array().expect("arguments");
        let mut entry = ServerEntry::stdio("s", text(&written["command"]), args.iter().map(text));
        if let TransportEntry::Stdio(stdio) = &mut entry.transport {
            let (variable, value) = self.scratch.marker().env();
            stdio.env.insert(variable.to_owned(), Secret::new(value));
        }
        lab::builder().server(entry)
    }

    fn crash(&self) {
        self.signal(Signal::KILL);
    }

    fn stall(&self) {
        self.signal(Signal::STOP);
    }

    fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn connections(&self) -> usize {
        self.scratch.marker().processes().len()
    }
}
