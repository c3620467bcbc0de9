//! What a server suggests for an argument that is being typed.

use crate::json::{Json, ObjectWriter};

/// How many suggestions are taken (the specification's limit).
const MAX_VALUES: usize = 100;

/// What an argument belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A prompt, by the name its server knows.
    Prompt(String),
    /// A resource template.
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

/// Suggestions for an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The suggestions, the best first; untrusted text.
    pub values: Vec<String>,
    /// How many there are in all, where the server says so.
    pub total: Option<u64>,
    /// There are more than these.
    pub has_more: bool,
}

impl Completion {
    /// Reads the result of `completion/complete`; what is no text among the suggestions is left out.
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
    fn suggestions_are_read_as_far_as_they_are_texts() {
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
    fn a_reference_says_what_it_is_to() {
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
