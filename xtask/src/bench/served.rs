//! The echo server of one run over sockets: started before the client, on the same cores, and counted after it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;

use super::clients::Bench;
use super::process::{Cores, on_cores};
use super::scenarios::{Scenario, Wire};

/// A server that runs, or none where clients start their own.
pub(super) struct Served(Option<Running>);

struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
}

/// What the server prints when its stdin ends.
#[derive(Deserialize)]
struct Counts {
    connections: f64,
}

impl Served {
    pub(super) fn start(bench: &Bench, scenario: &Scenario, cores: Cores) -> Result<Self, String> {
        let flag = match scenario.wire {
            Wire::Http => "--http",
            Wire::Ws => "--ws",
            Wire::Stdio if scenario.kind.is_mixed() => "--http",
            Wire::Stdio => return Ok(Self(None)),
        };
        let mut command = Command::new(&bench.server);
        command
            .arg(flag)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let failed = |error| format!("cannot start the server: {error}");
        let mut child = on_cores(cores, || command.spawn()).map_err(failed)?;
        let stdout = child.stdout.take().ok_or("no output of the server")?;
        let mut stdout = BufReader::new(stdout);
        let mut url = String::new();
        stdout.read_line(&mut url).map_err(failed)?;
        let url = url.trim().to_owned();
        Ok(Self(Some(Running { child, stdout, url })))
    }

    /// Where it listens.
    pub(super) fn url(&self) -> Option<&str> {
        self.0.as_ref().map(|running| running.url.as_str())
    }

    /// Ends it; how many connections there were.
    pub(super) fn connections(mut self) -> Option<f64> {
        let running = self.0.as_mut()?;
        drop(running.child.stdin.take());
        let mut line = String::new();
        running.stdout.read_line(&mut line).ok()?;
        let counts: Counts = serde_json::from_str(&line).ok()?;
        Some(counts.connections)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = &mut self.0 {
            // It may have ended by itself.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}
