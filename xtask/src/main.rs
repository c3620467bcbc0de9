//! Development tasks: `cargo xtask <task>`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task writes to the developer's terminal"
)]

mod api;
mod bench;
mod conformance;
mod docs;
mod features;
mod fuzz;
mod hook;
mod interop;
mod pictures;
mod process_tree;
mod reproducible;
mod sbom;
mod sh;
mod soak;
mod steps;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the checks to pass before a commit: format, links, generated pages, licences, clippy
    Check,
    /// Run everything that CI runs: the checks, all tests, third-party servers, conformance
    Test(steps::Options),
    /// Install the git hooks in xtask/hooks: check before a commit
    Hook(hook::Options),
    /// Test against third-party MCP servers, installed into target/interop
    Interop,
    /// Run the official conformance suite, installed into target/conformance
    Conformance(conformance::Options),
    /// Benchmark against other clients in one interleaved run
    Bench(bench::Options),
    /// Connect and close 10,000 times over each transport, and check for leaks
    Soak(soak::Options),
    /// Run every fuzz target for a minute
    Fuzz(fuzz::Options),
    /// Generate the parts of docs/ that come from the code
    Docs(docs::Options),
    /// Write the public API of the library to docs/api.txt
    Api(docs::Options),
    /// Write the software bill of materials of the program, as `CycloneDX` JSON
    Sbom(sbom::Options),
    /// Build the distributed program twice and compare the results
    Reproducible(reproducible::Options),
    /// Draw the screens of the program that the README shows
    Pictures(pictures::Options),
}

fn main() -> ExitCode {
    if let Some(code) = api::as_rustdoc() {
        return code;
    }
    let result = match Args::parse().task {
        Task::Check => steps::check(),
        Task::Test(options) => steps::test(&options),
        Task::Hook(options) => hook::run(&options),
        Task::Interop => interop::run(),
        Task::Conformance(options) => conformance::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Docs(options) => docs::run(&options),
        Task::Api(options) => api::run(&options),
        Task::Sbom(options) => sbom::run(&options),
        Task::Reproducible(options) => reproducible::run(&options),
        Task::Pictures(options) => pictures::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Without anyhow's backtrace: a command failed, and its output stands above.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
