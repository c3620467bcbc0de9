//! Holds arguments against a tool's `inputSchema` before they are sent, and results against its `outputSchema`.
//!
//! Nothing that a schema refers to is fetched, patterns cannot run for long, and a schema that makes no sense is no reason not to call: then
//! the server decides, as it does about formats.

use std::fmt;
use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use trunkline_wire::Json;
use trunkline_wire::client::Arguments;

use super::effort::{Effort, MAX_SCHEMA};

/// How many mistakes are told at once.
const MAX_TOLD: usize = 5;

/// How much of a value is shown.
const SHOWN: usize = 60;

/// How long a mistake in words may be, and how many possibilities it names.
const LONGEST: usize = 500;
const MAX_OPTIONS: usize = 10;

/// How long a result may be to be looked at.
const MAX_RESULT: usize = 4 * 1024 * 1024;

/// How much memory a pattern may take.
const MAX_PATTERN: usize = 128 * 1024;

/// The two schemas of a tool, made ready when they are first needed.
#[derive(Default)]
pub(crate) struct Checks {
    input: OnceLock<Option<Check>>,
    output: OnceLock<Option<Check>>,
}

/// A schema, ready for use.
struct Check {
    validator: Validator,
    effort: Effort,
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Checks")
    }
}

impl Checks {
    /// What is wrong with arguments, one mistake each, in words that name the argument.
    pub(crate) fn arguments(&self, schema: &Json, arguments: &Arguments) -> Vec<String> {
        let Some(check) = self.input.get_or_init(|| prepare(schema, forgive_defaults)) else {
            return Vec::new();
        };
        match arguments {
            Arguments::Tree(value) => check.mistakes(value, "the arguments"),
            Arguments::Text(json) => serde_json::from_str(json.as_str())
                .map(|value| check.mistakes(&value, "the arguments"))
                .unwrap_or_default(),
        }
    }

    /// Whether a value fits a schema.
    pub(crate) fn fits(&self, schema: &Json, value: &Json) -> bool {
        let Some(check) = self.input.get_or_init(|| prepare(schema, |_| {})) else {
            return true;
        };
        let value = serde_json::from_str(value.as_str());
        value.is_ok_and(|value| check.mistakes(&value, "the value").is_empty())
    }

    /// What is wrong with a structured result.
    pub(crate) fn result(&self, schema: &Json, result: &Json) -> Vec<String> {
        if result.as_str().len() > MAX_RESULT {
            return Vec::new();
        }
        let Some(check) = self.output.get_or_init(|| prepare(schema, |_| {})) else {
            return Vec::new();
        };
        serde_json::from_str(result.as_str())
            .map(|value| check.mistakes(&value, "the result"))
            .unwrap_or_default()
    }
}

/// The schema, made milder and ready for use; `None` if there is nothing to hold against it.
fn prepare(schema: &Json, milder: impl FnOnce(&mut Value)) -> Option<Check> {
    // Most tools without arguments, and nothing that is not checked anyway.
    if schema.as_str() == r#"{"type":"object"}"# || schema.as_str().len() > MAX_SCHEMA {
        return None;
    }
    let mut schema: Value = serde_json::from_str(schema.as_str()).ok()?;
    milder(&mut schema);
    let effort = Effort::of(&schema)?;
    let validator = jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(MAX_PATTERN)
                .dfa_size_limit(MAX_PATTERN),
        )
        .build(&schema)
        .ok()?;
    Some(Check { validator, effort })
}

/// Takes what has a default out of what is required: many servers list it there, and fill it in themselves.
fn forgive_defaults(schema: &mut Value) {
    match schema {
        Value::Array(several) => several.iter_mut().for_each(forgive_defaults),
        Value::Object(members) => {
            let properties = members.get("properties").and_then(Value::as_object);
            let filled_in: Vec<Value> = properties
                .into_iter()
                .flatten()
                .filter(|(_, property)| property.get("default").is_some())
                .map(|(name, _)| Value::from(name.as_str()))
                .collect();
            if let Some(Value::Array(required)) = members.get_mut("required") {
                required.retain(|name| !filled_in.contains(name));
            }
            members.values_mut().for_each(forgive_defaults);
        }
        _ => {}
    }
}

