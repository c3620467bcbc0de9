//! The terminal interface on a terminal, against real servers (UI-4).

mod questions;
pub(crate) mod screen;
mod servers;
mod terminal;

use serde_json::{Value, json};

use crate::lab::Lab;

const ESC: &str = "\u{1b}";
const ENTER: &str = "\r";
const F5: &str = "\u{1b}[15~";

/// A server with a tool of each kind.
fn toolbox(lab: &Lab) -> Value {
    json!({
        "instructions": "Use it with care.",
        "tools": [
            {"name": "echo", "description": "Echoes its arguments", "inputSchema": {"type": "object",
                "properties": {"word": {"type": "string"}, "times": {"type": "integer"}}, "required": ["word"]}},
            {"name": "slow", "do": [{"progress": {"steps": 3, "everyMs": 1, "total": true, "message": "kneading"}},
                {"waitForFile": lab.at("go")}, {"replyText": "bread"}]},
            {"name": "crash", "do": [{"stderr": "out of flour"}, {"exit": 3}]},
        ],
        "resources": [{"uri": "note://one", "name": "One", "text": "the first note"}],
        "resourceTemplates": [{"uriTemplate": "note://{name}", "name": "Any"}],
        "prompts": [{"name": "greet", "arguments": [{"name": "who", "required": true}]}],
    })
}
