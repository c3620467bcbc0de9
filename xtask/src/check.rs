//! `cargo xtask test`: everything CI checks, cheapest first, stopping at the first step that fails.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::ValueEnum;

use crate::{conformance, docs, interop, sh, tools};

/// A cold build of the whole workspace on two cores stays well under this.
const BUILD_LIMIT: Duration = Duration::from_mins(30);

/// What `cargo xtask test` is asked to do.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Leave out the foreign servers and the conformance suite, which need a package registry the first time
    #[arg(long)]
    skip_interop: bool,
    /// Run this step only (may be given more than once)
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// rustfmt
    Fmt,
    /// The pages and the schema in docs/ that are made from the code
    Docs,
    /// clippy, all targets and features, warnings are errors
    Clippy,
    /// The fuzz targets, a workspace of their own, compile
    FuzzTargets,
    /// rustdoc, warnings are errors
    Doc,
    /// Licences, bans and sources of the dependencies
    Deny,
    /// All tests that need nothing foreign
    Tests,
    /// Documentation examples
    Doctests,
    /// The program against foreign MCP servers
    Interop,
    /// The official conformance suite, without what the baseline says does not pass
    Conformance,
}

/// How a step went; the note is a line worth repeating in the summary.
struct Outcome {
    step: Step,
    took: Duration,
    result: Result<Option<String>>,
}

/// Runs the steps and prints the summary.
pub(crate) fn run(options: &Options) -> Result<()> {
    let steps: Vec<Step> = Step::value_variants()
        .iter()
        .copied()
        .filter(|step| options.only.is_empty() || options.only.contains(step))
        .filter(|step| !(options.skip_interop && step.is_foreign()))
        .collect();

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
    summarise(&steps, outcomes)
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
            println!("everything passed in {}", sh::human(total));
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

    fn is_foreign(self) -> bool {
        matches!(self, Self::Interop | Self::Conformance)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Fmt => "format",
            Self::Docs => "generated pages are up to date",
            Self::Clippy => "clippy",
            Self::FuzzTargets => "fuzz targets compile",
            Self::Doc => "documentation",
            Self::Deny => "licences, bans and sources of dependencies",
            Self::Tests => "tests",
            Self::Doctests => "documentation examples",
            Self::Interop => "foreign MCP servers",
            Self::Conformance => "the official conformance suite",
        }
    }

    fn run(self) -> Result<Option<String>> {
        match self {
            Self::Fmt => {
                build(sh::cargo(&["fmt", "--all", "--check"]))?;
                let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
                build(sh::cargo(&fuzz))
            }
            Self::Docs => docs::run(&docs::Options::CHECK).map(|()| None),
            Self::Clippy => build(sh::cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ])),
            Self::FuzzTargets => build(check_fuzz_targets()),
            Self::Doc => {
                let mut doc = sh::cargo(&["doc", "--workspace", "--no-deps"]);
                doc.env("RUSTDOCFLAGS", "-D warnings");
                build(doc)
            }
            Self::Deny => deny(),
            Self::Tests => nextest(sh::cargo(&["nextest", "run", "--workspace"])),
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

/// Runs nextest and notes its closing line.
pub(crate) fn nextest(mut command: Command) -> Result<Option<String>> {
    tools::NEXTEST.ensure()?;
    let lines = sh::Lines {
        noted: "tests run:",
        hidden: &[],
    };
    sh::run_noting(&mut command, BUILD_LIMIT, lines)
}

/// Checks without linking, so libFuzzer itself (C++) need not be built: the path only has to be set.
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
