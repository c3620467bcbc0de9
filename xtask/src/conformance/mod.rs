//! `cargo xtask conformance`: the official conformance suite, its client scenarios against
//! `trunkline-conformance` and its server scenarios against `trunkline serve` ([`gateway`]).
//!
//! `crates/conformance/conformance-baseline.toml` lists the scenarios that do not pass, with
//! reasons. It may only shrink: a listed scenario that passes is an error, and so is any other that
//! fails.

mod baseline;
mod gateway;
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
use suite::{Case, Name};

/// The client under test.
const CLIENT: &str = "trunkline-conformance";

/// The program whose gateway is tested.
const PROGRAM: &str = "trunkline";

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
    /// Run only the scenarios of this side
    #[arg(long, value_enum)]
    side: Option<Side>,
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

/// A side of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Side {
    /// The suite's client scenarios.
    Client,
    /// The suite's server scenarios, through the gateway.
    Gateway,
}

/// Runs the scenarios and prints a table.
pub(crate) fn run(options: &Options) -> Result<()> {
    run_noting(options).map(drop)
}

/// As [`run`], and returns the summary line.
pub(crate) fn run_noting(options: &Options) -> Result<String> {
    let folder = suite::install(options.no_install)?;
    let cases = suite::cases(&folder)?;
    let gateway = gateway::names(&folder)?;
    let known: Vec<Name> = cases
        .iter()
        .map(Case::name)
        .chain(gateway.clone())
        .collect();
    let baseline = Baseline::load(&known)?;
    let is_chosen = |name: &Name, side: Side| {
        let version = |version: &String| name.run.split(' ').any(|word| word == version);
        (options.only.is_empty() || options.only.contains(&name.scenario))
            && options.suite.as_ref().is_none_or(version)
            && options.side.is_none_or(|only| only == side)
            && !(options.skip_expected && baseline.reason(name).is_some())
    };
    let chosen: Vec<Case> = cases
        .into_iter()
        .filter(|case| is_chosen(&case.name(), Side::Client))
        .collect();
    let through: Vec<Name> = gateway
        .into_iter()
        .filter(|name| is_chosen(name, Side::Gateway))
        .collect();
    if chosen.is_empty() && through.is_empty() {
        bail!("no scenario matches");
    }
    let mut rows = Vec::new();
    if !chosen.is_empty() {
        let lab = Lab {
            client: build(CLIENT, options.dev)?,
            folder: folder.clone(),
            verbose: options.verbose,
        };
        rows = play_all(&lab, &chosen, &baseline)?;
    }
    if !through.is_empty() {
        let program = build(PROGRAM, options.dev)?;
        let reason = |name: &Name| baseline.reason(name).map(str::to_owned);
        rows.extend(gateway::play(&folder, &program, &through, reason)?);
    }
    Report { rows }.print()
}

/// Builds a program, with the workspace's features so that compiled dependencies are shared with a
/// test run.
fn build(name: &str, dev: bool) -> Result<PathBuf> {
    let profile = if dev { "dev" } else { "release" };
    let build = ["build", "--workspace", "--bin", name, "--profile", profile];
    sh::run(&mut sh::cargo(&build), BUILD_LIMIT)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let program = sh::root()
        .join(target)
        .join(if dev { "debug" } else { "release" })
        .join(name);
    // The suite splits its command at spaces.
    if program.to_string_lossy().contains(char::is_whitespace) {
        bail!(
            "the suite cannot run a program whose path has spaces: {}",
            program.display()
        );
    }
    Ok(program)
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
                name: case.name(),
                reason: baseline.reason(&case.name()).map(str::to_owned),
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
