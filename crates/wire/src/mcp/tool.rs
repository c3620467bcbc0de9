//! Tools, resources, templates and prompts, as a server lists them.

use std::sync::Arc;

use bytestring::ByteString;

use super::{HeaderParameter, Item};
use crate::json::Json;

/// A tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name the server knows it by.
    pub name: ByteString,
    /// A name for people.
    pub title: Option<ByteString>,
    /// What it does; untrusted text.
    pub description: Option<ByteString>,
    /// The schema of its arguments, byte for byte.
    pub input_schema: Json,
    /// The schema of its structured result.
    pub output_schema: Option<Json>,
    /// What the server says about its effects.
    pub hints: ToolHints,
    /// Its server runs it only as a task (2025-11-25).
    pub needs_task: bool,
    /// Its `_meta`.
    pub meta: Option<Json>,
    /// The arguments that its server wants to see in headers, where it is reached in that way.
    pub header_parameters: Option<Arc<[HeaderParameter]>>,
    /// The whole entry as the server wrote it.
    pub raw: Json,
}

/// A tool's `annotations`: claims by the server, all false when absent (TOOL-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// Calling it again with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches out into the world.
    pub open_world: bool,
}

impl Item for Tool {
    fn from_json(raw: Json) -> Result<Self, String> {
        let (
            mut name,
            mut title,
            mut description,
            mut input,
            mut output,
            mut annotations,
            mut meta,
        ) = (None, None, None, None, None, None, None);
        let mut needs_task = false;
        let object = raw.members(|key, value| match key {
            "name" => name = value.as_string(),
            "title" => title = value.as_string(),
            "description" => description = value.as_string(),
            "inputSchema" => input = Some(value),
            "outputSchema" => output = Some(value),
            "annotations" => annotations = Some(value),
            "execution" => {
                let support = value.get("taskSupport");
                needs_task = support.is_some_and(|support| support.as_str() == r#""required""#);
            }
            "_meta" => meta = Some(value),
            _ => {}
        });
        let name = required_name(object, name)?;
        let (hints, annotated_title) = annotations
            .as_ref()
            .map(read_annotations)
            .unwrap_or_default();
        Ok(Self {
            name,
            title: title.or(annotated_title),
            description,
            // A tool without a schema takes no arguments that we know of; that is no reason to lose it.
            input_schema: input.filter(Json::is_object).unwrap_or_else(|| {
                Json::from_checked(ByteString::from_static(r#"{"type":"object"}"#))
            }),
            output_schema: output.filter(Json::is_object),
            hints,
            needs_task,
            meta: meta.filter(Json::is_object),
            header_parameters: None,
            raw,
        })
    }
}

impl Tool {
    /// Finds out which arguments belong into headers. An `Err` says what is wrong with the definition; over Streamable HTTP such a
    /// tool must not be offered.
    pub fn find_header_parameters(&mut self) -> Result<(), String> {
        let found = HeaderParameter::all(&self.input_schema)?;
        self.header_parameters = (!found.is_empty()).then(|| found.into());
        Ok(())
    }
}

fn required_name(object: bool, name: Option<ByteString>) -> Result<ByteString, String> {
    match name {
        _ if !object => Err("it is not an object".to_owned()),
        None => Err("it has no name".to_owned()),
        Some(name) if name.is_empty() => Err("its name is empty".to_owned()),
        Some(name) => Ok(name),
    }
}

fn read_annotations(annotations: &Json) -> (ToolHints, Option<ByteString>) {
    let mut hints = ToolHints::default();
    let mut title = None;
    annotations.members(|key, value| {
        let set = value.as_str() == "true";
        match key {
            "readOnlyHint" => hints.read_only = set,
            "destructiveHint" => hints.destructive = set,
            "idempotentHint" => hints.idempotent = set,
            "openWorldHint" => hints.open_world = set,
            "title" => title = value.as_string(),
            _ => {}
        }
    });
    (hints, title)
}

/// A resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Where it is.
    pub uri: ByteString,
    /// What it is called.
    pub name: ByteString,
    /// The whole entry as the server wrote it.
    pub raw: Json,
}

impl Item for Resource {
    fn from_json(raw: Json) -> Result<Self, String> {
        let uri = raw.get("uri").and_then(|uri| uri.as_string());
        let uri = uri.ok_or("it has no uri")?;
        let name = raw.get("name").and_then(|name| name.as_string());
        Ok(Self {
            name: name.unwrap_or_else(|| uri.clone()),
            uri,
            raw,
        })
    }
}

/// A family of resources.
#[derive(Clone, Debug)]
pub struct ResourceTemplate {
    /// How their addresses are made (RFC 6570).
    pub uri_template: ByteString,
    /// What it is called.
    pub name: ByteString,
    /// The whole entry as the server wrote it.
    pub raw: Json,
}

impl Item for ResourceTemplate {
    fn from_json(raw: Json) -> Result<Self, String> {
        let template = raw
            .get("uriTemplate")
            .and_then(|template| template.as_string());
        let uri_template = template.ok_or("it has no uriTemplate")?;
        let name = raw.get("name").and_then(|name| name.as_string());
        Ok(Self {
            name: name.unwrap_or_else(|| uri_template.clone()),
            uri_template,
            raw,
        })
    }
}

/// A prompt.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The name the server knows it by.
    pub name: ByteString,
    /// What it is for; untrusted text.
    pub description: Option<ByteString>,
    /// The whole entry as the server wrote it.
    pub raw: Json,
}

impl Item for Prompt {
    fn from_json(raw: Json) -> Result<Self, String> {
        let name = raw.get("name").and_then(|name| name.as_string());
        Ok(Self {
            name: required_name(raw.is_object(), name)?,
            description: raw.get("description").and_then(|text| text.as_string()),
            raw,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Tool {
        Tool::from_json(Json::parse(text.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn a_schema_passes_through_byte_for_byte() {
        let tool = tool(
            r#"{"name":"t","inputSchema":{ "type" :"object", "x":1.50 },"new":{"kept":true}}"#,
        );
        assert_eq!(
            tool.input_schema.as_str(),
            r#"{ "type" :"object", "x":1.50 }"#
        );
        assert!(tool.raw.as_str().contains(r#""new":{"kept":true}"#));
    }

    #[test]
    fn hints_are_false_unless_they_say_true() {
        let hints = tool(
            r#"{"name":"t","annotations":{"readOnlyHint":true,"openWorldHint":"yes","title":"T"}}"#,
        );
        assert_eq!(
            hints.hints,
            ToolHints {
                read_only: true,
                ..ToolHints::default()
            }
        );
        assert_eq!(hints.title.as_deref(), Some("T"));
        assert_eq!(
            tool(r#"{"name":"t","annotations":7}"#).hints,
            ToolHints::default()
        );
    }

    #[test]
    fn fields_of_the_wrong_type_count_as_absent() {
        let tool = tool(
            r#"{"name":"t","description":5,"title":[],"inputSchema":"x","outputSchema":1,"_meta":null}"#,
        );
        assert!(tool.description.is_none() && tool.title.is_none() && tool.output_schema.is_none());
        assert_eq!(tool.input_schema.as_str(), r#"{"type":"object"}"#);
        assert!(tool.meta.is_none());
    }
}
