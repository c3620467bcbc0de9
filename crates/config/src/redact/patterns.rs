//! Finds secrets by their shape.
//!
//! Each rule returns ranges of the text, so that the same rules serve masking and collecting.

use std::borrow::Cow;
use std::ops::Range;

use super::ranges::scheme_end;
use super::secret_names::is_secret_name;
use super::tokens::find_tokens;
use super::urls::{find_logins, find_urls};
use crate::secret::HIDDEN;

/// Masks everything in a text that looks like a secret.
///
/// ```
/// use trunkline_config::redact::redact_text;
///
/// assert_eq!(redact_text("GITHUB_TOKEN=abc docker"), "GITHUB_TOKEN=*** docker");
/// assert_eq!(redact_text("postgres://u:pw@db/x"), "postgres://***@db/x");
/// assert_eq!(redact_text("at /home/me/project/main.py:3"), "at /home/me/project/main.py:3");
/// ```
pub fn redact_text(text: &str) -> Cow<'_, str> {
    replace_ranges(text, &secret_ranges(text), &mut |_| HIDDEN.to_owned())
}

/// Replaces ranges of a text. The ranges are sorted and do not overlap.
pub(super) fn replace_ranges<'t>(
    text: &'t str,
    ranges: &[Range<usize>],
    replace: &mut dyn FnMut(&str) -> String,
) -> Cow<'t, str> {
    if ranges.is_empty() {
        return text.into();
    }
    let mut replaced = String::with_capacity(text.len());
    let mut done = 0;
    for range in ranges {
        replaced.push_str(&text[done..range.start]);
        replaced.push_str(&replace(&text[range.clone()]));
        done = range.end;
    }
    replaced.push_str(&text[done..]);
    replaced.into()
}

/// The parts of a text that look like secrets, sorted and merged.
pub(super) fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    merged(each_secret(text))
}

/// The ranges of all rules, unsorted and possibly nested. Every rule takes linear time, because
/// servers control the text.
pub(super) fn each_secret(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    find_members(text, is_secret_name, &mut found);
    find_assignments(text, &mut found);
    find_headers(text, &mut found);
    find_schemes(text, &mut found);
    find_flags(text, &mut found);
    find_urls(text, &mut found);
    find_logins(text, &mut found);
    find_tokens(text, &mut found);
    found
}

/// Sorts ranges and merges those that touch.
pub(super) fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// `"name": "value"` with a secret name, in text that is not JSON as a whole.
pub(super) fn find_members(
    text: &str,
    is_secret: impl Fn(&str) -> bool,
    found: &mut Vec<Range<usize>>,
) {
    let is_quote = |c: char| c == '"' || c == '\'';
    let mut done = 0;
    for (colon, _) in text.match_indices(':') {
        let before = text[..colon].trim_end();
        let Some(inside) = before.strip_suffix(is_quote).filter(|_| colon >= done) else {
            continue;
        };
        let name = inside
            .rfind(is_quote)
            .map_or("", |open| &inside[open + 1..]);
        if !is_secret(name) {
            continue;
        }
        let value = text[colon + 1..].trim_start_matches([' ', '\t', '\\']);
        let start = text.len() - value.len();
        let (start, length) = match value.chars().next() {
            // Inside a quoted text the quotes are escaped.
            Some('"') if text[..start].ends_with('\\') => {
                let end = value[1..].find('\\').unwrap_or(value.len() - 1);
                (start + 1, end)
            }
            Some(quote @ ('"' | '\'')) => (start + 1, quoted_end(&value[1..], quote)),
            Some('{' | '[') | None => continue,
            _ => {
                let ends = |c: char| c.is_whitespace() || ",}])".contains(c);
                (start, value.find(ends).unwrap_or(value.len()))
            }
        };
        done = start + length;
        found.push(start..done);
    }
}

/// The length of a text up to its closing quote.
fn quoted_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\\' => escaped = !escaped,
            c if c == quote && !escaped => return at,
            _ => escaped = false,
        }
    }
    text.len()
}

