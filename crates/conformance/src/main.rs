//! The client that the official MCP conformance suite judges: `trunkline-conformance URL`.
//!
//! It does what any program with a [`Host`] does: connects, lists, calls tools, answers elicitation
//! and shuts down. `cargo xtask conformance` runs it under the suite, which sets the scenario in
//! environment variables.
//!
//! Deliberately absent: code for particular scenarios. The suite names the tools to call; otherwise
//! all listed tools are called.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the suite records the output of its clients"
)]

mod elicit;
mod example;
mod plan;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use trunkline::config::TransportEntry;
use trunkline::context::{ReadOptions, ServerSkill};
use trunkline::server::State;
use trunkline::{CallError, CallOptions, Host, ServerEntry, Settings};
use trunkline_config::{HttpEntry, HttpFlavour};

use plan::Plan;

/// The name of the suite's server.
const SERVER: &str = "suite";

/// The time limit for connecting and calling. The suite gives up after 30 s and kills only our
/// shell.
const RUN_TIMEOUT: Duration = Duration::from_secs(20);

/// The additional time limit for the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The code of a bad command line (`EX_USAGE`).
const USAGE: u8 = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().skip(1).last() else {
        eprintln!("usage: trunkline-conformance URL");
        return ExitCode::from(USAGE);
    };
    let plan = match Plan::from_env() {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(USAGE);
        }
    };
    let entry = HttpEntry::new(HttpFlavour::Streamable, url);
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .settings(Settings::from_env())
        .elicit(elicit::AcceptAll)
        .server(ServerEntry::new(SERVER, TransportEntry::Http(entry)))
        .start();
    let outcome = tokio::time::timeout(RUN_TIMEOUT, run(&host, &plan)).await;
    let outcome = outcome.unwrap_or_else(|_| Err("timed out".to_owned()));
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, host.shutdown())
        .await
        .is_err()
    {
        eprintln!("the shutdown timed out");
        return ExitCode::FAILURE;
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for the connection and makes the calls in order.
async fn run(host: &Host, plan: &Plan) -> Result<(), String> {
    host.ready().await;
    let status = host.server(SERVER).ok_or("the server is gone")?;
    match &status.state {
        State::Connected(connected) => {
            let identity = connected.identity();
            println!(
                "connected: {} era, {}",
                connected.era(),
                identity.protocol_version
            );
        }
        state => {
            let reason = state.failure().map(|failure| format!(": {failure}"));
            let reason = reason.unwrap_or_default();
            return Err(format!("not connected, but {}{reason}", state.name()));
        }
    }
    let pool = host.pool();
    let tools: Vec<_> = pool.tools().iter().map(Arc::as_ref).collect();
    for call in plan.calls(&tools) {
        // Some of the suite's arguments do not match its schemas.
        let options = CallOptions::new().unchecked(true);
        match host.call(&call.tool, call.arguments, options).await {
            Ok(output) => println!("{}: {}", call.tool, output.text()),
            // A refusal is a valid response.
            Err(error) if error.is_server_error() => println!("{error}"),
            Err(error) => return Err(error.to_string()),
        }
    }
    let skills = host.skills().await;
    for problem in &skills.problems {
        println!("{problem}");
    }
    for skill in &skills.skills {
        println!("skill: {}", skill.skill.name);
        if plan.uses_skills {
            match use_skill(host, skill).await {
                Ok(files) => println!("used, with {files} files"),
                // Rejecting a skill that differs from its listing is correct.
                Err(error) => println!("{error}"),
            }
        }
    }
    Ok(())
}

/// Loads a skill with all its files, and returns their number.
async fn use_skill(host: &Host, skill: &ServerSkill) -> Result<usize, CallError> {
    host.load_skill(skill, ReadOptions::new()).await?;
    let files = skill.skill.files.as_deref().unwrap_or_default();
    for file in files {
        let options = ReadOptions::new();
        host.read_skill_file(skill, &file.uri, options).await?;
    }
    Ok(files.len())
}
