//! Reads values from typed text.

use serde_json::Value;

use super::schema::{is_list_of_texts, type_of};
use super::{Field, FieldError, FieldKind, FieldOption};

impl Field {
    /// Parses typed text into a value. Empty text is no value. Choices are recognized by value or
    /// title, several separated by commas; so are the elements of a list of texts. For a JSON field
    /// that takes text, text that is not JSON is the value itself.
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
            FieldKind::Choices { options, .. } => Ok(words(trimmed)
                .map(|word| option_value(options, word))
                .collect()),
            FieldKind::Json => self.parse_json(trimmed),
        };
        let value = value.map_err(str::to_owned);
        let valid = value.and_then(|value| self.validate(&value).map(|()| value));
        valid.map(Some).map_err(|problem| self.error(problem))
    }

    fn parse_json(&self, text: &str) -> Result<Value, &'static str> {
        let schema = self.schema.to_value().unwrap_or_default();
        if is_list_of_texts(&schema) && !text.starts_with('[') {
            return Ok(words(text).collect());
        }
        if let Ok(value) = serde_json::from_str(text) {
            return Ok(value);
        }
        let as_text = Value::from(text);
        match type_of(&schema) {
            None if self.validate(&as_text).is_ok() => Ok(as_text),
            _ => Err("must be JSON"),
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty())
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
