//! Forms: the fields of an elicitation's `requestedSchema`, or of a tool's input schema. `schema`
//! reads schemas, `parse` reads typed text, `validate` checks values, `describe` words what a field
//! expects.
//!
//! Pure functions on data, shared by every front end. A property that fits no kind of field becomes
//! a JSON field; the rest of the form stays usable.

mod describe;
mod parse;
mod schema;
#[cfg(test)]
mod tests;
mod validate;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use trunkline_wire::Json;

use crate::sanitize::one_line;

/// The form of an elicitation, or of a tool's arguments.
///
/// ```
/// use trunkline::elicit::{FieldKind, Form};
///
/// let form = Form::from_schema(&serde_json::json!({
///     "type": "object",
///     "properties": {
///         "name": {"type": "string", "title": "Your name", "minLength": 2},
///         "size": {"type": "string", "enum": ["s", "m", "l"], "default": "m"},
///     },
///     "required": ["name"],
/// }).into());
/// assert_eq!(form.fields[0].label(), "Your name");
/// assert!(matches!(form.fields[1].kind, FieldKind::Choice { .. }));
///
/// let mut values = serde_json::Map::new();
/// let problems = form.check(&values).unwrap_err();
/// assert_eq!(problems[0].to_string(), "\"Your name\" is required");
///
/// let name = form.fields[0].parse("Ada").unwrap().unwrap();
/// values.insert("name".to_owned(), name);
/// let values = form.check(&values).unwrap();
/// assert_eq!(values["size"], "m");
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Form {
    /// The fields, in the schema's order.
    pub fields: Vec<Field>,
}

/// One field of a form.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Field {
    /// The name of the value in the answer.
    pub name: String,
    /// A name for people; untrusted text, sanitized.
    pub title: Option<String>,
    /// An explanation; untrusted text, sanitized.
    pub description: Option<String>,
    /// True if the answer must have a value.
    pub required: bool,
    /// The value that is sent if the user gives none.
    pub default: Option<Value>,
    /// The kind of value.
    pub kind: FieldKind,
    /// The property's schema as the server wrote it.
    pub schema: Json,
    /// The definitions that its references need, shared by all fields.
    definitions: Option<Arc<Map<String, Value>>>,
}

/// The kinds of [`Field`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A string.
    Text {
        /// The expected format.
        format: Option<TextFormat>,
        /// The minimum length in characters.
        min_length: Option<u64>,
        /// The maximum length in characters.
        max_length: Option<u64>,
        /// A regular expression that the text must match.
        pattern: Option<String>,
    },
    /// A number.
    Number {
        /// The smallest allowed number.
        minimum: Option<f64>,
        /// The largest allowed number.
        maximum: Option<f64>,
    },
    /// A whole number.
    Integer {
        /// The smallest allowed number.
        minimum: Option<f64>,
        /// The largest allowed number.
        maximum: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of several strings.
    Choice {
        /// The options, in the schema's order.
        options: Vec<FieldOption>,
    },
    /// Any of several strings.
    Choices {
        /// The options, in the schema's order.
        options: Vec<FieldOption>,
        /// The minimum number of choices.
        min_items: Option<u64>,
        /// The maximum number of choices.
        max_items: Option<u64>,
    },
    /// Any JSON value: the schema fits no other kind.
    Json,
}

/// The formats of a text field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextFormat {
    /// An email address.
    Email,
    /// A URI.
    Uri,
    /// A date: `2026-11-17`.
    Date,
    /// A date and time: `2026-11-17T23:00:00Z`.
    DateTime,
    /// Another format, which is not validated.
    Other(String),
}

/// An option of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldOption {
    /// The value in the answer.
    pub value: String,
    /// A name for people; untrusted text, sanitized.
    pub title: String,
}

/// A problem with the value of a field. Its message never repeats the value, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldError {
    /// The name of the field.
    pub field: String,
    /// The field's name for people.
    pub label: String,
    /// The problem, as the end of a sentence: "is required".
    pub problem: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "\"{}\" {}", self.label, self.problem)
    }
}

impl std::error::Error for FieldError {}

impl Form {
    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the defaults of all fields that have one.
    pub fn defaults(&self) -> Map<String, Value> {
        let default = |field: &Field| Some((field.name.clone(), field.default.clone()?));
        self.fields.iter().filter_map(default).collect()
    }
}

impl Field {
    /// Returns the title, or the name if there is none.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    fn error(&self, problem: String) -> FieldError {
        FieldError {
            field: self.name.clone(),
            label: one_line(self.label()).0.into_owned(),
            problem,
        }
    }
}
