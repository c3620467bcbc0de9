//! `cargo xtask soak`: connects and closes thousands of times over each transport, and checks for
//! leaks.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::sh;

/// The tests in `crates/host/tests/matrix/cycles.rs`.
const TRANSPORTS: [&str; 8] = [
    "stdio",
    "http_legacy",
    "http_modern",
    "sse",
    "ws",
    "sdk",
    "in_process",
    "claudeai_proxy",
];

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The number of connections per transport
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    cycles: usize,
    /// Test only this transport (repeatable)
    #[arg(long, value_name = "TRANSPORT", value_parser = TRANSPORTS)]
    only: Vec<String>,
    /// Instead: crashes, floods, cut connections, reloads and refreshes at random, for --minutes
    #[arg(long, conflicts_with_all = ["cycles", "only"])]
    faults: bool,
    /// How long faults last
    #[arg(long, value_name = "N", default_value_t = 120, requires = "faults")]
    minutes: u64,
}

/// Runs each transport in its own process and prints a table. Fails on a leak.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.faults {
        return faults(options.minutes);
    }
    if options.cycles < 100 {
        bail!("at least 100 cycles are needed");
    }
    let build = ["test", "--release", "-p", "trunkline", "--test", "matrix"];
    let mut building = sh::cargo(&build);
    sh::run(building.arg("--no-run"), Duration::from_mins(30))?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for transport in TRANSPORTS {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == transport) {
            continue;
        }
        println!("{transport} …");
        let mut command = sh::cargo(&build);
        command
            .args(["--quiet", "--", "--exact", "--nocapture"])
            .arg(format!("cycles::{transport}"))
            .env("TRUNKLINE_SOAK_CYCLES", options.cycles.to_string());
        match row(&mut command)? {
            Some(row) => rows.push(row),
            None => failed.push(transport),
        }
    }
    println!(
        "\ntransport        cycles  seconds  fds then/now   RSS at a tenth / at the end (MiB)"
    );
    for row in rows {
        println!("{row}");
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("leaked or failed: {}", failed.join(", "))
}

/// Runs the test of faults, and prints what it measured between them. Fails on a leak.
fn faults(minutes: u64) -> Result<()> {
    let test = ["test", "--release", "-p", "trunkline", "--test", "matrix"];
    let mut command = sh::cargo(&test);
    command
        .args(["--quiet", "--", "--exact", "--nocapture"])
        .arg("faults::faults_of_all_kinds_leave_nothing_behind")
        .env("TRUNKLINE_SOAK_MINUTES", minutes.to_string());
    println!("{minutes} minutes of faults …");
    let output = command.output().context("could not run cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    println!("\npart     calls    failed  changes  RSS (MiB)  descriptors  tasks  processes");
    for line in said.lines() {
        if let Some((_, line)) = line.split_once("soak-faults ") {
            println!("{}", fault_row(line)?);
        }
    }
    if output.status.success() {
        return Ok(());
    }
    bail!(
        "leaked or failed:\n{said}{}",
        String::from_utf8_lossy(&output.stderr)
    )
}

fn fault_row(line: &str) -> Result<String> {
    let fields: Vec<&str> = line.split(' ').collect();
    let &[part, calls, failed, changes, held, open, tasks, processes] = fields.as_slice() else {
        return Ok(line.to_owned());
    };
    let held = mebibytes(held)?;
    Ok(format!(
        "{part:>4} {calls:>9} {failed:>9} {changes:>8} {held:>10.1} {open:>12} {tasks:>6} {processes:>10}"
    ))
}

/// Formats the figures that a test prints as a row; `None` if it failed.
fn row(command: &mut Command) -> Result<Option<String>> {
    let output = command.output().context("could not run cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said
        .lines()
        .find_map(|line| line.split_once("soak "))
        .map(|(_, line)| line);
    if !output.status.success() {
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        return Ok(None);
    }
    let fields: Vec<&str> = line
        .context("the test printed no figures")?
        .split(' ')
        .collect();
    let &[name, cycles, seconds, open, open_now, held, held_now] = fields.as_slice() else {
        bail!("unexpected figures: {fields:?}");
    };
    let (held, held_now) = (mebibytes(held)?, mebibytes(held_now)?);
    Ok(Some(format!(
        "{name:16} {cycles:>6} {seconds:>8} {open:>6}/{open_now:<6} {held:>8.1} / {held_now:.1}"
    )))
}

fn mebibytes(bytes: &str) -> Result<f64> {
    let kibibytes: u32 = u32::try_from(bytes.parse::<u64>()? / 1024)?;
    Ok(f64::from(kibibytes) / 1024.0)
}
