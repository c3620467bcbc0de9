//! Builds an entry in our format from another client's (CFG-2).

use serde_json::{Map, Value, json};

use super::Client;
use super::fields::{Fields, Problem, shown, strings, texts};
use super::variables::{Dialect, Translator};
use crate::command_line::split_command;

/// How to reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stdio,
    Http,
    Sse,
}

impl Kind {
    /// Parses a client's `type`. The error lists the valid ones.
    pub(super) fn of(kind: &str) -> Result<Self, String> {
        match kind {
            "stdio" | "local" => Ok(Self::Stdio),
            "http" | "streamable-http" | "streamable_http" | "streamableHttp" => Ok(Self::Http),
            "sse" => Ok(Self::Sse),
            _ => Err(format!(
                "unknown \"type\": \"{}\"; write one of stdio, http, sse",
                shown(kind)
            )),
        }
    }
}

/// The fields known so far. Texts are in the client's dialect until [`translate`](Self::translate).
#[derive(Default)]
pub(super) struct EntryBuilder {
    pub(super) kind: Option<Kind>,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Map<String, Value>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Map<String, Value>,
    pub(super) oauth: Map<String, Value>,
    pub(super) timeout: Option<u64>,
    pub(super) connect_timeout: Option<u64>,
    pub(super) disabled: bool,
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Option<Vec<String>>,
}

impl EntryBuilder {
    /// Takes the sign-in settings, which differ between clients only in spelling.
    pub(super) fn sign_in(&mut self, fields: &mut Fields, name: &str) -> Result<(), Problem> {
        let Some(field) = fields.take(name) else {
            return Ok(());
        };
        let map = match field.value {
            Value::Object(map) => map,
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => {
                let note = format!("{name} is switched off there: that is not imported");
                fields.notes.push(note);
                return Ok(());
            }
            _ => {
                let message = format!("its \"{name}\" is not an object");
                return Err(Problem::new(field.at, message));
            }
        };
        let mut left = Vec::new();
        for (key, value) in map {
            let spelling = key.replace('_', "").to_ascii_lowercase();
            match (&*spelling, value) {
                (_, Value::Null) | ("enabled", Value::Bool(true)) => {}
                ("clientid", Value::String(id)) => {
                    self.oauth.insert("clientId".to_owned(), id.into());
                }
                ("callbackport", port @ Value::Number(_)) => {
                    self.oauth.insert("callbackPort".to_owned(), port);
                }
                ("scope" | "scopes", Value::String(scopes)) => self.scopes(&[scopes]),
                ("scope" | "scopes", list @ Value::Array(_)) => match texts(list) {
                    Some(scopes) => self.scopes(&scopes),
                    None => left.push(key),
                },
                _ => left.push(key),
            }
        }
        for key in left.iter().take(10) {
            let key = shown(key);
            fields.notes.push(format!("{name}.{key} is not imported"));
        }
        if left.len() > 10 {
            fields.notes.push(format!("more of {name} is not imported"));
        }
        Ok(())
    }

    /// Sets the scopes: one string, as Claude Code writes them.
    pub(super) fn scopes(&mut self, scopes: &[String]) {
        if !scopes.is_empty() {
            let scopes = scopes.join(" ");
            self.oauth.insert("scopes".to_owned(), scopes.into());
        }
    }

    /// Translates the client's variables in every text. Call this before adding references of our
    /// own.
    pub(super) fn translate(&mut self, dialect: Dialect, client: Client, notes: &mut Vec<String>) {
        self.translate_headers(dialect, client, notes);
        let mut translator = Translator::new(dialect);
        let single = [
            (&mut self.command, "command"),
            (&mut self.cwd, "cwd"),
            (&mut self.url, "url"),
        ];
        for (text, place) in single {
            if let Some(text) = text {
                *text = translator.text(text, place);
            }
        }
        for text in &mut self.args {
            *text = translator.text(text, "args");
        }
        for (map, place) in [(&mut self.env, "env"), (&mut self.oauth, "oauth")] {
            translate_map(map, place, &mut translator);
        }
        notes.extend(translator.notes(client.title()));
    }

    /// Like [`translate`](Self::translate), for a client with a separate rule for headers.
    pub(super) fn translate_headers(
        &mut self,
        dialect: Dialect,
        client: Client,
        notes: &mut Vec<String>,
    ) {
        let mut translator = Translator::new(dialect);
        translate_map(&mut self.headers, "headers", &mut translator);
        notes.extend(translator.notes(client.title()));
    }

