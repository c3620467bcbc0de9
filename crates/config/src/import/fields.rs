//! The fields of one entry, independent of the file format, taken out one by one.
//!
//! Fields that remain are listed in a note, so that nothing is lost silently.

use serde_json::{Map, Value};

/// The maximum number of notes of one kind; a file may have millions of fields.
const MAX_NOTES: usize = 20;

/// How many characters of a name from a file are shown.
const MAX_SHOWN: usize = 60;

/// A problem and its offset in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The offset, if known.
    pub(super) at: Option<usize>,
    /// The server concerned.
    pub(super) server: Option<String>,
    /// What is wrong, and what to write instead; never a value, which may be a secret.
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self {
            at: Some(at),
            server: None,
            message: message.into(),
        }
    }

    pub(super) fn about(self, server: &str) -> Self {
        Self {
            server: Some(server.to_owned()),
            ..self
        }
    }
}

/// An entry as written in a file.
pub(super) struct RawServer {
    pub(super) name: String,
    pub(super) fields: Fields,
}

/// The entries and problems of a file.
#[derive(Default)]
pub(super) struct Document {
    pub(super) servers: Vec<RawServer>,
    pub(super) problems: Vec<Problem>,
}

/// One field of an entry.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) at: usize,
    pub(super) value: Value,
}

/// The fields of one entry.
pub(super) struct Fields {
    /// The offset of the entry.
    pub(super) at: usize,
    list: Vec<Field>,
    /// Notes about fields that could not be imported.
    pub(super) notes: Vec<String>,
}

impl Fields {
    pub(super) fn new(at: usize, list: Vec<Field>) -> Self {
        let notes = Vec::new();
        Self { at, list, notes }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.list
            .iter()
            .any(|field| field.name == name && !field.value.is_null())
    }

    /// Adds a field that the file gives elsewhere.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        self.list.push(Field {
            name: name.to_owned(),
            at: self.at,
            value,
        });
    }

    /// Takes the field `name`. The last one counts, as in the clients; `null` counts as missing.
    pub(super) fn take(&mut self, name: &str) -> Option<Field> {
        let mut found: Vec<Field> = self
            .list
            .extract_if(.., |field| field.name == name)
            .collect();
        if found.len() > 1 {
            self.notes.push(format!(
                "{name} is given more than once: the last one is used"
            ));
        }
        found.pop().filter(|field| !field.value.is_null())
    }

    /// Drops fields that have no meaning outside of their client.
    pub(super) fn skip(&mut self, names: &[&str]) {
        self.list.retain(|field| !names.contains(&&*field.name));
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.typed(name, "a string", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, Problem> {
        self.typed(name, "true or false", |value| value.as_bool())
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, Problem> {
        self.typed(name, "a list of strings", texts)
    }

    /// Takes an object of strings; a `null` value means that the client removes that variable.
    pub(super) fn map(&mut self, name: &str) -> Result<Map<String, Value>, Problem> {
        let map = self.typed(name, "an object of strings", |value| match value {
            Value::Object(map) => strings(map),
            _ => None,
        })?;
        let (map, removed) = map.unwrap_or_default();
        if removed > 0 {
            self.notes.push(format!(
                "{name} removes {removed} by null: that is not imported"
            ));
        }
        Ok(map)
    }

    /// Takes a duration in milliseconds, given in units of `unit` milliseconds; 0 means none.
    pub(super) fn time(&mut self, name: &str, unit: f64) -> Result<Option<u64>, Problem> {
        let time = self.typed(name, "a positive number", |value| {
            milliseconds(&value, unit)
        })?;
        Ok(time.filter(|time| *time > 0))
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(field) = self.take(name) else {
            return Ok(None);
        };
        match read(field.value) {
            Some(value) => Ok(Some(value)),
            None => Err(Problem::new(
                field.at,
                format!("its \"{name}\" is not {expected}"),
            )),
        }
    }

    /// Adds notes about the remaining fields.
    pub(super) fn finish(mut self) -> Vec<String> {
        let mut left = self.list.iter().filter(|field| !field.value.is_null());
        for field in left.by_ref().take(MAX_NOTES) {
            let name = shown(&field.name);
            self.notes.push(format!("{name} is not imported"));
        }
        let more = left.count();
        if more > 0 {
            self.notes
                .push(format!("{more} more fields are not imported"));
        }
        self.notes
    }
}

/// A list of strings; numbers and flags are converted.
pub(super) fn texts(value: Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) => list.into_iter().map(scalar).collect(),
        _ => None,
    }
}

