//! `cargo xtask conformance`: the official conformance suite against `trunkline-conformance`.
//!
//! `crates/conformance/conformance-baseline.toml` lists the scenarios that do not pass, with
//! reasons. It may only shrink: a listed scenario that passes is an error, and so is any other that
//! fails.

mod baseline;
mod report;
mod scenario;
mod suite;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::sh;
use baseline::Baseline;
use report::{Report, Row};
use scenario::{Lab, Verdict};
use suite::Case;

/// The client under test.
const CLIENT: &str = "trunkline-conformance";

/// The time limit of a cold release build on two cores.
const BUILD_LIMIT: Duration = Duration::from_mins(30);

/// The number of concurrent scenarios. Each has its own ports.
const AT_ONCE: usize = 2;

/// Scenarios that measure time and therefore run alone.
const TIMED: [&str; 1] = ["sse-retry"];

/// Options of `cargo xtask conformance`.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Run only this scenario (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run only this version of the suite
    #[arg(long, value_name = "VERSION")]
    suite: Option<String>,
    /// Skip the scenarios in the baseline
    #[arg(long)]
    skip_expected: bool,
    /// Build the client in the dev profile
    #[arg(long)]
    dev: bool,
    /// Fail if the suite is not installed
    #[arg(long)]
    no_install: bool,
    /// Print the suite's output
    #[arg(long)]
    verbose: bool,
}

impl Options {
    /// The options for `cargo xtask test`.
    pub(crate) fn step() -> Self {
        Self {
            skip_expected: true,
            dev: true,
            ..Self::default()
        }
    }
}

/// Runs the scenarios and prints a table.
pub(crate) fn run(options: &Options) -> Result<()> {
    run_noting(options).map(drop)
}

/// As [`run`], and returns the summary line.
pub(crate) fn run_noting(options: &Options) -> Result<String> {
    let folder = suite::install(options.no_install)?;
    let cases = suite::cases(&folder)?;
    let baseline = Baseline::load(&cases)?;
    let chosen: Vec<Case> = cases
        .into_iter()
        .filter(|case| options.only.is_empty() || options.only.contains(&case.scenario))
        .filter(|case| options.suite.is_none() || options.suite.as_deref() == Some(case.suite()))
        .filter(|case| !options.skip_expected || baseline.reason(case).is_none())
        .collect();
    if chosen.is_empty() {
        bail!("no scenario matches");
    }
    let lab = Lab {
        client: build(options.dev)?,
        folder,
        verbose: options.verbose,
    };
    let rows = play_all(&lab, &chosen, &baseline)?;
    Report { rows }.print()
}

/// Builds the client, with the workspace's features so that compiled dependencies are shared with a
/// test run.
fn build(dev: bool) -> Result<PathBuf> {
    let profile = if dev { "dev" } else { "release" };
    let build = [
        "build",
        "--workspace",
        "--bin",
        CLIENT,
        "--profile",
        profile,
    ];
    sh::run(&mut sh::cargo(&build), BUILD_LIMIT)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let client = sh::root()
        .join(target)
        .join(if dev { "debug" } else { "release" })
        .join(CLIENT);
    // The suite splits its command at spaces.
    if client.to_string_lossy().contains(char::is_whitespace) {
        bail!(
            "the suite cannot run a client whose path has spaces: {}",
            client.display()
        );
    }
    Ok(client)
}

/// Runs the scenarios and returns the rows in the order of `cases`.
fn play_all(lab: &Lab, cases: &[Case], baseline: &Baseline) -> Result<Vec<Row>> {
    let numbered = || cases.iter().enumerate();
    let is_timed = |case: &Case| TIMED.contains(&case.scenario.as_str());
    let (timed, others): (VecDeque<_>, VecDeque<_>) =
        numbered().partition(|(_, case)| is_timed(case));
    let mut rows = play_some(lab, others, AT_ONCE);
    rows.extend(play_some(lab, timed, 1));
    rows.sort_by_key(|(number, _)| *number);
    numbered()
        .zip(rows)
        .map(|((_, case), (_, verdict))| {
            Ok(Row {
                case: case.clone(),
                reason: baseline.reason(case).map(str::to_owned),
                verdict: verdict?,
            })
        })
        .collect()
}

type Played = (usize, Result<Verdict>);

fn play_some(lab: &Lab, cases: VecDeque<(usize, &Case)>, at_once: usize) -> Vec<Played> {
    let (queue, played) = (Mutex::new(cases), Mutex::new(Vec::new()));
    let next = || {
        queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((number, case)) = next() {
                    let verdict = lab.play(case);
                    let mut played = played.lock().unwrap_or_else(PoisonError::into_inner);
                    played.push((number, verdict));
                }
            });
        }
    });
    played.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The baseline, from the root of the workspace.
fn baseline_path() -> &'static Path {
    Path::new("crates/conformance/conformance-baseline.toml")
}
