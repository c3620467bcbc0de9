//! The interleaved run: in each round, every scenario, pinned and free, with the clients one after another.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::Layout;
use super::clients::{Bench, Call, Client};
use super::noise;
use super::process::{Cores, Program};
use super::real;
use super::scenarios::{INFLIGHT, Kind, Scenario, Server};
use super::served::Served;

/// No single run of a client may take longer.
const LIMIT: Duration = Duration::from_mins(2);
/// A client that failed this often in a cell is not tried there again.
const MAX_FAILURES: usize = 2;

/// All samples, by scenario, cores and client.
pub(super) type Cells = BTreeMap<(&'static str, &'static str, &'static str), Cell>;

/// What a run found.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) cells: Cells,
    /// The share of the machine that other programs used, for each scenario of each round.
    pub(super) others: Vec<f64>,
}

impl Outcome {
    pub(super) fn get(
        &self,
        scenario: &Scenario,
        cores: &'static str,
        client: &'static str,
    ) -> Option<&Cell> {
        self.cells.get(&(scenario.name, cores, client))
    }
}

/// What one client did in one scenario on one kind of cores.
#[derive(Default)]
pub(super) struct Cell {
    /// Calls a second or milliseconds, one a run.
    pub(super) samples: Vec<f64>,
    /// Peak memory of the client, without its servers.
    pub(super) peak_mb: Vec<f64>,
    /// TCP connections that the server saw in a run, where there are any.
    pub(super) connections: Vec<f64>,
    /// Why runs failed.
    pub(super) failures: Vec<String>,
}

impl Cell {
    pub(super) fn median(&self) -> Option<f64> {
        median(&self.samples)
    }

    /// The largest seen: a peak that happens once happens.
    pub(super) fn peak_mb(&self) -> Option<f64> {
        self.peak_mb.iter().copied().reduce(f64::max)
    }

    /// The most seen.
    pub(super) fn connections(&self) -> Option<f64> {
        self.connections.iter().copied().reduce(f64::max)
    }
}

pub(super) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], upper)
    } else {
        upper
    })
}

/// The name of a kind of cores in the results.
pub(super) fn cores_name(cores: Cores) -> &'static str {
    match cores {
        Cores::Pinned => "pinned",
        Cores::Free => "unpinned",
    }
}

pub(super) fn all(
    layout: &Layout,
    bench: &Bench,
    scenarios: &[Scenario],
    rounds: usize,
) -> Outcome {
    let mut outcome = Outcome::default();
    for round in 0..rounds {
        for scenario in scenarios {
            println!("round {} of {rounds}: {}", round + 1, scenario.title);
            let before = noise::Since::now();
            for cores in [Cores::Pinned, Cores::Free] {
                for sample in 0..scenario.samples {
                    let turn = round * scenario.samples + sample;
                    for index in 0..bench.clients.len() {
                        // Another client starts each turn, so that nobody always runs after the same neighbour.
                        let client = &bench.clients[(turn + index) % bench.clients.len()];
                        if sample >= 2 && client.slow {
                            continue;
                        }
                        let cell = outcome
                            .cells
                            .entry((scenario.name, cores_name(cores), client.name))
                            .or_default();
                        once(layout, bench, scenario, cores, client, cell);
                    }
                }
            }
            outcome
                .others
                .extend(before.and_then(|before| before.others()));
        }
    }
    outcome
}

/// The line every common program prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    seconds: f64,
    calls: f64,
    peak_rss_kb: Option<f64>,
}