/// `NAME=value` with a secret name, as in an environment, a query or a command line.
fn find_assignments(text: &str, found: &mut Vec<Range<usize>>) {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut defaults = Defaults::default();
    let mut done = 0;
    for (at, _) in text.match_indices('=') {
        let before = &text[done.min(at)..at];
        let name = before.rfind(|c| !part_of_name(c)).map_or(before, |end| {
            before[end..].trim_start_matches(|c| !part_of_name(c))
        });
        if at < done {
            continue;
        }
        let value = &text[at + 1..];
        // The signature of a shared link, also without the URL before it.
        let is_signature =
            || ["sig", "signature"].contains(&name) && is_tokenish(token_start(value));
        if !is_secret_name(name) && !is_signature() {
            continue;
        }
        if let Some(default) = defaults.at(value) {
            done = at + 1 + default.end;
            found.push(at + 1 + default.start..done);
        }
        // `==` is a comparison; references and shell commands are not secrets.
        let is_other = ["=", "${", "$(", "`"]
            .iter()
            .any(|start| value.starts_with(start));
        if is_other {
            continue;
        }
        let end = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
            _ => value
                .find(|c: char| c.is_whitespace() || "&;,\"'<>)}]#`|".contains(c))
                .unwrap_or(value.len()),
        };
        if end == 0 {
            continue;
        }
        done = at + 1 + end;
        found.push(at + 1..done);
    }
}

/// Finds the defaults of references.
#[derive(Default)]
struct Defaults {
    /// Set once no closing brace is left, so that the search is not repeated.
    open: bool,
}

impl Defaults {
    /// The default in a text that begins with `${NAME:-default}`. Call this with ever shorter
    /// suffixes of one text.
    fn at(&mut self, text: &str) -> Option<Range<usize>> {
        let inside = text.strip_prefix("${").filter(|_| !self.open)?;
        let name = inside.find(|c: char| "${}=".contains(c) || c.is_whitespace());
        let start = inside[..name.unwrap_or(inside.len())].find(":-")? + 4;
        let Some(length) = text[start..].find('}') else {
            self.open = true;
            return None;
        };
        Some(start..start + length)
    }
}

/// Whether a word is more likely a token than part of a sentence.
pub(super) fn is_tokenish(word: &str) -> bool {
    let digit = word.contains(|c: char| c.is_ascii_digit());
    let capital = word.chars().skip(1).any(|c| c.is_ascii_uppercase());
    word.len() >= 8 && (digit || (capital && word.contains(|c: char| c.is_ascii_lowercase())))
}

/// The beginning of the token at the start of a text. A token may contain `=`: looking at all of it
/// for each would be quadratic.
fn token_start(text: &str) -> &str {
    let head = &text[..text.floor_char_boundary(100)];
    &head[..token_end(head)]
}

/// The length of the token at the start of a text.
fn token_end(text: &str) -> usize {
    let part = |c: char| c.is_ascii_alphanumeric() || "-._~+/=%".contains(c);
    text.find(|c| !part(c)).unwrap_or(text.len())
}

/// `X-Api-Key: value`, as in a header or a line of YAML, with or without the space.
fn find_headers(text: &str, found: &mut Vec<Range<usize>>) {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    for (colon, _) in text.match_indices(':') {
        let before = &text[..colon];
        let start = before.rfind(|c| !part_of_name(c)).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        if !is_secret_name(&before[start..]) {
            continue;
        }
        let value = text[colon + 1..].trim_start_matches([' ', '"', '\'']);
        let value = value[scheme_end(value)..].trim_start_matches(' ');
        let start = text.len() - value.len();
        let end = token_end(value);
        if !value.starts_with("//") && is_tokenish(&value[..end]) {
            found.push(start..start + end);
        }
    }
}

/// The token after `Bearer`, and after `Basic` unless it is a common word.
fn find_schemes(text: &str, found: &mut Vec<Range<usize>>) {
    for (scheme, always) in [("earer ", true), ("asic ", false)] {
        for (at, word) in text.match_indices(scheme) {
            let start = at + word.len();
            let token = &text[start..start + token_end(&text[start..])];
            let is_scheme = text[..at].ends_with(['B', 'b']);
            if is_scheme && token.len() >= 8 && (always || is_tokenish(token)) {
                found.push(start..start + token.len());
            }
        }
    }
}

