//! Forms: the fields of an elicitation's `requestedSchema`, and the validation of their values.
//!
//! Pure functions on data, shared by every front end. A property that fits no kind of field becomes
//! a JSON field; the rest of the form stays usable.

use std::fmt;

use serde_json::{Map, Value};
use trunkline_wire::Json;

use crate::call::Checks;
use crate::sanitize::{one_line, shown};

/// The form of an elicitation.
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

    /// Validates the values of the fields and adds the defaults of absent ones.
    ///
    /// # Errors
    ///
    /// The problems, in the order of the fields.
    pub fn check(
        &self,
        values: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<FieldError>> {
        let mut checked = values.clone();
        let mut problems = Vec::new();
        for field in &self.fields {
            let value = values.get(&field.name).or(field.default.as_ref());
            let outcome = match value {
                Some(value) => field.validate(value),
                None if field.required => Err("is required".to_owned()),
                None => Ok(()),
            };
            match (outcome, value) {
                (Err(problem), _) => problems.push(field.error(problem)),
                (Ok(()), Some(value)) => {
                    checked.insert(field.name.clone(), value.clone());
                }
                (Ok(()), None) => {}
            }
        }
        if problems.is_empty() {
            Ok(checked)
        } else {
            Err(problems)
        }
    }

    /// Adds the defaults of absent values.
    pub(super) fn add_defaults(&self, values: &mut Map<String, Value>) {
        for field in &self.fields {
            if let (None, Some(default)) = (values.get(&field.name), &field.default) {
                values.insert(field.name.clone(), default.clone());
            }
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
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

    /// Returns the title, or the name if there is none.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
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

    /// Validates a value. The error is the end of a sentence about the field.
    fn validate(&self, value: &Value) -> Result<(), String> {
        self.kind.validate(value)?;
        if Checks::default().fits(&self.schema, &Json::from(value)) {
            return Ok(());
        }
        Err(match &self.kind {
            FieldKind::Text {
                pattern: Some(pattern),
                ..
            } => format!("must match the pattern {}", one_line(pattern).0),
            _ => "does not fit its schema".to_owned(),
        })
    }

    fn error(&self, problem: String) -> FieldError {
        FieldError {
            field: self.name.clone(),
            label: one_line(self.label()).0.into_owned(),
            problem,
        }
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

    fn validate(&self, value: &Value) -> Result<(), String> {
        match self {
            Self::Text {
                format,
                min_length,
                max_length,
                ..
            } => {
                let Some(text) = value.as_str() else {
                    return Err("must be text".to_owned());
                };
                let length = text.chars().count() as u64;
                if let Some(minimum) = min_length.filter(|minimum| length < *minimum) {
                    return Err(format!("must have at least {minimum} characters"));
                }
                if let Some(maximum) = max_length.filter(|maximum| length > *maximum) {
                    return Err(format!("must have at most {maximum} characters"));
                }
                match format.as_ref().and_then(|format| format.mismatch(text)) {
                    Some(problem) => Err(problem.to_owned()),
                    None => Ok(()),
                }
            }
            Self::Number { minimum, maximum } => match value.as_f64() {
                Some(number) => in_range(number, *minimum, *maximum),
                None => Err("must be a number".to_owned()),
            },
            Self::Integer { minimum, maximum } => match value.as_f64() {
                Some(number) if number.fract() == 0.0 => in_range(number, *minimum, *maximum),
                _ => Err("must be a whole number".to_owned()),
            },
            Self::Boolean if value.is_boolean() => Ok(()),
            Self::Boolean => Err("must be yes or no".to_owned()),
            Self::Choice { options } => match value.as_str() {
                Some(value) if is_option(options, value) => Ok(()),
                _ => Err(format!("must be one of {}", listed(options))),
            },
            Self::Choices {
                options,
                min_items,
                max_items,
            } => {
                let chosen = value.as_array().filter(|chosen| {
                    let mut chosen = chosen.iter();
                    chosen.all(|one| one.as_str().is_some_and(|one| is_option(options, one)))
                });
                let Some(chosen) = chosen.map(|chosen| chosen.len() as u64) else {
                    return Err(format!("must be some of {}", listed(options)));
                };
                if let Some(minimum) = min_items.filter(|minimum| chosen < *minimum) {
                    return Err(format!("needs at least {minimum} choices"));
                }
                if let Some(maximum) = max_items.filter(|maximum| chosen > *maximum) {
                    return Err(format!("takes at most {maximum} choices"));
                }
                Ok(())
            }
            Self::Json => Ok(()),
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

    /// The problem of a text that does not have this format. Lenient: the server decides.
    fn mismatch(&self, text: &str) -> Option<&'static str> {
        let (fits, problem) = match self {
            Self::Email => (is_email(text), "must be an email address"),
            Self::Uri => (url::Url::parse(text).is_ok(), "must be a URI"),
            Self::Date => (is_date(text), "must be a date, such as 2026-01-31"),
            Self::DateTime => (
                is_date_time(text),
                "must be a date and time, such as 2026-01-31T12:00:00Z",
            ),
            Self::Other(_) => return None,
        };
        (!fits).then_some(problem)
    }
}

/// The number of options that a message lists.
const MAX_LISTED: usize = 10;

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

fn is_option(options: &[FieldOption], value: &str) -> bool {
    options.iter().any(|option| option.value == value)
}

/// The value of the option with this value or title; the text itself if there is none.
fn option_value(options: &[FieldOption], text: &str) -> String {
    let by_value = options.iter().find(|option| option.value == text);
    let titled = |option: &&FieldOption| option.title.to_lowercase() == text.to_lowercase();
    let found = by_value.or_else(|| options.iter().find(titled));
    found.map_or(text, |option| &option.value).to_owned()
}

fn listed(options: &[FieldOption]) -> String {
    let titles = options.iter().take(MAX_LISTED);
    let mut titles: Vec<&str> = titles.map(|option| option.title.as_str()).collect();
    if options.len() > MAX_LISTED {
        titles.push("…");
    }
    titles.join(", ")
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

fn in_range(number: f64, minimum: Option<f64>, maximum: Option<f64>) -> Result<(), String> {
    match (minimum, maximum) {
        (Some(minimum), _) if number < minimum => Err(format!("must be at least {minimum}")),
        (_, Some(maximum)) if number > maximum => Err(format!("must be at most {maximum}")),
        _ => Ok(()),
    }
}

fn is_email(text: &str) -> bool {
    let has_space = text.contains(|c: char| c.is_whitespace() || c.is_control());
    let parts = text.rsplit_once('@');
    !has_space && parts.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
}

fn is_date(text: &str) -> bool {
    let digits = |part: &str, length: usize, range: std::ops::RangeInclusive<u32>| {
        part.len() == length
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.parse().is_ok_and(|number| range.contains(&number))
    };
    let parts: Vec<&str> = text.split('-').collect();
    match parts[..] {
        [year, month, day] => {
            digits(year, 4, 0..=9999) && digits(month, 2, 1..=12) && digits(day, 2, 1..=31)
        }
        _ => false,
    }
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return false;
    };
    let mut clock = time.chars();
    let begins = (0..5).all(|at| match clock.next() {
        Some(':') => at == 2,
        Some(c) => c.is_ascii_digit(),
        None => false,
    });
    is_date(date) && begins
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(schema: &Value) -> Field {
        let form = json!({"properties": {"f": schema}, "required": ["f"]});
        Form::from_schema(&form.into()).fields.remove(0)
    }

    #[track_caller]
    fn check(schema: &Value, typed: &str, expected: Result<Value, &str>) {
        let found = field(schema).parse(typed);
        let found = found.map(Option::unwrap).map_err(|error| error.problem);
        assert_eq!(found, expected.map_err(str::to_owned), "{schema} {typed:?}");
    }

    #[test]
    fn typed_text_becomes_a_value_of_the_fields_kind() {
        let titled = json!({"type": "string", "oneOf": [
            {"const": "r", "title": "Red"}, {"const": "g", "title": "Green"},
        ]});
        let named = json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]});
        let several = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {
            "anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"},
                {"const": "b", "title": "Blue"}],
        }});
        let plain = json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}});
        for (schema, typed, expected) in [
            (json!({"type": "string"}), " a b ", Ok(json!(" a b "))),
            (json!({"type": ["string", "null"]}), "a", Ok(json!("a"))),
            (json!({"type": "number"}), "1.5", Ok(json!(1.5))),
            (json!({"type": "number"}), "2", Ok(json!(2))),
            (json!({"type": "number"}), "two", Err("must be a number")),
            (json!({"type": "number"}), "inf", Err("must be a number")),
            (json!({"type": "integer"}), "-3", Ok(json!(-3))),
            (
                json!({"type": "integer"}),
                "1.5",
                Err("must be a whole number"),
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                "0",
                Err("must be at least 1"),
            ),
            (
                json!({"type": "number", "maximum": 1.5}),
                "2",
                Err("must be at most 1.5"),
            ),
            (json!({"type": "boolean"}), "Yes", Ok(json!(true))),
            (json!({"type": "boolean"}), "n", Ok(json!(false))),
            (
                json!({"type": "boolean"}),
                "maybe",
                Err("must be yes or no"),
            ),
            (titled.clone(), "g", Ok(json!("g"))),
            (titled.clone(), "green", Ok(json!("g"))),
            (named, "Red", Ok(json!("r"))),
            (titled, "blue", Err("must be one of Red, Green")),
            (several.clone(), "red, g", Ok(json!(["r", "g"]))),
            (several.clone(), "r,g,b", Err("takes at most 2 choices")),
            (several.clone(), ",", Err("needs at least 1 choices")),
            (several, "x", Err("must be some of Red, Green, Blue")),
            (plain, "b", Ok(json!(["b"]))),
            (json!({"type": "object"}), "{\"a\": 1}", Ok(json!({"a": 1}))),
            (
                json!({"type": "object"}),
                "[]",
                Err("does not fit its schema"),
            ),
            (json!({"type": "object"}), "{", Err("must be JSON")),
            (json!(true), "[1]", Ok(json!([1]))),
        ] {
            check(&schema, typed, expected);
        }
        assert_eq!(field(&json!({"type": "string"})).parse("  ").unwrap(), None);
    }

    #[test]
    fn texts_have_lengths_patterns_and_formats() {
        let text = |rest: Value| {
            let mut schema = rest;
            schema["type"] = json!("string");
            schema
        };
        for (schema, typed, problem) in [
            (
                json!({"minLength": 2}),
                "é",
                "must have at least 2 characters",
            ),
            (
                json!({"maxLength": 2}),
                "abc",
                "must have at most 2 characters",
            ),
            (
                json!({"pattern": "^x+$"}),
                "y",
                "must match the pattern ^x+$",
            ),
            (
                json!({"format": "email"}),
                "ada",
                "must be an email address",
            ),
            (json!({"format": "uri"}), "ada", "must be a URI"),
            (
                json!({"format": "date"}),
                "2026-13-01",
                "must be a date, such as 2026-01-31",
            ),
            (
                json!({"format": "date-time"}),
                "2026-01-01",
                "must be a date and time, such as 2026-01-31T12:00:00Z",
            ),
        ] {
            check(&text(schema), typed, Err(problem));
        }
        for (schema, typed) in [
            (json!({"minLength": 2, "maxLength": 2}), "éé"),
            (json!({"pattern": "^x+$"}), "xx"),
            (json!({"format": "email"}), "ada@example.com"),
            (json!({"format": "uri"}), "https://example.com/a"),
            (json!({"format": "date"}), "2026-01-31"),
            (json!({"format": "date-time"}), "2026-01-31T12:00:00Z"),
            (json!({"format": "hostname"}), "not checked"),
        ] {
            check(&text(schema), typed, Ok(json!(typed)));
        }
    }

    #[test]
    fn one_odd_property_does_not_sink_the_form() {
        let schema = json!({"properties": {
            "name": {"type": "string"}, "odd": 7, "nested": {"type": "object"},
            "mixed": {"enum": ["a", 1]}, "list": {"type": "array", "items": {"type": "number"}},
        }});
        let form = Form::from_schema(&schema.into());
        let names: Vec<_> = form.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["name", "odd", "nested", "mixed", "list"]);
        let odd = form
            .fields
            .iter()
            .filter(|field| field.kind == FieldKind::Json);
        assert_eq!(odd.count(), 4);
        assert!(Form::from_schema(&json!([]).into()).fields.is_empty());
    }

    #[test]
    fn a_form_reports_every_problem_and_adds_defaults() {
        let schema = json!({"properties": {
            "name": {"type": "string", "title": "Na\u{200b}me\n"},
            "age": {"type": "integer", "default": 7},
            "pin": {"type": "integer"},
            "free": {"type": "string"},
        }, "required": ["name", "age", "pin"]});
        let form = Form::from_schema(&schema.into());
        let values = json!({"pin": "hunter2", "more": 1});
        let problems = form.check(values.as_object().unwrap()).unwrap_err();
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            ["\"Name\" is required", "\"pin\" must be a whole number"]
        );
        let values = json!({"name": "Ada", "pin": 1});
        let checked = form.check(values.as_object().unwrap()).unwrap();
        assert_eq!(
            Value::from(checked),
            json!({"name": "Ada", "pin": 1, "age": 7})
        );
    }
}
