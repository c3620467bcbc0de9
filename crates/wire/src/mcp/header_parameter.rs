//! Arguments that a server wants as headers (`x-mcp-header`), so that intermediaries can route by
//! them.

use std::collections::HashSet;

use bytestring::ByteString;
use serde_json::Value;

use crate::client::Arguments;
use crate::json::Json;

/// The schema keyword that names the header.
const ANNOTATION: &str = "x-mcp-header";

/// The maximum nesting of a schema (SEC-4).
const MAX_DEPTH: usize = 64;

/// The largest integer in a header: the safe integers of JavaScript.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// An argument that is also sent as a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParameter {
    /// The name of the header, without the prefix `Mcp-Param-`.
    pub header: ByteString,
    /// The property path of the argument.
    path: Vec<String>,
}

impl HeaderParameter {
    /// Finds the header parameters in an input schema. The error tells why the schema is invalid.
    pub fn all(schema: &Json) -> Result<Vec<Self>, String> {
        if !schema.as_str().contains(ANNOTATION) {
            return Ok(Vec::new());
        }
        let Ok(schema) = schema.to_value() else {
            return Err("its input schema is nested too deeply or too large".to_owned());
        };
        let mut found = Vec::new();
        walk(&schema, Some(&mut Vec::new()), &mut found, 0)?;
        let mut seen = HashSet::new();
        for parameter in &found {
            if !seen.insert(parameter.header.to_ascii_lowercase()) {
                return Err(format!(
                    "two parameters ask for the header \"{}\"",
                    parameter.header
                ));
            }
        }
        Ok(found)
    }

    /// Returns the value of the header for these arguments.
    pub fn header_value(&self, arguments: &Value) -> HeaderParameterValue {
        let mut path = self.path.iter();
        let value = path.try_fold(arguments, |value, name| value.get(name));
        match value {
            None | Some(Value::Null) => HeaderParameterValue::Absent,
            Some(Value::String(text)) => HeaderParameterValue::Text(text.clone()),
            Some(Value::Bool(set)) => HeaderParameterValue::Text(set.to_string()),
            Some(Value::Number(number)) => match whole(number) {
                Some(number) => HeaderParameterValue::Text(number.to_string()),
                None => HeaderParameterValue::Unfit,
            },
            Some(_) => HeaderParameterValue::Unfit,
        }
    }
}

/// The value of a header parameter in the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderParameterValue {
    /// The text of the header, before its encoding.
    Text(String),
    /// The arguments have no value, or null.
    Absent,
    /// The value fits into no header.
    Unfit,
}

/// Returns the header names and values of the parameters that have a value.
pub(crate) fn header_values(
    parameters: &[HeaderParameter],
    arguments: &Arguments,
) -> Vec<(ByteString, String)> {
    if parameters.is_empty() {
        return Vec::new();
    }
    let parsed;
    let tree = match arguments {
        Arguments::Tree(tree) => tree,
        Arguments::Text(text) => {
            parsed = serde_json::from_str(text.as_str()).unwrap_or_default();
            &parsed
        }
    };
    let value = |parameter: &HeaderParameter| match parameter.header_value(tree) {
        HeaderParameterValue::Text(text) => Some((parameter.header.clone(), text)),
        HeaderParameterValue::Absent | HeaderParameterValue::Unfit => None,
    };
    parameters.iter().filter_map(value).collect()
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is checked to be whole and small enough"
    )]
    let whole = number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0);
        number
            .filter(|number| number.abs() < 1e15)
            .map(|number| number as i64)
    });
    whole.filter(|whole| (-MAX_INTEGER..=MAX_INTEGER).contains(whole))
}

