//! Validates arguments against a tool's `inputSchema` before they are sent, and results against its
//! `outputSchema`.
//!
//! References are not fetched, patterns run in linear time, and formats are left to the server. A
//! schema that cannot be used validates everything: the server decides.

use std::fmt;
use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use trunkline_wire::Json;
use trunkline_wire::client::Arguments;

use super::schema_cost::{MAX_SCHEMA, SchemaCost};

/// The number of problems in one report.
const MAX_PROBLEMS: usize = 5;

/// The length of a value in a message, in characters.
const MAX_VALUE: usize = 60;

/// The length of one message, in characters, and the number of options it lists.
const MAX_MESSAGE: usize = 500;
const MAX_OPTIONS: usize = 10;

/// Longer results are not validated, in bytes.
const MAX_RESULT: usize = 4 * 1024 * 1024;

/// The memory of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 128 * 1024;

/// The schema of most tools without arguments.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// The validators of a tool's two schemas, built on first use.
#[derive(Default)]
pub(crate) struct Checks {
    input: OnceLock<Option<Check>>,
    output: OnceLock<Option<Check>>,
}

/// A compiled schema.
struct Check {
    validator: Validator,
    cost: SchemaCost,
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Checks")
    }
}

impl Checks {
    /// Returns the problems of arguments, one message each, naming the argument.
    pub(crate) fn arguments(&self, schema: &Json, arguments: &Arguments) -> Vec<String> {
        let Some(check) = self
            .input
            .get_or_init(|| prepare(schema, make_defaults_optional))
        else {
            return Vec::new();
        };
        match arguments {
            Arguments::Tree(value) => check.problems(value, "the arguments"),
            Arguments::Text(json) => serde_json::from_str(json.as_str())
                .map(|value| check.problems(&value, "the arguments"))
                .unwrap_or_default(),
        }
    }

    /// True if a value is valid.
    pub(crate) fn fits(&self, schema: &Json, value: &Json) -> bool {
        if schema.as_str() == ANY_OBJECT {
            return value.as_str().starts_with('{');
        }
        let Some(check) = self.input.get_or_init(|| prepare(schema, |_| {})) else {
            return true;
        };
        let value = serde_json::from_str(value.as_str());
        value.is_ok_and(|value| check.problems(&value, "the value").is_empty())
    }

    /// Returns the problems of a structured result.
    pub(crate) fn result(&self, schema: &Json, result: &Json) -> Vec<String> {
        if result.as_str().len() > MAX_RESULT {
            return Vec::new();
        }
        let Some(check) = self.output.get_or_init(|| prepare(schema, |_| {})) else {
            return Vec::new();
        };
        serde_json::from_str(result.as_str())
            .map(|value| check.problems(&value, "the result"))
            .unwrap_or_default()
    }
}

/// Relaxes and compiles a schema; `None` if there is nothing to validate.
fn prepare(schema: &Json, relax: impl FnOnce(&mut Value)) -> Option<Check> {
    // Callers check for objects anyway.
    if schema.as_str() == ANY_OBJECT || schema.as_str().len() > MAX_SCHEMA {
        return None;
    }
    let mut schema: Value = serde_json::from_str(schema.as_str()).ok()?;
    relax(&mut schema);
    let cost = SchemaCost::of(&schema)?;
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
    Some(Check { validator, cost })
}

/// Makes properties with a default optional: many servers require them and fill them in themselves.
fn make_defaults_optional(schema: &mut Value) {
    match schema {
        Value::Array(several) => several.iter_mut().for_each(make_defaults_optional),
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
            members.values_mut().for_each(make_defaults_optional);
        }
        _ => {}
    }
}

impl Check {
    fn problems(&self, value: &Value, whole: &str) -> Vec<String> {
        if !self.cost.allows(value) || self.validator.is_valid(value) {
            return Vec::new();
        }
        let mut problems: Vec<String> = self
            .validator
            .iter_errors(value)
            .take(MAX_PROBLEMS)
            .map(|problem| message(&problem, whole))
            .collect();
        problems.dedup();
        problems
    }
}

/// The memory of a pattern in a fragment, in bytes: its author is trusted.
const MAX_FRAGMENT_PATTERN: usize = 8 * 1024 * 1024;

/// A compiled fragment of the call policy (SEC-7). Unlike a tool's schema, it always counts.
pub(crate) struct Fragment(Validator);

impl Fragment {
    /// Compiles a fragment; the error says why it cannot be used.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(true)
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(MAX_FRAGMENT_PATTERN)
                    .dfa_size_limit(MAX_FRAGMENT_PATTERN),
            );
        let validator = options.build(schema);
        let validator = validator.map_err(|error| truncate(&error.to_string(), MAX_MESSAGE))?;
        Ok(Self(validator))
    }

    /// Returns why a value does not fit.
    pub(crate) fn problem(&self, value: &Value, name: &str) -> Option<String> {
        let error = self.0.iter_errors(value).next()?;
        let whole = format!("\"{}\"", truncate(name, MAX_VALUE));
        Some(message(&error, &whole))
    }
}

