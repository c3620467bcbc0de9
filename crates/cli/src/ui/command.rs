//! The command line that does the same as the interface.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::msg::{Request, Subject};
use crate::arguments::to_word;
use crate::standing::quoted;

/// Returns the command for a call, a read or a prompt; `None` if none can name it safely.
/// `program` is the program with its options.
pub(super) fn of_request(program: &str, request: &Request) -> Option<String> {
    let Request {
        server, subject, ..
    } = request;
    let (server, name) = (word(server)?, word(subject.name())?);
    let arguments = request.shown_arguments();
    let (command, words) = match subject {
        Subject::Tool(_) => ("call", call_words(&arguments)),
        Subject::Resource(_) => ("read", String::new()),
        Subject::Template(_) => ("read", plain_words(&arguments)?),
        Subject::Prompt(_) => ("prompt", plain_words(&arguments)?),
    };
    Some(format!("{program} {command} {server} {name}{words}"))
}

/// Returns a command about one server.
pub(super) fn about(program: &str, command: &str, server: &str) -> Option<String> {
    Some(format!("{program} {command} {}", word(server)?))
}

/// Formats a command for the end of a notice.
pub(super) fn equal(command: Option<String>) -> String {
    command.map_or_else(String::new, |command| format!("   = {command}"))
}

/// Returns a command about something that a server offers.
pub(super) fn about_item(
    program: &str,
    command: &str,
    server: &str,
    item: Option<&str>,
) -> Option<String> {
    let command = about(program, command, server)?;
    match item {
        Some(item) => Some(format!("{command} {}", word(item)?)),
        None => Some(command),
    }
}

/// Quotes a foreign name as one word. `None` if the name would be read as an option, or would
/// steer the terminal that the command is pasted into.
pub(super) fn word(name: &str) -> Option<String> {
    let steers = |c: char| c.is_control() || trunkline::text::is_harmful(c);
    let is_safe = !name.starts_with('-') && !name.chars().any(steers);
    is_safe.then(|| quoted(name))
}

/// Formats the arguments of a call.
fn call_words(arguments: &Map<String, Value>) -> String {
    let words = arguments
        .iter()
        .map(|(key, value)| format!(" {}", to_word(key, value)));
    words.collect()
}

/// Formats arguments that are always text: `key=value`, where `@` and `:` mean nothing.
fn plain_words(arguments: &Map<String, Value>) -> Option<String> {
    let mut words = String::new();
    for (key, value) in arguments {
        if key.is_empty() || key.contains('=') {
            return None;
        }
        let text = match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        // Behind its key, the text is no option.
        word(&format!("{key}={text}"))?;
        let value = if text.is_empty() { text } else { quoted(&text) };
        let _ = write!(words, " {}={value}", quoted(key));
    }
    Some(words)
}

impl Request {
    /// Returns the arguments with secrets replaced by `…`.
    pub(super) fn shown_arguments(&self) -> Map<String, Value> {
        let mut shown = self.arguments.clone();
        for name in &self.secrets {
            if let Some(value) = shown.get_mut(name) {
                *value = json!("…");
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let tool = || Subject::Tool("add".to_owned());
        for (subject, arguments, expected) in [
            (
                tool(),
                json!({"a": 1, "b": "x y", "c": {"d": ["it's"]}}),
                Some("trunkline call 's 1' add a:=1 b='x y' c:='{\"d\":[\"it'\\''s\"]}'"),
            ),
            (
                tool(),
                json!({"-a": 1}),
                Some("trunkline call 's 1' add '{\"-a\":1}'"),
            ),
            // A text that begins with `@` is no file.
            (
                tool(),
                json!({"a": "@/etc/passwd"}),
                Some("trunkline call 's 1' add a:='\"@/etc/passwd\"'"),
            ),
            (
                tool(),
                json!({"a": "x\u{1b}[201~\ny"}),
                Some("trunkline call 's 1' add a:='\"x\\u001b[201~\\ny\"'"),
            ),
            (
                tool(),
                json!({"a": 1, "key": "hunter2"}),
                Some("trunkline call 's 1' add a:=1 key='…'"),
            ),
            (Subject::Tool("--config=x".to_owned()), json!({}), None),
            (Subject::Prompt("-p".to_owned()), json!({}), None),
            (Subject::Resource("x:\u{1b}[2J".to_owned()), json!({}), None),
            (
                Subject::Resource("file:///a b".to_owned()),
                json!({}),
                Some("trunkline read 's 1' 'file:///a b'"),
            ),
            (
                Subject::Prompt("p".to_owned()),
                json!({"who": "@Ada"}),
                Some("trunkline prompt 's 1' p who=@Ada"),
            ),
            (
                Subject::Prompt("p".to_owned()),
                json!({"--who": "Ada"}),
                None,
            ),
        ] {
            let request = Request {
                server: "s 1".to_owned(),
                subject,
                arguments: arguments.as_object().unwrap().clone(),
                secrets: vec!["key".to_owned()],
            };
            assert_eq!(of_request("trunkline", &request).as_deref(), expected);
        }
        assert_eq!(about("trunkline", "get", "-s"), None);
    }
}
