//! The client that the official MCP conformance suite judges: `trunkline-conformance URL`.
//!
//! It does what any program with a [`Host`] does: connects, lists, calls tools, answers what the server asks, shuts down.
//! `cargo xtask conformance` runs it under the suite, which tells by environment variables which scenario it plays.
//!
//! Deliberately absent: anything about a particular scenario. Which tools to call comes from the suite where it says so, and
//! otherwise it is all that are listed.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the suite keeps what its clients say"
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

/// What the server is called here.
const SERVER: &str = "suite";

/// How long connecting and calling may take. The suite gives up after 30 s, and ends only the shell around us.
const PLAY: Duration = Duration::from_secs(20);

/// How long taking leave may take, on top of that.
const LEAVE: Duration = Duration::from_secs(5);

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
    let entry = HttpEntry::at(HttpFlavour::Streamable, url);
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .settings(Settings::from_env())
        .elicit(elicit::Agreeable)
        .server(ServerEntry::new(SERVER, TransportEntry::Http(entry)))
        .start();
    let played = tokio::time::timeout(PLAY, play(&host, &plan)).await;
    let played = played.unwrap_or_else(|_| Err("it took too long".to_owned()));
    if tokio::time::timeout(LEAVE, host.shutdown()).await.is_err() {
        eprintln!("the connection did not end in time");
        return ExitCode::FAILURE;
    }
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for the connection and makes the calls, one after the other.
async fn play(host: &Host, plan: &Plan) -> Result<(), String> {
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
        // The suite decides about its arguments; some do not fit its schemas, on purpose or not.
        let options = CallOptions::new().unchecked(true);
        match host.call(&call.tool, call.arguments, options).await {
            Ok(output) => println!("{}: {}", call.tool, output.text()),
            // That is an answer, too: the server is free to refuse.
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
                // To turn down what is not as it was listed is what a host is for.
                Err(error) => println!("{error}"),
            }
        }
    }
    Ok(())
}

/// Loads a skill and reads all files that belong to it; gives their number.
async fn use_skill(host: &Host, skill: &ServerSkill) -> Result<usize, CallError> {
    host.load_skill(skill, ReadOptions::new()).await?;
    let files = skill.skill.files.as_deref().unwrap_or_default();
    for file in files {
        let options = ReadOptions::new();
        host.read_skill_file(skill, &file.uri, options).await?;
    }
    Ok(files.len())
}
