//! A JSON text with its secrets masked. Everything else stays as it was spelt, but for white space between values.

use std::fmt::Write as _;

use trunkline_config::HIDDEN;
use trunkline_config::redact::is_secret_name;
use trunkline_wire::Json;

use super::Redactor;
use crate::harmless::is_harmful;

/// What is open around the place where the walk is.
struct Level {
    object: bool,
    /// Everything in it is a secret.
    masked: bool,
}

/// The text on one line, with secrets as `***`: known ones wherever they are, and whatever stands under the name of one.
/// What could steer a terminal is written as escapes. `json` may be as deep as it likes.
pub(super) fn redacted(json: &Json, redactor: &Redactor, nested: u8) -> String {
    let text = json.as_str();
    let mut out = String::with_capacity(text.len() + 16);
    let mut levels: Vec<Level> = Vec::new();
    // Whether the next string is a name, and whether the next value is a secret.
    let (mut name, mut masked) = (false, false);
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        let end = match byte {
            b'"' => string_end(text, at),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at + 1,
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            _ => scalar_end(text, at),
        };
        let part = &text[at..end];
        at = end;
        match byte {
            b'{' | b'[' => {
                let object = *byte == b'{';
                levels.push(Level { object, masked });
                name = object;
                out.push_str(part);
            }
            b'}' | b']' => {
                levels.pop();
                name = false;
                out.push_str(part);
            }
            b',' => {
                name = levels.last().is_some_and(|level| level.object);
                masked = levels.last().is_some_and(|level| level.masked);
                out.push_str(part);
            }
            b'"' if name => {
                let decoded = decode(part);
                masked =
                    levels.last().is_some_and(|level| level.masked) || is_secret_name(&decoded);
                name = false;
                put_string(&mut out, part, &decoded, &redactor.known(&decoded));
            }
            b'"' if !masked => {
                let decoded = decode(part);
                let shown = redactor.text_within(&decoded, nested);
                put_string(&mut out, part, &decoded, &shown);
            }
            // A yes, a no or a nothing tells no secret.
            _ if masked && !matches!(byte, b':' | b't' | b'f' | b'n') => {
                let _ = write!(out, "\"{HIDDEN}\"");
            }
            _ => out.push_str(part),
        }
    }
    out
}

/// The end of the string that begins at `start`.
fn string_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// The end of the number or word that begins at `start`.
fn scalar_end(text: &str, start: usize) -> usize {
    let ends = |c: char| matches!(c, ',' | ':' | '{' | '}' | '[' | ']' | '"') || c.is_whitespace();
    let first = text[start..].chars().next().map_or(1, char::len_utf8);
    let rest = &text[start + first..];
    start + first + rest.find(ends).unwrap_or(rest.len())
}

/// What a string in quotes spells.
fn decode(quoted: &str) -> String {
    let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => inner.to_owned(),
        _ => Json::parse(quoted.to_owned())
            .ok()
            .and_then(|json| json.as_string())
            .map(String::from)
            .unwrap_or_default(),
    }
}

/// Writes a string, as it was spelt where nothing in it has changed.
fn put_string(out: &mut String, spelt: &str, decoded: &str, shown: &str) {
    if decoded == shown && !spelt.chars().any(is_harmful) {
        out.push_str(spelt);
    } else {
        put_quoted(out, shown);
    }
}

/// Writes a text as a JSON string, with what could steer a terminal as escapes.
pub(in crate::logs) fn put_quoted(out: &mut String, text: &str) {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    if !quoted.chars().any(is_harmful) {
        out.push_str(&quoted);
        return;
    }
    for c in quoted.chars() {
        if is_harmful(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let redactor = Redactor::default();
        redactor.hide("hunter2x");
        let json = Json::parse(text.to_owned()).unwrap();
        let shown = redacted(&json, &redactor, 0);
        assert_eq!(shown, expected);
        Json::parse(shown).unwrap();
    }

    #[test]
    fn values_under_secret_names_are_masked_to_their_leaves() {
        for (text, expected) in [
            (
                r#"{"user":"me","password":"x"}"#,
                r#"{"user":"me","password":"***"}"#,
            ),
            (
                r#"{"a":{"b":[{"api_key":"x","n":1}]}}"#,
                r#"{"a":{"b":[{"api_key":"***","n":1}]}}"#,
            ),
            (
                r#"{"credentials":{"a":"x","b":[1,"y",true,null,{"c":-1.5e3}]},"d":"z"}"#,
                r#"{"credentials":{"a":"***","b":["***","***",true,null,{"c":"***"}]},"d":"z"}"#,
            ),
            (
                r#"{"token":["x","y"],"e":["z"]}"#,
                r#"{"token":["***","***"],"e":["z"]}"#,
            ),
            (
                r#"{"PIN":1234,"pinned":12}"#,
                r#"{"PIN":"***","pinned":12}"#,
            ),
            (r#"{"\u0070assword":"x"}"#, r#"{"\u0070assword":"***"}"#),
            (
                r#"{"_meta":{"progressToken":7},"maxTokens":100}"#,
                r#"{"_meta":{"progressToken":7},"maxTokens":100}"#,
            ),
            (
                r#"{"params":{"name":"login","arguments":{"Cookie":"a=b"}}}"#,
                r#"{"params":{"name":"login","arguments":{"Cookie":"***"}}}"#,
            ),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn known_secrets_are_masked_in_any_position_and_spelling() {
        for (text, expected) in [
            (r#"["ahunter2xb","hunter2"]"#, r#"["a***b","hunter2"]"#),
            (r#"{"hunter2x":1}"#, r#"{"***":1}"#),
            (r#"["\u0068unter2x \n"]"#, r#"["*** \n"]"#),
            (r#""{\"v\":\"hunter2x\"}""#, r#""{\"v\":\"***\"}""#),
            (r#""\ud800hunter2x""#, "\"\u{fffd}***\""),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn json_inside_strings_is_redacted() {
        check(
            r#"{"text":" {\"token\": \"x\", \"n\": 1}"}"#,
            r#"{"text":"{\"token\":\"***\",\"n\":1}"}"#,
        );
        // So much that nothing hides behind one more pair of quotes.
        let inner = r#"{"password":"x"}"#.to_owned();
        let once = serde_json::to_string(&inner).unwrap();
        let twice = serde_json::to_string(&format!("[{once}]")).unwrap();
        let redactor = Redactor::default();
        let shown = redacted(&Json::parse(twice).unwrap(), &redactor, 0);
        assert!(!shown.contains('x'), "{shown}");
    }

    #[test]
    fn other_json_keeps_its_spelling_on_one_line() {
        for (text, expected) in [
            (
                " {\n  \"a\" : [ 1.0 , 1e400 ,-0 ]\r\n} ",
                r#"{"a":[1.0,1e400,-0]}"#,
            ),
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
            (r#"["\u00e9\/é"]"#, r#"["\u00e9\/é"]"#),
            ("[]", "[]"),
            ("{}", "{}"),
            ("12", "12"),
            (
                "\"a\u{9b}2J\u{202e}\u{e0041}\"",
                r#""a\u009b2J\u202e\udb40\udc41""#,
            ),
        ] {
            check(text, expected);
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        check_deep(&deep);
    }

    /// As [`check`], for what no tree can hold.
    fn check_deep(text: &str) {
        let json = Json::parse(text.to_owned()).unwrap();
        assert_eq!(redacted(&json, &Redactor::default(), 0), text);
    }
}
