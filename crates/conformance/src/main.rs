//! The client that the official MCP conformance suite judges: `trunkline-conformance URL`.
//!
//! It does what any program with a [`Host`] does: connects, signs in where a server asks for that,
//! lists, calls tools, answers elicitation and shuts down. `cargo xtask conformance` runs it under
//! the suite, which sets the scenario in environment variables.
//!
//! Deliberately absent: code for particular scenarios. The suite names the tools to call; otherwise
//! all listed tools are called. It supplies the credentials too; otherwise a user signs in, whose
//! browser follows every redirect.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the suite records the output of its clients"
)]

mod browser;
mod elicit;
mod example;
mod plan;
mod sign_in;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trunkline::auth::{Auth, Grant};
use trunkline::config::TransportEntry;
use trunkline::context::{ReadOptions, ServerSkill};
use trunkline::server::State;
use trunkline::{CallError, CallOptions, Host, ServerEntry, Settings};
use trunkline_config::{HttpEntry, HttpFlavour};

use plan::Plan;
use sign_in::{Failure, SignIns};

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
    match play(&url, &plan).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::NoUsers(problem) | Failure::Other(problem)) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the plan with the grant of the context. Credentials of a client may be meant for a user's
/// sign-in or for the client itself: if the authorization server signs in no users, it is the
/// latter.
async fn play(url: &str, plan: &Plan) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let auth = sign_in::auth(folder.path())?;
    let deadline = Instant::now() + RUN_TIMEOUT;
    let grant = plan.auth.grant(&auth)?;
    match play_with(url, plan, auth.clone(), grant, deadline).await {
        Err(Failure::NoUsers(_)) if plan.auth.client_id.is_some() => {
            let grant = Grant::ClientCredentials { key: None };
            play_with(url, plan, auth, grant, deadline).await
        }
        outcome => outcome,
    }
}

async fn play_with(
    url: &str,
    plan: &Plan,
    auth: Auth,
    grant: Grant,
    deadline: Instant,
) -> Result<(), Failure> {
    let mut entry = HttpEntry::new(HttpFlavour::Streamable, url);
    entry.oauth.client_id.clone_from(&plan.auth.client_id);
    let context = plan.auth.clone();
    let host = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .settings(Settings::from_env())
        .elicit(elicit::AcceptAll)
        .auth_with(auth, move |_, config| context.configure(&grant, config))
        .server(ServerEntry::new(SERVER, TransportEntry::Http(entry)))
        .start();
    let outcome = tokio::time::timeout_at(deadline, run(&host, plan)).await;
    let outcome = outcome.unwrap_or_else(|_| Err(Failure::Other("timed out".to_owned())));
    let closed = tokio::time::timeout(SHUTDOWN_TIMEOUT, host.shutdown()).await;
    closed.map_err(|_| Failure::Other("the shutdown timed out".to_owned()))?;
    outcome
}

/// Connects and makes the calls in order. A call that is refused for want of a sign-in is repeated
/// after one.
async fn run(host: &Host, plan: &Plan) -> Result<(), Failure> {
    let mut sign_ins = SignIns::new(host);
    sign_ins.connect().await?;
    let status = host.server(SERVER);
    let status = status.ok_or_else(|| "the server is gone".to_owned())?;
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
            let text = format!("not connected, but {}{reason}", state.name());
            return Err(Failure::Other(text));
        }
    }
    let pool = host.pool();
    let tools: Vec<_> = pool.tools().iter().map(Arc::as_ref).collect();
    for call in plan.calls(&tools) {
        loop {
            // Some of the suite's arguments do not match its schemas.
            let options = CallOptions::new().unchecked(true);
            let called = host.call(&call.tool, call.arguments.clone(), options).await;
            match called {
                Ok(output) => println!("{}: {}", call.tool, output.text()),
                // A refusal is a valid response.
                Err(error) if error.is_server_error() => println!("{error}"),
                Err(error) if error.may_have_run() => return Err(error.to_string().into()),
                Err(error) => {
                    if sign_ins.sign_in().await? {
                        continue;
                    }
                    return Err(error.to_string().into());
                }
            }
            break;
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
