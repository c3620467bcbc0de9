//! How much work it is to hold something against a schema, counted before the work is begun: a few lines of `$ref` in a server's schema can
//! mean more steps than there is time.

use serde_json::Value;

/// How long a schema may be to be used, in bytes.
pub(super) const MAX_SCHEMA: usize = 256 * 1024;

/// How many patterns it may have; each is a program of its own.
const MAX_PATTERNS: usize = 200;

/// How many parts a schema may come to when its references are followed.
const MAX_PARTS: usize = 20_000;

/// How many steps one check may take.
const MAX_STEPS: usize = 4_000_000;

/// How deep a value may be nested to be held against a schema that refers to itself.
const MAX_DEPTH: usize = 12;

/// How many references may stand for each other.
const MAX_CHAIN: usize = 64;

/// What a schema costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// How many parts apply to a value, at most.
    parts: usize,
    /// It refers to itself: the deeper a value, the more parts.
    recursive: bool,
}

/// Members whose schemas apply to the same value.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Members whose schemas apply to what is inside the value.
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

impl Effort {
    /// What a schema costs; `None` if that is too much, or cannot be told.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut count = Count {
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

    /// Whether holding `value` against the schema ends soon.
    pub(super) fn allows(self, value: &Value) -> bool {
        if self.recursive && depth(value) > MAX_DEPTH {
            return false;
        }
        let most = MAX_STEPS / self.parts.max(1);
        let mut left = most;
        fits(value, &mut left)
    }
}

/// Follows a schema as a check would, and counts.
struct Count<'s> {
    root: &'s Value,
    parts: usize,
    patterns: usize,
    recursive: bool,
}

impl<'s> Count<'s> {
    /// `None` if it is too much. `deeper` says how deep a value may still be, `chain` how many schemas apply to the same value already.
    fn visit(&mut self, schema: &'s Value, deeper: usize, chain: usize) -> Option<()> {
        self.parts += 1;
        if self.parts > MAX_PARTS || chain > MAX_CHAIN {
            return None;
        }
        let Some(schema) = schema.as_object() else {
            return Some(());
        };
        // Where these lead depends on more than can be followed here.
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
            self.visit(target, deeper, chain + 1)?;
        }
        for key in IN_PLACE {
            if let Some(inner) = schema.get(key) {
                self.visit(inner, deeper, chain + 1)?;
            }
        }
        for key in IN_PLACE_LISTS {
            for inner in schema
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.visit(inner, deeper, chain + 1)?;
            }
        }
        for inner in
            members(schema.get("dependentSchemas")).chain(members(schema.get("dependencies")))
        {
            self.visit(inner, deeper, chain + 1)?;
        }
        let Some(deeper) = deeper.checked_sub(1) else {
            self.recursive = true;
            return Some(());
        };
        for key in INSIDE {
            match schema.get(key) {
                Some(Value::Array(several)) => {
                    for inner in several {
                        self.visit(inner, deeper, 0)?;
                    }
                }
                Some(inner) => self.visit(inner, deeper, 0)?,
                None => {}
            }
        }
        for inner in schema
            .get("prefixItems")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.visit(inner, deeper, 0)?;
        }
        for key in INSIDE_MAPS {
            for inner in members(schema.get(key)) {
                self.visit(inner, deeper, 0)?;
            }
        }
        Some(())
    }

    /// What a reference within the schema leads to. Others are not followed.
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

/// How deep a value is nested.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(values) => values.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// Whether a value has at most `left` parts.
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
    fn what_doubles_with_every_line_is_not_begun() {
        let mut definitions = serde_json::Map::new();
        for n in 0..40 {
            let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
            definitions.insert(format!("a{n}"), json!({"allOf": [next, next]}));
        }
        definitions.insert("a40".to_owned(), json!({"type": "object"}));
        let schema = json!({"$ref": "#/$defs/a0", "$defs": definitions});
        assert!(Effort::of(&schema).is_none());
        // The same, one level of the value at a time.
        let both = json!({"properties": {"c": {"$ref": "#/$defs/n"}}});
        let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [both, both, both]}}});
        assert!(Effort::of(&schema).is_none());
        assert!(Effort::of(&json!({"$ref": "#"})).is_none());
        for (odd, reason) in [
            (json!({"$ref": "https://example.com"}), "elsewhere"),
            (json!({"$ref": "#/$defs/none"}), "nowhere"),
            (json!({"$dynamicRef": "#x"}), "dynamic"),
        ] {
            assert!(Effort::of(&odd).is_none(), "{reason}");
        }
        let names = (0..=MAX_PATTERNS).map(|n| (format!("x{n}"), json!({})));
        let names: serde_json::Map<_, _> = names.collect();
        assert!(Effort::of(&json!({"patternProperties": names})).is_none());
    }

    #[test]
    fn ordinary_schemas_are_no_effort() {
        let many: serde_json::Map<_, _> = (0..500)
            .map(|n| (format!("p{n}"), json!({"type": "string", "enum": ["a"]})))
            .collect();
        let wide = Effort::of(&json!({"type": "object", "properties": many})).unwrap();
        assert!(!wide.recursive && wide.allows(&json!({"p1": "a"})));
        let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        let tree = Effort::of(&tree).unwrap();
        assert!(tree.recursive && tree.allows(&json!({"children": [{"children": []}]})));
        let deep = (0..=MAX_DEPTH).fold(json!({}), |inner, _| json!({"children": [inner]}));
        assert!(!tree.allows(&deep));
    }

    #[test]
    fn a_value_that_is_too_large_for_its_schema_is_not_begun() {
        let parts: Vec<_> = (0..1000).map(|_| json!({"type": "integer"})).collect();
        let schema = json!({"items": {"anyOf": parts}});
        let effort = Effort::of(&schema).unwrap();
        assert!(effort.allows(&json!([1, 2, 3])));
        assert!(!effort.allows(&json!(vec![1; MAX_STEPS / 1000])));
    }
}
