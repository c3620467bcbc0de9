//! A JSON file with the order and the positions of its members.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::diagnostic::Diagnostic;
use crate::files::without_bom;
use crate::locate::{Lines, error_offset, offset};

/// A text that should be JSON, and its source.
pub(crate) struct Document<'a> {
    source: &'a str,
    text: &'a str,
    /// The start of each line; computed on first use.
    lines: OnceCell<Lines>,
}

/// A parse error and its position.
pub(crate) struct ParseError {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl<'a> Document<'a> {
    /// Ignores a byte-order mark.
    pub(crate) fn new(source: &'a str, text: &'a str) -> Self {
        Self {
            source,
            text: without_bom(text),
            lines: OnceCell::new(),
        }
    }

    pub(crate) fn source(&self) -> &'a str {
        self.source
    }

    /// The root, which must be an object.
    pub(crate) fn root(&self) -> Result<Members<'a>, Diagnostic> {
        if let Ok(members) = serde_json::from_str(self.text) {
            return Ok(members);
        }
        let read = serde_json::from_str::<&RawValue>(self.text)
            .map_err(|error| {
                let offset = error_offset(self.text, &error);
                let message = if self.text.trim().is_empty() {
                    "the file is empty; write at least {}".to_owned()
                } else {
                    let told = syntax(self.text, offset).unwrap_or_else(|| plain(&error));
                    format!("not valid JSON: {told}")
                };
                ParseError { offset, message }
            })
            .and_then(|raw| self.members(raw));
        read.map_err(|problem| self.problem(problem.offset, problem.message))
    }

    /// The members of a value that must be an object.
    pub(crate) fn members(&self, raw: &'a RawValue) -> Result<Members<'a>, ParseError> {
        serde_json::from_str(raw.get()).map_err(|_| ParseError {
            offset: self.offset(raw),
            message: format!("expected an object, found {}", kind(raw)),
        })
    }

    /// Decodes a value. The error does not quote it, because it may be a secret (SEC-1).
    pub(crate) fn decode<T: Deserialize<'a>>(&self, raw: &'a RawValue) -> Result<T, ParseError> {
        serde_json::from_str(raw.get()).map_err(|error| {
            let text = raw.get();
            let mut at = error_offset(text, &error).min(text.len());
            // `serde_json` reports a list or an object before its start.
            if ["sequence", "map"].iter().any(|kind| {
                error
                    .to_string()
                    .starts_with(&format!("invalid type: {kind}"))
            }) {
                at += text[at..].find(['[', '{']).unwrap_or(0);
            }
            ParseError {
                offset: self.offset(raw) + at,
                message: plain(&error),
            }
        })
    }

    /// The offset of a part of the text.
    pub(crate) fn offset(&self, part: &RawValue) -> usize {
        offset(self.text, part.get())
    }

    /// An error about the part of the text at `offset`.
    pub(crate) fn problem(&self, offset: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.source, message).at(self.position(offset))
    }

    /// A warning about the part of the text at `offset`.
    pub(crate) fn warning(&self, offset: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::warning(self.source, message).at(self.position(offset))
    }

    /// The line and column, both from 1, of the byte at `offset`.
    pub(crate) fn position(&self, offset: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| Lines::of(self.text));
        lines.position(self.text, offset)
    }
}

/// Specific messages for common mistakes.
fn syntax(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at)?.trim_end();
    let here = text.get(at..)?.trim_start();
    let told = if before.ends_with(',') && here.starts_with(['}', ']']) {
        "trailing comma before the closing bracket; remove it"
    } else if here.starts_with("//") || here.starts_with("/*") || before.ends_with('/') {
        "JSON does not allow comments; remove them"
    } else if here.starts_with('\'') {
        "strings need double quotes"
    } else {
        return None;
    };
    Some(told.to_owned())
}

/// The kind of a JSON value, for messages.
pub(crate) fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// A JSON error without its position, which is relative to the value, and without the quoted value,
/// which may be a secret (SEC-1): `invalid type: string "…", expected a map` becomes `expected a
/// map`.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(&*text, |at| &text[..at]);
    match text.rfind("expected ") {
        Some(at) if error.is_data() => text[at..].to_owned(),
        _ => text.to_owned(),
    }
}

/// Accepts only an object: `serde` alone would also accept a list with as many elements as there
/// are fields.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Reader(PhantomData))
    }
}

/// As [`Object`], for a field that may be absent or null.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let object = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(object.map(|Object(inner)| inner))
}

/// The members of an object in order, including repeated ones.
#[derive(Clone, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The value of a member. Of repeated members the last counts, as for other readers.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| *value)
    }

    /// All members with this key, in any case. For keys that forbid: of two lists that deny, or of
    /// one under a misspelt key, none may be lost.
    pub(crate) fn get_all(&self, key: &str) -> Vec<(&str, &'a RawValue)> {
        let is_key = |(name, _): &(&str, _)| name.eq_ignore_ascii_case(key);
        self.iter().filter(is_key).collect()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spelled = SpelledMembers::deserialize(deserializer)?.0.into_iter();
        Ok(Self(
            spelled
                .map(|(key, value)| (decode_key(key), value))
                .collect(),
        ))
    }
}

/// Decodes a key. A key that is not text, such as a lone surrogate written by `JSON.stringify`,
/// keeps its spelling: it matches nothing and must not invalidate the rest.
fn decode_key(key: &RawValue) -> Cow<'_, str> {
    let spelled = key.get();
    let inside = spelled.get(1..spelled.len() - 1).unwrap_or(spelled);
    if !inside.contains('\\') {
        return inside.into();
    }
    serde_json::from_str::<String>(spelled).map_or(inside.into(), Into::into)
}

/// The members of an object with their keys as written.
pub(crate) struct SpelledMembers<'a>(pub(crate) Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for SpelledMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = SpelledMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(SpelledMembers(members))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_named_with_its_place() {
        let cases = [
            ("", "f:1:1: the file is empty; write at least {}"),
            ("{", "f:1:1: not valid JSON: EOF while parsing an object"),
            ("{\n \"a\": tru}", "f:2:10: not valid JSON: expected ident"),
            ("[1]", "f:1:1: expected an object, found a list"),
            (
                "{\"a\": 1,\n}",
                "f:2:1: not valid JSON: trailing comma before the closing bracket; remove it",
            ),
            (
                "{// x\n}",
                "f:1:2: not valid JSON: JSON does not allow comments; remove them",
            ),
            (
                "{'a': 1}",
                "f:1:2: not valid JSON: strings need double quotes",
            ),
            ("\u{feff}\"x\"", "f:1:1: expected an object, found a string"),
        ];
        for (text, expected) in cases {
            let problem = Document::new("f", text).root().err().unwrap();
            assert_eq!(problem.to_string(), expected);
        }
    }

    #[test]
    fn of_repeated_members_the_last_counts() {
        let document = Document::new("f", "\u{feff}{\"a\":1,\r\n\"b\":2,\"\\u0061\":3}");
        let members = document.root().ok().unwrap();
        assert_eq!(members.get("a").unwrap().get(), "3");
        assert_eq!(members.len(), 3);
    }

    #[test]
    fn depth_costs_nothing() {
        let text = format!(
            "{{\"deep\":{}1{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(Document::new("f", &text).root().is_ok());
    }
}
