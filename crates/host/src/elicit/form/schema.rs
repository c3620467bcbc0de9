//! Reads a form from a schema: references within it, nullable types and `allOf` included.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use trunkline_wire::Json;

use super::{Field, FieldKind, FieldOption, Form, TextFormat};
use crate::sanitize::{one_line, shown};

/// The maximum length of a chain of references, and the maximum depth of `allOf`.
const MAX_DEPTH: usize = 8;

/// The maximum number of fields. A longer form is not one for people.
const MAX_FIELDS: usize = 10_000;

/// The most memory for what fields copy from the targets of their references, in bytes. Many
/// properties can refer to one large definition.
const MAX_COPIED: usize = 16 << 20;

/// Longer definitions are not kept, in bytes: validation does not use longer schemas.
const MAX_DEFINITIONS: usize = 256 << 10;

/// The memory of a value without its text, in bytes.
const VALUE_SIZE: usize = size_of::<Value>();

impl Form {
    /// Reads the properties of an object's schema: a `requestedSchema`, or the input schema of a
    /// tool. A schema without properties is a form without fields.
    pub fn from_schema(schema: &Json) -> Self {
        let root = schema.to_value().unwrap_or_else(|_| readable(schema));
        let mut reader = FormReader {
            root: &root,
            definitions: definitions(&root).map(Arc::new),
            fields: Vec::new(),
            places: HashMap::new(),
            visited: HashSet::new(),
            copied: 0,
        };
        reader.read_object(&root, 0);
        Self {
            fields: reader.fields,
        }
    }
}

struct FormReader<'s> {
    root: &'s Value,
    /// The definitions that references may lead to.
    definitions: Option<Arc<Map<String, Value>>>,
    fields: Vec<Field>,
    /// The place of each field, by name.
    places: HashMap<String, usize>,
    /// The objects read so far. References can lead to one again and again, so depth alone is no
    /// bound.
    visited: HashSet<*const Value>,
    /// The bytes that fields copied from the targets of references.
    copied: usize,
}

impl<'s> FormReader<'s> {
    fn read_object(&mut self, schema: &'s Value, depth: usize) {
        let schema = resolve(self.root, schema);
        if !self.visited.insert(std::ptr::from_ref(schema)) {
            return;
        }
        let required = schema.get("required").and_then(Value::as_array);
        let required: HashSet<&str> = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let field = self.field(name, property, required.contains(name.as_str()));
            match self.places.get(name) {
                Some(place) => {
                    let was_required = self.fields[*place].required;
                    self.fields[*place] = field;
                    self.fields[*place].required |= was_required;
                }
                None if self.fields.len() < MAX_FIELDS => {
                    self.places.insert(name.clone(), self.fields.len());
                    self.fields.push(field);
                }
                None => {}
            }
        }
        // `required` may name a property of another part.
        for name in required {
            if let Some(place) = self.places.get(name) {
                self.fields[*place].required = true;
            }
        }
        let parts = schema.get("allOf").and_then(Value::as_array);
        if depth < MAX_DEPTH {
            for part in parts.into_iter().flatten() {
                self.read_object(part, depth + 1);
            }
        }
    }

    fn field(&mut self, name: &str, schema: &Value, required: bool) -> Field {
        let value = if self.copied < MAX_COPIED {
            simplified(self.root, schema)
        } else {
            Cow::Borrowed(schema)
        };
        if let Cow::Owned(copy) = &value {
            self.copied += size_of_tree(copy);
        }
        let text = |member: &str| value.get(member).and_then(Value::as_str);
        let raw = Json::from(schema);
        let has_references = raw.as_str().contains("\"$ref\"");
        Field {
            name: name.to_owned(),
            title: text("title")
                .map(|title| one_line(title).0.into_owned())
                .filter(|title| !title.is_empty()),
            description: text("description").map(|text| shown(text).0.into_owned()),
            required,
            default: value
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
            kind: FieldKind::from_schema(&value),
            definitions: self.definitions.clone().filter(|_| has_references),
            schema: raw,
        }
    }
}

/// Returns the memory of a value, in bytes.
fn size_of_tree(value: &Value) -> usize {
    let inner: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of_tree).sum(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| name.len() + size_of_tree(value);
            members.iter().map(member).sum()
        }
        _ => 0,
    };
    VALUE_SIZE + inner
}

/// Reads a schema of which a part is nested too deeply: that part becomes a JSON field.
fn readable(schema: &Json) -> Value {
    let member = |member: Json| member.to_value().unwrap_or(Value::Bool(true));
    let mut root = Map::new();
    schema.members(|key, value| {
        let value = match key {
            "properties" | "$defs" | "definitions" => {
                let mut inner = Map::new();
                value.members(|name, value| _ = inner.insert(name.to_owned(), member(value)));
                Value::Object(inner)
            }
            _ => member(value),
        };
        root.insert(key.to_owned(), value);
    });
    Value::Object(root)
}

/// Returns the members of a schema in which definitions live.
fn definitions(root: &Value) -> Option<Map<String, Value>> {
    let places = ["$defs", "definitions"].into_iter();
    let found = places.filter_map(|place| Some((place.to_owned(), root.get(place)?.clone())));
    let found: Map<String, Value> = found.collect();
    let found = Value::from(found);
    let length = Json::from(&found).as_str().len();
    match found {
        Value::Object(found) if !found.is_empty() && length <= MAX_DEFINITIONS => Some(found),
        _ => None,
    }
}