/// The values as strings, and the number of `null`s.
pub(super) fn strings(map: Map<String, Value>) -> Option<(Map<String, Value>, usize)> {
    let before = map.len();
    let strings: Map<String, Value> = map
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| Some((name, Value::String(scalar(value)?))))
        .collect::<Option<_>>()?;
    let removed = before - strings.len();
    Some((strings, removed))
}

fn scalar(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A duration in milliseconds, capped at some centuries.
fn milliseconds(value: &Value, unit: f64) -> Option<u64> {
    let time = value.as_f64().filter(|time| *time >= 0.0)? * unit;
    // A cast from a float saturates.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Some((time.round() as u64).min(1 << 53))
}

/// A name from a file, safe for a terminal and of bounded length.
pub(super) fn shown(name: &str) -> String {
    let mut shown: String = name
        .chars()
        .take(MAX_SHOWN)
        .map(|letter| {
            if letter.is_ascii_graphic() || letter == ' ' || letter.is_alphanumeric() {
                letter
            } else {
                '\u{fffd}'
            }
        })
        .collect();
    if name.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        let Value::Object(map) = value else {
            panic!("an object")
        };
        let list = map
            .into_iter()
            .map(|(name, value)| Field { name, at: 7, value });
        Fields::new(3, list.collect())
    }

    #[test]
    fn a_field_of_the_wrong_kind_is_a_problem_at_its_place() {
        let mut entry = fields(json!({"a": 1, "b": "x", "c": [{}], "d": {"k": []}, "e": -1}));
        let problems = [
            entry.text("a").err(),
            entry.flag("b").err(),
            entry.texts("c").err(),
            entry.map("d").err(),
            entry.time("e", 1.0).err(),
        ];
        let expected = [
            "its \"a\" is not a string",
            "its \"b\" is not true or false",
            "its \"c\" is not a list of strings",
            "its \"d\" is not an object of strings",
            "its \"e\" is not a positive number",
        ];
        assert_eq!(
            problems.map(Option::unwrap),
            expected.map(|message| Problem::new(7, message))
        );
    }

    #[test]
    fn scalars_are_taken_for_what_they_spell_and_nulls_for_nothing() {
        let mut entry = fields(json!({"a": null, "b": [1, true, "x"], "c": {"k": 1.5, "n": null}}));
        assert_eq!(entry.text("a"), Ok(None));
        assert_eq!(entry.texts("b").unwrap().unwrap(), ["1", "true", "x"]);
        assert_eq!(Value::Object(entry.map("c").unwrap()), json!({"k": "1.5"}));
        assert_eq!(entry.notes.len(), 1);
    }

    #[test]
    fn times_come_in_any_unit_and_size() {
        let cases = [
            (json!(1.5), 1000.0, Some(1500)),
            (json!(30_000), 1.0, Some(30_000)),
            (json!(0), 1.0, None),
            (json!(1e300), 1000.0, Some(1 << 53)),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(fields(json!({ "t": value })).time("t", unit), Ok(expected));
        }
    }

    #[test]
    fn what_nobody_takes_is_named_up_to_a_bound() {
        let mut entry = fields(json!({"known": 1, "a\u{1b}[2J": 1, "dull": 1, "none": null}));
        entry.take("known");
        entry.skip(&["dull"]);
        assert_eq!(entry.finish(), ["a\u{fffd}[2J is not imported"]);

        let many: Map<String, Value> = (0..50).map(|n| (n.to_string(), json!(n))).collect();
        let notes = fields(Value::Object(many)).finish();
        assert_eq!(notes.len(), 21);
        assert_eq!(notes[20], "30 more fields are not imported");
    }

    #[test]
    fn the_last_of_two_fields_counts() {
        let list = ["one", "two"].map(|text| Field {
            name: "x".to_owned(),
            at: 0,
            value: json!(text),
        });
        let mut entry = Fields::new(0, list.into());
        assert_eq!(entry.text("x"), Ok(Some("two".to_owned())));
        assert_eq!(
            entry.notes,
            ["x is given more than once: the last one is used"]
        );
    }
}
