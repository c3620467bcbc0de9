//! The suite's server scenarios through `trunkline serve --http`.
//!
//! Two servers of other people's SDKs, one of each era, run in `crates/conformance/server`. The
//! suite tests each of them directly, then through the gateway. Checks that pass directly must pass
//! through the gateway.

mod compare;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::report::Row;
use super::scenario::{Verdict, run_in_group};
use super::suite::{self, Name};
use compare::Checks;
use servers::{Gateway, Server};

/// The time limit of a run of the suite, which takes ten seconds at most when nothing is wrong.
const LIMIT: Duration = Duration::from_mins(2);

/// The runs: a version of the suite, a version of the specification, and the server.
const RUNS: [Run; 3] = [
    Run {
        suite: "0.1.16",
        spec: None,
        server: "legacy",
    },
    Run {
        suite: "0.2.0-alpha.12",
        spec: Some("2025-11-25"),
        server: "legacy",
    },
    Run {
        suite: "0.2.0-alpha.12",
        spec: Some("2026-07-28"),
        server: "modern",
    },
];

/// The scenarios of one version of the specification, with a server that implements it.
pub(super) struct Run {
    pub(super) suite: &'static str,
    spec: Option<&'static str>,
    server: &'static str,
}

impl Run {
    /// Returns the run's name in the baseline.
    fn name(&self) -> String {
        match self.spec {
            None => format!("gateway {}", self.suite),
            Some(spec) => format!("gateway {} {spec}", self.suite),
        }
    }

    fn suite(&self, folder: &Path, words: &[&str]) -> Command {
        let mut command = suite::suite(folder, self.suite);
        command.args(words);
        if let Some(spec) = self.spec {
            command.args(["--spec-version", spec]);
        }
        command
    }
}

/// Returns all scenarios in the order of the table.
pub(super) fn names(folder: &Path) -> Result<Vec<Name>> {
    let mut names = Vec::new();
    for run in &RUNS {
        let listed = suite::listed(&mut run.suite(folder, &["list", "--server"]))?;
        names.extend(listed.into_iter().map(|scenario| Name {
            run: run.name(),
            scenario,
        }));
    }
    Ok(names)
}

/// Runs the suites, and returns a row for each of `chosen`.
pub(super) fn play(
    folder: &Path,
    program: &Path,
    chosen: &[Name],
    reason: impl Fn(&Name) -> Option<String>,
) -> Result<Vec<Row>> {
    let place = folder.join("results/gateway");
    if place.exists() {
        fs::remove_dir_all(&place).context("could not clear the results of the gateway")?;
    }
    fs::create_dir_all(&place).context("could not create the folder of results")?;
    servers::copy(folder)?;
    let servers = ["legacy", "modern"].map(|name| Server::start(folder, name));
    let [legacy, modern] = servers;
    let servers = [legacy?, modern?];
    let gateway = Gateway::start(program, &place, &servers)?;
    let mut rows = Vec::new();
    for run in &RUNS {
        let here: Vec<_> = chosen
            .iter()
            .filter(|name| name.run == run.name())
            .collect();
        let Some(server) = servers.iter().find(|server| server.name == run.server) else {
            bail!("there is no server {}", run.server);
        };
        if here.is_empty() {
            continue;
        }
        let results = place.join(run.name().replace(' ', "-"));
        let direct = checks(folder, run, &server.url, &results.join("direct"))?;
        let url = format!("{}/{}", gateway.url, run.server);
        let through = checks(folder, run, &url, &results.join("through"))?;
        rows.extend(here.into_iter().map(|name| Row {
            name: name.clone(),
            reason: reason(name),
            verdict: verdict(name, &direct, &through),
        }));
    }
    Ok(rows)
}

fn verdict(name: &Name, direct: &Checks, through: &Checks) -> Verdict {
    let complaints = compare::complaints(&name.scenario, direct, through);
    Verdict {
        passed: complaints.is_empty(),
        complaints,
        last_words: String::new(),
    }
}

/// Runs the suite against a server and reads its checks. Failed checks are no error.
fn checks(folder: &Path, run: &Run, url: &str, place: &PathBuf) -> Result<Checks> {
    fs::create_dir_all(place).with_context(|| format!("could not create {}", place.display()))?;
    let mut command = run.suite(folder, &["server", "--suite", "all", "--url", url]);
    command.arg("--output-dir").arg(place);
    run_in_group(&mut command, &place.join("suite.log"), LIMIT)?;
    Checks::read(place)
}
