//! Keeps secrets out of what is written down (SEC-1).
//!
//! Two ways. The secrets that we know ourselves, because we hand them to the server, are looked for everywhere. What we
//! cannot know is told by its name: a member `password`, a `TOKEN=…`, what follows `Bearer`. No rule finds a secret that has
//! no name and that we never had; whoever passes a trace on should look into it first.

mod entry;
mod json;
mod names;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use memchr::memmem::Finder;
use trunkline_config::HIDDEN;
use trunkline_wire::Json;

pub(super) use entry::{header_secrets, secrets_of};
pub(super) use json::put_quoted;
use names::looks_secret;

/// A value shorter than this is not looked for: it would be found everywhere, and tells by its absence what it was.
const SHORTEST: usize = 4;

/// Values that an entry may hold and that are no secret of anybody's.
const PLAIN: [&str; 6] = ["true", "false", "null", "none", "info", "debug"];

/// How often a text in a text is looked into as JSON.
const NESTED: u8 = 3;

/// Knows one server's secrets. Clones know the same ones.
#[derive(Clone, Default)]
pub(crate) struct Redactor(Arc<ArcSwap<Known>>);

#[derive(Default)]
struct Known {
    values: BTreeSet<String>,
    /// The longest first, so that one that begins like another is found whole.
    finders: Vec<Finder<'static>>,
}

impl Known {
    /// What is known, and these secrets.
    fn and(&self, secrets: &[&str]) -> Self {
        let mut values = self.values.clone();
        for secret in secrets {
            // A key in several lines is printed line by line.
            for part in secret.lines().chain([*secret]) {
                let part = part.trim();
                values.extend([part.to_owned(), escaped(part), percent_encoded(part)]);
            }
        }
        values.retain(|value| {
            value.chars().count() >= SHORTEST && !PLAIN.contains(&value.to_lowercase().as_str())
        });
        let mut longest: Vec<&String> = values.iter().collect();
        longest.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let finders = longest
            .into_iter()
            .map(|value| Finder::new(value.as_bytes()).into_owned())
            .collect();
        Self { values, finders }
    }
}

impl Redactor {
    /// Learns secrets: their values, as they are and as they look in JSON and in URLs.
    pub(crate) fn hide_all<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let secrets: Vec<&str> = secrets.into_iter().collect();
        let is_news = |known: &Known| secrets.iter().any(|secret| !known.values.contains(*secret));
        // A token comes by with every request.
        if is_news(&self.0.load()) {
            // Another may learn something at the same time.
            self.0.rcu(|known| known.and(&secrets));
        }
    }

    /// Learns one secret.
    pub(crate) fn hide(&self, secret: &str) {
        self.hide_all([secret]);
    }

    /// A text with its secrets masked.
    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.text_within(text, 0)
    }

    /// A message on one line, with its secrets masked.
    pub(crate) fn message(&self, json: &Json) -> String {
        json::redacted(json, self, 0)
    }

    fn text_within<'a>(&self, text: &'a str, nested: u8) -> Cow<'a, str> {
        if nested < NESTED
            && text.trim_start().starts_with(['{', '['])
            && let Ok(json) = Json::parse(text.to_owned())
        {
            return json::redacted(&json, self, nested + 1).into();
        }
        let text = self.known(text);
        let text = and_then(text, mask_members);
        let text = and_then(text, mask_assignments);
        let text = and_then(text, mask_bearers);
        let text = and_then(text, mask_basics);
        and_then(text, mask_passwords_in_urls)
    }

    /// The text with the secrets that are known masked, and no others.
    fn known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.0.load();
        let mut shown = Cow::Borrowed(text);
        for finder in &known.finders {
            if finder.find(shown.as_bytes()).is_some() {
                let value = String::from_utf8_lossy(finder.needle());
                shown = shown.replace(&*value, HIDDEN).into();
            }
        }
        shown
    }
}