    /// The entry in our format, with its keys in Claude Code's order.
    pub(super) fn finish(self, fields: &mut Fields) -> Result<Map<String, Value>, Problem> {
        let kind = self.kind;
        let mut entry = Map::new();
        let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        let (command, url) = (self.command, self.url);
        let mistake = |message: &str| Err(Problem::new(fields.at, message));
        match (kind, command, url) {
            (None | Some(Kind::Stdio), Some(command), url) => {
                if command.trim().is_empty() {
                    return mistake("its \"command\" is empty; write the program to start");
                }
                let mut args = self.args;
                let command = match split_command(&command) {
                    Some(mut words) => {
                        let program = words.remove(0);
                        args.splice(0..0, words);
                        let note = "its command is a whole command line, which is split into command and args";
                        fields.notes.push(note.to_owned());
                        program
                    }
                    None => command,
                };
                put("type", "stdio".into());
                put("command", command.into());
                put("args", args.into());
                put("env", self.env.into());
                // The default working directory.
                let usual = |cwd: &String| cwd.is_empty() || cwd == "${CLAUDE_PROJECT_DIR}";
                if let Some(cwd) = self.cwd.filter(|cwd| !usual(cwd)) {
                    if cwd.contains("${") {
                        let note =
                            "variables in cwd are not filled in; write the directory's full name";
                        fields.notes.push(note.to_owned());
                    }
                    put("cwd", cwd.into());
                }
                if url.is_some() {
                    let note = "url is left out: the entry starts a program";
                    fields.notes.push(note.to_owned());
                }
            }
            (Some(Kind::Stdio), None, _) => {
                return mistake("a \"stdio\" server needs a \"command\"");
            }
            (None, None, None) => return mistake("it has neither a \"command\" nor a \"url\""),
            (Some(_), _, None) => return mistake("a remote server needs a \"url\""),
            (kind, command, Some(url)) => {
                if !is_address(&url) {
                    return mistake("its \"url\" does not begin with http:// or https://");
                }
                // Claude Code reads the same file and needs the type.
                let path = url.split(['?', '#']).next().unwrap_or_default();
                let sse = kind.map_or_else(|| path.ends_with("/sse"), |kind| kind == Kind::Sse);
                put("type", if sse { "sse" } else { "http" }.into());
                put("url", url.into());
                for (name, map) in [("headers", self.headers), ("oauth", self.oauth)] {
                    if !map.is_empty() {
                        put(name, map.into());
                    }
                }
                for (name, given) in [
                    ("command", command.is_some()),
                    ("args", !self.args.is_empty()),
                    ("env", !self.env.is_empty()),
                    ("cwd", self.cwd.is_some()),
                ] {
                    if given {
                        let note = format!("{name} is left out: the server is remote");
                        fields.notes.push(note);
                    }
                }
            }
        }
        if let Some(timeout) = self.timeout {
            put("timeout", timeout.into());
        }
        if let Some(timeout) = self.connect_timeout {
            put("connectTimeout", timeout.into());
        }
        if self.disabled {
            put("disabled", true.into());
        }
        let mut tools = Map::new();
        for (name, list) in [("allow", self.allow), ("deny", self.deny)] {
            if let Some(list) = list {
                tools.insert(name.to_owned(), json!(list));
            }
        }
        if !tools.is_empty() {
            put("tools", tools.into());
        }
        Ok(entry)
    }
}

fn translate_map(map: &mut Map<String, Value>, place: &str, translator: &mut Translator) {
    for (name, value) in map {
        if let Value::String(text) = value {
            *text = translator.text(text, &format!("{place}.{name}"));
        }
    }
}

/// Whether a URL is an HTTP one; a URL that begins with a variable is checked later.
fn is_address(url: &str) -> bool {
    let scheme = url.get(..8).unwrap_or(url).to_ascii_lowercase();
    scheme.starts_with("http://") || scheme == "https://" || url.starts_with(['$', '{'])
}

/// A nested object of strings, such as the `env` within Zed's `command`.
pub(super) fn nested(value: Option<Value>) -> Option<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(map)) => strings(map).map(|(map, _)| map),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(builder: EntryBuilder) -> Result<String, String> {
        let mut fields = Fields::new(0, Vec::new());
        let entry = builder.finish(&mut fields);
        entry
            .map(|entry| Value::Object(entry).to_string() + &fields.notes.concat())
            .map_err(|problem| problem.message)
    }

    #[test]
    fn an_entry_has_the_keys_that_claude_code_writes_in_its_order() {
        let builder = EntryBuilder {
            command: Some("c".to_owned()),
            timeout: Some(5),
            disabled: true,
            allow: Some(Vec::new()),
            ..EntryBuilder::default()
        };
        let expected = r#"{"type":"stdio","command":"c","args":[],"env":{},"timeout":5,"disabled":true,"tools":{"allow":[]}}"#;
        assert_eq!(finish(builder), Ok(expected.to_owned()));
    }

    #[test]
    fn a_command_line_in_one_word_is_split() {
        let builder = EntryBuilder {
            command: Some("npx -y".to_owned()),
            args: vec!["x".to_owned()],
            ..EntryBuilder::default()
        };
        let expected = r#"{"type":"stdio","command":"npx","args":["-y","x"],"env":{}}its command is a whole command line, which is split into command and args"#;
        assert_eq!(finish(builder), Ok(expected.to_owned()));
    }

    #[test]
    fn how_a_server_is_reached_must_be_clear() {
        let url = |url: &str| Some(url.to_owned());
        let some = || Some("x".to_owned());
        let cases = [
            (
                None,
                None,
                None,
                r#"it has neither a "command" nor a "url""#,
            ),
            (
                None,
                Some(" ".to_owned()),
                None,
                r#"its "command" is empty; write the program to start"#,
            ),
            (
                Some(Kind::Stdio),
                None,
                url("http://x"),
                r#"a "stdio" server needs a "command""#,
            ),
            (
                Some(Kind::Http),
                some(),
                None,
                r#"a remote server needs a "url""#,
            ),
            (
                None,
                None,
                url("unix:///x"),
                r#"its "url" does not begin with http:// or https://"#,
            ),
            (
                None,
                None,
                url("é"),
                r#"its "url" does not begin with http:// or https://"#,
            ),
        ];
        for (kind, command, url, expected) in cases {
            let builder = EntryBuilder {
                kind,
                command,
                url,
                ..EntryBuilder::default()
            };
            assert_eq!(finish(builder), Err(expected.to_owned()));
        }
        let both = EntryBuilder {
            kind: Some(Kind::Sse),
            command: some(),
            url: url("HTTPS://x"),
            ..EntryBuilder::default()
        };
        let expected =
            r#"{"type":"sse","url":"HTTPS://x"}command is left out: the server is remote"#;
        assert_eq!(finish(both), Ok(expected.to_owned()));
    }
}
