//! Reads a form from its schema, and values from typed text.

use serde_json::Value;
use trunkline_wire::Json;

use super::{Field, FieldError, FieldKind, FieldOption, Form, TextFormat};
use crate::sanitize::{one_line, shown};

impl Form {
    /// Reads a `requestedSchema`. A schema without properties is a form without fields.
    pub fn from_schema(schema: &Json) -> Self {
        let required: Vec<String> = schema.field("required").unwrap_or_default();
        let mut fields: Vec<Field> = Vec::new();
        if let Some(properties) = schema.get("properties") {
            properties.members(|name, property| {
                let field = Field::from_schema(name, property, required.iter().any(|r| r == name));
                // Of two properties with one name, the last counts, as everywhere in JSON.
                fields.retain(|known| known.name != name);
                fields.push(field);
            });
        }
        Self { fields }
    }
}

impl Field {
    fn from_schema(name: &str, schema: Json, required: bool) -> Self {
        let value = schema.to_value().unwrap_or_default();
        let text = |member: &str| value.get(member).and_then(Value::as_str);
        Self {
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
            schema,
        }
    }

    /// Parses typed text into a value. Empty text is no value. Choices are recognized by value or
    /// title, several separated by commas.
    ///
    /// # Errors
    ///
    /// The problem, if the text is not a valid value.
    pub fn parse(&self, text: &str) -> Result<Option<Value>, FieldError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Ok(None);
        }
        let value = match &self.kind {
            FieldKind::Text { .. } => Ok(Value::from(text)),
            FieldKind::Number { .. } => parse_number(trimmed).ok_or("must be a number"),
            FieldKind::Integer { .. } => parse_integer(trimmed).ok_or("must be a whole number"),
            FieldKind::Boolean => match &*trimmed.to_lowercase() {
                "true" | "yes" | "y" => Ok(Value::from(true)),
                "false" | "no" | "n" => Ok(Value::from(false)),
                _ => Err("must be yes or no"),
            },
            FieldKind::Choice { options } => Ok(Value::from(option_value(options, trimmed))),
            FieldKind::Choices { options, .. } => {
                let words = trimmed.split(',').map(str::trim);
                let words = words.filter(|word| !word.is_empty());
                Ok(words.map(|word| option_value(options, word)).collect())
            }
            FieldKind::Json => serde_json::from_str(trimmed).map_err(|_| "must be JSON"),
        };
        let value = value.map_err(str::to_owned);
        let valid = value.and_then(|value| self.validate(&value).map(|()| value));
        valid.map(Some).map_err(|problem| self.error(problem))
    }
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
fn type_of(schema: &Value) -> Option<&str> {
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
        return all
            .map(|(at, value)| Some(option(value.as_str()?, title(at))))
            .collect();
    }
    let all = array("oneOf").or_else(|| array("anyOf"))?;
    all.iter()
        .map(|one| {
            let title = one.get("title").and_then(Value::as_str);
            Some(option(one.get("const")?.as_str()?, title))
        })
        .collect()
}

/// The value of the option with this value or title; the text itself if there is none.
fn option_value(options: &[FieldOption], text: &str) -> String {
    let by_value = options.iter().find(|option| option.value == text);
    let titled = |option: &&FieldOption| option.title.to_lowercase() == text.to_lowercase();
    let found = by_value.or_else(|| options.iter().find(titled));
    found.map_or(text, |option| &option.value).to_owned()
}

fn parse_integer(text: &str) -> Option<Value> {
    let signed = text.parse::<i64>().map(Value::from);
    signed
        .or_else(|_| text.parse::<u64>().map(Value::from))
        .ok()
}

fn parse_number(text: &str) -> Option<Value> {
    parse_integer(text).or_else(|| {
        let number = text.parse::<f64>().ok()?;
        serde_json::Number::from_f64(number).map(Value::from)
    })
}
