//! Instructions a call, counted by callgrind: a figure that does not depend on the machine's noise.
//!
//! Two runs, of N and 2N calls: start-up cancels out in the difference. The server is not traced.

use std::path::Path;
use std::time::Duration;

use super::Layout;
use super::clients::{Bench, Call, Client, OURS, POOLED};
use super::measure::command_line;
use super::process::{Cores, Program};
use super::scenarios::{Kind, Scenario, Wire, selected as scenarios};
use super::served::Served;

/// Valgrind slows a program some fifty times.
const LIMIT: Duration = Duration::from_mins(5);

/// What was counted for one client in one scenario.
pub(super) struct Count {
    pub(super) scenario: &'static str,
    pub(super) title: &'static str,
    pub(super) client: &'static str,
    pub(super) label: String,
    /// Instructions a call, or why there is no count.
    pub(super) instructions: Result<f64, String>,
}

/// Whether the options ask for counts.
pub(super) fn selected(only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|only| "callgrind".starts_with(only))
}

/// Counts for the Rust clients that do the same work: ours and rmcp.
pub(super) fn all(layout: &Layout, bench: &Bench, quick: bool) -> Vec<Count> {
    let mut counts = Vec::new();
    let installed = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join("valgrind").is_file())
    });
    for mut scenario in scenarios(false, &[])
        .into_iter()
        .filter(|scenario| scenario.kind.is_rate())
    {
        println!("callgrind: {}", scenario.title);
        scenario.n = match (scenario.kind, scenario.payload) {
            (Kind::Inflight, _) => 3_200,
            (_, 100_000..) => 200,
            _ => 1_000,
        } / if quick { 2 } else { 1 };
        for client in bench
            .clients
            .iter()
            .filter(|client| compared(client.name, scenario.wire))
        {
            let instructions = if installed {
                a_call(layout, bench, &scenario, client)
            } else {
                Err("valgrind is not installed".to_owned())
            };
            counts.push(Count {
                scenario: scenario.name,
                title: scenario.title,
                client: client.name,
                label: client.label.clone(),
                instructions,
            });
        }
    }
    counts
}

/// rmcp is counted as far as its calls are like ours: on one connection.
fn compared(client: &str, wire: Wire) -> bool {
    client == OURS
        || match wire {
            Wire::Stdio => client == "rmcp",
            Wire::Http => client == POOLED,
            Wire::Ws => false,
        }
}

/// The difference of two runs, divided by the calls that it has, warm-up included.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn a_call(
    layout: &Layout,
    bench: &Bench,
    scenario: &Scenario,
    client: &Client,
) -> Result<f64, String> {
    let argv = match client.call(scenario) {
        Call::Argv(argv) => argv,
        Call::Broken(reason) => return Err(reason.clone()),
        Call::Absent | Call::Earlier { .. } => return Err("has no part in this".to_owned()),
    };
    let count = |n: usize| {
        let scenario = Scenario { n, ..*scenario };
        let out = layout
            .out
            .join("tmp")
            .join(format!("callgrind.{}.{}.{n}", client.name, scenario.name));
        let mut line: Vec<String> = [
            "valgrind",
            "--tool=callgrind",
            "--trace-children=no",
            "--separate-threads=no",
        ]
        .map(str::to_owned)
        .to_vec();
        line.push(format!("--callgrind-out-file={}", out.display()));
        let served = Served::start(bench, &scenario, Cores::Pinned)?;
        line.extend(command_line(
            layout, argv, bench, &scenario, client, &served,
        )?);
        let log = layout
            .out
            .join("tmp")
            .join(format!("valgrind-{}", client.name));
        Program {
            argv: &line,
            env: &bench.env,
            cores: Cores::Pinned,
            limit: LIMIT,
            log,
        }
        .run()?;
        total(&out).ok_or_else(|| format!("no total in {}", out.display()))
    };
    let (single, double) = (count(scenario.n)?, count(scenario.n * 2)?);
    // Programs warm up with a fifth of the calls they measure.
    let calls = scenario.n + scenario.n / 5;
    Ok(double.saturating_sub(single) as f64 / calls as f64)
}

/// The instructions of a callgrind file.
fn total(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| {
        line.strip_prefix("totals:")
            .or_else(|| line.strip_prefix("summary:"))
    })?;
    line.split_whitespace().next()?.parse().ok()
}
