//! Parses the arguments of a call into one JSON object (UI-3).

use std::fmt::Write as _;
use std::io::Read;

use serde_json::{Map, Value};
use trunkline::Json;

use crate::schema::Document;
use crate::standing::quoted;

/// The maximum size of a file as the value of an argument, in bytes.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// A value on the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    /// `key=value` or `key=@file`: the schema decides its type.
    Text(String),
    /// `key:=json` or `key:=@file`
    Json(Value),
}

/// The arguments of a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallArguments {
    /// The members of --json-args and of objects.
    object: Map<String, Value>,
    words: Vec<(String, Given)>,
}

impl CallArguments {
    /// Parses `key=value`, `key:=json` and `{…}` words, and the value of --json-args. Files are
    /// read here, so that a mistake costs no connection.
    pub(crate) fn parse(words: &[String], json_args: Option<&str>) -> Result<Self, String> {
        let mut object = match json_args.map(serde_json::from_str::<Value>) {
            None => Map::new(),
            Some(Ok(Value::Object(arguments))) => arguments,
            Some(Ok(_)) => {
                return Err("--json-args must be a JSON object, such as '{\"a\": 1}'".to_owned());
            }
            Some(Err(error)) => return Err(format!("--json-args is not valid JSON: {error}")),
        };
        let mut named: Vec<(String, Given)> = Vec::new();
        let twice = |key: &str| Err(format!("the argument \"{key}\" is given twice"));
        for word in words {
            if word.trim_start().starts_with('{') {
                let members: Map<String, Value> = serde_json::from_str(word)
                    .map_err(|error| format!("\"{word}\" is not a JSON object: {error}"))?;
                for (key, value) in members {
                    if object.contains_key(&key) {
                        return twice(&key);
                    }
                    object.insert(key, value);
                }
                continue;
            }
            let (key, given) = parse_word(word)?;
            if named.iter().any(|(known, _)| *known == key) {
                return twice(&key);
            }
            named.push((key, given));
        }
        if let Some((key, _)) = named.iter().find(|(key, _)| object.contains_key(key)) {
            return twice(key);
        }
        Ok(Self {
            object,
            words: named,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.object.is_empty() && self.words.is_empty()
    }

    /// Returns the arguments as one object. The tool's schema decides the type of a plain value:
    /// `n=3` is a number where the tool asks for one.
    pub(crate) fn to_json(&self, schema: &Json) -> Json {
        let mut arguments = self.object.clone();
        let schema = schema.to_value().ok().map(Document::new);
        for (key, given) in &self.words {
            let value = match given {
                Given::Json(value) => value.clone(),
                Given::Text(text) => plain(text, &expected_types(schema.as_ref(), key)),
            };
            arguments.insert(key.clone(), value);
        }
        Value::Object(arguments).into()
    }
}

/// Parses `key=value`, `key=@file`, `key:=json` or `key:=@file`.
pub(crate) fn parse_word(word: &str) -> Result<(String, Given), String> {
    let Some((key, value)) = word.split_once('=') else {
        return Err(format!(
            "\"{word}\" is not an argument; write key=value or key:=json"
        ));
    };
    let (key, is_json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() {
        return Err(format!("\"{word}\" has no name before the \"=\""));
    }
    let file = value.strip_prefix('@');
    let text = match file {
        Some(path) => read_file(key, path)?,
        None => value.to_owned(),
    };
    if !is_json {
        return Ok((key.to_owned(), Given::Text(text)));
    }
    let json = serde_json::from_str(&text).map_err(|error| match file {
        Some(path) => format!("the file \"{path}\" for \"{key}\" is not valid JSON: {error}"),
        None => format!(
            "the value of \"{key}\" is not valid JSON: {error}; for a string, write {key}={value}"
        ),
    })?;
    Ok((key.to_owned(), Given::Json(json)))
}

/// Reads the file that is the value of an argument.
fn read_file(key: &str, path: &str) -> Result<String, String> {
    let failed = |problem: &dyn std::fmt::Display| {
        format!(
            "cannot read the file \"{path}\" for \"{key}\": {problem}; \
             for the text itself, write {key}:='\"@{path}\"'"
        )
    };
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
    let read = read.map_err(|error| failed(&error))?;
    if read as u64 > MAX_FILE {
        return Err(failed(&"it is larger than 64 MB"));
    }
    Ok(text)
}

/// Returns an argument as it is written on a command line. A key that would be read as something
/// else, such as an option, becomes a JSON object; control characters are escaped.
pub(crate) fn to_word(key: &str, value: &Value) -> String {
    let is_ambiguous = key.is_empty()
        || key.starts_with('-')
        || key.trim_start().starts_with('{')
        || key.contains('=')
        || key.ends_with(':')
        || key.chars().any(steers);
    if is_ambiguous {
        let members = Map::from_iter([(key.to_owned(), value.clone())]);
        return quoted(&to_json_text(&Value::Object(members)));
    }
    let (between, text) = match value {
        Value::String(text) if !text.starts_with('@') && !text.chars().any(steers) => {
            ("=", text.clone())
        }
        value => (":=", to_json_text(value)),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if key.chars().all(is_plain) {
        let text = if text.is_empty() { text } else { quoted(&text) };
        return format!("{key}{between}{text}");
    }
    quoted(&format!("{key}{between}{text}"))
}

/// Returns whether a character could steer the terminal that a word is pasted into.
fn steers(c: char) -> bool {
    c.is_control() || trunkline::text::is_harmful(c)
}

/// Formats JSON with all such characters escaped. They can only be within strings.
fn to_json_text(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        if steers(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

/// Returns the arguments that a tool's schema does not declare, although it declares others:
/// probably misspelt.
pub(crate) fn unknown(arguments: &Json, schema: &Json) -> Vec<String> {
    let Some(known) = schema.get("properties") else {
        return Vec::new();
    };
    let composed = [
        "additionalProperties",
        "patternProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
    ];
    if composed.iter().any(|keyword| schema.get(keyword).is_some()) {
        return Vec::new();
    }
    let mut unknown = Vec::new();
    arguments.members(|name, _| {
        if known.get(name).is_none() {
            unknown.push(name.to_owned());
        }
    });
    unknown
}

/// Returns the types that a tool's schema allows for an argument, including those of alternatives.
fn expected_types(schema: Option<&Document>, key: &str) -> Vec<String> {
    let members = schema.map_or_else(Vec::new, |schema| schema.schema().members());
    let Some(member) = members.into_iter().find(|member| member.name == key) else {
        return Vec::new();
    };
    let types = member.schema.types_and_alternatives();
    types.into_iter().map(str::to_owned).collect()
}

/// Parses a plain value as one of the expected types. Falls back to a string, so that validation
/// reports the mismatch.
fn plain(value: &str, expected: &[String]) -> Value {
    let text = || Value::String(value.to_owned());
    if expected.iter().any(|expected| expected == "string") {
        return text();
    }
    let fits = |parsed: &Value, expected: &str| match expected {
        "number" => parsed.is_number(),
        "integer" => parsed.is_i64() || parsed.is_u64(),
        "boolean" => parsed.is_boolean(),
        "array" => parsed.is_array(),
        "object" => parsed.is_object(),
        "null" => parsed.is_null(),
        _ => false,
    };
    let parsed = serde_json::from_str::<Value>(value).ok();
    parsed
        .filter(|parsed| expected.iter().any(|expected| fits(parsed, expected)))
        .unwrap_or_else(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_the_schema_does_not_declare_are_unknown() {
        let parsed = |text: &str| Json::parse(text.to_owned()).unwrap();
        for (schema, expected) in [
            (r#"{"properties": {"a": {}}}"#, &["b"][..]),
            (r#"{"properties": {"a": {}, "b": {}}}"#, &[]),
            (
                r#"{"properties": {"a": {}}, "additionalProperties": true}"#,
                &[],
            ),
            (r#"{"properties": {"a": {}}, "allOf": []}"#, &[]),
            (r#"{"type": "object"}"#, &[]),
        ] {
            let arguments = parsed(r#"{"a": 1, "b": 2}"#);
            assert_eq!(unknown(&arguments, &parsed(schema)), expected, "{schema}");
        }
    }

    fn check(words: &[&str], json_args: Option<&str>, expected: Result<&str, &str>) {
        let schema = Json::parse(
            r#"{"properties":{"n":{"type":"integer"},"x":{"type":"number"},"on":{"type":"boolean"},"s":{"type":"string"},"l":{"type":"array"},"maybe":{"type":["integer","null"]},"either":{"anyOf":[{"type":"number"},{"type":"null"}]},"both":{"type":["string","integer"]}}}"#,
        )
        .unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let read = CallArguments::parse(&words, json_args).map(|given| given.to_json(&schema));
        match (read, expected) {
            (Ok(json), Ok(expected)) => assert_eq!(json.as_str(), expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (found, _) => panic!("{words:?} gave {found:?}"),
        }
    }

    #[test]
    fn words_become_an_object() {
        check(&[], None, Ok("{}"));
        check(&["s=3", "t=3"], None, Ok(r#"{"s":"3","t":"3"}"#));
        check(
            &["n=3", "x=1.5", "on=true", "l=[1]"],
            None,
            Ok(r#"{"n":3,"x":1.5,"on":true,"l":[1]}"#),
        );
        check(
            &["maybe=3", "either=null", "both=3"],
            None,
            Ok(r#"{"maybe":3,"either":null,"both":"3"}"#),
        );
        check(
            &["n=three", "on=yes"],
            None,
            Ok(r#"{"n":"three","on":"yes"}"#),
        );
        check(
            &["s:=3", "o:={\"a\":[1]}"],
            None,
            Ok(r#"{"s":3,"o":{"a":[1]}}"#),
        );
        check(
            &["s=a=b", "u=http://x?y=1"],
            None,
            Ok(r#"{"s":"a=b","u":"http://x?y=1"}"#),
        );
        check(
            &["s=x"],
            Some(r#"{"a":{"b":1}}"#),
            Ok(r#"{"a":{"b":1},"s":"x"}"#),
        );
    }

    #[test]
    fn a_bare_object_and_files_are_arguments() {
        check(
            &[r#"{"a": {"b": 1}}"#, "n=3"],
            None,
            Ok(r#"{"a":{"b":1},"n":3}"#),
        );
        check(
            &[r#" {"a": 1}"#, r#"{"b": 2}"#],
            None,
            Ok(r#"{"a":1,"b":2}"#),
        );
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (text, json) = (path("text", b"a=b\n"), path("json", br#"{"x": [1]}"#));
        let number = path("number", b"3");
        let words = [
            format!("s=@{text}"),
            format!("o:=@{json}"),
            format!("n=@{number}"),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        check(&words, None, Ok(r#"{"s":"a=b\n","o":{"x":[1]},"n":3}"#));
        let binary = path("binary", b"\xff\xfe");
        check(
            &[&format!("s=@{binary}")],
            None,
            Err("cannot read the file"),
        );
        check(&[&format!("s:=@{text}")], None, Err("is not valid JSON"));
    }

    #[test]
    fn an_argument_as_a_word_is_read_back() {
        for (key, value, word) in [
            ("a", json!("b"), "a=b"),
            ("a", json!("b c"), "a='b c'"),
            ("a", json!(""), "a="),
            ("a", json!("@b"), "a:='\"@b\"'"),
            ("a", json!(3), "a:=3"),
            ("a", json!({"x": "it's"}), r#"a:='{"x":"it'\''s"}'"#),
            ("a b", json!(true), "'a b:=true'"),
            ("a", json!("-b"), "a=-b"),
            ("--raw", json!("b"), r#"'{"--raw":"b"}'"#),
            ("a=b", json!(1), r#"'{"a=b":1}'"#),
            ("a:", json!(1), r#"'{"a:":1}'"#),
            ("{", json!(1), r#"'{"{":1}'"#),
            ("a", json!("b\n\u{202e}c"), r#"a:='"b\n\u202ec"'"#),
            ("\u{1b}", json!(1), r#"'{"\u001b":1}'"#),
        ] {
            assert_eq!(to_word(key, &value), word);
        }
    }

    #[test]
    fn mistakes_are_explained() {
        check(&["word"], None, Err("write key=value or key:=json"));
        check(&["=x"], None, Err("no name"));
        check(&["s:=abc"], None, Err("for a string, write s=abc"));
        check(&["s=1", "s=2"], None, Err("given twice"));
        check(&["s=1", r#"{"s": 2}"#], None, Err("given twice"));
        check(&["s=1"], Some(r#"{"s": 2}"#), Err("given twice"));
        check(&["{oops"], None, Err("not a JSON object"));
        check(
            &["s=@/no/such/file"],
            None,
            Err("for the text itself, write s:='\"@/no/such/file\"'"),
        );
        check(&[], Some("[1]"), Err("must be a JSON object"));
        check(&[], Some("{"), Err("not valid JSON"));
    }
}
