//! Starts a stdio server, calls one of its tools, and handles every kind of error.
//!
//! ```text
//! stdio-errors search '{"query": "rust"}' my-server --stdio
//! ```
#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

use std::time::Duration;

use serde_json::Value;
use trunkline::call::CallErrorKind;
use trunkline::permission::Rules;
use trunkline::{CallError, CallOptions, CallOutput, Host, ServerEntry};

/// The number of times that a call is repeated, if repeating it is safe.
const RETRIES: usize = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let tool = arguments.next().ok_or("no tool given")?;
    let input: Value = serde_json::from_str(&arguments.next().ok_or("no arguments given")?)?;
    let command = arguments.next().ok_or("no command given")?;

    let host = Host::builder()
        .server(ServerEntry::stdio("local", command, arguments))
        .rules(
            Rules::default()
                .allow("mcp__local")
                .deny("mcp__local__delete*"),
        )
        .start();
    match call(&host, &format!("mcp__local__{tool}"), &input).await {
        // The tool ran and reports a failure of its own: a result, which a model may act on.
        Ok(output) if output.is_error => println!("the tool failed: {}", output.text()),
        Ok(output) => println!("{}", output.text()),
        Err(error) => report(&error),
    }
    // Returns when the server's process is gone.
    host.shutdown().await;
    Ok(())
}

/// Calls a tool, and again where the first call cannot have run.
async fn call(host: &Host, name: &str, input: &Value) -> Result<CallOutput, CallError> {
    let mut retries = RETRIES;
    loop {
        let options = CallOptions::new()
            .timeout(Duration::from_secs(2))
            .on_progress(|step| println!("{} done", step.progress));
        match host.call(name, input.clone(), options).await {
            Err(error) if error.is_retryable() && retries > 0 => retries -= 1,
            outcome => return outcome,
        }
    }
}

/// Explains an error. The message is complete; the kind tells what the program can do about it.
fn report(error: &CallError) {
    let remedy = match error.kind() {
        CallErrorKind::UnknownTool => "offer the model the tools of `host.pool()`",
        CallErrorKind::UnknownServer | CallErrorKind::UnknownPrompt => "check the name",
        CallErrorKind::InvalidArguments => "let the model correct the arguments",
        CallErrorKind::Refused => "a rule, a pin, policy or the user is against it",
        CallErrorKind::NotApproved => "show the entry to the user and approve it",
        CallErrorKind::Disabled => "enable the server",
        CallErrorKind::NotConnected => "start again when the server can be reached",
        CallErrorKind::AuthRequired => "have the user sign in",
        CallErrorKind::Credentials => "check the credentials in the entry",
        CallErrorKind::Unsupported => "the server has no such feature",
        CallErrorKind::ServerError => "let the model read the server's message",
        CallErrorKind::HttpStatus => "check the URL and the permissions of the account",
        CallErrorKind::ConnectionLost => "the server reconnects by itself",
        CallErrorKind::Timeout => "give the call more time",
        CallErrorKind::InvalidResponse => "report a bug of the server",
        CallErrorKind::Unverified => "do not use this skill",
        CallErrorKind::Cancelled => "nothing: the program cancelled it",
        CallErrorKind::ShutDown => "nothing: the program ends",
        // Kinds may be added.
        _ => "read the message",
    };
    println!("error: {error}");
    println!("remedy: {remedy}");
    if let Some(hint) = error.hint() {
        println!("hint: {hint}");
    }
    if error.may_have_run() {
        println!("the tool may have run: do not repeat the call without asking");
    }
    // A server that cannot start often says why on stderr. The text is untrusted.
    for line in error.stderr() {
        println!("stderr: {}", trunkline::text::harmless(line));
    }
}
