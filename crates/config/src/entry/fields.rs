//! The fields of an entry, described once: the reference page and the JSON Schema are made from this.

use serde_json::{Map, Value, json};

/// One field of an entry.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The `type`s of server that have it; none is all of them.
    pub servers: &'static [&'static str],
    /// Its JSON Schema, as text.
    schema: &'static str,
    /// What it is for.
    pub doc: &'static str,
}

const STDIO: &[&str] = &["stdio"];
const REMOTE: &[&str] = &["http", "sse", "ws"];
const URL: &[&str] = &["http", "sse", "ws", "sse-ide", "ws-ide", "claudeai-proxy"];
const HTTP: &[&str] = &["http", "sse"];
const TLS: &[&str] = &["http", "sse", "ws"];
const IDE: &[&str] = &["sse-ide", "ws-ide"];
const ALL: &[&str] = &[];

const TEXT: &str = r#"{"type":"string"}"#;
const TEXTS: &str = r#"{"type":"array","items":{"type":"string"}}"#;
const TEXT_MAP: &str = r#"{"type":"object","additionalProperties":{"type":"string"}}"#;
const LIMIT: &str = r#"{"type":"integer","minimum":0}"#;
const FLAG: &str = r#"{"type":"boolean"}"#;

/// Every field that is known (CFG-2), in the order of the reference page.
pub const FIELDS: &[Field] = &[
    Field {
        name: "type",
        servers: ALL,
        schema: r#"{"enum":["stdio","http","streamable-http","sse","ws","sse-ide","ws-ide","sdk","claudeai-proxy"]}"#,
        doc: "How the server is reached. Without it: `stdio` when there is a `command`; with a `url`, Streamable HTTP is tried first and HTTP+SSE after it. `streamable-http` is another word for `http`",
    },
    Field {
        name: "command",
        servers: STDIO,
        schema: TEXT,
        doc: "The program to start: a name on `PATH`, or a path; a relative one starts from `cwd`, or else from the folder of the file. It is executed as it is, never through a shell. Variables are expanded",
    },
    Field {
        name: "args",
        servers: STDIO,
        schema: TEXTS,
        doc: "Its arguments. Variables are expanded",
    },
    Field {
        name: "env",
        servers: STDIO,
        schema: TEXT_MAP,
        doc: "Environment variables on top of your own. Variables in their values are expanded",
    },
    Field {
        name: "cwd",
        servers: STDIO,
        schema: TEXT,
        doc: "The directory it runs in; by default the working directory. A relative one starts from the folder of the file",
    },
    Field {
        name: "url",
        servers: URL,
        schema: TEXT,
        doc: "Where the server is. Variables are expanded",
    },
    Field {
        name: "headers",
        servers: REMOTE,
        schema: TEXT_MAP,
        doc: "HTTP headers to send. Variables in their values are expanded",
    },
    Field {
        name: "headersHelper",
        servers: REMOTE,
        schema: TEXT,
        doc: "A shell command that prints a JSON object of headers",
    },
    Field {
        name: "oauth",
        servers: HTTP,
        schema: r#"{"type":"object","properties":{"clientId":{"type":"string"},"callbackPort":{"type":"integer","minimum":0,"maximum":65535},"authServerMetadataUrl":{"type":"string","pattern":"^https://"},"scopes":{"type":["string","array"],"items":{"type":"string"}},"xaa":{"type":"boolean"}}}"#,
        doc: "How to sign in: `clientId`, `callbackPort`, `authServerMetadataUrl` (https), `scopes`, `xaa`",
    },
    Field {
        name: "tls",
        servers: TLS,
        schema: r#"{"type":"object","properties":{"ca":{"type":"string"},"cert":{"type":"string"},"key":{"type":"string"}}}"#,
        doc: "Certificate files: `ca` to trust, `cert` and `key` to show",
    },
    Field {
        name: "authToken",
        servers: IDE,
        schema: TEXT,
        doc: "What the IDE wants to see",
    },
    Field {
        name: "ideName",
        servers: IDE,
        schema: TEXT,
        doc: "What the IDE calls itself",
    },
    Field {
        name: "id",
        servers: &["claudeai-proxy"],
        schema: TEXT,
        doc: "The connector's id",
    },
    Field {
        name: "timeout",
        servers: ALL,
        schema: LIMIT,
        doc: "How long one tool call may take, in milliseconds; 0 is the default",
    },
    Field {
        name: "connectTimeout",
        servers: ALL,
        schema: LIMIT,
        doc: "How long connecting may take, in milliseconds; 0 is the default",
    },
    Field {
        name: "alwaysLoad",
        servers: ALL,
        schema: FLAG,
        doc: "Show its tools to the model however many there are",
    },
    Field {
        name: "lazy",
        servers: ALL,
        schema: FLAG,
        doc: "Start it only when one of its tools is called, once its tools are known from an earlier run; by default `TRUNKLINE_LAZY` or `--lazy` decides",
    },
    Field {
        name: "disabled",
        servers: ALL,
        schema: FLAG,
        doc: "Do not connect to it; `trunkline enable` overrides it for a project",
    },
    Field {
        name: "tools",
        servers: ALL,
        schema: r#"{"type":"object","properties":{"allow":{"type":"array","items":{"type":"string"}},"deny":{"type":"array","items":{"type":"string"}}}}"#,
        doc: "Which of its tools are offered: lists `allow` and `deny` of globs with `*`; deny wins",
    },
    Field {
        name: "sandbox",
        servers: STDIO,
        schema: r#"{"type":["object","boolean"]}"#,
        doc: "What it may touch. Kept in the file; not enforced by this version",
    },
];

