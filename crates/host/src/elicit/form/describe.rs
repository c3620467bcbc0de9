//! Words what a field expects, and formats its values as text.

use std::fmt::Display;

use serde_json::Value;

use super::schema::{is_list_of_texts, type_of};
use super::{Field, FieldKind, TextFormat};
use crate::sanitize::one_line;

impl Field {
    /// Describes the values that the field takes, in a few words: "whole number from 1 to 5".
    /// Contains no text of the server, except for the name of an unknown format.
    ///
    /// ```
    /// use trunkline::elicit::Form;
    ///
    /// let schema = serde_json::json!({"properties": {
    ///     "count": {"type": "integer", "minimum": 1, "maximum": 5},
    ///     "name": {"type": "string", "minLength": 2},
    /// }});
    /// let form = Form::from_schema(&schema.into());
    /// assert_eq!(form.fields[0].expects(), "whole number from 1 to 5");
    /// assert_eq!(form.fields[1].expects(), "text of at least 2 characters");
    /// ```
    pub fn expects(&self) -> String {
        match &self.kind {
            FieldKind::Text {
                format,
                min_length,
                max_length,
                ..
            } => {
                let what = match format {
                    None => "text".to_owned(),
                    Some(TextFormat::Email) => "email address".to_owned(),
                    Some(TextFormat::Uri) => "URI".to_owned(),
                    Some(TextFormat::Date) => "date such as 2026-01-31".to_owned(),
                    Some(TextFormat::DateTime) => {
                        "date and time such as 2026-01-31T12:00:00Z".to_owned()
                    }
                    Some(TextFormat::Other(name)) => one_line(name).0.chars().take(40).collect(),
                };
                let minimum = min_length.filter(|minimum| *minimum > 0);
                counted(&what, " of", minimum, *max_length, "character")
            }
            FieldKind::Number { minimum, maximum } => ranged("number", *minimum, *maximum),
            FieldKind::Integer { minimum, maximum } => ranged("whole number", *minimum, *maximum),
            FieldKind::Boolean => "yes or no".to_owned(),
            FieldKind::Choice { .. } => "one of the options".to_owned(),
            FieldKind::Choices {
                min_items,
                max_items,
                ..
            } => {
                let minimum = min_items.filter(|minimum| *minimum > 0);
                counted("any of the options", ",", minimum, *max_items, "choice")
            }
            FieldKind::Json => self.expected_json().to_owned(),
        }
    }

    fn expected_json(&self) -> &'static str {
        let schema = self.schema.to_value().unwrap_or_default();
        if is_list_of_texts(&schema) {
            return "texts separated by commas";
        }
        match type_of(&schema) {
            Some("object") => "JSON object",
            Some("array") => "JSON array",
            _ => "JSON",
        }
    }

    /// Formats a value for a text input: the text that [`parse`](Self::parse) reads back.
    ///
    /// ```
    /// use trunkline::elicit::Form;
    ///
    /// let schema = serde_json::json!({"properties": {
    ///     "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    /// }});
    /// let field = &Form::from_schema(&schema.into()).fields[0];
    /// let value = field.parse("a, b").unwrap().unwrap();
    /// assert_eq!(field.to_text(&value), "a, b");
    /// ```
    pub fn to_text(&self, value: &Value) -> String {
        match (&self.kind, value) {
            (FieldKind::Boolean, Value::Bool(true)) => "yes".to_owned(),
            (FieldKind::Boolean, Value::Bool(false)) => "no".to_owned(),
            (FieldKind::Text { .. } | FieldKind::Choice { .. }, Value::String(text)) => {
                text.clone()
            }
            (FieldKind::Choices { .. }, Value::Array(values))
                if values
                    .iter()
                    .all(|value| value.as_str().is_some_and(is_word)) =>
            {
                let words: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
                words.join(", ")
            }
            _ => value.to_string(),
        }
    }

    /// True if the value should not be shown while it is typed: the format `password`, or
    /// `writeOnly`.
    pub fn is_secret(&self) -> bool {
        let format = match &self.kind {
            FieldKind::Text { format, .. } => format.as_ref(),
            _ => None,
        };
        let is_password = match format {
            Some(TextFormat::Other(name)) => name.eq_ignore_ascii_case("password"),
            _ => false,
        };
        is_password || self.schema.field("writeOnly") == Some(true)
    }
}

/// True if the text is one element of a list with commas.
fn is_word(text: &str) -> bool {
    !text.contains(',') && !text.is_empty() && text.trim() == text
}

fn counted(
    what: &str,
    joint: &str,
    minimum: Option<u64>,
    maximum: Option<u64>,
    unit: &str,
) -> String {
    let units = |count: u64| plural(count, unit);
    match (minimum, maximum) {
        (None, None) => what.to_owned(),
        (Some(minimum), None) => format!("{what}{joint} at least {}", units(minimum)),
        (None, Some(maximum)) => format!("{what}{joint} at most {}", units(maximum)),
        (Some(minimum), Some(maximum)) if minimum == maximum => {
            format!("{what}{joint} exactly {}", units(minimum))
        }
        (Some(minimum), Some(maximum)) => {
            format!("{what}{joint} {minimum} to {}", units(maximum))
        }
    }
}

/// Returns a count with its unit.
pub(super) fn plural(count: u64, unit: &str) -> String {
    match count {
        1 => format!("1 {unit}"),
        _ => format!("{count} {unit}s"),
    }
}

fn ranged(what: &str, minimum: Option<impl Display>, maximum: Option<impl Display>) -> String {
    match (minimum, maximum) {
        (None, None) => what.to_owned(),
        (Some(minimum), None) => format!("{what} from {minimum}"),
        (None, Some(maximum)) => format!("{what} up to {maximum}"),
        (Some(minimum), Some(maximum)) => format!("{what} from {minimum} to {maximum}"),
    }
}
