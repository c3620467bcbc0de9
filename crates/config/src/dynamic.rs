//! The `dynamic` scope: what `--mcp-config` names, a file or the JSON itself.

use std::fmt;
use std::fs;
use std::io::Read;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::diagnostic::Diagnostic;
use crate::entry::{RawEntry, Scope, ServerEntry};
use crate::locate::{error_offset, offset, position};

/// How long a configuration file may be (SEC-4).
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What was loaded, and what was wrong with the rest.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The servers, in the order of the files.
    pub servers: Vec<ServerEntry>,
    /// The problems found on the way.
    pub diagnostics: Vec<Diagnostic>,
}

/// Loads what each `--mcp-config` names. A later one wins over an earlier one with the same server.
///
/// ```
/// let loaded = trunkline_config::load_dynamic([r#"{"mcpServers": {"a": {"command": "cat"}, "b": {}}}"#]);
/// assert_eq!(loaded.servers[0].name, "a");
/// assert!(loaded.diagnostics[0].to_string().contains("neither a \"command\" nor a \"url\""));
/// ```
pub fn load_dynamic<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Loaded {
    let mut loaded = Loaded::default();
    for argument in arguments {
        let argument = argument.as_ref();
        if argument.trim_start().starts_with(['{', '[']) {
            loaded.read(argument, "--mcp-config");
            continue;
        }
        match read_file(argument) {
            Ok(text) => loaded.read(&text, argument),
            Err(message) => loaded.problem(argument, None, None, message),
        }
    }
    loaded
}

/// Reads a file that may be anything, `/dev/zero` included.
fn read_file(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err("the name of the file is empty".to_owned());
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("the file cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!(
            "the file is larger than {} MB",
            MAX_FILE_BYTES >> 20
        ));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_owned())
}

impl Loaded {
    fn problem(
        &mut self,
        source: &str,
        place: Option<(usize, usize)>,
        server: Option<&str>,
        message: String,
    ) {
        self.diagnostics.push(Diagnostic {
            source: source.to_owned(),
            line: place.map(|place| place.0),
            column: place.map(|place| place.1),
            server: server.map(str::to_owned),
            message,
        });
    }

    fn read(&mut self, text: &str, source: &str) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file: File = match serde_json::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                let place = position(text, error_offset(text, &error));
                self.problem(
                    source,
                    Some(place),
                    None,
                    format!("not valid JSON: {}", plain(&error)),
                );
                return;
            }
        };
        let Some(servers) = file.servers else {
            let message = "it has no \"mcpServers\" object".to_owned();
            self.problem(source, Some((1, 1)), None, message);
            return;
        };
        let Ok(servers) = serde_json::from_str::<Servers>(servers.get()) else {
            let place = position(text, offset(text, servers.get()));
            let message =
                "\"mcpServers\" is not an object; write {\"name\": {\"command\": …}}".to_owned();
            self.problem(source, Some(place), None, message);
            return;
        };
        for (name, raw) in servers.0 {
            self.entry(text, source, &name, raw);
        }
    }

    fn entry(&mut self, text: &str, source: &str, name: &str, raw: &RawValue) {
        let start = offset(text, raw.get());
        let checked = match serde_json::from_str::<RawEntry>(raw.get()) {
            Ok(entry) => entry
                .check(name, Scope::Dynamic, source)
                .map_err(|message| (start, message)),
            Err(error) => Err((start + error_offset(raw.get(), &error), plain(&error))),
        };
        match checked {
            Ok(entry) => {
                if let Some(earlier) = self.servers.iter().position(|server| server.name == name) {
                    let message = format!(
                        "it replaces an earlier entry from {}",
                        self.servers[earlier].source
                    );
                    self.servers.remove(earlier);
                    self.problem(source, Some(position(text, start)), Some(name), message);
                }
                self.servers.push(entry);
            }
            Err((at, message)) => {
                self.problem(source, Some(position(text, at)), Some(name), message);
            }
        }
    }
}

/// A JSON error without its own place, which counts from the wrong start, and without the value it quotes, which may be
/// a secret (SEC-1): `invalid type: string "…", expected a map` becomes `expected a map`.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(&*text, |at| &text[..at]);
    match text.rfind("expected ") {
        Some(at) if error.is_data() => text[at..]
            .replace(
                "struct RawEntry",
                "an object with a \"command\" or a \"url\"",
            )
            .replace("struct File", "an object with \"mcpServers\""),
        _ => text.to_owned(),
    }
}