fn and_then(text: Cow<'_, str>, mask: fn(&str) -> Option<String>) -> Cow<'_, str> {
    match mask(&text) {
        Some(masked) => masked.into(),
        None => text,
    }
}

/// As it stands between the quotes of a JSON string.
fn escaped(secret: &str) -> String {
    let mut quoted = String::new();
    put_quoted(&mut quoted, secret);
    quoted.trim_matches('"').to_owned()
}

/// As it stands in a query.
fn percent_encoded(secret: &str) -> String {
    use std::fmt::Write as _;

    let mut encoded = String::with_capacity(secret.len());
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// `"name": "value"` with a name that is a secret's, in what is not JSON as a whole.
fn mask_members(text: &str) -> Option<String> {
    let is_quote = |c: char| c == '"' || c == '\'';
    let mut masked = String::new();
    let mut done = 0;
    for (colon, _) in text.match_indices(':') {
        let before = text[..colon].trim_end();
        let Some(inside) = before.strip_suffix(is_quote).filter(|_| colon >= done) else {
            continue;
        };
        let name = inside
            .rfind(is_quote)
            .map_or("", |open| &inside[open + 1..]);
        if !looks_secret(name) {
            continue;
        }
        let value = text[colon + 1..].trim_start_matches([' ', '\t', '\\']);
        let start = text.len() - value.len();
        let (start, end) = match value.chars().next() {
            // In a text within a text the quotes are escaped themselves.
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
        masked.push_str(&text[done..start]);
        masked.push_str(HIDDEN);
        done = start + end;
    }
    finished(text, masked, done)
}

/// Where a text ends that a quote ends; at its end where none does.
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

/// `NAME=value` with a name that is a secret's, as in an environment, a query or a command line.
fn mask_assignments(text: &str) -> Option<String> {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut masked = String::new();
    let mut done = 0;
    for (at, _) in text.match_indices('=') {
        let before = &text[done.min(at)..at];
        let name = before.rfind(|c| !part_of_name(c)).map_or(before, |end| {
            before[end..].trim_start_matches(|c| !part_of_name(c))
        });
        if at < done || !looks_secret(name) {
            continue;
        }
        let value = &text[at + 1..];
        let end = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
            _ => value
                .find(|c: char| c.is_whitespace() || "&;,\"'<>)}]#".contains(c))
                .unwrap_or(value.len()),
        };
        // `==` compares; and nothing is no secret.
        if end == 0 || value.starts_with('=') {
            continue;
        }
        masked.push_str(&text[done..=at]);
        masked.push_str(HIDDEN);
        done = at + 1 + end;
    }
    finished(text, masked, done)
}

/// What follows `Bearer`, as in a header.
fn mask_bearers(text: &str) -> Option<String> {
    mask_after(text, "earer ", |_| true)
}

/// What follows `Basic`, unless it is a word: the word is common.
fn mask_basics(text: &str) -> Option<String> {
    mask_after(text, "asic ", |token| {
        let inside = &token.as_bytes()[1..];
        inside
            .iter()
            .any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'=')
    })
}

/// What follows a scheme whose name begins with a B.
fn mask_after(text: &str, scheme: &str, is_token: fn(&str) -> bool) -> Option<String> {
    /// Shorter than any token: then it is a word of a sentence.
    const TOKEN: usize = 8;
    let part = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    let mut masked = String::new();
    let mut done = 0;
    for (at, word) in text.match_indices(scheme) {
        let start = at + word.len();
        let first = text[..at].chars().next_back();
        if start < done || !matches!(first, Some('B' | 'b')) {
            continue;
        }
        let token = &text[start..];
        let token = &token[..token.find(|c| !part(c)).unwrap_or(token.len())];
        if token.len() >= TOKEN && is_token(token) {
            masked.push_str(&text[done..start]);
            masked.push_str(HIDDEN);
            done = start + token.len();
        }
    }
    finished(text, masked, done)
}

/// `https://user:password@host`.
fn mask_passwords_in_urls(text: &str) -> Option<String> {
    let mut masked = String::new();
    let mut done = 0;
    for (at, slashes) in text.match_indices("://") {
        let start = at + slashes.len();
        if start < done {
            continue;
        }
        let rest = &text[start..];
        let ends = |c: char| c.is_whitespace() || "/?#\"'<>\\".contains(c);
        let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if let Some(end) = authority.rfind('@') {
            masked.push_str(&text[done..start]);
            masked.push_str(HIDDEN);
            done = start + end;
        }
    }
    finished(text, masked, done)
}

/// What was masked with the rest behind it; nothing where nothing was.
fn finished(text: &str, mut masked: String, done: usize) -> Option<String> {
    (done > 0).then(|| {
        masked.push_str(&text[done..]);
        masked
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secrets: &[&str], cases: &[(&str, &str)]) {
        let redactor = Redactor::default();
        redactor.hide_all(secrets.iter().copied());
        for (text, expected) in cases {
            assert_eq!(redactor.text(text), *expected, "{text}");
        }
    }

    #[test]
    fn known_secrets_are_found_in_every_spelling() {
        check(
            &[
                "abc\"d e",
                "abcd",
                "abcdefgh",
                "line one\nline two",
                "x",
                "true",
            ],
            &[
                ("nothing here", "nothing here"),
                ("abcd and abcdefgh!", "*** and ***!"),
                ("abc\"d e abc\\\"d e abc%22d%20e", "*** *** ***"),
                ("then line two came", "then *** came"),
                // Too short, or everybody's.
                ("x is true", "x is true"),
            ],
        );
    }

    #[test]
    fn what_comes_later_is_learned_too() {
        let redactor = Redactor::default();
        let other = redactor.clone();
        assert_eq!(redactor.text("a fresh-token"), "a fresh-token");
        other.hide("fresh-token");
        assert_eq!(redactor.text("a fresh-token"), "a ***");
    }

    #[test]
    fn what_looks_like_a_secret_is_masked() {
        check(
            &[],
            &[
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
                (
                    "Authorization: Bearer abc.def-123",
                    "Authorization: Bearer ***",
                ),
                (
                    "authorization: basic dXNlcjpwYXNz",
                    "authorization: basic ***",
                ),
                ("the bearer of news", "the bearer of news"),
                ("Basic authentication", "Basic authentication"),
                ("https://me:pw@host/x@y", "https://***@host/x@y"),
                (
                    "postgres://u:p@h:5/db, http://h/x",
                    "postgres://***@h:5/db, http://h/x",
                ),
                ("see https://host/a@b", "see https://host/a@b"),
                ("é=ü token=ä", "é=ü token=***"),
            ],
        );
    }

    #[test]
    fn a_line_of_json_is_looked_into() {
        check(
            &[],
            &[
                (
                    r#"{"level": 30, "req": {"headers": {"authorization": "x"}}}"#,
                    r#"{"level":30,"req":{"headers":{"authorization":"***"}}}"#,
                ),
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
            ],
        );
    }
}