/// What a field must be, in words; `None` where its parts have words of their own.
pub(crate) fn expected(name: &str) -> Option<&'static str> {
    let field = FIELDS.iter().find(|field| field.name == name)?;
    match field.schema {
        TEXT => Some("a text"),
        TEXTS => Some("a list of texts"),
        TEXT_MAP => Some("an object of texts"),
        LIMIT => Some("a number of milliseconds"),
        FLAG => Some("true or false"),
        _ => None,
    }
}

/// Words of other clients, and of habit, for fields.
const SYNONYMS: [(&str, &str); 7] = [
    ("cmd", "command"),
    ("environment", "env"),
    ("serverUrl", "url"),
    ("httpUrl", "url"),
    ("uri", "url"),
    ("transport", "type"),
    ("workingDirectory", "cwd"),
];

/// The field that an unknown key is probably meant to be.
pub(crate) fn meant(key: &str) -> Option<&'static str> {
    let is_field = |name: &str| FIELDS.iter().any(|field| field.name == name);
    if is_field(key) || key.len() > 64 {
        return None;
    }
    let lower = key.to_ascii_lowercase();
    let synonym = SYNONYMS
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(key));
    if let Some((_, field)) = synonym {
        return Some(field);
    }
    let near = FIELDS.iter().filter_map(|field| {
        let name = field.name.to_ascii_lowercase();
        let distance = distance(&lower, &name);
        let allowed = if name.len() < 5 { 1 } else { 2 };
        (distance <= allowed).then_some((distance, field.name))
    });
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many characters have to be added, removed or replaced to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, c) in one.chars().enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (to, d) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *d);
            diagonal = row[to + 1];
            row[to + 1] = replaced.min(row[to] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// A JSON Schema for `.mcp.json`.
pub fn json_schema() -> Value {
    let properties: Map<String, Value> = FIELDS
        .iter()
        .map(|field| {
            let mut schema: Value = serde_json::from_str(field.schema).unwrap_or_default();
            schema["description"] = json!(field.doc);
            (field.name.to_owned(), schema)
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP servers of a project (.mcp.json)",
        "type": "object",
        "required": ["mcpServers"],
        "properties": {
            "mcpServers": {
                "type": "object",
                "propertyNames": {"minLength": 1, "not": {"enum": ["workspace"]}},
                "additionalProperties": {"$ref": "#/$defs/server"},
            },
        },
        "$defs": {
            "server": {
                "type": "object",
                "properties": properties,
                "anyOf": [
                    {"required": ["command"]},
                    {"required": ["url"]},
                    {"required": ["type"], "properties": {"type": {"const": "sdk"}}},
                ],
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_key_is_recognised() {
        for (key, field) in [
            ("comand", Some("command")),
            ("Command", Some("command")),
            ("arg", Some("args")),
            ("header", Some("headers")),
            ("envs", Some("env")),
            ("environment", Some("env")),
            ("serverURL", Some("url")),
            ("timeuot", Some("timeout")),
            ("autoApprove", None),
            ("description", None),
            ("x", None),
            ("command", None),
        ] {
            assert_eq!(meant(key), field, "{key}");
        }
    }

    #[test]
    fn every_schema_is_json() {
        for field in FIELDS {
            let schema: Result<Value, _> = serde_json::from_str(field.schema);
            assert!(
                schema.is_ok_and(|schema| schema.is_object()),
                "{}",
                field.name
            );
        }
    }
}
