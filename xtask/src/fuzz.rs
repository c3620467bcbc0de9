//! `cargo xtask fuzz`: runs every target in `fuzz/` on the stable toolchain.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{sh, tools};

/// The targets: one file each in `fuzz/fuzz_targets`, with seeds in `fuzz/seeds`.
const TARGETS: [&str; 17] = [
    "config",
    "control",
    "document",
    "envelope",
    "events",
    "expand",
    "gateway",
    "gzip",
    "http1",
    "import",
    "lines",
    "policy",
    "results",
    "sanitize",
    "splice",
    "tree",
    "websocket",
];

/// The maximum input length. Longer inputs are slow and find nothing new.
const MAX_LENGTH: u32 = 4096;

/// The time limit for a build with the sanitizer, on a busy machine.
const BUILD_LIMIT: Duration = Duration::from_hours(1);

/// libFuzzer prints the count at the end, after a long dictionary.
const LINES: sh::Lines = sh::Lines {
    noted: "stat::number_of_executed_units:",
    hidden: &["\" # Uses: ", "ecommended dictionary. ######"],
};

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The time per target, in seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Run only this target (repeatable)
    #[arg(long, value_name = "TARGET", value_parser = TARGETS)]
    only: Vec<String>,
}

/// Builds and runs the targets, up to the first finding.
pub(crate) fn run(options: &Options) -> Result<()> {
    tools::FUZZ.ensure()?;
    let mut closing = Vec::new();
    for target in TARGETS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == target) {
            continue;
        }
        println!("\n── fuzz target {target}");
        let inputs = fuzz(target, options.seconds).with_context(|| {
            format!("fuzz target {target}: see the input above, and fuzz/artifacts/{target}")
        })?;
        closing.push(format!("{target}: {inputs} inputs, no finding"));
    }
    println!("\n── summary\n{}", closing.join("\n"));
    Ok(())
}

/// Runs a target and returns the number of inputs.
fn fuzz(target: &str, seconds: u64) -> Result<String> {
    let corpus = format!("target/fuzz/corpus/{target}");
    let seeds = format!("fuzz/seeds/{target}");
    fs::create_dir_all(sh::root().join(&corpus))
        .with_context(|| format!("could not create {corpus}"))?;
    sh::run(&mut cargo_fuzz("build", target), BUILD_LIMIT)?;

    let mut run = cargo_fuzz("run", target);
    run.args([&corpus, &seeds]).arg("--").args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={MAX_LENGTH}"),
        "-dict=fuzz/json.dict".to_owned(),
        "-timeout=10".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    let limit = Duration::from_secs(seconds) + Duration::from_mins(5);
    let stat = sh::run_noting(&mut run, limit, LINES)?;
    Ok(stat
        .and_then(|line| line.split_whitespace().last().map(str::to_owned))
        .unwrap_or_else(|| "an unknown number of".to_owned()))
}

/// Returns a `cargo fuzz` command. Sanitizers need unstable flags on the stable toolchain.
fn cargo_fuzz(job: &str, target: &str) -> Command {
    let mut command = sh::cargo(&["fuzz", job]);
    command
        .arg("--target-dir")
        .arg(Path::new("target/fuzz/build"))
        .arg(target)
        .env("RUSTC_BOOTSTRAP", "1");
    command
}
