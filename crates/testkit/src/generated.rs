//! Generated tools, for lists of realistic size.

use std::fmt::Write;

const VERBS: [&str; 8] = [
    "list", "get", "create", "update", "delete", "search", "export", "compare",
];
const NOUNS: [&str; 7] = [
    "issue",
    "invoice",
    "deployment",
    "calendar event",
    "customer",
    "repository",
    "dashboard",
];

/// The name of the `index`th generated tool.
pub fn name(index: usize) -> String {
    format!("gen_{index}")
}

/// Appends the JSON of the `index`th generated tool, some 450 bytes, to `out`.
pub fn write_tool(index: usize, out: &mut String) {
    let verb = VERBS[index % VERBS.len()];
    let noun = NOUNS[index / VERBS.len() % NOUNS.len()];
    write!(
        out,
        r#"{{"name":"gen_{index}","description":"Use this to {verb} one {noun} or several in the workspace. Returns the matching records with their fields, newest first.","inputSchema":{{"type":"object","properties":{{"query":{{"type":"string","description":"Which {noun} to {verb}"}},"limit":{{"type":"integer","minimum":1,"maximum":100}},"verbose":{{"type":"boolean","default":false}}}},"required":["query"]}},"annotations":{{"readOnlyHint":true}}}}"#
    )
    .expect("writing to a string cannot fail");
}

/// The JSON of the `index`th generated tool.
pub fn tool(index: usize) -> String {
    let mut out = String::with_capacity(512);
    write_tool(index, &mut out);
    out
}
