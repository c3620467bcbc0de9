//! The cost of validating against a schema, estimated before validation starts: a few lines of
//! `$ref` can expand to more steps than there is time for.

use serde_json::Value;

/// Longer schemas are not used for validation, in bytes.
pub(super) const MAX_SCHEMA: usize = 256 * 1024;

/// The number of patterns in a schema; each compiles to its own automaton.
const MAX_PATTERNS: usize = 200;

/// The number of subschemas after following references.
const MAX_PARTS: usize = 20_000;

/// The number of steps of one validation.
const MAX_STEPS: usize = 4_000_000;

/// The nesting depth of a value that is validated against a recursive schema.
const MAX_DEPTH: usize = 12;

/// The length of a chain of references.
const MAX_CHAIN: usize = 64;

/// The cost of validating against a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaCost {
    /// The maximum number of subschemas that apply to a value.
    parts: usize,
    /// The schema refers to itself: deeper values meet more subschemas.
    recursive: bool,
}

/// Members whose schemas apply to the same value.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Members whose schemas apply to parts of the value.
const INSIDE: [&str; 7] = [
    "items",
    "additionalProperties",
    "additionalItems",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const INSIDE_MAPS: [&str; 2] = ["properties", "patternProperties"];

impl SchemaCost {
    /// Estimates the cost; `None` if it is too high or unknown.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut count = CostCounter {
            root: schema,
            parts: 0,
            patterns: 0,
            recursive: false,
        };
        count.visit(schema, MAX_DEPTH, 0)?;
        Some(Self {
            parts: count.parts,
            recursive: count.recursive,
        })
    }

    /// True if validating `value` is affordable.
    pub(super) fn allows(self, value: &Value) -> bool {
        if self.recursive && depth(value) > MAX_DEPTH {
            return false;
        }
        let most = MAX_STEPS / self.parts.max(1);
        let mut left = most;
        fits(value, &mut left)
    }
}

/// Walks a schema as a validator would, counting subschemas.
struct CostCounter<'s> {
    root: &'s Value,
    parts: usize,
    patterns: usize,
    recursive: bool,
}

impl<'s> CostCounter<'s> {
    /// `None` if the cost is too high. `depth_left` bounds the value's nesting, `chain` counts the
    /// schemas that apply to the same value.
    fn visit(&mut self, schema: &'s Value, depth_left: usize, chain: usize) -> Option<()> {
        self.parts += 1;
        if self.parts > MAX_PARTS || chain > MAX_CHAIN {
            return None;
        }
        let Some(schema) = schema.as_object() else {
            return Some(());
        };
        // Dynamic references depend on the validation path.
        if ["$dynamicRef", "$recursiveRef"]
            .iter()
            .any(|key| schema.contains_key(*key))
        {
            return None;
        }
        let of_names = schema.get("patternProperties").and_then(Value::as_object);
        self.patterns += usize::from(schema.contains_key("pattern"));
        self.patterns += of_names.map_or(0, serde_json::Map::len);
        if self.patterns > MAX_PATTERNS {
            return None;
        }
        if let Some(reference) = schema.get("$ref") {
            let target = self.target(reference.as_str()?)?;
            self.visit(target, depth_left, chain + 1)?;
        }
        for key in IN_PLACE {
            if let Some(inner) = schema.get(key) {
                self.visit(inner, depth_left, chain + 1)?;
            }
        }
        for key in IN_PLACE_LISTS {
            for inner in schema
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.visit(inner, depth_left, chain + 1)?;
            }
        }
        for inner in
            members(schema.get("dependentSchemas")).chain(members(schema.get("dependencies")))
        {
            self.visit(inner, depth_left, chain + 1)?;
        }
        let Some(inner_depth) = depth_left.checked_sub(1) else {
            self.recursive = true;
            return Some(());
        };
        for key in INSIDE {
            match schema.get(key) {
                Some(Value::Array(several)) => {
                    for inner in several {
                        self.visit(inner, inner_depth, 0)?;
                    }
                }
                Some(inner) => self.visit(inner, inner_depth, 0)?,
                None => {}
            }
        }
        for inner in schema
            .get("prefixItems")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.visit(inner, inner_depth, 0)?;
        }
        for key in INSIDE_MAPS {
            for inner in members(schema.get(key)) {
                self.visit(inner, inner_depth, 0)?;
            }
        }
        Some(())
    }

    /// Resolves a reference within the schema; others are not followed.
    fn target(&self, reference: &str) -> Option<&'s Value> {
        let pointer = reference.strip_prefix('#')?;
        let pointer = percent_encoding::percent_decode_str(pointer);
        self.root.pointer(&pointer.decode_utf8().ok()?)
    }
}

fn members(map: Option<&Value>) -> impl Iterator<Item = &Value> {
    map.and_then(Value::as_object)
        .into_iter()
        .flat_map(serde_json::Map::values)
}

/// The nesting depth of a value.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(values) => values.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// True if a value has at most `left` nodes.
fn fits(value: &Value, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else {
        return false;
    };
    *left = fewer;
    match value {
        Value::Array(values) => values.iter().all(|value| fits(value, left)),
        Value::Object(members) => members.values().all(|value| fits(value, left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_of_exponential_cost_are_rejected() {
        let mut definitions = serde_json::Map::new();
        for n in 0..40 {
            let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
            definitions.insert(format!("a{n}"), json!({"allOf": [next, next]}));
        }
        definitions.insert("a40".to_owned(), json!({"type": "object"}));
        let schema = json!({"$ref": "#/$defs/a0", "$defs": definitions});
        assert!(SchemaCost::of(&schema).is_none());
        // The same, one level of the value per step.
        let both = json!({"properties": {"c": {"$ref": "#/$defs/n"}}});
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [both, both, both]}}});
        assert!(SchemaCost::of(&schema).is_none());
        assert!(SchemaCost::of(&json!({"$ref": "#"})).is_none());
        for (odd, reason) in [
            (json!({"$ref": "https://example.com"}), "elsewhere"),
            (json!({"$ref": "#/$defs/none"}), "nowhere"),
            (json!({"$dynamicRef": "#x"}), "dynamic"),
        ] {
            assert!(SchemaCost::of(&odd).is_none(), "{reason}");
        }
        let names = (0..=MAX_PATTERNS).map(|n| (format!("x{n}"), json!({})));
        let names: serde_json::Map<_, _> = names.collect();
        assert!(SchemaCost::of(&json!({"patternProperties": names})).is_none());
    }

    #[test]
    fn ordinary_schemas_are_affordable() {
        let many: serde_json::Map<_, _> = (0..500)
            .map(|n| (format!("p{n}"), json!({"type": "string", "enum": ["a"]})))
            .collect();
        let wide = SchemaCost::of(&json!({"type": "object", "properties": many})).unwrap();
        assert!(!wide.recursive && wide.allows(&json!({"p1": "a"})));
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        let tree = SchemaCost::of(&tree).unwrap();
        assert!(tree.recursive && tree.allows(&json!({"children": [{"children": []}]})));
        let deep = (0..=MAX_DEPTH).fold(json!({}), |inner, _| json!({"children": [inner]}));
        assert!(!tree.allows(&deep));
    }

    #[test]
    fn a_large_value_is_not_validated_against_an_expensive_schema() {
        let parts: Vec<_> = (0..1000).map(|_| json!({"type": "integer"})).collect();
        let schema = json!({"items": {"anyOf": parts}});
        let cost = SchemaCost::of(&schema).unwrap();
        assert!(cost.allows(&json!([1, 2, 3])));
        assert!(!cost.allows(&json!(vec![1; MAX_STEPS / 1000])));
    }
}