/// Resolves a reference within the document. Others are never followed.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let mut here = schema;
    for _ in 0..MAX_DEPTH {
        let pointer = here.get("$ref").and_then(Value::as_str);
        match pointer.and_then(|pointer| root.pointer(pointer.strip_prefix('#')?)) {
            Some(target) => here = target,
            None => break,
        }
    }
    here
}

/// Resolves references and removes the alternative `null`, keeping the members beside them.
fn simplified<'s>(root: &'s Value, schema: &'s Value) -> Cow<'s, Value> {
    let mut here = Cow::Borrowed(schema);
    for _ in 0..MAX_DEPTH {
        let inner = match &here {
            Cow::Borrowed(schema) => inner_schema(root, schema).cloned(),
            Cow::Owned(schema) => inner_schema(root, schema).cloned(),
        };
        let Some(Value::Object(mut merged)) = inner else {
            break;
        };
        if let Some(outer) = here.as_object() {
            let is_own =
                |key: &&String| !["$ref", "anyOf", "oneOf", "allOf"].contains(&key.as_str());
            for key in outer.keys().filter(is_own) {
                merged.insert(key.clone(), outer[key].clone());
            }
        }
        here = Cow::Owned(Value::Object(merged));
    }
    here
}

/// Returns the schema that this one stands for: the target of its reference, its only alternative
/// besides `null`, or its only part.
fn inner_schema<'s>(root: &'s Value, schema: &'s Value) -> Option<&'s Value> {
    if schema.get("$ref").is_some() {
        let target = resolve(root, schema);
        return (!std::ptr::eq(target, schema)).then_some(target);
    }
    let array = |member: &str| schema.get(member).and_then(Value::as_array);
    if let Some([part]) = array("allOf").map(Vec::as_slice) {
        return Some(part);
    }
    let all = array("anyOf").or_else(|| array("oneOf"))?;
    let is_null = |one: &&Value| one.get("type").and_then(Value::as_str) == Some("null");
    let mut others = all.iter().filter(|one| !is_null(one));
    let first = others.next()?;
    // An alternative that is a constant is an option of a choice.
    let is_only = others.next().is_none() && first.get("const").is_none();
    is_only.then_some(first)
}

impl FieldKind {
    fn from_schema(schema: &Value) -> Self {
        let count = |member: &str| schema.get(member).and_then(Value::as_u64);
        let number = |member: &str| schema.get(member).and_then(Value::as_f64);
        let text = |member: &str| schema.get(member).and_then(Value::as_str);
        if let Some(options) = options(schema) {
            return Self::Choice { options };
        }
        match type_of(schema) {
            // Constraints that no kind of field can show.
            _ if ["anyOf", "oneOf", "enum", "const"]
                .iter()
                .any(|member| schema.get(member).is_some()) =>
            {
                Self::Json
            }
            Some("string") => Self::Text {
                format: text("format").map(TextFormat::from_name),
                min_length: count("minLength"),
                max_length: count("maxLength"),
                pattern: text("pattern").map(str::to_owned),
            },
            Some("number") => Self::Number {
                minimum: number("minimum"),
                maximum: number("maximum"),
            },
            Some("integer") => Self::Integer {
                minimum: number("minimum"),
                maximum: number("maximum"),
            },
            Some("boolean") => Self::Boolean,
            Some("array") => match schema.get("items").and_then(options) {
                Some(options) => Self::Choices {
                    options,
                    min_items: count("minItems"),
                    max_items: count("maxItems"),
                },
                None => Self::Json,
            },
            _ => Self::Json,
        }
    }
}

impl TextFormat {
    fn from_name(name: &str) -> Self {
        match name {
            "email" => Self::Email,
            "uri" => Self::Uri,
            "date" => Self::Date,
            "date-time" => Self::DateTime,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// The type of a schema; a nullable type counts as the other one.
pub(super) fn type_of(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => {
            let mut names = names.iter().filter_map(Value::as_str);
            let mut names = names.by_ref().filter(|name| *name != "null");
            let first = names.next()?;
            names.next().is_none().then_some(first)
        }
        _ => None,
    }
}

/// True for a list of any texts.
pub(super) fn is_list_of_texts(schema: &Value) -> bool {
    type_of(schema) == Some("array") && schema.get("items").and_then(type_of) == Some("string")
}

/// The options of a schema that allows only certain strings: `enum`, with titles in `enumNames`, or
/// `const` and `title` below `oneOf` or `anyOf`.
fn options(schema: &Value) -> Option<Vec<FieldOption>> {
    let option = |value: &str, title: Option<&str>| {
        let title = one_line(title.unwrap_or(value)).0.into_owned();
        FieldOption {
            value: value.to_owned(),
            title,
        }
    };
    let array = |member: &str| schema.get(member).and_then(Value::as_array);
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let titles = array("enumNames").map(Vec::as_slice).unwrap_or_default();
        let title = |at: usize| titles.get(at).and_then(Value::as_str);
        let all = values.iter().enumerate();
        // A nullable choice may list `null` too.
        let all = all.filter(|(_, value)| !value.is_null());
        let options: Option<Vec<_>> = all
            .map(|(at, value)| Some(option(value.as_str()?, title(at))))
            .collect();
        return options.filter(|options| !options.is_empty());
    }
    if let Some(only) = schema.get("const").and_then(Value::as_str) {
        return Some(vec![option(only, None)]);
    }
    let all = array("oneOf").or_else(|| array("anyOf"))?;
    let options: Option<Vec<_>> = all
        .iter()
        .map(|one| {
            let title = one.get("title").and_then(Value::as_str);
            Some(option(one.get("const")?.as_str()?, title))
        })
        .collect();
    options.filter(|options| !options.is_empty())
}
