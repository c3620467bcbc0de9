//! A user at a terminal: agrees to calls, and answers what servers ask.

use std::future::Future;
use std::io::{self, BufRead as _};
use std::pin::Pin;

use serde_json::{Map, Value};
use trunkline::elicit::{Ask, Elicit, ElicitAnswer, Elicitation, Form};
use trunkline::permission::{AskReason, PermissionAnswer, PermissionQuestion, Permit};
use trunkline::text::harmless;

/// Asks on standard error, reads from standard input.
#[derive(Clone, Copy)]
pub struct Terminal;

impl Permit for Terminal {
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>> {
        Box::pin(asking(move || {
            eprintln!(
                "\ncall {} with {}",
                question.tool.name(),
                harmless(question.arguments.as_str())
            );
            if let AskReason::Changed(change) = &question.reason {
                eprintln!(
                    "{}\n{}",
                    harmless(&change.to_string()),
                    lines(&change.diff())
                );
            }
            match answer("yes, always or no? ").as_deref() {
                Some("y" | "yes") => PermissionAnswer::Once,
                Some("a" | "always") => PermissionAnswer::Always,
                _ => PermissionAnswer::No("the user said no".to_owned()),
            }
        }))
    }
}

impl Elicit for Terminal {
    fn elicit(
        &self,
        elicitation: Elicitation,
    ) -> Pin<Box<dyn Future<Output = ElicitAnswer> + Send>> {
        Box::pin(asking(move || {
            eprintln!(
                "\n{} asks: {}",
                harmless(&elicitation.server),
                harmless(&elicitation.message)
            );
            let content = match &elicitation.ask {
                Ask::Url(url) => visit(url),
                Ask::Form(form) => fill_in(form),
                _ => None,
            };
            content.map_or(ElicitAnswer::Decline, ElicitAnswer::Accept)
        }))
    }
}

/// Asks the user to open a page.
fn visit(url: &str) -> Option<Map<String, Value>> {
    eprintln!("open {} in your browser", harmless(url));
    let done = answer("done? (yes or no) ")?;
    done.starts_with('y').then(Map::new)
}

/// Asks for one value after another; no value at all declines.
fn fill_in(form: &Form) -> Option<Map<String, Value>> {
    let mut content = Map::new();
    for field in &form.fields {
        loop {
            let typed = answer(&format!("{}: ", harmless(field.label())))?;
            match field.parse(&typed) {
                Ok(value) => {
                    content.extend(value.map(|value| (field.name.clone(), value)));
                    break;
                }
                Err(problem) => eprintln!("{}", harmless(&problem.to_string())),
            }
        }
    }
    (!content.is_empty()).then_some(content)
}

fn answer(question: &str) -> Option<String> {
    eprint!("{question}");
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim().to_owned())
}

fn lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(harmless).collect();
    lines.join("\n")
}

/// Waiting for a person is no work for the tasks that serve the others.
async fn asking<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(ask).await {
        Ok(answer) => answer,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
