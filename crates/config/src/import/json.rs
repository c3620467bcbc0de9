//! The entries of a JSON file, with their positions.

use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::{Document, Field, Fields, Problem, RawServer};
use crate::document::Members;
use crate::locate::{error_offset, offset};

/// A JSON text that locates its parts.
pub(super) struct Json<'a> {
    text: &'a str,
}

/// One member of an object.
pub(super) struct Member<'a> {
    pub(super) name: String,
    pub(super) value: &'a str,
}

impl<'a> Json<'a> {
    /// `text` must be plain JSON; see [`jsonc`](super::jsonc).
    pub(super) fn new(text: &'a str) -> Self {
        Self { text }
    }

    pub(super) fn at(&self, part: &str) -> usize {
        offset(self.text, part)
    }

    /// The members of the object at `path`; `None` if the file has none.
    pub(super) fn section(&self, path: &[&str]) -> Result<Option<Vec<Member<'a>>>, Problem> {
        let mut members = self.members(self.text).map_err(|error| match error {
            Some(problem) => problem,
            None => Problem::new(0, "the file is not a JSON object"),
        })?;
        for name in path {
            // As in the clients, the last of repeated members counts.
            let Some(member) = members.into_iter().rfind(|member| member.name == *name) else {
                return Ok(None);
            };
            if member.value == "null" {
                return Ok(None);
            }
            members = self.members(member.value).map_err(|error| {
                error.unwrap_or_else(|| {
                    let at = self.at(member.value);
                    Problem::new(at, format!("its \"{name}\" is not an object"))
                })
            })?;
        }
        Ok(Some(members))
    }

    /// The members of an object; `Err(None)` if the value is not an object.
    fn members(&self, part: &'a str) -> Result<Vec<Member<'a>>, Option<Problem>> {
        let member = |(name, value): (&str, &'a RawValue)| Member {
            name: name.to_owned(),
            value: value.get(),
        };
        serde_json::from_str::<Members>(part)
            .map(|members| members.iter().map(member).collect())
            .map_err(|error| (!error.is_data()).then(|| self.problem(part, &error)))
    }

    /// A syntax error in `part`. The parser quotes values only in type errors, which are not shown
    /// here.
    fn problem(&self, part: &str, error: &serde_json::Error) -> Problem {
        let at = self.at(part) + error_offset(part, error);
        let reason = error.to_string();
        let reason = reason
            .rfind(" at line ")
            .map_or(&*reason, |at| &reason[..at]);
        let message = if reason.starts_with("recursion limit") {
            "it is nested too deeply".to_owned()
        } else if error.is_data() {
            "it is not valid JSON".to_owned()
        } else {
            format!("not valid JSON: {reason}")
        };
        Problem::new(at, message)
    }

    /// One entry, with its fields.
    pub(super) fn server(&self, member: &Member<'a>) -> Result<RawServer, Problem> {
        let at = self.at(member.value);
        let fields = self.members(member.value).map_err(|error| {
            error.unwrap_or_else(|| {
                Problem::new(
                    at,
                    "it is not an object; write {\"command\": …} or {\"url\": …}",
                )
            })
        });
        let fields = fields.and_then(|fields| {
            let fields = fields.into_iter().map(|field| self.field(field));
            fields.collect::<Result<Vec<_>, _>>()
        });
        match fields {
            Ok(fields) => Ok(RawServer {
                name: member.name.clone(),
                fields: Fields::new(at, fields),
            }),
            Err(problem) => Err(problem.about(&member.name)),
        }
    }

    fn field(&self, member: Member<'a>) -> Result<Field, Problem> {
        let value: Value = serde_json::from_str(member.value)
            .map_err(|error| self.problem(member.value, &error))?;
        Ok(Field {
            name: member.name,
            at: self.at(member.value),
            value,
        })
    }

    /// Every entry of the object at `path`.
    pub(super) fn servers(&self, path: &[&str]) -> Result<Document, Problem> {
        let mut document = Document::default();
        for member in self.section(path)?.unwrap_or_default() {
            match self.server(&member) {
                Ok(server) => document.servers.push(server),
                Err(problem) => document.problems.push(problem),
            }
        }
        Ok(document)
    }
}
