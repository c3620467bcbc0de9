//! Parses the arguments of a call into one JSON object (UI-3).

use serde_json::{Map, Value};
use trunkline::Json;

use crate::schema::Document;

/// Parses `key=value` and `key:=json` words and adds them to a JSON object. The tool's schema
/// decides the type of a plain value: `n=3` is a number where the tool asks for one.
pub(crate) fn read(
    words: &[String],
    json_args: Option<&str>,
    schema: Option<&Json>,
) -> Result<Json, String> {
    let mut arguments = match json_args.map(serde_json::from_str::<Value>) {
        None => Map::new(),
        Some(Ok(Value::Object(arguments))) => arguments,
        Some(Ok(_)) => {
            return Err("--json-args must be a JSON object, such as '{\"a\": 1}'".to_owned());
        }
        Some(Err(error)) => return Err(format!("--json-args is not valid JSON: {error}")),
    };
    let schema = schema.and_then(|schema| schema.to_value().ok());
    let schema = schema.map(Document::new);
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!(
                "\"{word}\" is not an argument; write key=value or key:=json"
            ));
        };
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => {
                let value = serde_json::from_str(value).map_err(|error| {
                    format!("the value of \"{key}\" is not valid JSON: {error}; for a string, write {key}={value}")
                })?;
                (key, value)
            }
            None => (key, plain(value, &expected_types(schema.as_ref(), key))),
        };
        if key.is_empty() {
            return Err(format!("\"{word}\" has no name before the \"=\""));
        }
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(format!("the argument \"{key}\" is given twice"));
        }
    }
    Ok(Value::Object(arguments).into())
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
    use super::*;

    #[test]
    fn arguments_that_the_schema_does_not_declare_are_unknown() {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
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
            let arguments = json(r#"{"a": 1, "b": 2}"#);
            assert_eq!(unknown(&arguments, &json(schema)), expected, "{schema}");
        }
    }

    fn check(words: &[&str], json_args: Option<&str>, expected: Result<&str, &str>) {
        let schema = Json::parse(
            r#"{"properties":{"n":{"type":"integer"},"x":{"type":"number"},"on":{"type":"boolean"},"s":{"type":"string"},"l":{"type":"array"},"maybe":{"type":["integer","null"]},"either":{"anyOf":[{"type":"number"},{"type":"null"}]},"both":{"type":["string","integer"]}}}"#,
        )
        .unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match (read(&words, json_args, Some(&schema)), expected) {
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
    fn mistakes_are_explained() {
        check(&["word"], None, Err("write key=value or key:=json"));
        check(&["=x"], None, Err("no name"));
        check(&["s:=abc"], None, Err("for a string, write s=abc"));
        check(&["s=1", "s=2"], None, Err("given twice"));
        check(&[], Some("[1]"), Err("must be a JSON object"));
        check(&[], Some("{"), Err("not valid JSON"));
    }
}
