//! Validates the values of a form.

use serde_json::{Map, Value};
use trunkline_wire::Json;

use super::describe::plural;
use super::schema::type_of;
use super::{Field, FieldError, FieldKind, FieldOption, Form, TextFormat};
use crate::call::Checks;
use crate::sanitize::one_line;

/// The number of options that a message lists.
const MAX_LISTED: usize = 10;

impl Form {
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
    pub(in crate::elicit) fn add_defaults(&self, values: &mut Map<String, Value>) {
        for field in &self.fields {
            if let (None, Some(default)) = (values.get(&field.name), &field.default) {
                values.insert(field.name.clone(), default.clone());
            }
        }
    }
}

impl Field {
    /// Validates a value.
    ///
    /// # Errors
    ///
    /// The problem, if the value does not fit the field.
    pub fn check(&self, value: &Value) -> Result<(), FieldError> {
        self.validate(value).map_err(|problem| self.error(problem))
    }

    /// Validates a value. The error is the end of a sentence about the field.
    pub(super) fn validate(&self, value: &Value) -> Result<(), String> {
        self.kind.validate(value)?;
        if Checks::default().fits(&self.validator(), &Json::from(value)) {
            return Ok(());
        }
        if let FieldKind::Text {
            pattern: Some(pattern),
            ..
        } = &self.kind
        {
            return Err(format!("must match the pattern {}", one_line(pattern).0));
        }
        let schema = self.schema.to_value().unwrap_or_default();
        Err(mismatch(&schema, value))
    }

    /// Returns the schema with the definitions that its references need.
    fn validator(&self) -> Json {
        let (Some(definitions), Ok(schema)) = (&self.definitions, self.schema.to_value()) else {
            return self.schema.clone();
        };
        let mut whole = Map::clone(definitions);
        whole.insert("allOf".to_owned(), Value::from(vec![schema]));
        Json::from(Value::from(whole))
    }
}

/// Words the keyword that a value violates, where a person can act on it.
fn mismatch(schema: &Value, value: &Value) -> String {
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let given = value.as_f64();
    let violates = |keyword: &str, fits: fn(f64, f64) -> bool| {
        let limit = number(keyword)?;
        given.filter(|given| !fits(*given, limit)).map(|_| limit)
    };
    if let Some(limit) = violates("exclusiveMinimum", |given, limit| given > limit) {
        return format!("must be more than {limit}");
    }
    if let Some(limit) = violates("exclusiveMaximum", |given, limit| given < limit) {
        return format!("must be less than {limit}");
    }
    if let (Some(step), Some(_)) = (number("multipleOf"), given) {
        return format!("must be a multiple of {step}");
    }
    match type_of(schema) {
        Some("object") if !value.is_object() => "must be a JSON object".to_owned(),
        Some("array") if !value.is_array() => "must be a JSON array".to_owned(),
        _ => "does not fit its schema".to_owned(),
    }
}

impl FieldKind {
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
                    return Err(format!(
                        "must have at least {}",
                        plural(minimum, "character")
                    ));
                }
                if let Some(maximum) = max_length.filter(|maximum| length > *maximum) {
                    return Err(format!(
                        "must have at most {}",
                        plural(maximum, "character")
                    ));
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
                    return Err(format!("needs at least {}", plural(minimum, "choice")));
                }
                if let Some(maximum) = max_items.filter(|maximum| chosen > *maximum) {
                    return Err(format!("takes at most {}", plural(maximum, "choice")));
                }
                Ok(())
            }
            Self::Json => Ok(()),
        }
    }
}

impl TextFormat {
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

fn is_option(options: &[FieldOption], value: &str) -> bool {
    options.iter().any(|option| option.value == value)
}

fn listed(options: &[FieldOption]) -> String {
    let titles = options.iter().take(MAX_LISTED);
    let mut titles: Vec<&str> = titles.map(|option| option.title.as_str()).collect();
    if options.len() > MAX_LISTED {
        titles.push("…");
    }
    titles.join(", ")
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
