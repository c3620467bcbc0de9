//! Restricts arguments by JSON Schema fragments (SEC-7).
//!
//! A server may read a repeated member in another way than we do, so repeated members are refused
//! wherever a restriction applies.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use trunkline_config::ArgumentRule;
use trunkline_wire::client::Arguments;

#[cfg(not(feature = "validation"))]
use crate::absent::validation::Fragment;
#[cfg(feature = "validation")]
use crate::call::Fragment;

use super::ToolPattern;

/// The keywords that a fragment may contain: a misspelt one would restrict nothing.
const KEYWORDS: &[&str] = &[
    "$defs",
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependentRequired",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "additionalProperties",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "type",
    "uniqueItems",
    "if",
    "then",
    "else",
    "description",
    "title",
    "$comment",
];

/// The keywords whose value is a schema, a list of schemas, or an object of schemas.
const SCHEMAS: &[&str] = &[
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
];
const SCHEMA_LISTS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
const SCHEMAS_BY_NAME: &[&str] = &["$defs", "patternProperties", "properties"];

/// The restrictions of arguments.
pub(super) struct ArgumentChecks(Vec<ArgumentCheck>);

struct ArgumentCheck {
    pattern: ToolPattern,
    rule: ArgumentRule,
    fragment: Result<Fragment, String>,
}

impl ArgumentChecks {
    pub(super) fn new(rules: &[ArgumentRule]) -> Self {
        let check = |rule: &ArgumentRule| ArgumentCheck {
            pattern: ToolPattern::of_rule(&rule.tool),
            fragment: check_keywords(&rule.schema).and_then(|()| Fragment::new(&rule.schema)),
            rule: rule.clone(),
        };
        Self(rules.iter().map(check).collect())
    }

    /// Returns the first restriction that the arguments violate, and how.
    pub(super) fn first_problem(
        &self,
        applies: impl Fn(&ToolPattern) -> bool,
        arguments: &Arguments,
    ) -> Option<(&ArgumentRule, String)> {
        let mut checks = self
            .0
            .iter()
            .filter(|check| applies(&check.pattern))
            .peekable();
        let first = checks.peek()?;
        let parsed;
        let arguments = match arguments {
            Arguments::Tree(value) => value,
            Arguments::Text(json) => match unique(json.as_str()) {
                Ok(value) => {
                    parsed = value;
                    &parsed
                }
                Err(problem) => return Some((&first.rule, problem)),
            },
        };
        checks.find_map(|check| {
            let name = &check.rule.argument;
            let value = arguments.get(name).unwrap_or(&Value::Null);
            let problem = match &check.fragment {
                Ok(fragment) => fragment.problem(value, name)?,
                Err(problem) => format!("the rule cannot be used: {problem}"),
            };
            let problem = match arguments.get(name) {
                Some(_) => problem,
                None => format!("{problem} (it is missing)"),
            };
            Some((&check.rule, problem))
        })
    }
}

/// Checks that a fragment has no unknown keyword, at any depth.
fn check_keywords(schema: &Value) -> Result<(), String> {
    let Value::Object(members) = schema else {
        return match schema {
            Value::Bool(_) => Ok(()),
            _ => Err("expected a JSON Schema in a JSON Schema".to_owned()),
        };
    };
    for (name, value) in members {
        match name.as_str() {
            name if !KEYWORDS.contains(&name) => {
                return Err(format!("unknown JSON Schema keyword \"{name}\""));
            }
            name if SCHEMAS_BY_NAME.contains(&name) => {
                let schemas = value.as_object();
                let schemas = schemas.ok_or_else(|| format!("\"{name}\" is not an object"))?;
                schemas.values().try_for_each(check_keywords)?;
            }
            name if SCHEMA_LISTS.contains(&name) => {
                let schemas = value.as_array();
                let schemas = schemas.ok_or_else(|| format!("\"{name}\" is not a list"))?;
                schemas.iter().try_for_each(check_keywords)?;
            }
            name if SCHEMAS.contains(&name) => check_keywords(value)?,
            _ => {}
        }
    }
    Ok(())
}

/// Parses JSON without repeated members at any depth.
fn unique(text: &str) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Unique.deserialize(&mut reader);
    value.map_err(|error| {
        let text = error.to_string();
        let text = text.rfind(" at line ").map_or(&*text, |at| &text[..at]);
        text.to_owned()
    })
}

/// Builds a tree of unique members.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(Unique)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut seen = HashSet::new();
        let mut members = serde_json::Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("\"{name}\" is given twice")));
            }
            let value = map.next_value_seed(Unique)?;
            members.insert(name, value);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check_keywords;

    #[test]
    fn a_keyword_that_is_not_understood_is_found_at_any_depth() {
        for schema in [
            json!({"enmu": ["a"]}),
            json!({"properties": {"a": {"enmu": ["a"]}}}),
            json!({"patternProperties": {"^a": {"maxLenght": 1}}}),
            json!({"items": {"items": {"minimun": 1}}}),
            json!({"allOf": [{"type": "string"}, {"patern": "a"}]}),
            json!({"not": {"anyOf": [{"cosnt": 1}]}}),
            json!({"$defs": {"a": {"typ": "string"}}, "$ref": "#/$defs/a"}),
            json!({"additionalProperties": {"x": true}}),
            json!({"if": {"x": 1}}),
            // What would be ignored, because it is no schema.
            json!({"items": ["a"]}),
            json!({"allOf": {"type": "string"}}),
            json!({"properties": ["a"]}),
            json!({"not": "a"}),
        ] {
            assert!(check_keywords(&schema).is_err(), "{schema}");
        }
        for schema in [
            json!(true),
            json!({"properties": {"enmu": {"enum": [{"enmu": 1}], "const": {"x": {}}}}}),
            json!({"items": false, "required": ["x"], "dependentRequired": {"x": ["y"]}}),
        ] {
            assert_eq!(check_keywords(&schema), Ok(()), "{schema}");
        }
    }
}
