//! Edits JSON text without touching any other byte (CFG-4): unknown keys, key order, number
//! spelling, formatting and repeated keys elsewhere are preserved.
//!
//! Members are located through borrowed `RawValue`s, whose addresses give their positions and which
//! are skipped without recursion, so that deep nesting cannot overflow the stack. `json_layout`
//! formats new members.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::edit::json_layout::{Container, JsonLayout};
use crate::locate::{error_offset, offset, position};

/// Why a text cannot be edited. The messages contain positions and keys but no values, which may be
/// secrets (SEC-1).
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpliceError {
    /// The text is not JSON.
    #[error("line {line}, column {column}: not valid JSON: {message}")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A parent of the member is not an object.
    #[error("line {line}, column {column}: {} is not an object", shown(path))]
    NotAnObject {
        /// Its keys from the root.
        path: Vec<String>,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
    },
}

fn shown(path: &[String]) -> String {
    if path.is_empty() {
        return "the document".to_owned();
    }
    let keys: Vec<_> = path
        .iter()
        .map(|key| Value::from(&**key).to_string())
        .collect();
    keys.join(" → ")
}

/// Sets the member at `path` to `value`, appending missing objects to their parents. An existing
/// member keeps its position; of repeated members the last, which readers use, is changed.
pub(crate) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, SpliceError> {
    let mut layout = JsonLayout::of_file(text);
    let Some(root) = parse(text)? else {
        let mut out = text[..text.len() - without_mark(text).len()].to_owned();
        layout.write(&nested(path, value), "", &mut out);
        out.push_str(layout.newline);
        return Ok(out);
    };
    let mut at = root;
    // The indentation of the line that `at` begins on.
    let mut indent = String::new();
    for (depth, key) in path.iter().enumerate() {
        let object = object(text, at, &path[..depth])?;
        let (own, inner) = layout.within(&object, &indent);
        let Some(found) = object.items.iter().rfind(|item| item.is_called(key)) else {
            let value = nested(&path[depth + 1..], value);
            let start = offset(text, object.raw);
            let (from, to, new) = own.appended(&object, key, &value, &indent, &inner);
            return Ok(replaced(text, start + from, start + to, &new));
        };
        (at, layout, indent) = (found.value, own, inner);
    }
    // Rewriting an equal value would only change its spelling.
    if serde_json::from_str::<Value>(at.get()).is_ok_and(|old| old == *value) {
        return Ok(text.to_owned());
    }
    if let Some(old) = Container::read(at) {
        (layout, _) = layout.within(&old, &indent);
    }
    let mut new = String::new();
    layout.write(value, &indent, &mut new);
    let start = offset(text, at.get());
    Ok(replaced(text, start, start + at.get().len(), &new))
}

/// Removes the member at `path`, including repeated ones; `None` if there is none.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<Option<String>, SpliceError> {
    let Some((key, parents)) = path.split_last() else {
        return Ok(None);
    };
    let Some(parent) = get(text, parents)? else {
        return Ok(None);
    };
    let object = object(text, parent, parents)?;
    let (gone, kept): (Vec<_>, Vec<_>) =
        (0..object.items.len()).partition(|at| object.items[*at].is_called(key));
    if gone.is_empty() {
        return Ok(None);
    }
    // A member is removed with the text up to the next one; the last remaining member keeps what
    // precedes the closing brace.
    let mut new = String::new();
    if let Some((last, others)) = kept.split_last() {
        let at = |item: usize| object.start(item);
        new.push_str(&object.raw[..at(0)]);
        for item in others {
            new.push_str(&object.raw[at(*item)..at(item + 1)]);
        }
        new.push_str(&object.raw[at(*last)..object.end(*last)]);
        new.push_str(&object.raw[object.end(object.items.len() - 1)..]);
    } else {
        new.push_str("{}");
    }
    let start = offset(text, object.raw);
    let end = start + object.raw.len();
    Ok(Some(replaced(text, start, end, &new)))
}

/// The value at `path`, if it is there.
pub(crate) fn get<'a>(text: &'a str, path: &[&str]) -> Result<Option<&'a RawValue>, SpliceError> {
    let mut at = parse(text)?;
    for (depth, key) in path.iter().enumerate() {
        let Some(raw) = at else {
            return Ok(None);
        };
        let object = object(text, raw, &path[..depth])?;
        let found = object.items.iter().rfind(|item| item.is_called(key));
        at = found.map(|item| item.value);
    }
    Ok(at)
}

