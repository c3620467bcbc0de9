//! Canonical JSON, so that only relevant differences count as a change (TOOL-11). A pure function.
//!
//! Repeated keys are all kept in their order, because a model sees all of them. The order of a set
//! is not kept: it can neither steer a model nor widen a call, and some servers change it with each
//! start.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Number;
use trunkline_wire::scan::has_more_values;

/// The interpretation of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A JSON Schema.
    Schema,
    /// `_meta`, where a list of strings is a set.
    Meta,
    /// Anything else: lists have an order.
    Data,
}

/// The maximum number of values in a text that is put in order (SEC-4): a tree takes many times the
/// memory of its text.
const MAX_VALUES: usize = 100_000;

/// Returns the canonical text, one member per line. Text that is nested too deep to parse or has
/// too many values stays as it is.
pub(super) fn canonical(kind: Kind, text: &str) -> String {
    let Some(mut tree) = parse(text) else {
        return text.to_owned();
    };
    tree.put_in_order(kind);
    serde_json::to_string_pretty(&tree).unwrap_or_else(|_| text.to_owned())
}

/// Returns whether an object in it has a repeated key, or the text cannot be parsed.
pub(super) fn repeats_keys(text: &str) -> bool {
    parse(text).is_none_or(|tree| tree.repeats_keys())
}

fn parse(text: &str) -> Option<Tree> {
    if has_more_values(text, MAX_VALUES) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// A JSON value that keeps repeated keys.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    fn put_in_order(&mut self, kind: Kind) {
        match self {
            Self::Object(members) => {
                let unique = members
                    .iter()
                    .any(|(key, value)| key == "uniqueItems" && *value == Self::Bool(true));
                for (key, value) in &mut *members {
                    match kind {
                        Kind::Schema => value.put_keyword_in_order(key, unique),
                        Kind::Meta | Kind::Data => value.put_in_order(kind),
                    }
                }
                // Stable: repeated keys stay in their order.
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
            }
            Self::List(items) => {
                for item in &mut *items {
                    item.put_in_order(kind);
                }
                let is_set = items.iter().all(|item| matches!(item, Self::Text(_)));
                if kind == Kind::Meta && is_set {
                    self.sort();
                }
            }
            _ => {}
        }
    }

    /// Sorts the value of a schema's keyword; `unique` means that the schema describes a set.
    fn put_keyword_in_order(&mut self, key: &str, unique: bool) {
        match key {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                self.each_member(|schema| schema.put_in_order(Kind::Schema));
            }
            "dependentRequired" | "dependencies" => {
                self.each_member(|value| match value {
                    Self::List(_) => value.sort(),
                    schema => schema.put_in_order(Kind::Schema),
                });
            }
            "additionalItems"
            | "additionalProperties"
            | "allOf"
            | "anyOf"
            | "contains"
            | "contentSchema"
            | "else"
            | "if"
            | "items"
            | "not"
            | "oneOf"
            | "prefixItems"
            | "propertyNames"
            | "then"
            | "unevaluatedItems"
            | "unevaluatedProperties" => self.put_in_order(Kind::Schema),
            "required" | "enum" | "type" => {
                self.put_in_order(Kind::Data);
                self.sort();
            }
            "default" => {
                self.put_in_order(Kind::Data);
                match self {
                    Self::Text(text) => {
                        if let Some(sorted) = sorted_names(text) {
                            *text = sorted;
                        }
                    }
                    Self::List(_) if unique => self.sort(),
                    _ => {}
                }
            }
            _ => self.put_in_order(Kind::Data),
        }
    }

    fn each_member(&mut self, mut visit: impl FnMut(&mut Self)) {
        if let Self::Object(members) = self {
            for (_, value) in &mut *members {
                visit(value);
            }
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
    }

    /// Sorts the items of a list.
    fn sort(&mut self) {
        if let Self::List(items) = self {
            items.sort_by_cached_key(|item| serde_json::to_string(item).unwrap_or_default());
        }
    }

    fn repeats_keys(&self) -> bool {
        match self {
            Self::Object(members) => {
                let mut keys: Vec<_> = members.iter().map(|(key, _)| key).collect();
                keys.sort_unstable();
                keys.windows(2).any(|pair| pair[0] == pair[1])
                    || members.iter().any(|(_, value)| value.repeats_keys())
            }
            Self::List(items) => items.iter().any(Self::repeats_keys),
            _ => false,
        }
    }
}