impl Check {
    fn mistakes(&self, value: &Value, whole: &str) -> Vec<String> {
        if !self.effort.allows(value) || self.validator.is_valid(value) {
            return Vec::new();
        }
        let mut told: Vec<String> = self
            .validator
            .iter_errors(value)
            .take(MAX_TOLD)
            .map(|mistake| in_words(&mistake, whole))
            .collect();
        told.dedup();
        told
    }
}

/// One mistake, in words of a bounded length: schemas are the server's.
fn in_words(mistake: &ValidationError, whole: &str) -> String {
    cut(&described(mistake, whole), LONGEST)
}

fn described(mistake: &ValidationError, whole: &str) -> String {
    let path = mistake.instance_path().as_str();
    let place = if path.is_empty() {
        whole.to_owned()
    } else {
        format!("\"{}\"", path.trim_start_matches('/').replace('/', "."))
    };
    let within = |name: &str| match path {
        "" => format!("\"{name}\""),
        path => format!(
            "\"{}.{name}\"",
            path.trim_start_matches('/').replace('/', ".")
        ),
    };
    match mistake.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            format!("{} is missing", within(name))
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let names = unexpected.iter().take(MAX_OPTIONS);
            let names: Vec<_> = names.map(|name| within(name)).collect();
            let are = if names.len() == 1 { "is" } else { "are" };
            format!("{} {are} not known", names.join(", "))
        }
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    let names: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
                    names.join(" or ")
                }
            };
            format!(
                "{place} must be {wanted}, not {}",
                shown(mistake.instance())
            )
        }
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let more = options.len().saturating_sub(MAX_OPTIONS);
            let mut options: Vec<_> = options.iter().take(MAX_OPTIONS).map(shown).collect();
            if more > 0 {
                options.push(format!("{more} more"));
            }
            format!(
                "{place} must be one of {}, not {}",
                options.join(", "),
                shown(mistake.instance())
            )
        }
        _ => format!(
            "{place}: {}",
            mistake.masked_with(shown(mistake.instance()))
        ),
    }
}

/// A value, as far as it can be shown.
fn shown(value: &Value) -> String {
    cut(&value.to_string(), SHOWN)
}

