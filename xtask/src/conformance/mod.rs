//! `cargo xtask conformance`: the official conformance suite against `trunkline-conformance`, one scenario at a time.
//!
//! What does not pass is in `crates/conformance/conformance-baseline.toml`, with the reason. That file may only shrink: a
//! scenario in it that passes is an error, as is one outside it that fails.

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

/// The client.
const CLIENT: &str = "trunkline-conformance";

/// A release build from nothing, on two cores.
const BUILD_LIMIT: Duration = Duration::from_mins(30);

/// How many scenarios run at a time. Each has its own ports.
const AT_ONCE: usize = 2;

/// Scenarios that measure time, and so run by themselves.
const TIMED: [&str; 1] = ["sse-retry"];

/// What `cargo xtask conformance` is asked to do.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Run this scenario only (may be given more than once)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run this version of the suite only
    #[arg(long, value_name = "VERSION")]
    suite: Option<String>,
    /// Leave out what the baseline says does not pass
    #[arg(long)]
    skip_expected: bool,
    /// Build the client in the dev profile, not as released
    #[arg(long)]
    dev: bool,
    /// Download nothing: fail if the suite is not there
    #[arg(long)]
    no_install: bool,
    /// Print all that the suite says about each scenario
    #[arg(long)]
    verbose: bool,
}

impl Options {
    /// As a step of `cargo xtask test`: what passes must still pass.
    pub(crate) fn step() -> Self {
        Self {
            skip_expected: true,
            dev: true,
            ..Self::default()
        }
    }
}

/// Runs the scenarios and prints the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    run_noting(options).map(drop)
}

/// As [`run`]; gives back the line that sums it up.
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
        bail!("no scenario is left to run");
    }
    let lab = Lab {
        client: build(options.dev)?,
        folder,
        verbose: options.verbose,
    };
    let rows = play_all(&lab, &chosen, &baseline)?;
    Report { rows }.print()
}

/// Builds the client. The whole workspace is named so that its features, and with them the compiled dependencies, are the
/// same as in a test run.
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
    // The suite cuts its command into words.
    if client.to_string_lossy().contains(char::is_whitespace) {
        bail!(
            "the suite cannot run a client whose path has spaces: {}",
            client.display()
        );
    }
    Ok(client)
}

/// Plays the scenarios, some at a time, and gives back the rows in the order of `cases`.
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

/// The baseline, from the workspace's folder.
fn baseline_path() -> &'static Path {
    Path::new("crates/conformance/conformance-baseline.toml")
}