/// `--api-key value` within a command line.
fn find_flags(text: &str, found: &mut Vec<Range<usize>>) {
    let mut from = 0;
    while let Some(at) = text[from..].find("--") {
        let rest = &text[from + at + 2..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
            .unwrap_or(rest.len());
        from = text.len() - rest.len() + end;
        let name = &rest[..end];
        let is_secret =
            is_secret_name(name) || name.rsplit("--").next().is_some_and(is_secret_name);
        let Some(value) = rest[end..].strip_prefix(' ').filter(|_| is_secret) else {
            continue;
        };
        let value = value.trim_start_matches([' ', '"', '\'']);
        let start = text.len() - value.len();
        let length = token_end(value);
        if is_tokenish(&value[..length]) {
            found.push(start..start + length);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::redact::{RedactMode, redact_entry};

    fn check(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(redact_text(text), *expected, "{text}");
        }
    }

    #[test]
    fn telling_names_and_schemes_are_masked() {
        check(&[
            ("GITHUB_TOKEN=ghp_abc rest", "GITHUB_TOKEN=*** rest"),
            ("--api-key=abc --n=3", "--api-key=*** --n=3"),
            ("password=\"a b\" x", "password=*** x"),
            ("?a=b&access_token=abc&c=d", "?a=b&access_token=***&c=d"),
            ("pageToken=abc", "pageToken=abc"),
            ("if token == abc", "if token == abc"),
            ("token==abc", "token==abc"),
            ("password= x", "password= x"),
            ("secret=a,token=b", "secret=***,token=***"),
            ("=x", "=x"),
            ("env.TOKEN=${TOKEN} x", "env.TOKEN=${TOKEN} x"),
            ("TOKEN=${A:-abc} x", "TOKEN=${A:-***} x"),
            ("TOKEN=$(curl evil)", "TOKEN=$(curl evil)"),
            ("TOKEN=`curl evil`", "TOKEN=`curl evil`"),
            (
                "Authorization: Bearer abc.def-123",
                "Authorization: Bearer ***",
            ),
            (
                "authorization: basic dXNlcjpwYXNz",
                "authorization: basic ***",
            ),
            ("X-Api-Key: a1b2c3d4e5", "X-Api-Key: ***"),
            ("password: required", "password: required"),
            ("the bearer of news", "the bearer of news"),
            ("Basic authentication", "Basic authentication"),
            ("run --token Abc12345 now", "run --token *** now"),
            (
                "  --token string   the token",
                "  --token string   the token",
            ),
            ("é=ü token=ä", "é=ü token=***"),
            ("Authorization: token x9Kq2LmP7", "Authorization: token ***"),
            ("Authorization:Bearer x9Kq2LmP7", "Authorization:Bearer ***"),
            ("X-Api-Key:x9Kq2LmP7", "X-Api-Key:***"),
            ("--token:x9Kq2LmP7", "--token:***"),
            ("run --token -x9Kq2LmP7 now", "run --token *** now"),
            ("GITHUB_TOKEN_2=abc x", "GITHUB_TOKEN_2=*** x"),
            (
                "AccountName=a;AccountKey=abc==;EndpointSuffix=x",
                "AccountName=a;AccountKey=***;EndpointSuffix=x",
            ),
            ("sv=2020&sig=x9Kq2LmP7%3D&x=1", "sv=2020&sig=***&x=1"),
            ("sig=9 signature=none", "sig=9 signature=none"),
            ("root:p@ss:w@tcp(h:3306)/db", "root:***@tcp(h:3306)/db"),
            ("x 'u:pw@unix(/s)/db'", "x 'u:***@unix(/s)/db'"),
            (
                "jdbc:oracle:thin:scott/tiger@h:1521/x",
                "jdbc:oracle:thin:scott/***@h:1521/x",
            ),
            (
                "bot123456789:AAFx9Kq2LmP7vN4tR8x9Kq2LmP7vN4tR8 up",
                "bot123456789:*** up",
            ),
        ]);
    }

    #[test]
    fn well_known_tokens_are_masked_wherever_they_stand() {
        check(&[
            ("got ghp_16C7e42F292c69, bye", "got ***, bye"),
            ("\"github_pat_11ABCDEFG0xyz\"", "\"***\""),
            ("xoxb-2345-abcDEF678", "***"),
            ("sk-abcdefghij0123456789ABCD", "***"),
            (
                "sk-learn-is-a-python-library",
                "sk-learn-is-a-python-library",
            ),
            ("AKIAIOSFODNN7EXAMPLE", "***"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl!", "***!"),
            ("npm_config_registry", "npm_config_registry"),
            ("hf_hub_download(repo)", "hf_hub_download(repo)"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- x",
                "*** x",
            ),
            (
                "-----BEGIN CERTIFICATE-----\nabc",
                "-----BEGIN CERTIFICATE-----\nabc",
            ),
        ]);
    }

    #[test]
    fn members_in_other_text_are_masked() {
        check(&[
            ("[info] password=abc", "[info] password=***"),
            (
                r#"got {"password": "a\"b", "n": 1}"#,
                r#"got {"password": "***", "n": 1}"#,
            ),
            (
                "{'apiKey': 'abc', 'pin': 123}",
                "{'apiKey': '***', 'pin': ***}",
            ),
            (r#"x {\"token\":\"abc\"}"#, r#"x {\"token\":\"***\"}"#),
            (r#""token": {"a": 1}"#, r#""token": {"a": 1}"#),
            ("\"token\":", "\"token\":"),
            (r#"12:30:00 "tokens": 3"#, r#"12:30:00 "tokens": 3"#),
        ]);
    }

    #[test]
    fn what_one_needs_stays_readable() {
        for text in [
            "  File \"/home/me/project/server.py\", line 12, in main",
            "    at Object.<anonymous> (/srv/app/node_modules/x/index.js:10:5)",
            "Error: ENOENT: no such file or directory, open '/home/me/.config/x.json'",
            "usage: server [--token TOKEN] [--port PORT]",
            "listening on http://127.0.0.1:3000/mcp",
            "docker run ghcr.io/org/image@sha256:0123456789abcdef0123456789abcdef",
            "fatal: SLACK_BOT_TOKEN is not set",
            "server --key-file path --sort-key name --primary-key id --public-key abc12345",
            "token: required, token:string, auth:http://127.0.0.1:8080",
            "at 2026-11-18T13:46:32.123456:module, mailto:me@host npm:pkg@1.2.3 git@h:o/r",
        ] {
            assert_eq!(redact_text(text), text);
        }
    }

    #[test]
    fn flags_and_urls_within_others_are_found() {
        let long = "a".repeat(120);
        let shown = format!("--{long}--token *** x");
        check(&[
            (&format!("--{long}--token Abc12345 x"), &shown),
            (
                "http://h/?u=http://a:b@x/?key=abc?d&e=f",
                "http://h/?u=http://***@x/?key=***&e=f",
            ),
            ("a://b@c,d://e@f", "a://***@c,d://***@f"),
            ("token=${A:-b", "token=${A:-b"),
            ("token=${A token=${B:-c}", "token=${A token=${B:-***}"),
            (
                "xghp_16C7e42F292c69 é-ghp_16C7e42F292c69",
                "xghp_16C7e42F292c69 é-***",
            ),
            (
                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0",
                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0",
            ),
        ]);
    }

    /// The test runner kills anything quadratic.
    #[test]
    fn long_texts_take_time_in_proportion() {
        for part in [
            "-",
            "-e",
            "--",
            "--a=",
            "--a ",
            "--token ",
            "--token a",
            "\"a\":",
            "a:b@tcp(",
            "@tcp(",
            "jdbc:oracle:",
            "jdbc:oracle:a/",
            "1",
            "1:",
            "123456:a",
            "token:",
            "sig=",
            "://hook/",
            "token:token ",
            "\"token\":",
            "\"token\":{",
            "\"token\":\\",
            "'",
            ":",
            ": ",
            "token: ",
            "://",
            "://?",
            "://@",
            "://?key=",
            "?key=",
            "=",
            "token=",
            "token==",
            "token=${",
            "token=${a:-",
            "token=$(",
            "token=\"",
            "ghp_",
            "sk-",
            "eyJ-",
            "eyJ.-",
            "xoxb-",
            "bearer ",
            "-----BEGIN ",
            "-----BEGIN PRIVATE KEY",
            "${",
            "${a}",
            "${a:-",
            "$A",
        ] {
            let repeated = |size: usize| part.repeat(size / part.len());
            let _ = redact_text(&repeated(1 << 16));
            let _ = redact_text(&format!("{}}}", repeated(1 << 14)));
            for mode in [RedactMode::Display, RedactMode::Approval] {
                let text = repeated(1 << 14);
                let mut entry = json!({"args": ["--token", text], "url": text, "command": text});
                redact_entry(&mut entry, mode);
            }
        }
        for part in ["-", "-e", "--a=", "\"a\":", "://", "="] {
            let _ = redact_text(&part.repeat((1 << 20) / part.len()));
        }
    }
}
