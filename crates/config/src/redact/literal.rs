//! Finds secrets written literally in an entry instead of as a reference (CFG-11).

use serde_json::Value;

use super::classify::{is_path_setting, is_plain, is_words};
use super::entry::{RedactMode, redact_entry};
use super::patterns::secret_ranges;
use super::secret_names::is_secret_name;

/// A literal secret in an entry: its field, and a variable that could hold it. Never contains the
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiteralSecret {
    /// The field, such as `env.GITHUB_TOKEN`.
    pub field: String,
    /// A variable to refer to instead, such as `GITHUB_TOKEN`.
    pub variable: String,
}

/// Finds the literal secrets of an entry by name and shape. References to variables and the
/// keychain do not count, and neither do settings made of ordinary words.
///
/// ```
/// use serde_json::json;
/// use trunkline_config::redact::literal_secrets;
///
/// let env = json!({"API_TOKEN": "abc", "REGION": "eu-west-1", "KEY": "${KEY}"});
/// let found = literal_secrets("x", &json!({"command": "x", "env": env}));
/// assert_eq!(found.len(), 1);
/// assert_eq!(found[0].field, "env.API_TOKEN");
/// assert_eq!(found[0].variable, "API_TOKEN");
/// ```
pub fn literal_secrets(server: &str, entry: &Value) -> Vec<LiteralSecret> {
    let mut masked = entry.clone();
    redact_entry(&mut masked, RedactMode::Display);
    let mut search = Search {
        server,
        found: Vec::new(),
    };
    let members = entry.as_object().into_iter().flatten();
    for (field, value) in members {
        match (field.as_str(), value) {
            ("env" | "headers", Value::Object(values)) => {
                for (name, value) in values {
                    if masked[field].get(name) != Some(value) {
                        search.setting(field, name, value);
                    }
                }
            }
            ("args", Value::Array(args)) => {
                for (at, arg) in args.iter().enumerate() {
                    if masked["args"].get(at) != Some(arg) {
                        search.argument(args, at);
                    }
                }
            }
            ("url", Value::String(url)) => search.url(url),
            (field, value) if masked.get(field) != Some(value) => search.report(field, field),
            _ => {}
        }
    }
    search.found
}

struct Search<'a> {
    server: &'a str,
    found: Vec<LiteralSecret>,
}

impl Search<'_> {
    fn report(&mut self, field: &str, name: &str) {
        let is_generic = ["authorization", "url", "command", "headershelper"]
            .iter()
            .any(|generic| name.eq_ignore_ascii_case(generic));
        let variable = if is_generic {
            format!("{}_TOKEN", variable_name(self.server))
        } else {
            variable_name(name)
        };
        let field = field.to_owned();
        self.found.push(LiteralSecret { field, variable });
    }

    /// A value of `env` or `headers` that may be a secret.
    fn setting(&mut self, field: &str, name: &str, value: &Value) {
        if value.as_str().is_none_or(|text| !is_setting(name, text)) {
            self.report(&format!("{field}.{name}"), name);
        }
    }

    fn argument(&mut self, args: &[Value], at: usize) {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
        let is_name = |name: &str| {
            let named = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            !name.is_empty() && name.chars().all(named)
        };
        let own = text(at).split(['=', ':']).next().filter(|name| {
            is_name(name) && name.len() < text(at).len() && !text(at).contains("://")
        });
        let before = at.checked_sub(1).map(text);
        let before = before.filter(|flag| flag.starts_with("--") && is_name(flag));
        let name = own.or(before).unwrap_or("command");
        self.report(&format!("args[{at}]"), name);
    }

    fn url(&mut self, url: &str) {
        let (before, query) = url.split_once('?').unwrap_or((url, ""));
        let authority = before.split_once("//").map_or("", |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@')
            && !user.split(':').all(is_reference)
        {
            self.report("url", &format!("{}_PASSWORD", self.server));
        }
        // A webhook has its key in the path, and a token may be anywhere.
        let path = before.find("//").map_or(0, |at| at + 2 + authority.len());
        if secret_ranges(before)
            .iter()
            .any(|range| range.start >= path)
        {
            self.report("url", "url");
        }
        for pair in query.split('#').next().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !value.is_empty() && !is_reference(value) && !is_setting(name, value) {
                self.report("url", name);
            }
        }
    }
}

/// Whether a value is certainly not a secret: its name does not suggest one, and it reads like
/// words, a number or a path.
fn is_setting(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_key = lower.rsplit(['_', '-', '.']).next() == Some("key");
    let is_telling = is_secret_name(name) || is_key;
    let reads = is_plain(value) || is_words(value);
    let is_shapeless = secret_ranges(value).is_empty();
    is_path_setting(name, value) || !is_telling && reads && is_shapeless
}

