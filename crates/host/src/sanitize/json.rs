//! Sanitises the strings in JSON; everything else stays byte for byte.

use std::borrow::Cow;

use serde_json::Value;
use trunkline_wire::Json;
use trunkline_wire::scan::{Token, Tokens};

use super::filter::{is_clean, strip};
use super::{Removed, sanitize};

/// The depth to which the key of a value is known; more levels would cost memory (SEC-4).
const MAX_DEPTH: usize = 1000;

/// Members of a schema that are prose: hidden characters in them have no meaning.
const PROSE: [&str; 3] = ["description", "title", "$comment"];

/// Sanitises every string value at any depth; numbers, keys and white space keep their spelling.
///
/// ```
/// let json = trunkline::Json::parse("{\"n\": 1.50, \"text\": \"a\\u200bb\"}")?;
/// let (clean, removed) = trunkline::text::sanitize_json(&json);
/// assert_eq!(clean.as_str(), "{\"n\": 1.50, \"text\": \"ab\"}");
/// assert_eq!(removed.total(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sanitize_json(json: &Json) -> (Json, Removed) {
    let mut removed = Removed::default();
    let clean = rewritten(json, |position, text| {
        if matches!(position, Position::Key) {
            return None;
        }
        let (clean, found) = sanitize(text);
        removed += found;
        (clean != text).then(|| clean.into_owned())
    });
    (clean, removed)
}

/// Removes hidden characters from keys and values at any depth; everything else keeps its spelling.
/// Adds the removed characters to `removed`.
pub(crate) fn strip_hidden_json(json: &Json, removed: &mut Removed) -> Json {
    rewritten(json, |_, text| match strip(text, removed) {
        Cow::Borrowed(_) => None,
        Cow::Owned(visible) => Some(visible),
    })
}

/// Sanitises an entry of a list, such as a prompt or a resource, for a model. `None` if its
/// identifier has hidden characters: a model must not see them, and the server would not recognise
/// it without them.
pub(crate) fn sanitize_item(item: &Json, identifier: &str) -> Option<(Json, Removed)> {
    let mut removed = Removed::default();
    let mut is_usable = true;
    let item = rewritten(item, |position, text| match position {
        Position::Key => None,
        Position::Value { key: Some(key) } if key == identifier => {
            is_usable &= is_clean(text);
            None
        }
        Position::Value { .. } => {
            let (clean, found) = sanitize(text);
            removed += found;
            (clean != text).then(|| clean.into_owned())
        }
    });
    is_usable.then_some((item, removed))
}