#[derive(serde::Deserialize)]
struct File<'a> {
    #[serde(borrow, rename = "mcpServers")]
    servers: Option<&'a RawValue>,
}

/// The members of `mcpServers` in their order, repeated names included.
struct Servers<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Servers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Servers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of servers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut servers = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    servers.push(entry);
                }
                Ok(Servers(servers))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_costs_its_entry_and_is_named_with_its_place() {
        let cases = [
            (
                "{",
                "--mcp-config:1:1: not valid JSON: EOF while parsing an object",
            ),
            (
                r#"{"servers":{}}"#,
                r#"--mcp-config:1:1: it has no "mcpServers" object"#,
            ),
            (
                r#"{"mcpServers":[]}"#,
                r#"--mcp-config:1:15: "mcpServers" is not an object"#,
            ),
            (
                "{\"mcpServers\":{\n  \"x\": {\"command\": 5}}}",
                "--mcp-config:2:20: server \"x\": expected a string",
            ),
            (
                "{\"mcpServers\":{\"good\":{\"command\":\"c\"},\n \"x\": {\"type\":\"pigeon\"}}}",
                "--mcp-config:2:7: server \"x\": unknown \"type\": \"pigeon\"; write one of stdio",
            ),
            (
                r#"{"mcpServers":{"x":{"type":"stdio"}}}"#,
                r#"server "x": a "stdio" server needs a "command""#,
            ),
            (
                r#"{"mcpServers":{"x":{"command":" "}}}"#,
                r#"its "command" is empty"#,
            ),
        ];
        for (text, expected) in cases {
            let loaded = load_dynamic([text]);
            let found = loaded.diagnostics[0].to_string();
            assert!(found.contains(expected), "{text}\n{found}");
            assert_eq!(
                loaded.servers.len(),
                usize::from(text.contains("good")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_diagnostic_does_not_quote_what_may_be_a_secret() {
        for env in [
            r#""TOKEN=hunter2""#,
            r#"{"PIN":["hunter2"]}"#,
            r#"{"PIN":481516}"#,
        ] {
            let loaded = load_dynamic([format!(
                r#"{{"mcpServers":{{"x":{{"command":"c","env":{env}}}}}}}"#
            )]);
            let shown = format!("{:?}", loaded.diagnostics);
            assert!(
                shown.contains("expected a ")
                    && !shown.contains("hunter2")
                    && !shown.contains("481516"),
                "{shown}"
            );
        }
    }

    #[test]
    fn what_is_no_configuration_is_said_so_in_plain_words() {
        let cases = [
            ("", "the name of the file is empty"),
            ("[]", "expected an object with \"mcpServers\""),
            (
                r#"{"mcpServers":{"a":null}}"#,
                "expected an object with a \"command\" or a \"url\"",
            ),
            ("/dev/zero", "larger than 16 MB"),
        ];
        for (argument, expected) in cases {
            let found = load_dynamic([argument]).diagnostics[0].to_string();
            assert!(found.contains(expected), "{argument}: {found}");
        }
    }

    #[test]
    fn a_missing_file_is_a_diagnostic() {
        let loaded = load_dynamic(["/no/such/file.json"]);
        assert!(
            loaded.diagnostics[0]
                .message
                .starts_with("the file cannot be read")
        );
    }

    #[test]
    fn a_repeated_name_takes_the_later_entry() {
        let loaded = load_dynamic([
            r#"{"mcpServers":{"a":{"command":"one"},"a":{"command":"two"}}}"#,
            "{\"mcpServers\":{\"a\":{\"command\":\"three\"},\"b\":{\"url\":\"https://x\"}}}",
        ]);
        let commands: Vec<_> = loaded
            .servers
            .iter()
            .map(|server| server.transport.kind())
            .collect();
        assert_eq!(commands, ["stdio", "http"]);
        assert_eq!(loaded.diagnostics.len(), 2);
    }

    #[test]
    fn a_byte_order_mark_is_accepted() {
        let scratch = std::env::temp_dir().join(format!("trunkline-bom-{}", std::process::id()));
        std::fs::write(
            &scratch,
            "\u{feff}{\"mcpServers\":{\"a\":{\"command\":\"c\"}}}",
        )
        .unwrap();
        let loaded = load_dynamic([scratch.to_str().unwrap()]);
        std::fs::remove_file(&scratch).unwrap();
        assert_eq!((loaded.servers.len(), loaded.diagnostics.len()), (1, 0));
    }
}