/// Describes a problem in a message of bounded length: schemas are untrusted.
fn message(problem: &ValidationError, whole: &str) -> String {
    truncate(&describe(problem, whole), MAX_MESSAGE)
}

fn describe(problem: &ValidationError, whole: &str) -> String {
    let path = problem.instance_path().as_str();
    let position = if path.is_empty() {
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
    match problem.kind() {
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
            let expected = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    let names: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
                    names.join(" or ")
                }
            };
            format!(
                "{position} must be {expected}, not {}",
                format_value(problem.instance())
            )
        }
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let more = options.len().saturating_sub(MAX_OPTIONS);
            let mut options: Vec<_> = options.iter().take(MAX_OPTIONS).map(format_value).collect();
            if more > 0 {
                options.push(format!("{more} more"));
            }
            format!(
                "{position} must be one of {}, not {}",
                options.join(", "),
                format_value(problem.instance())
            )
        }
        _ => format!(
            "{position}: {}",
            problem.masked_with(format_value(problem.instance()))
        ),
    }
}

/// Formats a value, truncated.
fn format_value(value: &Value) -> String {
    truncate(&value.to_string(), MAX_VALUE)
}

fn truncate(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(schema: Value, arguments: Value) -> Vec<String> {
        let schema = Json::from(schema);
        let text = Arguments::Text(Json::from(arguments.clone()));
        let problems = Checks::default().arguments(&schema, &text);
        let tree = Checks::default().arguments(&schema, &Arguments::Tree(arguments));
        assert_eq!(problems, tree);
        problems
    }

    #[test]
    fn a_problem_names_the_argument() {
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
            assert_eq!(
                problems(schema(), arguments.clone()),
                expected,
                "{arguments}"
            );
        }
        assert_eq!(problems(schema(), json!({"a": 1, "f": "y"})).len(), 1);
    }

    #[test]
    fn properties_with_a_default_are_optional() {
        let schema = json!({"required": ["a", "b"], "properties": {"a": {"type": "number", "default": 1}, "b": {"type": "number"}}});
        assert!(problems(schema.clone(), json!({"b": 1})).is_empty());
        assert_eq!(problems(schema.clone(), json!({"a": "x", "b": 1})).len(), 1);
        assert_eq!(problems(schema, json!({"a": 1})), ["\"b\" is missing"]);
    }

    #[test]
    fn many_and_long_problems_are_truncated() {
        let properties: serde_json::Map<_, _> = (0..20)
            .map(|n| (format!("p{n}"), json!({"type": "number"})))
            .collect();
        let long: serde_json::Map<_, _> = (0..20)
            .map(|n| (format!("p{n}"), json!("x".repeat(10_000))))
            .collect();
        let found = problems(json!({"properties": properties}), Value::Object(long));
        assert_eq!(found.len(), MAX_PROBLEMS);
        assert!(found.iter().all(|problem| problem.len() < 200), "{found:?}");
    }

    #[test]
    fn an_unusable_schema_validates_everything() {
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
    fn recursive_schemas_and_exploding_patterns_terminate() {
        let own = json!({"$ref": "#"});
        assert!(problems(own, json!({"a": {"b": {}}})).is_empty());
        let many: Vec<_> = (0..20_000).map(|n| json!(n)).collect();
        let many_options = problems(
            json!({"properties": {"a": {"enum": many}}}),
            json!({"a": "x"}),
        );
        assert!(many_options[0].contains("19990 more") && many_options[0].len() < 600);
        let tree = json!({"type": "object", "properties": {"child": {"$ref": "#"}}});
        assert_eq!(problems(tree, json!({"child": {"child": 5}})).len(), 1);
        let slow = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
        let arguments = json!({"a": "a".repeat(5000) + "!"});
        assert_eq!(problems(slow, arguments).len(), 1);
    }

    #[test]
    fn a_result_is_validated() {
        let schema = Json::from(json!({"type": "object", "required": ["sum"]}));
        let checks = Checks::default();
        let result = |value| checks.result(&schema, &Json::from(value));
        assert!(result(json!({"sum": 5})).is_empty());
        assert_eq!(result(json!({})), ["\"sum\" is missing"]);
        assert_eq!(result(json!(5)).len(), 1);
        // Nobody fills in defaults in a result.
        let schema = json!({"required": ["a"], "properties": {"a": {"default": 1}}});
        let problems = Checks::default().result(&schema.into(), &Json::from(json!({})));
        assert_eq!(problems, ["\"a\" is missing"]);
    }
}
