//! Masks secrets in JSON text. Everything else keeps its spelling, except white space between
//! values.

use std::fmt::Write as _;

use trunkline_config::HIDDEN;
use trunkline_config::redact::is_secret_name;
use trunkline_wire::Json;
use trunkline_wire::scan::{Token, Tokens, unquote};

use super::Redactor;
use crate::harmless::is_harmful;

/// Returns the text on one line, with `***` for known secrets anywhere and for every value with the
/// name of a secret. Characters that could control a terminal are escaped. `json` may be
/// arbitrarily deep.
pub(super) fn redacted(json: &Json, redactor: &Redactor, nested: u8) -> String {
    let text = json.as_str();
    let mut out = String::with_capacity(text.len() + 16);
    // Whether each open container is secret as a whole.
    let mut levels: Vec<bool> = Vec::new();
    let mut masked = false;
    for token in Tokens::new(text) {
        match token {
            Token::ObjectStart | Token::ArrayStart => {
                levels.push(masked);
                out.push(if token == Token::ObjectStart {
                    '{'
                } else {
                    '['
                });
            }
            Token::ObjectEnd | Token::ArrayEnd => {
                levels.pop();
                out.push(if token == Token::ObjectEnd { '}' } else { ']' });
            }
            Token::Comma => {
                masked = levels.last() == Some(&true);
                out.push(',');
            }
            Token::Colon => out.push(':'),
            Token::Key(raw) => {
                let key = unquote(raw);
                masked = levels.last() == Some(&true) || is_secret_name(&key);
                put_string(&mut out, raw, &key, &redactor.known(&key));
            }
            Token::String(raw) if !masked => {
                let string = unquote(raw);
                let shown = redactor.text_within(&string, nested);
                put_string(&mut out, raw, &string, &shown);
            }
            // `true`, `false` and `null` reveal no secret.
            Token::Scalar(raw) if !masked || raw.starts_with(['t', 'f', 'n']) => out.push_str(raw),
            Token::String(_) | Token::Scalar(_) => {
                let _ = write!(out, "\"{HIDDEN}\"");
            }
        }
    }
    out
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