/// The whole document; `None` for blank text.
pub(super) fn parse(text: &str) -> Result<Option<&RawValue>, SpliceError> {
    let body = without_mark(text);
    if body.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
        return Ok(None);
    }
    serde_json::from_str(body).map(Some).map_err(|error| {
        let (line, column) = position(body, error_offset(body, &error));
        let message = error.to_string();
        let end = message.rfind(" at line ").unwrap_or(message.len());
        SpliceError::NotJson {
            line,
            column,
            message: message[..end].to_owned(),
        }
    })
}

pub(super) fn object<'a>(
    text: &'a str,
    raw: &'a RawValue,
    path: &[&str],
) -> Result<Container<'a>, SpliceError> {
    Container::read(raw)
        .filter(|container| container.raw.starts_with('{'))
        .ok_or_else(|| {
            let body = without_mark(text);
            let (line, column) = position(body, offset(body, raw.get()));
            SpliceError::NotAnObject {
                path: path.iter().map(|key| (*key).to_owned()).collect(),
                line,
                column,
            }
        })
}

pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// `value`, inside the objects that `path` names.
pub(super) fn nested(path: &[&str], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, key| {
        Value::Object(Map::from_iter([((*key).to_owned(), inner)]))
    })
}

fn replaced(text: &str, from: usize, to: usize, new: &str) -> String {
    [&text[..from], new, &text[to..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_new_member_is_written_in_the_manner_of_its_surroundings() {
        let value = json!({"command": "c", "args": ["x", "é\u{1}"], "env": {}, "n": []});
        let cases: &[(&str, &[&str], &str)] = &[
            // JSON.stringify(…, null, 2), with its form of empty objects.
            (
                "{\n  \"a\": 1,\n  \"m\": {}\n}",
                &["m", "s"],
                "{\n  \"a\": 1,\n  \"m\": {\n    \"s\": {\n      \"command\": \"c\",\n      \"args\": [\n        \"x\",\n        \"é\\u0001\"\n      ],\n      \"env\": {},\n      \"n\": []\n    }\n  }\n}",
            ),
            // Tabs, CRLF, a byte order mark, and a final newline.
            (
                "\u{feff}{\r\n\t\"a\": 1\r\n}\r\n",
                &["m", "s"],
                "\u{feff}{\r\n\t\"a\": 1,\r\n\t\"m\": {\r\n\t\t\"s\": {\r\n\t\t\t\"command\": \"c\",\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"x\",\r\n\t\t\t\t\"é\\u0001\"\r\n\t\t\t],\r\n\t\t\t\"env\": {},\r\n\t\t\t\"n\": []\r\n\t\t}\r\n\t}\r\n}\r\n",
            ),
            // Line endings follow the neighbours.
            (
                "{\n \"m\": {\r\n  \"a\": 1\r\n }\n}",
                &["m", "s", "t"],
                "{\n \"m\": {\r\n  \"a\": 1,\r\n  \"s\": {\r\n   \"t\": {\r\n    \"command\": \"c\",\r\n    \"args\": [\r\n     \"x\",\r\n     \"é\\u0001\"\r\n    ],\r\n    \"env\": {},\r\n    \"n\": []\r\n   }\r\n  }\r\n }\n}",
            ),
            // One line, with and without spaces.
            (
                r#"{"a":1}"#,
                &["s"],
                r#"{"a":1,"s":{"command":"c","args":["x","é\u0001"],"env":{},"n":[]}}"#,
            ),
            (
                r#"{"a": 1, "m": {}}"#,
                &["m", "s"],
                r#"{"a": 1, "m": {"s": {"command": "c", "args": ["x", "é\u0001"], "env": {}, "n": []}}}"#,
            ),
            (
                r#"{ "a" : 1 }"#,
                &["s"],
                r#"{ "a" : 1, "s" : { "command" : "c", "args" : ["x", "é\u0001"], "env" : {}, "n" : [] } }"#,
            ),
            // Servers on one line each stay that way.
            (
                "{\n  \"m\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": 1\n  }\n}",
                &["m", "s"],
                "{\n  \"m\": {\n    \"a\": {\"command\": \"x\"},\n    \"b\": 1,\n    \"s\": {\"command\": \"c\", \"args\": [\"x\", \"é\\u0001\"], \"env\": {}, \"n\": []}\n  }\n}",
            ),
        ];
        for (text, path, expected) in cases {
            assert_eq!(set(text, path, &value).unwrap(), *expected, "{text}");
        }
    }

    #[test]
    fn set_and_remove_touch_only_their_member() {
        let one = json!(1);
        let sets: &[(&str, &[&str], &str)] = &[
            ("", &["a", "b"], "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"),
            (" \r\n", &["a"], "{\r\n  \"a\": 1\r\n}\r\n"),
            ("\u{feff}", &["a"], "\u{feff}{\n  \"a\": 1\n}\n"),
            ("", &[], "1\n"),
            ("{}", &["a"], "{\n  \"a\": 1\n}"),
            ("{ }\n", &["a"], "{\n  \"a\": 1\n}\n"),
            ("[{}]", &[], "1"),
            // Replaced in place; the last of repeated keys counts, in parents too.
            (r#"{"a": 0 , "b":1.0}"#, &["a"], r#"{"a": 1 , "b":1.0}"#),
            (r#"{"a":0,"b":2,"a":0}"#, &["a"], r#"{"a":0,"b":2,"a":1}"#),
            (
                r#"{"m":{},"m":{"x":2}}"#,
                &["m", "y"],
                r#"{"m":{},"m":{"x":2,"y":1}}"#,
            ),
            (r#"{"\u0061":0}"#, &["a"], r#"{"\u0061":1}"#),
            (r#"{"\ud800":0}"#, &["a"], r#"{"\ud800":0,"a":1}"#),
            // An equal value is not respelled.
            (r#"{"a": 1, "b": 1e21}"#, &["a"], r#"{"a": 1, "b": 1e21}"#),
            // Neither blank lines between members nor a newline after a colon is copied.
            (
                "{\n\n  \"a\":\n 0,\n\n  \"b\":\n 0\n}",
                &["c"],
                "{\n\n  \"a\":\n 0,\n\n  \"b\":\n 0,\n  \"c\": 1\n}",
            ),
            ("{\"a\": 0\n}", &["b"], "{\"a\": 0, \"b\": 1\n}"),
            ("{\n \"a\": 0}", &["b"], "{\n \"a\": 0,\n \"b\": 1}"),
        ];
        for (text, path, expected) in sets {
            assert_eq!(set(text, path, &one).unwrap(), *expected, "{text}");
        }
        let removes: &[(&str, &[&str], Option<&str>)] = &[
            ("", &["a"], None),
            ("{}", &["a"], None),
            ("{}", &[], None),
            ("{}", &["a", "b"], None),
            ("{\n  \"a\": 1\n}\n", &["a"], Some("{}\n")),
            (r#"{ "a": 1, "b": 2 }"#, &["a"], Some(r#"{ "b": 2 }"#)),
            (r#"{ "a": 1 , "b": 2 }"#, &["b"], Some(r#"{ "a": 1 }"#)),
            (
                r#"{"a":1,"b":2,"\u0061":3,"c":1.0,"a":4}"#,
                &["a"],
                Some(r#"{"b":2,"c":1.0}"#),
            ),
            (
                "{\n  \"m\": {\n    \"a\": 1,\n    \"b\": 2\n  }\n}",
                &["m", "a"],
                Some("{\n  \"m\": {\n    \"b\": 2\n  }\n}"),
            ),
        ];
        for (text, path, expected) in removes {
            assert_eq!(remove(text, path).unwrap().as_deref(), *expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_replaced_in_its_own_manner() {
        let cases = [
            (
                "{\n  \"a\": [\"x\", \"y\"]\n}",
                json!(["z", {"k": 1}]),
                "{\n  \"a\": [\"z\", {\"k\": 1}]\n}",
            ),
            (
                "{\n  \"a\": [\n    \"x\"\n  ]\n}",
                json!(["z"]),
                "{\n  \"a\": [\n    \"z\"\n  ]\n}",
            ),
            (
                "{\"a\": {\n  \"x\": 1\n}}",
                json!({"y": [1]}),
                "{\"a\": {\n  \"y\": [\n    1\n  ]\n}}",
            ),
            ("{\n \"a\": {}\n}", json!([1]), "{\n \"a\": [\n  1\n ]\n}"),
        ];
        for (text, value, expected) in cases {
            assert_eq!(set(text, &["a"], &value).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_edited_is_named_by_its_place_and_never_by_its_value() {
        let cases: &[(&str, &str)] = &[
            ("{", "line 1, column 1: not valid JSON: EOF while"),
            (
                "{\"a\":\n \"hunter2\" x}",
                "line 2, column 12: not valid JSON: expected `,` or `}`",
            ),
            ("{} {}", "line 1, column 4: not valid JSON: trailing"),
            (
                "\u{feff}[\"hunter2\"]",
                "line 1, column 1: the document is not",
            ),
            ("\"hunter2\"", "line 1, column 1: the document is not"),
            (
                "{\n \"a\": \"hunter2\"}",
                "line 2, column 7: \"a\" is not an object",
            ),
            (
                "{\"a\": {\"b\": null}}",
                "line 1, column 13: \"a\" → \"b\" is not an object",
            ),
        ];
        for (text, expected) in cases {
            let path = ["a", "b", "c"];
            let errors = [
                set(text, &path, &json!(1)).unwrap_err(),
                remove(text, &path).unwrap_err(),
                get(text, &path).unwrap_err(),
            ];
            for error in errors {
                let error = error.to_string();
                assert!(error.starts_with(expected), "{text}\n{error}");
                assert!(!error.contains("hunter2"), "{error}");
            }
        }
    }

    #[test]
    fn get_gives_the_last_of_repeated_members_as_it_is_spelled() {
        let text = r#"{"a": {"b": 1}, "a": {"b": 1.0, "\u0062": 12345678901234567890 }}"#;
        let found = get(text, &["a", "b"]).unwrap().map(RawValue::get);
        assert_eq!(found, Some("12345678901234567890"));
        assert_eq!(get(text, &["a", "c"]).unwrap().map(RawValue::get), None);
        assert_eq!(get("", &["a"]).unwrap().map(RawValue::get), None);
        assert_eq!(get(" {} ", &[]).unwrap().map(RawValue::get), Some("{}"));
    }

    #[test]
    fn deep_nesting_is_no_danger() {
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let text = format!("{{\"deep\":{deep},\"m\":{{}}}}");
        let edited = set(&text, &["m", "a"], &json!(1)).unwrap();
        assert_eq!(edited, format!("{{\"deep\":{deep},\"m\":{{\"a\":1}}}}"));
        let edited = set(&text, &["deep"], &json!(1)).unwrap();
        assert_eq!(edited, "{\"deep\":1,\"m\":{}}");
        assert!(remove(&text, &["deep"]).unwrap().is_some());
        let objects = format!("{}1{}", "{\"a\":".repeat(9_000), "}".repeat(9_000));
        assert!(set(&objects, &["a", "a", "b"], &json!(1)).is_ok());
    }

    /// Few keys, so that edits meet existing members.
    fn key() -> impl Strategy<Value = String> {
        prop_oneof![
            3 => "[a-d]",
            1 => any::<String>(),
        ]
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                members(inner),
            ]
        });
        members(value)
    }

    fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        prop::collection::vec((key(), value), 0..5)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    /// Spells `value` with the whitespace chosen by `choices`.
    fn spelled(value: &Value, choices: &mut impl Iterator<Item = u8>, out: &mut String) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (at, (key, value)) in map.iter().enumerate() {
                    out.push(if at == 0 { '{' } else { ',' });
                    space(choices, out);
                    out.push_str(&Value::from(&**key).to_string());
                    space(choices, out);
                    out.push(':');
                    space(choices, out);
                    spelled(value, choices, out);
                    space(choices, out);
                }
                out.push('}');
            }
            Value::Array(items) if !items.is_empty() => {
                for (at, item) in items.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    space(choices, out);
                    spelled(item, choices, out);
                    space(choices, out);
                }
                out.push(']');
            }
            other => out.push_str(&other.to_string()),
        }
    }

    fn space(choices: &mut impl Iterator<Item = u8>, out: &mut String) {
        out.push_str(match choices.next() {
            Some(0) => " ",
            Some(1) => "\n  ",
            Some(2) => "\r\n\t",
            Some(3) => "\n\n",
            _ => "",
        });
    }

    /// The same edit on the parsed document; `None` if a parent is not an object.
    fn set_value(document: &mut Value, path: &[&str], value: &Value) -> Option<()> {
        let mut at = document;
        for key in path {
            at = at.as_object_mut()?.entry(*key).or_insert_with(|| json!({}));
        }
        *at = value.clone();
        Some(())
    }

    /// Whether there was something to remove.
    fn remove_value(document: &mut Value, path: &[&str]) -> Option<bool> {
        let (last, parents) = path.split_last()?;
        let mut at = document;
        for key in parents {
            match at.as_object_mut()?.get_mut(*key) {
                Some(next) => at = next,
                None => return Some(false),
            }
        }
        Some(at.as_object_mut()?.shift_remove(*last).is_some())
    }

    /// Each top-level member as written, except for `key`.
    fn others<'a>(text: &'a str, key: &str) -> Vec<(&'a str, &'a str)> {
        let root = Container::read(parse(text).unwrap().unwrap()).unwrap();
        (0..root.items.len())
            .filter(|at| !root.items[*at].is_called(key))
            .map(|at| {
                let end = root.end(at);
                (&root.raw[root.start(at)..end], root.items[at].value.get())
            })
            .collect()
    }

    proptest! {
        #[test]
        fn an_edit_of_the_text_is_the_edit_of_the_document(
            document in document(),
            choices in prop::collection::vec(0_u8..8, 1..64),
            path in prop::collection::vec(key(), 1..4),
            value in document(),
        ) {
            let mut text = String::new();
            spelled(&document, &mut choices.iter().copied().cycle(), &mut text);
            let path: Vec<_> = path.iter().map(|key| &**key).collect();
            let whole = |text: &str| serde_json::from_str::<Value>(text).unwrap().to_string();

            let mut expected = document.clone();
            let set_it = set(&text, &path, &value);
            if set_value(&mut expected, &path, &value).is_some() {
                let edited = set_it.unwrap();
                prop_assert_eq!(whole(&edited), expected.to_string());
                prop_assert_eq!(others(&edited, path[0]), others(&text, path[0]));
                let there = get(&text, &path).unwrap().is_some();
                let parent = get(&text, &path[..path.len() - 1]).unwrap().is_some();
                if !there && parent {
                    prop_assert_eq!(remove(&edited, &path).unwrap(), Some(text.clone()));
                }
            } else {
                let refused = matches!(set_it, Err(SpliceError::NotAnObject { .. }));
                prop_assert!(refused, "{:?}", set_it);
            }

            let mut expected = document.clone();
            match remove_value(&mut expected, &path) {
                Some(true) => {
                    let edited = remove(&text, &path).unwrap().unwrap();
                    prop_assert_eq!(whole(&edited), expected.to_string());
                    prop_assert_eq!(others(&edited, path[0]), others(&text, path[0]));
                }
                Some(false) => prop_assert_eq!(remove(&text, &path).unwrap(), None),
                None => prop_assert!(remove(&text, &path).is_err()),
            }
        }

        /// `to_string_pretty` formats like `JSON.stringify(…, null, 2)`.
        #[test]
        fn a_file_that_claude_code_wrote_looks_as_if_it_had_written_the_edit(
            document in document(),
            path in prop::collection::vec(key(), 1..4),
            value in document(),
        ) {
            let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap();
            let path: Vec<_> = path.iter().map(|key| &**key).collect();
            let text = pretty(&document);
            let mut expected = document.clone();
            if set_value(&mut expected, &path, &value).is_some() {
                prop_assert_eq!(set(&text, &path, &value).unwrap(), pretty(&expected));
            }
            let mut expected = document;
            if remove_value(&mut expected, &path) == Some(true) {
                prop_assert_eq!(remove(&text, &path).unwrap().unwrap(), pretty(&expected));
            }
        }

        #[test]
        fn no_text_makes_an_edit_panic(text in any::<String>(), json in "[\\[\\]{}:,\"a1 \n]{0,12}") {
            for text in [text, json] {
                let _ = set(&text, &["a", "1"], &json!({"k": [1]}));
                let _ = remove(&text, &["a"]);
            }
        }
    }
}
