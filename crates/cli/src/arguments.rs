//! The arguments of a call, from words on the command line to one JSON object (UI-3).

use serde_json::{Map, Value};
use trunkline::Json;

/// Reads `key=value` and `key:=json` words on top of a JSON object. The tool's schema decides what a plain value means: `n=3`
/// is a number where the tool asks for one.
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
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!(
                "\"{word}\" is not an argument; write key=value or key:=json"
            ));
        };
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => {
                let value = serde_json::from_str(value).map_err(|error| {
                    format!("the value of \"{key}\" is not valid JSON: {error}; for a text write {key}={value}")
                })?;
                (key, value)
            }
            None => (key, plain(value, expected_type(schema, key).as_deref())),
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

/// The `type` that a tool's schema gives an argument.
fn expected_type(schema: Option<&Json>, key: &str) -> Option<String> {
    schema?.get("properties")?.get(key)?.field("type")
}

/// A plain value as the type that the tool asks for, or as text where it does not fit: the server will say so better.
fn plain(value: &str, expected: Option<&str>) -> Value {
    let parsed = || serde_json::from_str::<Value>(value).ok();
    let fitting = match expected {
        Some("number") => parsed().filter(Value::is_number),
        Some("integer") => parsed().filter(|value| value.is_i64() || value.is_u64()),
        Some("boolean") => parsed().filter(Value::is_boolean),
        Some("array") => parsed().filter(Value::is_array),
        Some("object") => parsed().filter(Value::is_object),
        _ => None,
    };
    fitting.unwrap_or_else(|| Value::String(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], json_args: Option<&str>, expected: Result<&str, &str>) {
        let schema = Json::parse(
            r#"{"properties":{"n":{"type":"integer"},"x":{"type":"number"},"on":{"type":"boolean"},"s":{"type":"string"},"l":{"type":"array"}}}"#,
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
        check(&["s:=abc"], None, Err("for a text write s=abc"));
        check(&["s=1", "s=2"], None, Err("given twice"));
        check(&[], Some("[1]"), Err("must be a JSON object"));
        check(&[], Some("{"), Err("not valid JSON"));
    }
}
