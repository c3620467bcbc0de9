//! The fields of an entry, described once: the reference page and the JSON Schema are generated
//! from this.

use serde_json::{Map, Value, json};

/// One field of an entry.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The `type`s of servers that have it; empty for all.
    pub servers: &'static [&'static str],
    /// Its JSON Schema, as text.
    schema: &'static str,
    /// What it does.
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

/// Every known field (CFG-2), in the order of the reference page.
pub const FIELDS: &[Field] = &[
    Field {
        name: "type",
        servers: ALL,
        schema: r#"{"enum":["stdio","http","streamable-http","sse","ws","sse-ide","ws-ide","sdk","claudeai-proxy"]}"#,
        doc: "The transport. Default: `stdio` with a `command`; with a `url`, Streamable HTTP first, then HTTP+SSE. `streamable-http` is an alias of `http`",
    },
    Field {
        name: "command",
        servers: STDIO,
        schema: TEXT,
        doc: "The program to start: a name on `PATH`, or a path; a relative path starts from `cwd`, or else from the directory of the file. It never runs through a shell. Variables are expanded",
    },
    Field {
        name: "args",
        servers: STDIO,
        schema: TEXTS,
        doc: "The arguments. Variables are expanded",
    },
    Field {
        name: "env",
        servers: STDIO,
        schema: TEXT_MAP,
        doc: "Environment variables in addition to your own. Variables in the values are expanded",
    },
    Field {
        name: "cwd",
        servers: STDIO,
        schema: TEXT,
        doc: "The directory it runs in; the working directory by default. A relative path starts from the directory of the file",
    },
    Field {
        name: "url",
        servers: URL,
        schema: TEXT,
        doc: "The URL of the server. Variables are expanded",
    },
    Field {
        name: "headers",
        servers: REMOTE,
        schema: TEXT_MAP,
        doc: "HTTP headers to send. Variables in the values are expanded",
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
        schema: r#"{"type":"object","properties":{"clientId":{"type":"string"},"callbackPort":{"type":"integer","minimum":0,"maximum":65535},"authServerMetadataUrl":{"type":"string","pattern":"^https://"},"scopes":{"type":["string","array"],"items":{"type":"string"}},"xaa":{"type":"boolean"},"grantType":{"enum":["authorization_code","client_credentials"]},"privateKeyFile":{"type":"string"},"keyId":{"type":"string"}}}"#,
        doc: "Sign-in settings: `clientId`, `callbackPort`, `authServerMetadataUrl` (https), `scopes`, `xaa`, `grantType` (`client_credentials` for a program that signs in as itself), `privateKeyFile` and `keyId` (its key, in place of a client secret)",
    },
    Field {
        name: "account",
        servers: HTTP,
        schema: r#"{"type":"string","pattern":"^[A-Za-z0-9_.@+-]{1,64}$"}"#,
        doc: "The account to use, of several that are signed in with `trunkline login --account`",
    },
    Field {
        name: "tls",
        servers: TLS,
        schema: r#"{"type":"object","properties":{"ca":{"type":"string"},"cert":{"type":"string"},"key":{"type":"string"}}}"#,
        doc: "Certificate files: `ca` to trust, `cert` and `key` for the client",
    },
    Field {
        name: "authToken",
        servers: IDE,
        schema: TEXT,
        doc: "The token that the IDE expects",
    },
    Field {
        name: "ideName",
        servers: IDE,
        schema: TEXT,
        doc: "The name of the IDE",
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
        doc: "The time limit of a tool call, in milliseconds; 0 is the default",
    },
    Field {
        name: "connectTimeout",
        servers: ALL,
        schema: LIMIT,
        doc: "The time limit for connecting, in milliseconds; 0 is the default",
    },
    Field {
        name: "alwaysLoad",
        servers: ALL,
        schema: FLAG,
        doc: "Always show its tools to the model, however many there are",
    },
    Field {
        name: "lazy",
        servers: ALL,
        schema: FLAG,
        doc: "Start it only when one of its tools is called, if its tools are known from an earlier run; the default is `TRUNKLINE_LAZY` or `--lazy`",
    },
    Field {
        name: "share",
        servers: ALL,
        schema: FLAG,
        doc: "Whether the clients of `trunkline serve` share its process; with `false`, each client gets one of its own. The default is `true`, except for browsers and other known servers with a state",
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
        doc: "The tools it offers: lists `allow` and `deny` of globs with `*`; deny wins",
    },
    Field {
        name: "sandbox",
        servers: STDIO,
        schema: r#"{"type":["object","boolean"]}"#,
        doc: "Sandbox settings. Kept in the file; not enforced by this version",
    },
];

/// The expected type of a field, for messages; `None` if its parts have messages of their own.
pub(crate) fn expected(name: &str) -> Option<&'static str> {
    let field = FIELDS.iter().find(|field| field.name == name)?;
    match field.schema {
        TEXT => Some("a string"),
        TEXTS => Some("a list of strings"),
        TEXT_MAP => Some("an object of strings"),
        LIMIT => Some("a number of milliseconds"),
        FLAG => Some("true or false"),
        _ => None,
    }
}

/// Names that other clients use for fields.
const SYNONYMS: [(&str, &str); 7] = [
    ("cmd", "command"),
    ("environment", "env"),
    ("serverUrl", "url"),
    ("httpUrl", "url"),
    ("uri", "url"),
    ("transport", "type"),
    ("workingDirectory", "cwd"),
];

/// The field that an unknown key was probably meant to be.
pub(crate) fn suggest_field(key: &str) -> Option<&'static str> {
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

/// The Levenshtein distance of two words.
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
            assert_eq!(suggest_field(key), field, "{key}");
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
