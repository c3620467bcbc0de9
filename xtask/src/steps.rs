//! `cargo xtask test` and `cargo xtask check`: steps in order, cheapest first, up to the first that
//! fails.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::ValueEnum;

use crate::{api, conformance, docs, features, interop, sh, tidy, tools};

/// A cold build of the whole workspace on two cores stays well under this.
const BUILD_LIMIT: Duration = Duration::from_mins(30);

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Skip third-party servers and the conformance suite, which are downloaded on first use
    #[arg(long)]
    skip_interop: bool,
    /// Run only this step (repeatable)
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// rustfmt
    Fmt,
    /// Contract numbers, comment widths and links between pages
    Tidy,
    /// Pages and schema in docs/ that are generated from the code
    Docs,
    /// The listing of the library's public API in docs/api.txt
    Api,
    /// Licences, bans and sources of dependencies
    Deny,
    /// clippy on all targets and features, with warnings as errors
    Clippy,
    /// The library without features and with each alone, and its number of crates
    Features,
    /// clippy on the fuzz targets, which are a separate workspace
    FuzzTargets,
    /// rustdoc, with warnings as errors
    Doc,
    /// Tests that need no third-party software
    Tests,
    /// Documentation examples
    Doctests,
    /// Tests against third-party MCP servers
    Interop,
    /// Scenarios of the official conformance suite that are expected to pass
    Conformance,
}

/// The steps of `cargo xtask check`, which finish within a minute on a warm build.
const CHECK: [Step; 5] = [Step::Fmt, Step::Tidy, Step::Docs, Step::Deny, Step::Clippy];

/// The test of a host without features, which needs a build of its own.
const BARE_TEST: [&str; 7] = [
    "nextest",
    "run",
    "--package",
    "trunkline",
    "--no-default-features",
    "--test",
    "bare",
];

/// The result of a step, with an optional note for the summary.
struct Outcome {
    step: Step,
    took: Duration,
    result: Result<Option<String>>,
}

/// Runs the steps of `cargo xtask test`.
pub(crate) fn test(options: &Options) -> Result<()> {
    let steps: Vec<Step> = Step::value_variants()
        .iter()
        .copied()
        .filter(|step| options.only.is_empty() || options.only.contains(step))
        .filter(|step| !(options.skip_interop && step.is_third_party()))
        .collect();
    run(&steps)
}

/// Runs the steps of `cargo xtask check`.
pub(crate) fn check() -> Result<()> {
    run(&CHECK)
}

/// Runs nextest and returns its closing line.
pub(crate) fn nextest(mut command: Command) -> Result<Option<String>> {
    tools::NEXTEST.ensure()?;
    let lines = sh::Lines {
        noted: "tests run:",
        hidden: &[],
    };
    sh::run_noting(&mut command, BUILD_LIMIT, lines)
}

/// Runs the steps and prints a summary.
fn run(steps: &[Step]) -> Result<()> {
    let mut outcomes = Vec::new();
    for (index, step) in steps.iter().copied().enumerate() {
        println!("\n── {} ({} of {})", step.title(), index + 1, steps.len());
        let start = Instant::now();
        let result = step.run();
        let took = start.elapsed();
        let word = if result.is_ok() { "done" } else { "FAILED" };
        println!("── {} {word} in {}", step.name(), sh::human(took));
        let failed = result.is_err();
        outcomes.push(Outcome { step, took, result });
        if failed {
            break;
        }
    }
    summarise(steps, outcomes)
}

fn summarise(steps: &[Step], outcomes: Vec<Outcome>) -> Result<()> {
    println!("\n── summary");
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let not_run = steps.get(outcomes.len()..).unwrap_or_default();
    let mut failure = None;
    for Outcome { step, took, result } in outcomes {
        let (word, note) = match result {
            Ok(note) => ("ok", note.unwrap_or_default()),
            Err(error) => {
                failure = Some((step, error));
                ("FAILED", String::new())
            }
        };
        let line = format!(
            "{:<13} {word:<7} {:>12}  {note}",
            step.name(),
            sh::human(took)
        );
        println!("{}", line.trim_end());
    }
    for step in not_run {
        println!("{:<13} not run", step.name());
    }
    match failure {
        None => {
            println!("all steps passed in {}", sh::human(total));
            Ok(())
        }
        Some((step, error)) => {
            let name = step.name();
            Err(error.context(anyhow!(
                "step {name} failed; run it alone with `cargo xtask test --only {name}`"
            )))
        }
    }
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    fn is_third_party(self) -> bool {
        matches!(self, Self::Interop | Self::Conformance)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Fmt => "format",
            Self::Tidy => "contract numbers, comment widths, links",
            Self::Docs => "generated pages",
            Self::Api => "public API of the library",
            Self::Deny => "licences, bans and sources of dependencies",
            Self::Clippy => "clippy",
            Self::Features => "features of the library",
            Self::FuzzTargets => "fuzz targets",
            Self::Doc => "rustdoc",
            Self::Tests => "tests",
            Self::Doctests => "documentation examples",
            Self::Interop => "third-party MCP servers",
            Self::Conformance => "official conformance suite",
        }
    }

    fn run(self) -> Result<Option<String>> {
        match self {
            Self::Fmt => {
                build(sh::cargo(&["fmt", "--all", "--check"]))?;
                let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
                build(sh::cargo(&fuzz))
            }
            Self::Tidy => tidy::run().map(Some),
            Self::Docs => docs::run(&docs::Options::CHECK).map(|()| None),
            Self::Api => api::run(&docs::Options::CHECK).map(|()| None),
            Self::Deny => deny(),
            Self::Clippy => build(sh::cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ])),
            Self::Features => features::run().map(Some),
            Self::FuzzTargets => build(check_fuzz_targets()),
            Self::Doc => {
                let mut doc = sh::cargo(&["doc", "--workspace", "--no-deps"]);
                doc.env("RUSTDOCFLAGS", "-D warnings");
                build(doc)
            }
            Self::Tests => {
                let note = nextest(sh::cargo(&["nextest", "run", "--workspace"]))?;
                nextest(sh::cargo(&BARE_TEST))?;
                Ok(note)
            }
            Self::Doctests => build(sh::cargo(&["test", "--doc", "--workspace"])),
            Self::Interop => {
                let folder = interop::install()?;
                nextest(interop::tests(&folder))
            }
            Self::Conformance => conformance::run_noting(&conformance::Options::step()).map(Some),
        }
    }
}

fn build(mut command: Command) -> Result<Option<String>> {
    sh::run(&mut command, BUILD_LIMIT).map(|()| None)
}

/// Checks without linking, so libFuzzer (C++) need not be built: the path only has to be set.
fn check_fuzz_targets() -> Command {
    let mut check = sh::cargo(&[
        "clippy",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target-dir",
        "target/fuzz/check",
        "--",
        "-D",
        "warnings",
    ]);
    check.env("CUSTOM_LIBFUZZER_PATH", "/not-linked/libfuzzer.a");
    check
}

fn deny() -> Result<Option<String>> {
    tools::DENY.ensure()?;
    let check = ["deny", "check", "licenses", "bans", "sources"];
    sh::run(&mut sh::cargo(&check), Duration::from_mins(5)).map(|()| None)
}
