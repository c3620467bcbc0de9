//! The project's own jobs: `cargo xtask <job>`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a job talks to the developer's terminal"
)]

mod bench;
mod check;
mod conformance;
mod docs;
mod fuzz;
mod interop;
mod process_tree;
mod sh;
mod soak;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own jobs")]
struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Everything CI checks: format, generated pages, clippy, docs, tests, doctests, interop with foreign servers
    Test(check::Options),
    /// Install Node and the foreign MCP servers into target/interop, and run the tests against them
    Interop,
    /// Run the official conformance suite (installed into target/conformance) against our client; table on screen
    Conformance(conformance::Options),
    /// Measure against other clients in one interleaved run; table on screen and target/bench/results.json
    Bench(bench::Options),
    /// Connect and close 10,000 times over each transport; table of time, descriptors and memory on screen
    Soak(soak::Options),
    /// Run every fuzz target for a minute
    Fuzz(fuzz::Options),
    /// Write the parts of docs/ that come from the code; with --check, only see whether they are up to date
    Docs(docs::Options),
}

fn main() -> ExitCode {
    let done = match Args::parse().job {
        Job::Test(options) => check::run(&options),
        Job::Interop => interop::run(),
        Job::Conformance(options) => conformance::run(&options),
        Job::Bench(options) => bench::run(&options),
        Job::Soak(options) => soak::run(&options),
        Job::Fuzz(options) => fuzz::run(&options),
        Job::Docs(options) => docs::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Without anyhow's backtrace: what failed is a command, and its own output stands above.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