/// Collects the annotations. `path` is `None` where the schema was not reached through `properties`
/// alone, and an annotation is invalid.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<HeaderParameter>,
    depth: usize,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("its input schema is nested too deeply".to_owned());
    }
    let Value::Object(members) = schema else {
        return Ok(());
    };
    for (key, value) in members {
        match (key.as_str(), value) {
            (ANNOTATION, name) => {
                let reached = path.as_deref().filter(|path| !path.is_empty());
                found.push(annotated(members, name, reached)?);
            }
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    match &mut path {
                        Some(path) => {
                            path.push(name.clone());
                            walk(property, Some(&mut **path), found, depth + 1)?;
                            path.pop();
                        }
                        None => walk(property, None, found, depth + 1)?,
                    }
                }
            }
            // These contain values, not schemas.
            ("default" | "const" | "enum" | "examples", _) => {}
            (
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(schemas),
            ) => {
                for schema in schemas.values() {
                    walk(schema, None, found, depth + 1)?;
                }
            }
            (_, Value::Array(schemas)) => {
                for schema in schemas {
                    walk(schema, None, found, depth + 1)?;
                }
            }
            (_, schema) => walk(schema, None, found, depth + 1)?,
        }
    }
    Ok(())
}

fn annotated(
    schema: &serde_json::Map<String, Value>,
    name: &Value,
    path: Option<&Vec<String>>,
) -> Result<HeaderParameter, String> {
    let Some(name) = name.as_str().filter(|name| is_token(name)) else {
        return Err(format!(
            "{ANNOTATION} is {name}, which cannot be part of a header's name"
        ));
    };
    let Some(path) = path else {
        return Err(format!("{ANNOTATION} \"{name}\" is not on a parameter"));
    };
    let primitive = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    let fits = match schema.get("type") {
        Some(Value::Array(kinds)) => {
            let kinds = || kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            kinds().next().is_some() && kinds().all(primitive)
        }
        Some(kind) => primitive(kind),
        None => false,
    };
    if !fits {
        return Err(format!(
            "{ANNOTATION} \"{name}\" is on a parameter that is no string, integer or boolean"
        ));
    }
    Ok(HeaderParameter {
        header: name.into(),
        path: path.clone(),
    })
}

/// Returns true for a token of RFC 9110.
fn is_token(name: &str) -> bool {
    let tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(tchar)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(schema: Value) -> Result<Vec<HeaderParameter>, String> {
        HeaderParameter::all(&Json::from(schema))
    }

    #[test]
    fn annotated_parameters_are_found_and_their_values_read() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "flag": {"type": ["boolean", "null"], "x-mcp-header": "Flag"},
            "x-mcp-header": {"type": "number", "default": {"x-mcp-header": 1}},
        }});
        let found = all(schema).unwrap();
        let check = |arguments: Value, expected: &[(&str, &str)]| {
            let text = Arguments::Text(Json::from(arguments.clone()));
            for arguments in [Arguments::Tree(arguments), text] {
                let values = header_values(&found, &arguments);
                let values: Vec<_> = values
                    .iter()
                    .map(|(name, value)| (&**name, &**value))
                    .collect();
                assert_eq!(values, expected);
            }
        };
        check(
            json!({"region": "é", "deep": {"n": 42.0}, "flag": true}),
            &[("Region", "é"), ("N", "42"), ("Flag", "true")],
        );
        check(json!({"region": null, "deep": {}, "flag": [1]}), &[]);
        check(json!({"deep": {"n": 1.5}}), &[]);
        check(json!({"deep": {"n": 9_007_199_254_740_993_u64}}), &[]);
    }

    #[test]
    fn invalid_annotations_are_rejected() {
        let one = |property: Value| json!({"properties": {"p": property}});
        for schema in [
            one(json!({"type": "string", "x-mcp-header": ""})),
            one(json!({"type": "string", "x-mcp-header": "a b"})),
            one(json!({"type": "string", "x-mcp-header": "a\r\nb"})),
            one(json!({"type": "string", "x-mcp-header": 1})),
            one(json!({"type": "number", "x-mcp-header": "A"})),
            one(json!({"type": "object", "x-mcp-header": "A"})),
            one(json!({"x-mcp-header": "A"})),
            one(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
            one(json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]})),
            json!({"x-mcp-header": "A", "type": "string"}),
            json!({"$defs": {"d": {"properties": {"p": {"type": "string", "x-mcp-header": "A"}}}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}}),
        ] {
            assert!(all(schema.clone()).is_err(), "{schema}");
        }
        assert_eq!(all(json!({"type": "object"})).unwrap(), []);
    }
}