/// Whether a text is only a reference without a default.
fn is_reference(text: &str) -> bool {
    let inside = text
        .strip_prefix("${")
        .and_then(|text| text.strip_suffix('}'));
    inside.is_some_and(|inside| !inside.contains(['}', '$']) && !inside.contains(":-"))
}

/// Converts a name to that of a variable.
fn variable_name(name: &str) -> String {
    let named = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(named).collect();
    let name = name.trim_matches('_');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("MCP_{name}");
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literal_secrets_are_found_by_name_and_by_shape_and_references_are_none() {
        let cases: &[(Value, &[(&str, &str)])] = &[
            (json!({"command": "x"}), &[]),
            (
                json!({"env": {"GITHUB_TOKEN": "abc"}}),
                &[("env.GITHUB_TOKEN", "GITHUB_TOKEN")],
            ),
            (
                json!({"env": {"MY_KEY": "v", "KEYBOARD": "de"}}),
                &[("env.MY_KEY", "MY_KEY")],
            ),
            (
                json!({"env": {"A": "${A}", "B": "${env:B}", "C": "$C", "D": ""}}),
                &[],
            ),
            (
                json!({"env": {"TOKEN": "${TOKEN:-abc}"}}),
                &[("env.TOKEN", "TOKEN")],
            ),
            (
                json!({"env": {"LOG": "debug", "PORT": "8080", "DIR": "/usr/lib", "ON": "true"}}),
                &[],
            ),
            (
                json!({"env": {"URL": "http://localhost:3000/x", "REGION": "eu-west-1"}}),
                &[],
            ),
            (
                json!({"env": {"DB": "postgresql://u:pw@h/db"}}),
                &[("env.DB", "DB")],
            ),
            (
                json!({"headers": {"Authorization": "Bearer abc"}}),
                &[("headers.Authorization", "MY_SERVER_TOKEN")],
            ),
            (
                json!({"headers": {"Authorization": "Bearer ${T}", "X-Team": "core"}}),
                &[],
            ),
            (
                json!({"headers": {"X-API-Key": "abc"}}),
                &[("headers.X-API-Key", "X_API_KEY")],
            ),
            (
                json!({"args": ["--api-key", "abc", "--port", "80"]}),
                &[("args[1]", "API_KEY")],
            ),
            (json!({"args": ["--token=abc"]}), &[("args[0]", "TOKEN")]),
            (
                json!({"args": ["-e", "TOKEN=abc"]}),
                &[("args[1]", "TOKEN")],
            ),
            (
                json!({"args": ["postgresql://u:pw@h/db"]}),
                &[("args[0]", "MY_SERVER_TOKEN")],
            ),
            (
                json!({"args": ["--token", "${TOKEN}", "-y", "@a/server-x"]}),
                &[],
            ),
            (json!({"url": "https://h/mcp?v=2"}), &[]),
            (
                json!({"url": "https://h/mcp?apiKey=abc"}),
                &[("url", "APIKEY")],
            ),
            (
                json!({"url": "https://u:p@h/mcp?k=${K}"}),
                &[("url", "MY_SERVER_PASSWORD")],
            ),
            (json!({"authToken": "abc"}), &[("authToken", "AUTHTOKEN")]),
            (
                json!({"url": "https://hooks.slack.com/services/T00/B00/x9Kq2LmP7vN4"}),
                &[("url", "MY_SERVER_TOKEN")],
            ),
            (
                json!({"args": ["--token", "-x9Kq2LmP7vN4tR8", "--service-role-key", "abc"]}),
                &[("args[1]", "TOKEN"), ("args[3]", "SERVICE_ROLE_KEY")],
            ),
            (
                json!({"args": ["GITHUB_TOKEN_2=abc", "a=b;AccountKey=abc=="]}),
                &[("args[0]", "GITHUB_TOKEN_2"), ("args[1]", "A")],
            ),
            (
                json!({"args": ["root:pw@tcp(h:3306)/db", "--sort-key", "name"]}),
                &[("args[0]", "ROOT")],
            ),
        ];
        for (entry, expected) in cases {
            let found = literal_secrets("my server", entry);
            let found: Vec<_> = found
                .iter()
                .map(|secret| (secret.field.as_str(), secret.variable.as_str()))
                .collect();
            assert_eq!(found, *expected, "{entry}");
        }
    }
}
