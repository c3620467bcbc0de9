//! Tools, resources, resource templates and prompts.

use std::sync::Arc;

use bytestring::ByteString;

use super::{HeaderParameter, Item};
use crate::json::Json;

/// A tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool {
    /// The name on the server.
    pub name: ByteString,
    /// The display name.
    pub title: Option<ByteString>,
    /// The description. Untrusted text.
    pub description: Option<ByteString>,
    /// The schema of the arguments, byte for byte.
    pub input_schema: Json,
    /// The schema of the structured result.
    pub output_schema: Option<Json>,
    /// The server's hints about effects.
    pub hints: ToolHints,
    /// Whether the tool runs only as a task (2025-11-25).
    pub needs_task: bool,
    /// The `_meta`.
    pub meta: Option<Json>,
    /// The arguments to send as headers, over HTTP.
    pub header_parameters: Option<Arc<[HeaderParameter]>>,
    /// The whole item as the server wrote it.
    pub raw: Json,
}

/// The `annotations` of a tool: unverified claims, false if absent (TOOL-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// The tool changes nothing.
    pub read_only: bool,
    /// The tool may destroy data.
    pub destructive: bool,
    /// A second call with the same arguments has no further effect.
    pub idempotent: bool,
    /// The tool interacts with the outside world.
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
            // A tool without a schema is still usable.
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
    /// Finds the arguments to send as headers. The error tells why the definition is invalid; such
    /// a tool must not be offered over Streamable HTTP.
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
#[non_exhaustive]
pub struct Resource {
    /// The URI.
    pub uri: ByteString,
    /// The name.
    pub name: ByteString,
    /// The whole item as the server wrote it.
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

/// A resource template.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The URI template (RFC 6570).
    pub uri_template: ByteString,
    /// The name.
    pub name: ByteString,
    /// The whole item as the server wrote it.
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
#[non_exhaustive]
pub struct Prompt {
    /// The name on the server.
    pub name: ByteString,
    /// The description. Untrusted text.
    pub description: Option<ByteString>,
    /// The whole item as the server wrote it.
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
    fn a_schema_is_kept_byte_for_byte() {
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
    fn hints_are_false_unless_true() {
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