fn cut(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(schema: Value, arguments: Value) -> Vec<String> {
        let schema = Json::from(schema);
        let text = Arguments::Text(Json::from(arguments.clone()));
        let told = Checks::default().arguments(&schema, &text);
        let tree = Checks::default().arguments(&schema, &Arguments::Tree(arguments));
        assert_eq!(told, tree);
        told
    }

    #[test]
    fn a_mistake_is_told_with_the_name_of_the_argument() {
        let schema = || {
            json!({
                "type": "object", "required": ["a"], "additionalProperties": false,
                "properties": {
                    "a": {"type": "number"}, "b": {"enum": ["x", "y"]}, "c": {"type": "array", "items": {"type": "object", "required": ["d"]}},
                    "e": {"type": ["string", "null"], "maxLength": 3}, "f": {"type": "string", "pattern": "^x+$"}, "g": {"type": "integer", "minimum": 1},
                },
            })
        };
        for (arguments, expected) in [
            (json!({"a": 1}), None),
            (
                json!({"a": 1.5, "b": "x", "c": [{"d": 0}], "e": null, "f": "xx", "g": 1}),
                None,
            ),
            (json!({}), Some("\"a\" is missing")),
            (json!({"a": "1"}), Some("\"a\" must be number, not \"1\"")),
            (json!({"a": 1, "z": 0}), Some("\"z\" is not known")),
            (
                json!({"a": 1, "y": 0, "z": 0}),
                Some("\"y\", \"z\" are not known"),
            ),
            (
                json!({"a": 1, "b": "z"}),
                Some("\"b\" must be one of \"x\", \"y\", not \"z\""),
            ),
            (json!({"a": 1, "c": [{}]}), Some("\"c.0.d\" is missing")),
            (
                json!({"a": 1, "e": 5}),
                Some("\"e\" must be null or string, not 5"),
            ),
            (
                json!({"a": 1, "e": "long"}),
                Some("\"e\": \"long\" is longer than 3 characters"),
            ),
            (
                json!({"a": 1, "g": 0}),
                Some("\"g\": 0 is less than the minimum of 1"),
            ),
        ] {
            let expected: Vec<_> = expected.into_iter().collect();
            assert_eq!(told(schema(), arguments.clone()), expected, "{arguments}");
        }
        assert_eq!(told(schema(), json!({"a": 1, "f": "y"})).len(), 1);
    }

    #[test]
    fn what_has_a_default_may_be_left_out() {
        let schema = json!({"required": ["a", "b"], "properties": {"a": {"type": "number", "default": 1}, "b": {"type": "number"}}});
        assert!(told(schema.clone(), json!({"b": 1})).is_empty());
        assert_eq!(told(schema.clone(), json!({"a": "x", "b": 1})).len(), 1);
        assert_eq!(told(schema, json!({"a": 1})), ["\"b\" is missing"]);
    }

    #[test]
    fn many_and_long_mistakes_are_told_in_short() {
        let properties: serde_json::Map<_, _> = (0..20)
            .map(|n| (format!("p{n}"), json!({"type": "number"})))
            .collect();
        let long: serde_json::Map<_, _> = (0..20)
            .map(|n| (format!("p{n}"), json!("x".repeat(10_000))))
            .collect();
        let told = told(json!({"properties": properties}), Value::Object(long));
        assert_eq!(told.len(), MAX_TOLD);
        assert!(told.iter().all(|mistake| mistake.len() < 200), "{told:?}");
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_the_servers_business() {
        let deep = "{\"not\":".repeat(10_000) + "{}" + &"}".repeat(10_000);
        for schema in [
            r#"{"type": 5}"#,
            r#"{"$ref": "https://example.com/schema.json"}"#,
            r##"{"$ref": "#/$defs/none"}"##,
            r#"{"pattern": "("}"#,
            r#"{"properties": []}"#,
            &deep,
        ] {
            let schema = Json::parse(schema.to_owned()).unwrap();
            let arguments = Arguments::Tree(json!({"a": 1}));
            assert!(Checks::default().arguments(&schema, &arguments).is_empty());
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_and_a_pattern_that_explodes_end() {
        let own = json!({"$ref": "#"});
        assert!(told(own, json!({"a": {"b": {}}})).is_empty());
        let many: Vec<_> = (0..20_000).map(|n| json!(n)).collect();
        let told_of_many = told(
            json!({"properties": {"a": {"enum": many}}}),
            json!({"a": "x"}),
        );
        assert!(told_of_many[0].contains("19990 more") && told_of_many[0].len() < 600);
        let tree = json!({"type": "object", "properties": {"child": {"$ref": "#"}}});
        assert_eq!(told(tree, json!({"child": {"child": 5}})).len(), 1);
        let slow = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
        let arguments = json!({"a": "a".repeat(5000) + "!"});
        assert_eq!(told(slow, arguments).len(), 1);
    }

    #[test]
    fn a_result_is_held_against_its_schema() {
        let schema = Json::from(json!({"type": "object", "required": ["sum"]}));
        let checks = Checks::default();
        let result = |value| checks.result(&schema, &Json::from(value));
        assert!(result(json!({"sum": 5})).is_empty());
        assert_eq!(result(json!({})), ["\"sum\" is missing"]);
        assert_eq!(result(json!(5)).len(), 1);
        // Nobody fills in what is missing from a result.
        let schema = json!({"required": ["a"], "properties": {"a": {"default": 1}}});
        let told = Checks::default().result(&schema.into(), &Json::from(json!({})));
        assert_eq!(told, ["\"a\" is missing"]);
    }
}
