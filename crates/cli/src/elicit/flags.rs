//! The answers to elicitations that the command line gives. Pure logic.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use trunkline::elicit::{Field, FieldKind, Form};

use crate::arguments::{self, Given};

/// `--elicit`, `--elicit-defaults` and `--no-input`.
#[derive(Debug, Default)]
pub(crate) struct ElicitFlags {
    /// `--elicit key=value`
    given: Vec<(String, Given)>,
    /// `--elicit-defaults`
    defaults: bool,
    /// `--no-input`
    pub(crate) no_input: bool,
    /// The keys that a form has asked for.
    used: Mutex<HashSet<String>>,
}

/// The answer of the command line to a form.
#[derive(Debug, PartialEq)]
pub(super) enum FlagAnswer {
    Complete(Map<String, Value>),
    /// The values that are given, and what is wrong.
    Incomplete {
        values: Map<String, Value>,
        problems: Vec<String>,
    },
}

impl ElicitFlags {
    /// Parses `key=value` and `key:=json` words.
    pub(crate) fn parse(words: &[String], defaults: bool, no_input: bool) -> Result<Self, String> {
        let given: Result<Vec<_>, String> = words
            .iter()
            .map(|word| {
                arguments::parse_word(word).map_err(|problem| format!("--elicit: {problem}"))
            })
            .collect();
        let given = given?;
        let mut keys = HashSet::new();
        if let Some((key, _)) = given.iter().find(|(key, _)| !keys.insert(key)) {
            return Err(format!("--elicit: \"{key}\" is given twice"));
        }
        Ok(Self {
            given,
            defaults,
            no_input,
            used: Mutex::default(),
        })
    }

    /// Returns the keys that no form has asked for.
    pub(crate) fn unused(&self) -> Vec<&str> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = self.given.iter().map(|(key, _)| key.as_str());
        keys.filter(|key| !used.contains(*key)).collect()
    }

    /// Answers a form. A form of which no field is given is answered only with `--elicit-defaults`:
    /// the user did not foresee it.
    pub(super) fn answer(&self, form: &Form) -> FlagAnswer {
        let mut values = Map::new();
        let mut problems = Vec::new();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, given) in &self.given {
            let Some(field) = form.field(key) else {
                continue;
            };
            used.insert(key.clone());
            match value(field, given) {
                Ok(value) => _ = values.insert(key.clone(), value),
                Err(problem) => problems.push(problem),
            }
        }
        let is_meant = self.defaults || !values.is_empty();
        if !is_meant || !problems.is_empty() {
            return FlagAnswer::Incomplete { values, problems };
        }
        match form.check(&values) {
            Ok(values) => FlagAnswer::Complete(values),
            Err(found) => {
                let problems = found.iter().map(ToString::to_string).collect();
                FlagAnswer::Incomplete { values, problems }
            }
        }
    }
}

fn value(field: &Field, given: &Given) -> Result<Value, String> {
    let value = match given {
        Given::Json(value) => value.clone(),
        Given::Text(text) => match field.parse(text).map_err(|problem| problem.to_string())? {
            Some(value) => value,
            // An empty text is a value where texts are.
            None if matches!(field.kind, FieldKind::Text { .. }) => Value::from(text.as_str()),
            None => return Err(format!("\"{}\" is empty", field.label())),
        },
    };
    field.check(&value).map_err(|problem| problem.to_string())?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(schema: Value) -> Form {
        Form::from_schema(&schema.into())
    }

    fn person() -> Form {
        form(json!({
            "properties": {
                "name": {"type": "string"},
                "age": {"type": "integer", "default": 7},
                "size": {"enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
            },
            "required": ["name"],
        }))
    }

    #[test]
    fn flags_answer_a_form_that_they_were_meant_for() {
        let defaults = |value: Value| form(json!({"properties": {"a": value}}));
        for (words, all, form, expected) in [
            (
                &["name=Ada"][..],
                false,
                person(),
                Ok(json!({"name": "Ada", "age": 7})),
            ),
            (
                &["name=3", "age=36", "size=medium", "other=x"],
                false,
                person(),
                Ok(json!({"name": "3", "age": 36, "size": "m"})),
            ),
            (
                &["name:=\"3\""],
                false,
                person(),
                Ok(json!({"name": "3", "age": 7})),
            ),
            (&[], false, person(), Err("")),
            (&["other=x"], false, person(), Err("")),
            (&[], true, person(), Err("\"name\" is required")),
            (
                &["age=old"],
                false,
                person(),
                Err("\"age\" must be a whole number"),
            ),
            (&["name:=3"], false, person(), Err("\"name\" must be text")),
            (
                &["size=xl", "name=a"],
                false,
                person(),
                Err("must be one of Small, Medium"),
            ),
            (
                &[],
                true,
                defaults(json!({"type": "boolean", "default": true})),
                Ok(json!({"a": true})),
            ),
            (
                &[],
                true,
                defaults(json!({"type": "boolean"})),
                Ok(json!({})),
            ),
            (&[], true, form(json!({})), Ok(json!({}))),
            (&["a=1"], false, form(json!({})), Err("")),
        ] {
            let owned: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let flags = ElicitFlags::parse(&owned, all, false).unwrap();
            match (flags.answer(&form), expected) {
                (FlagAnswer::Complete(values), Ok(expected)) => {
                    assert_eq!(Value::from(values), expected, "{words:?}");
                }
                (FlagAnswer::Incomplete { problems, .. }, Err(expected)) => {
                    assert!(
                        problems.join("; ").contains(expected),
                        "{words:?}: {problems:?}"
                    );
                }
                (found, _) => panic!("{words:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn unused_flags_are_known() {
        let words = ["name=a", "nmae=b"].map(str::to_owned);
        let flags = ElicitFlags::parse(&words, false, false).unwrap();
        flags.answer(&person());
        assert_eq!(flags.unused(), ["nmae"]);
        for (words, problem) in [(["a=1", "a=2"], "given twice"), (["a=1", "b"], "key=value")] {
            let error = ElicitFlags::parse(&words.map(str::to_owned), false, false).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