/// Sanitises every string value of a tree.
pub fn sanitize_value(value: &mut Value) -> Removed {
    let mut removed = Removed::default();
    match value {
        Value::String(text) => {
            let (clean, found) = sanitize(text);
            removed = found;
            if clean != *text {
                *text = clean.into_owned();
            }
        }
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| removed += sanitize_value(element)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| removed += sanitize_value(member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    removed
}

/// A schema as a model sees it.
#[derive(Debug)]
pub(crate) struct SanitizedSchema {
    /// The same bytes, unless its prose had hidden characters.
    pub(crate) schema: Json,
    /// The characters removed from the prose.
    pub(crate) removed: Removed,
    /// Hidden characters in names and values, which stay because a call would be wrong without
    /// them.
    pub(crate) left: Removed,
}

/// Removes hidden characters from descriptions and titles of a schema (TOOL-3); the rest stays byte
/// for byte (TOOL-6).
pub(crate) fn sanitize_schema(schema: &Json) -> SanitizedSchema {
    let (mut removed, mut left) = (Removed::default(), Removed::default());
    let schema = rewritten(schema, |position, text| {
        if is_clean(text) {
            return None;
        }
        if matches!(position, Position::Value { key: Some(key) } if PROSE.contains(&key)) {
            return Some(strip(text, &mut removed).into_owned());
        }
        strip(text, &mut left);
        None
    });
    SanitizedSchema {
        schema,
        removed,
        left,
    }
}

/// The position of a string.
enum Position<'k> {
    Key,
    /// A value, with the key of its member unless it is an element.
    Value {
        key: Option<&'k str>,
    },
}

/// Replaces the strings for which `replace` returns a new one; without any, returns the same text.
fn rewritten(json: &Json, mut replace: impl FnMut(Position, &str) -> Option<String>) -> Json {
    let text = json.as_str();
    if is_plain(text) {
        return json.clone();
    }
    let mut out = String::new();
    let mut copied = 0;
    // The last key of each open object; `None` for an array, and for all below `MAX_DEPTH`.
    let mut keys: Vec<Option<String>> = Vec::new();
    let mut deeper = 0_usize;
    let mut tokens = Tokens::new(text);
    while let Some(token) = tokens.next() {
        let (raw, is_key) = match token {
            Token::Key(raw) => (raw, true),
            Token::String(raw) => (raw, false),
            Token::ObjectStart | Token::ArrayStart if keys.len() == MAX_DEPTH => {
                deeper += 1;
                continue;
            }
            Token::ObjectStart => {
                keys.push(Some(String::new()));
                continue;
            }
            Token::ArrayStart => {
                keys.push(None);
                continue;
            }
            Token::ObjectEnd | Token::ArrayEnd => {
                match deeper.checked_sub(1) {
                    Some(outer) => deeper = outer,
                    None => drop(keys.pop()),
                }
                continue;
            }
            Token::Colon | Token::Comma | Token::Scalar(_) => continue,
        };
        let Some((string, whole)) = decoded(raw) else {
            break;
        };
        let position = if is_key {
            Position::Key
        } else {
            let key = keys.last().filter(|_| deeper == 0);
            Position::Value {
                key: key.and_then(Option::as_deref),
            }
        };
        // A lone surrogate cannot be sent.
        let replaced = || (!whole).then(|| string.clone());
        if let Some(new) = replace(position, &string).or_else(replaced) {
            let end = text.len() - tokens.rest().len();
            out.push_str(&text[copied..end - raw.len()]);
            out.push_str(Json::from(Value::from(new)).as_str());
            copied = end;
        }
        if let (true, 0, Some(Some(last))) = (is_key, deeper, keys.last_mut()) {
            *last = string;
        }
    }
    if copied == 0 {
        return json.clone();
    }
    out.push_str(&text[copied..]);
    // Strings were replaced by strings, so it is still JSON.
    Json::parse(out).unwrap_or_else(|_| json.clone())
}

/// Decodes a string, and returns whether it is complete: an unpaired surrogate becomes U+FFFD.
fn decoded(raw: &str) -> Option<(String, bool)> {
    if let Ok(string) = serde_json::from_str(raw) {
        return Some((string, true));
    }
    let json = Json::parse(raw.to_owned()).ok()?;
    Some((json.as_string()?.to_string(), false))
}

/// Returns whether no string can contain anything to sanitise: only printable ASCII, and no escapes
/// except those of quotes, slashes, line feeds and tabs.
fn is_plain(text: &str) -> bool {
    let odd = |byte: u8| !matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r');
    let bytes = text.as_bytes();
    if bytes
        .chunks(64)
        .any(|block| block.iter().fold(false, |any, byte| any | odd(*byte)))
    {
        return false;
    }
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let escaped = bytes.get(at + found + 1);
        if !matches!(escaped, Some(b'"' | b'\\' | b'/' | b'n' | b't')) {
            return false;
        }
        at += found + 2;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn hidden_characters_are_removed_from_keys() {
        let mut removed = Removed::default();
        let text = r#"{"k\u200b": "ﬁ\u202e", "n": 1.50, "l": ["\u001b[1mx"]}"#;
        let visible = strip_hidden_json(&json(text), &mut removed);
        assert_eq!(visible.as_str(), r#"{"k": "ﬁ", "n": 1.50, "l": ["x"]}"#);
        assert_eq!(removed.total(), 3);
        let same = json(r#"{"k": "\u0041"}"#);
        assert_eq!(
            strip_hidden_json(&same, &mut removed).as_str(),
            same.as_str()
        );
    }

    #[test]
    fn list_items_are_sanitized_or_dropped() {
        for (text, identifier, expected) in [
            (
                r#"{"uri":"a:b","name":"n\u200b","x":[{"d":"\u202e"}]}"#,
                "uri",
                Some((r#"{"uri":"a:b","name":"n","x":[{"d":""}]}"#, 2)),
            ),
            (
                r#"{"name":"n","arguments":[{"name":"a\u200b"}]}"#,
                "name",
                None,
            ),
            (r#"{"uri":"a:\u200b"}"#, "uri", None),
            (
                r#"{"uri":"a: 1.50"}"#,
                "uri",
                Some((r#"{"uri":"a: 1.50"}"#, 0)),
            ),
        ] {
            let shown = sanitize_item(&json(text), identifier);
            let shown = shown
                .as_ref()
                .map(|(item, removed)| (item.as_str(), removed.total()));
            assert_eq!(shown, expected, "{text}");
        }
    }

    #[test]
    fn strings_are_sanitized_at_any_depth() {
        for (text, expected) in [
            (r#"{"a" : 1.50,"b":"x"}"#, r#"{"a" : 1.50,"b":"x"}"#),
            (r#""a\u200bb""#, r#""ab""#),
            (
                r#"[ "é", {"k":["\u001b[1mx\r\n"]}, 1e5 ]"#,
                r#"[ "é", {"k":["x\n"]}, 1e5 ]"#,
            ),
            (
                r#"{"k\u200b":"\ud83d","e":"\"\\"}"#,
                r#"{"k\u200b":"�","e":"\"\\"}"#,
            ),
            (r#"{"\ud83d":1}"#, r#"{"�":1}"#),
            ("{\"a\":\"\u{e0041}\"}", r#"{"a":""}"#),
            (r#"{"\":":"\u202e"}"#, r#"{"\":":""}"#),
        ] {
            let (clean, _) = sanitize_json(&json(text));
            assert_eq!(clean.as_str(), expected, "{text}");
            let Ok(mut tree) = json(text).to_value() else {
                continue;
            };
            sanitize_value(&mut tree);
            assert_eq!(tree, clean.to_value().unwrap());
        }
    }

    #[test]
    fn deeply_nested_json_is_supported() {
        let deep = format!("{}\"\\u200b\"{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(sanitize_json(&json(&deep)).1.total(), 1);
    }

    #[test]
    fn schema_loses_only_hidden_characters_in_prose() {
        let clean = r#"{ "type":"object","properties":{"ａ":{"description":"ｆｕｌｌ \u2014 ﬁne","maximum":1.50}} }"#;
        let shown = sanitize_schema(&json(clean));
        assert_eq!(shown.schema.as_str(), clean);
        assert!(shown.removed.is_empty() && shown.left.is_empty());

        let hostile = r#"{"title":"T\u200b","properties":{"de\u200bfault":{"description":"d\ud83d\u202e","enum":["\u200b"],"default":"\u200b","pattern":"\u200b"},"x":{"$comment":"\udb40\udc41!"}}}"#;
        let shown = sanitize_schema(&json(hostile));
        assert_eq!(
            shown.schema.as_str(),
            r#"{"title":"T","properties":{"de\u200bfault":{"description":"d�","enum":["\u200b"],"default":"\u200b","pattern":"\u200b"},"x":{"$comment":"!"}}}"#
        );
        assert_eq!((shown.removed.total(), shown.left.total()), (3, 4));
    }

    #[test]
    fn property_named_description_is_not_prose() {
        let text = r#"{"properties":{"description":{"enum":["\u200b"]}}}"#;
        assert_eq!(sanitize_schema(&json(text)).schema.as_str(), text);
    }
}
