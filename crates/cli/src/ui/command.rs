//! The command line that does the same as the interface.

use serde_json::{Map, Value};

use super::msg::{Request, Subject};
use super::text::quoted;

/// Returns the command for a call, a read or a prompt. `program` is the program with its options.
pub(super) fn of_request(program: &str, request: &Request) -> String {
    let Request {
        server,
        subject,
        arguments,
    } = request;
    let (server, name) = (quoted(server), quoted(subject.name()));
    match subject {
        Subject::Tool(_) => {
            let words = words(arguments);
            format!("{program} call {server} {name}{words}")
        }
        Subject::Resource(_) => format!("{program} read {server} {name}"),
        Subject::Template(_) => format!("{program} read {server} {name}{}", words(arguments)),
        Subject::Prompt(_) => format!("{program} prompt {server} {name}{}", words(arguments)),
    }
}

/// Returns a command about one server.
pub(super) fn about(program: &str, command: &str, server: &str) -> String {
    format!("{program} {command} {}", quoted(server))
}

/// Formats arguments as words: `key=text`, `key:=json`, or all as JSON if a name forbids that.
fn words(arguments: &Map<String, Value>) -> String {
    let is_odd = |name: &String| {
        name.is_empty() || name.starts_with('-') || name.contains('=') || name.ends_with(':')
    };
    if arguments.keys().any(is_odd) {
        let json = Value::Object(arguments.clone()).to_string();
        return format!(" --json-args {}", quoted(&json));
    }
    let mut words = String::new();
    for (name, value) in arguments {
        let word = match value {
            Value::String(text) => format!("{name}={text}"),
            value => format!("{name}:={value}"),
        };
        words.push(' ');
        words.push_str(&quoted(&word));
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        for (subject, arguments, expected) in [
            (
                Subject::Tool("add".to_owned()),
                json!({"a": 1, "b": "x y", "c": {"d": ["it's"]}}),
                "trunkline call 's 1' add a:=1 'b=x y' 'c:={\"d\":[\"it'\\''s\"]}'",
            ),
            (
                Subject::Tool("add".to_owned()),
                json!({"-a": 1}),
                "trunkline call 's 1' add --json-args '{\"-a\":1}'",
            ),
            (
                Subject::Resource("file:///a b".to_owned()),
                json!({}),
                "trunkline read 's 1' 'file:///a b'",
            ),
            (
                Subject::Prompt("p".to_owned()),
                json!({"who": "Ada"}),
                "trunkline prompt 's 1' p who=Ada",
            ),
        ] {
            let request = Request {
                server: "s 1".to_owned(),
                subject,
                arguments: arguments.as_object().unwrap().clone(),
            };
            assert_eq!(of_request("trunkline", &request), expected);
        }
    }
}
