//! Asks the user before calls, keeps "always" answers as rules, and fills in servers' forms.
//!
//! ```text
//! permissions rules.json mcp__local__deploy '{}' my-server --stdio
//! ```
//! Answers come from standard input: `once`, `always` or anything else for no, then one line for
//! each field of a form.
#![allow(clippy::print_stdout, reason = "this program talks to its user")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};
use trunkline::elicit::{Ask, ElicitAnswer, Elicitation, Form};
use trunkline::permission::{AskReason, PermissionAnswer, PermissionQuestion, Rules};
use trunkline::text::harmless;
use trunkline::{CallOptions, Host, ServerEntry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = PathBuf::from(arguments.next().ok_or("no file for rules given")?);
    let tool = arguments.next().ok_or("no tool given")?;
    let input: Value = serde_json::from_str(&arguments.next().ok_or("no arguments given")?)?;
    let command = arguments.next().ok_or("no command given")?;

    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    let rules: Rules = serde_json::from_str(&stored).unwrap_or_default();
    let kept = Arc::new(Mutex::new(rules.clone()));
    let host = Host::builder()
        .server(ServerEntry::stdio("local", command, arguments))
        .rules(rules)
        .permit(move |question: PermissionQuestion| {
            let (file, kept) = (file.clone(), Arc::clone(&kept));
            blocking(move || decide(&question, &file, &kept))
        })
        .elicit(|elicitation: Elicitation| blocking(move || answer(&elicitation)))
        .start();
    // The client's name comes back with every question about this call.
    let options = CallOptions::new().client("terminal");
    match host.call(&tool, input, options).await {
        Ok(output) => println!("{}", output.text()),
        Err(error) => println!("error: {error}"),
    }
    host.shutdown().await;
    Ok(())
}

/// Asks the user about a call. "always" is stored, so that the next run does not ask.
fn decide(question: &PermissionQuestion, file: &Path, kept: &Mutex<Rules>) -> PermissionAnswer {
    let arguments = harmless(question.arguments.as_str());
    println!("call {} with {arguments}?", question.tool.name());
    match &question.reason {
        AskReason::Destructive(_) => println!("it may destroy something"),
        AskReason::Changed(change) => println!("it has changed: {}", harmless(&change.diff())),
        _ => {}
    }
    match read_line().as_deref() {
        Some("once") => PermissionAnswer::Once,
        Some("always") => {
            if let Some(rule) = question.always_rule()
                && let Ok(mut rules) = kept.lock()
            {
                *rules = rules.clone().allow(rule);
                let json = serde_json::to_string(&*rules).unwrap_or_default();
                if let Err(error) = std::fs::write(file, json) {
                    println!("the rule is not stored: {error}");
                }
            }
            PermissionAnswer::Always
        }
        _ => PermissionAnswer::No("the user refused".to_owned()),
    }
}

/// Answers a server's request for input.
fn answer(elicitation: &Elicitation) -> ElicitAnswer {
    let call = elicitation.call.as_deref().unwrap_or("no call");
    let client = elicitation.client.as_deref().unwrap_or("nobody");
    println!("{} asks {client} ({call})", elicitation.server);
    println!("{}", harmless(&elicitation.message));
    let values = match &elicitation.ask {
        Ask::Form(form) => fill_in(form),
        Ask::Url(url) => {
            println!("open {} and press enter", harmless(url));
            read_line().map(|_| Map::new())
        }
        _ => None,
    };
    values.map_or(ElicitAnswer::Cancel, ElicitAnswer::Accept)
}

/// Reads a value for each field; an empty line takes the default. `None` at the end of the input.
fn fill_in(form: &Form) -> Option<Map<String, Value>> {
    let mut values = Map::new();
    for field in &form.fields {
        loop {
            println!("{}:", harmless(field.label()));
            match field.parse(&read_line()?) {
                Ok(value) => {
                    values.extend(value.map(|value| (field.name.clone(), value)));
                    break;
                }
                Err(problem) => println!("{}", harmless(&problem.to_string())),
            }
        }
    }
    form.check(&values).ok()
}

fn read_line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

/// Runs work that waits for the user away from the host's tasks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