fn once(
    layout: &Layout,
    bench: &Bench,
    scenario: &Scenario,
    cores: Cores,
    client: &Client,
    cell: &mut Cell,
) {
    let template = match client.call(scenario) {
        Call::Absent => return,
        Call::Earlier { ms, peak_mb } => {
            if cell.samples.is_empty() {
                cell.samples.push(*ms);
                cell.peak_mb.push(*peak_mb);
            }
            return;
        }
        Call::Broken(reason) => {
            if cell.failures.is_empty() {
                cell.failures.push(reason.clone());
            }
            return;
        }
        Call::Argv(argv) => {
            if cell.failures.len() >= MAX_FAILURES {
                return;
            }
            argv
        }
    };
    let served = match Served::start(bench, scenario, cores) {
        Ok(served) => served,
        Err(reason) => return cell.failures.push(reason),
    };
    let argv = if client.reports(scenario.kind) {
        command_line(layout, template, bench, scenario, client, &served)
    } else {
        Ok(template.clone())
    };
    let argv = match argv {
        Ok(argv) => argv,
        Err(reason) => return cell.failures.push(reason),
    };
    let program = Program {
        argv: &argv,
        env: &bench.env,
        cores,
        limit: LIMIT,
        log: layout.out.join("tmp").join(client.name),
    };
    let finished = match program.run() {
        Ok(finished) => finished,
        Err(reason) => return cell.failures.push(reason),
    };
    if scenario.kind.is_rate() {
        cell.connections.extend(served.connections());
    }
    // A program that reports nothing is looked at while it runs, which is not for free: not while its time is taken.
    if scenario.kind == Kind::Servers && !client.reports(scenario.kind) && cell.peak_mb.len() < 3 {
        let watched = program.run_watched().ok();
        let peak = watched.and_then(|(_, peak_kb)| peak_kb);
        cell.peak_mb.extend(peak.map(|kb| kb / 1024.0));
    }
    let report = finished
        .stdout
        .lines()
        .last()
        .and_then(|line| serde_json::from_str::<Report>(line).ok());
    cell.peak_mb.extend(
        report
            .as_ref()
            .and_then(|report| report.peak_rss_kb)
            .map(|kb| kb / 1024.0),
    );
    match (scenario.kind, report) {
        (Kind::Oneshot, report) => {
            if report.is_some() || finished.stdout.contains("hello") {
                cell.samples.push(finished.wall.as_secs_f64() * 1e3);
            } else {
                cell.failures
                    .push("the output does not have the echo".to_owned());
            }
        }
        (Kind::Servers, None) if !client.reports(scenario.kind) => {
            let connected = finished.stdout.matches("connected").count();
            if connected >= scenario.servers {
                cell.samples.push(finished.wall.as_secs_f64() * 1e3);
            } else {
                let message = format!("{connected} of {} servers connected", scenario.servers);
                cell.failures.push(message);
            }
        }
        (_, None) => cell.failures.push("printed no report".to_owned()),
        (kind, Some(report)) if kind.is_rate() => cell.samples.push(report.calls / report.seconds),
        (_, Some(report)) => cell.samples.push(report.seconds * 1e3),
    }
}

/// The common command line of a scenario.
pub(super) fn command_line(
    layout: &Layout,
    argv: &[String],
    bench: &Bench,
    scenario: &Scenario,
    client: &Client,
    served: &Served,
) -> Result<Vec<String>, String> {
    let mut line = argv.to_vec();
    line.push(scenario.kind.word().to_owned());
    let n = if scenario.kind.is_rate() {
        client.calls(scenario)
    } else {
        scenario.n
    };
    for (flag, value) in [
        ("--n", n),
        ("--payload", scenario.payload),
        ("--inflight", INFLIGHT),
        ("--servers", scenario.servers),
    ] {
        line.extend([flag.to_owned(), value.to_string()]);
    }
    line.push("--".to_owned());
    let url = served.url().map(str::to_owned);
    match (scenario.server, url) {
        (Server::Everything, _) => line.extend(bench.everything.clone()?),
        (Server::Real, _) => {
            line.extend(bench.real.clone()?);
            line.push(real::fresh(layout)?);
        }
        (Server::Echo, Some(url)) if scenario.kind.is_mixed() => {
            line.extend([bench.server.clone(), url]);
        }
        (Server::Echo, Some(url)) => line.push(url),
        (Server::Echo, None) => line.push(bench.server.clone()),
    }
    if scenario.kind == Kind::List {
        // The server lists `echo` besides.
        line.extend(["--tools".to_owned(), (scenario.n - 1).to_string()]);
    } else if client.name == "limit" {
        line.push("--raw-limit".to_owned());
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
