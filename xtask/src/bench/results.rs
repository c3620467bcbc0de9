//! `target/bench/results.json`: every sample, so that a figure can be looked at again.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::callgrind::Count;
use super::clients::Bench;
use super::measure::{Cell, Outcome};
use super::scenarios::Scenario;
use super::verdict::{judge, speed_ratio};
use super::{Layout, Options};

pub(super) fn write(
    layout: &Layout,
    options: &Options,
    bench: &Bench,
    scenarios: &[Scenario],
    outcome: &Outcome,
    counts: &[Count],
) -> anyhow::Result<PathBuf> {
    let results = json!({
        "quick": options.quick,
        "machine": machine(),
        "othersUsed": outcome.others,
        "clients": bench.clients.iter().map(|client| json!({ "name": client.name, "label": client.label })).collect::<Vec<_>>(),
        "scenarios": scenarios.iter().map(|scenario| of_scenario(bench, scenario, outcome)).collect::<Vec<_>>(),
        "instructionsPerCall": counts.iter().map(of_count).collect::<Vec<_>>(),
    });
    let path = layout.out.join("results.json");
    fs::write(&path, serde_json::to_vec_pretty(&results)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn of_scenario(bench: &Bench, scenario: &Scenario, outcome: &Outcome) -> Value {
    let mut clients = Vec::new();
    for client in &bench.clients {
        for cores in ["pinned", "unpinned"] {
            let Some(cell) = outcome.get(scenario, cores, client.name) else {
                continue;
            };
            if cell.samples.is_empty() && cell.failures.is_empty() {
                continue;
            }
            clients.push(of_cell(
                cell,
                client.name,
                cores,
                speed_ratio(outcome, scenario, cores, client.name),
            ));
        }
    }
    let targets = scenario.targets.iter().map(|&target| {
        let verdict = judge(outcome, scenario, target);
        json!({ "client": target.client(), "asked": verdict.asked, "value": verdict.value, "met": verdict.met })
    });
    json!({
        "name": scenario.name,
        "title": scenario.title,
        "unit": scenario.kind.unit(),
        "clients": clients,
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn of_cell(cell: &Cell, client: &str, cores: &str, ours: Option<f64>) -> Value {
    json!({
        "client": client,
        "cores": cores,
        "median": cell.median(),
        "timesAsFastAreWe": ours,
        "peakMb": cell.peak_mb(),
        "connections": cell.connections(),
        "samples": cell.samples,
        "failures": cell.failures,
    })
}

fn of_count(count: &Count) -> Value {
    json!({
        "scenario": count.scenario,
        "client": count.client,
        "instructions": count.instructions.as_ref().ok(),
        "failure": count.instructions.as_ref().err(),
    })
}

fn machine() -> Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    json!({
        "cpu": cpu,
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}
