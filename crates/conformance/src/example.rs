//! Makes example values for a JSON Schema.

use serde_json::{Map, Value, json};

/// The maximum depth of references and objects.
const MAX_DEPTH: usize = 8;

/// Returns arguments with every required property. `any` stands for an unconstrained object.
pub(crate) fn arguments(schema: &Value, any: &Value) -> Value {
    let maker = Examples { root: schema, any };
    Value::Object(maker.object(schema, 0))
}

/// Returns a filled-in form: all defaults, and examples for other required fields.
pub(crate) fn filled_in(schema: &Value) -> Value {
    let any = json!({});
    let maker = Examples {
        root: schema,
        any: &any,
    };
    let mut content = maker.object(schema, 0);
    for (name, property) in properties(schema) {
        if let Some(default) = property.get("default") {
            content.insert(name.clone(), default.clone());
        }
    }
    Value::Object(content)
}

struct Examples<'s> {
    root: &'s Value,
    any: &'s Value,
}

impl Examples<'_> {
    fn object(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            let mut names = required.into_iter().flatten();
            names.any(|required| required == name)
        };
        properties(schema)
            .filter(|(name, _)| is_required(name))
            .map(|(name, property)| (name.clone(), self.value(property, depth + 1)))
            .collect()
    }

    fn value(&self, schema: &Value, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        let first = |key: &str| schema.get(key).and_then(|list| list.get(0));
        let given = schema.get("default").or_else(|| schema.get("const"));
        if let Some(value) = given
            .or_else(|| first("enum"))
            .or_else(|| first("examples"))
        {
            return value.clone();
        }
        if let Some(target) = self.referred(schema) {
            return self.value(target, depth + 1);
        }
        if let Some(branch) = first("anyOf").or_else(|| first("oneOf")) {
            return self.value(branch, depth + 1);
        }
        let kind = schema.get("type");
        match kind.and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str())) {
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("null") => Value::Null,
            Some("object") if properties(schema).next().is_none() => self.any.clone(),
            Some("object") => Value::Object(self.object(schema, depth)),
            _ => json!("example"),
        }
    }

    /// Resolves a reference within the document. Others are never followed.
    fn referred(&self, schema: &Value) -> Option<&Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &Value, expected: &Value) {
        assert_eq!(&arguments(schema, &json!({"any": 0})), expected);
    }

    /// A schema with one required property `p`.
    fn one(property: &Value) -> Value {
        json!({"type": "object", "properties": {"p": property}, "required": ["p"]})
    }

    #[test]
    fn optional_properties_are_omitted() {
        check(
            &json!({"properties": {"p": {"type": "string"}}}),
            &json!({}),
        );
        check(&json!({"type": "object"}), &json!({}));
        check(&json!("nonsense"), &json!({}));
    }

    #[test]
    fn a_value_fits_its_type() {
        for (property, value) in [
            (json!({"type": "number"}), json!(1)),
            (json!({"type": ["string", "null"]}), json!("example")),
            (json!({"type": "boolean"}), json!(true)),
            (json!({"type": "array"}), json!([])),
            (json!({"type": "object"}), json!({"any": 0})),
            (one(&json!({"type": "integer"})), json!({"p": 1})),
            (json!({"enum": ["a", "b"]}), json!("a")),
            (json!({"type": "string", "default": "d"}), json!("d")),
            (json!({"anyOf": [{"type": "boolean"}]}), json!(true)),
        ] {
            check(&one(&property), &json!({"p": value}));
        }
    }

    #[test]
    fn only_references_within_the_document_are_followed() {
        let mut schema = one(&json!({"$ref": "#/$defs/n"}));
        schema["$defs"] = json!({"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}});
        check(&schema, &json!({"p": 1}));
        schema["properties"]["p"]["$ref"] = json!("#/$defs/loop");
        check(&schema, &json!({"p": null}));
        schema["properties"]["p"]["$ref"] = json!("http://localhost/schema.json");
        check(&schema, &json!({"p": "example"}));
    }

    #[test]
    fn defaults_are_filled_in_whether_required_or_not() {
        let schema = json!({
            "properties": {
                "age": {"type": "integer", "default": 30},
                "ok": {"type": "boolean"},
                "note": {"type": "string"}
            },
            "required": ["ok"]
        });
        assert_eq!(filled_in(&schema), json!({"age": 30, "ok": true}));
    }
}
