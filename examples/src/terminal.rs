//! A user at a terminal: agrees to calls, and answers what servers ask.

use std::future::Future;
use std::io::{self, BufRead as _};
use std::pin::Pin;

use serde_json::{Map, Value, json};
use trunkline::Json;
use trunkline::elicit::Elicit;
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
    fn elicit(&self, server: &str, params: Json) -> Pin<Box<dyn Future<Output = Json> + Send>> {
        let server = server.to_owned();
        Box::pin(asking(move || {
            let message: String = params.field("message").unwrap_or_default();
            eprintln!("\n{} asks: {}", harmless(&server), harmless(&message));
            let content = match params.field::<String>("url") {
                Some(url) => visit(&url),
                None => fill_in(&params),
            };
            let answer = match content {
                Some(content) => json!({"action": "accept", "content": content}),
                None => json!({"action": "decline"}),
            };
            Json::from(answer)
        }))
    }
}

/// Has the user open a page.
fn visit(url: &str) -> Option<Value> {
    eprintln!("open {} in your browser", harmless(url));
    let done = answer("done? (yes or no) ")?;
    done.starts_with('y').then(|| json!({}))
}

/// Asks for one value after the other; nothing at all declines.
fn fill_in(params: &Json) -> Option<Value> {
    let schema: Value = params.field("requestedSchema")?;
    let mut content = Map::new();
    for (name, field) in schema["properties"].as_object()? {
        let said = answer(&format!("{}: ", harmless(name)))?;
        if said.is_empty() {
            continue;
        }
        let value = match field["type"].as_str() {
            Some("string") | None => Value::String(said),
            Some(_) => serde_json::from_str(&said).unwrap_or(Value::String(said)),
        };
        content.insert(name.clone(), value);
    }
    (!content.is_empty()).then_some(Value::Object(content))
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