/// Sorts a comma-separated list of names; `None` if the text is anything else, such as a sentence.
fn sorted_names(text: &str) -> Option<String> {
    let mut names: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_name = |name: &&str| {
        let fits = |c: char| c.is_alphanumeric() || "_-.:*/@$".contains(c);
        !name.is_empty() && name.chars().all(fits)
    };
    if names.len() < 2 || !names.iter().all(is_name) {
        return None;
    }
    names.sort_unstable();
    Some(names.join(","))
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Number::from_f64(value).map_or(Tree::Null, Tree::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Tree::Object(object))
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => items.serialize(serializer),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes sure that two texts count as the same, or not.
    #[track_caller]
    fn check(kind: Kind, same: bool, pairs: &[(&str, &str)]) {
        for (one, other) in pairs {
            let found = canonical(kind, one) == canonical(kind, other);
            assert_eq!(found, same, "{kind:?}: {one} and {other}");
        }
    }

    #[test]
    fn spelling_and_set_order_do_not_count_as_changes() {
        check(
            Kind::Schema,
            true,
            &[
                (r#"{"a":1,"b":"\u0041"}"#, r#"{ "b": "A", "a": 1 }"#),
                (r#"{"required":["a","b"]}"#, r#"{"required":["b","a"]}"#),
                (r#"{"enum":[1,"a",null]}"#, r#"{"enum":[null,"a",1]}"#),
                (
                    r#"{"type":["string","null"]}"#,
                    r#"{"type":["null","string"]}"#,
                ),
                (
                    r#"{"properties":{"x":{"items":{"anyOf":[{"enum":["a","b"]}]}}}}"#,
                    r#"{"properties":{"x":{"items":{"anyOf":[{"enum":["b","a"]}]}}}}"#,
                ),
                (
                    r#"{"dependentRequired":{"x":["a","b"]}}"#,
                    r#"{"dependentRequired":{"x":["b","a"]}}"#,
                ),
                // Names with commas between them, made from a set.
                (
                    r#"{"default":"priority,updated"}"#,
                    r#"{"default":"updated,priority"}"#,
                ),
                (r#"{"default":"a, b"}"#, r#"{"default":"b, a"}"#),
                (
                    r#"{"uniqueItems":true,"default":["a","b"]}"#,
                    r#"{"uniqueItems":true,"default":["b","a"]}"#,
                ),
                // A property may be called like a keyword.
                (
                    r#"{"properties":{"enum":{"required":["a","b"]}}}"#,
                    r#"{"properties":{"enum":{"required":["b","a"]}}}"#,
                ),
                (r#"{"a":1,"b":0,"a":2}"#, r#"{"b":0,"a":1,"a":2}"#),
            ],
        );
        check(
            Kind::Meta,
            true,
            &[(r#"{"tags":["a","b"]}"#, r#"{"tags":["b","a"]}"#)],
        );
    }

    #[test]
    fn other_differences_count_as_changes() {
        check(
            Kind::Schema,
            false,
            &[
                (r#"{"a":1}"#, r#"{"a":2}"#),
                (r#"{"a":1}"#, r#"{"a":"1"}"#),
                (r#"{"required":["a","b"]}"#, r#"{"required":["a"]}"#),
                (r#"{"enum":["a"]}"#, r#"{"enum":["a","b"]}"#),
                (r#"{"default":"a,b"}"#, r#"{"default":"a,c"}"#),
                (r#"{"default":"a,b"}"#, r#"{"default":"a,b,c"}"#),
                // A sentence is no set.
                (
                    r#"{"default":"keep all, delete nothing"}"#,
                    r#"{"default":"delete nothing, keep all"}"#,
                ),
                (r#"{"description":"a,b"}"#, r#"{"description":"b,a"}"#),
                // Neither are these lists.
                (r#"{"default":["a","b"]}"#, r#"{"default":["b","a"]}"#),
                (r#"{"anyOf":[{},true]}"#, r#"{"anyOf":[true,{}]}"#),
                (r#"{"examples":["a","b"]}"#, r#"{"examples":["b","a"]}"#),
                // A member of a value is no keyword.
                (
                    r#"{"default":{"required":["a","b"]}}"#,
                    r#"{"default":{"required":["b","a"]}}"#,
                ),
                // Each value of a repeated key is seen by a model.
                (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
                (r#"{"a":1,"a":2}"#, r#"{"a":3,"a":2}"#),
                (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            ],
        );
        check(
            Kind::Meta,
            false,
            &[(r#"{"tags":["a",1]}"#, r#"{"tags":[1,"a"]}"#)],
        );
        check(
            Kind::Data,
            false,
            &[
                (r#"{"required":["a","b"]}"#, r#"{"required":["b","a"]}"#),
                (r#"{"default":"a,b"}"#, r#"{"default":"b,a"}"#),
            ],
        );
    }

    #[test]
    fn deeply_nested_and_very_large_texts_are_compared_verbatim() {
        let large = format!("{{\"b\":[{}],\"a\":0}}", vec!["0"; MAX_VALUES].join(","));
        assert_eq!(canonical(Kind::Schema, &large), large);
        assert!(repeats_keys(&large));
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(canonical(Kind::Schema, &deep), deep);
        assert!(repeats_keys(&deep));
    }

    #[test]
    fn repeated_keys_are_detected_at_any_depth() {
        assert!(!repeats_keys(r#"{"a":{"b":1},"b":[{"a":1},{"a":1}]}"#));
        assert!(repeats_keys(r#"{"x":[{"a":1,"b":2,"\u0061":3}]}"#));
    }
}
