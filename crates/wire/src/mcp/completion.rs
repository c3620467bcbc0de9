//! Completions for an argument.

use crate::json::{Json, ObjectWriter};

/// The maximum number of completions, from the specification.
const MAX_VALUES: usize = 100;

/// The owner of the argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A prompt, by its name on the server.
    Prompt(String),
    /// A resource template, by its URI template.
    Template(String),
}

impl Reference {
    pub(crate) fn to_json(&self) -> Json {
        let mut reference = ObjectWriter::new();
        match self {
            Self::Prompt(name) => reference.string("type", "ref/prompt").string("name", name),
            Self::Template(uri) => reference.string("type", "ref/resource").string("uri", uri),
        };
        reference.finish()
    }
}

/// Completions for an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The values, best first. Untrusted text.
    pub values: Vec<String>,
    /// The total number of values, if the server knows it.
    pub total: Option<u64>,
    /// Whether there are more values.
    pub has_more: bool,
}

impl Completion {
    /// Reads the result of `completion/complete`. Values that are not strings are skipped.
    pub fn from_json(result: &Json) -> Result<Self, String> {
        let completion = result.get("completion").filter(Json::is_object);
        let completion = completion.ok_or("it has no `completion`")?;
        let mut read = Self {
            total: completion.field("total"),
            has_more: completion.field("hasMore") == Some(true),
            ..Self::default()
        };
        let values = completion.get("values").ok_or("it has no `values`")?;
        let list = values.elements(|value| match value.as_string() {
            Some(value) if read.values.len() < MAX_VALUES => read.values.push(value.to_string()),
            Some(_) => read.has_more = true,
            None => {}
        });
        if list {
            Ok(read)
        } else {
            Err("its `values` are not a list".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Completion, String> {
        Completion::from_json(&Json::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn values_that_are_not_strings_are_skipped() {
        let completion = read(
            r#"{"completion":{"values":["a",5,"b"],"total":9,"hasMore":true},"resultType":"complete"}"#,
        )
        .unwrap();
        assert_eq!(completion.values, ["a", "b"]);
        assert_eq!((completion.total, completion.has_more), (Some(9), true));
        let many = format!(
            r#"{{"completion":{{"values":[{}]}}}}"#,
            vec![r#""x""#; MAX_VALUES + 1].join(",")
        );
        let many = read(&many).unwrap();
        assert_eq!((many.values.len(), many.has_more), (MAX_VALUES, true));
        for text in [
            "{}",
            "[]",
            r#"{"completion":7}"#,
            r#"{"completion":{"values":"a"}}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_reference_is_serialized_with_its_type() {
        assert_eq!(
            Reference::Prompt("p\"q".to_owned()).to_json().as_str(),
            r#"{"type":"ref/prompt","name":"p\"q"}"#
        );
        assert_eq!(
            Reference::Template("f:///{p}".to_owned())
                .to_json()
                .as_str(),
            r#"{"type":"ref/resource","uri":"f:///{p}"}"#
        );
    }
}
