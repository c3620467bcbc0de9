//! The host's own tools with which a model lists and reads resources (CTX-1). The pool contains
//! them once, and only while a server declares resources.

use std::sync::Arc;

use serde::Serialize;
use trunkline_wire::mcp::{Content, ResourceBody, ToolHints};
use trunkline_wire::{Json, ObjectWriter};

use super::ReadOptions;
use super::ResourceContents;
use crate::connection::ServerStatus;
use crate::host_tool::{HostCall, HostTool};
use crate::result::CallOutput;
use crate::sanitize;

/// The name of the tool that lists resources.
const LIST: &str = "ListMcpResources";

/// The name of the tool that reads a resource.
const READ: &str = "ReadMcpResource";

/// The maximum number of resources and templates in a list.
const MAX_LISTED: usize = 500;

/// The maximum length of a list in characters (RES-4).
const MAX_ANSWER: usize = 100_000;

/// Returns whether a server declares resources. It may list none: unlisted ones can be read, and
/// others may follow.
pub(crate) fn needed(servers: &[Arc<ServerStatus>]) -> bool {
    let has = |status: &Arc<ServerStatus>| {
        let identity = status.catalog.identity.as_ref();
        identity.is_some_and(|identity| identity.capabilities.resources)
    };
    servers.iter().any(has)
}

/// Returns both tools.
pub(crate) fn tools() -> [HostTool; 2] {
    let hints = ToolHints {
        read_only: true,
        idempotent: true,
        ..ToolHints::default()
    };
    let list = HostTool::new(
        LIST,
        "Lists the resources that MCP servers offer, with the address of each and the server that has it, and the templates from which further addresses can be made. Read one with ReadMcpResource.",
        serde_json::json!({
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "Only the resources of this server"},
            },
            "additionalProperties": false,
        }),
        |call| async move { Ok(list(&call)?.into()) },
    );
    let read = HostTool::new(
        READ,
        "Reads one resource of an MCP server.",
        serde_json::json!({
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "The server that has the resource"},
                "uri": {"type": "string", "description": "The address of the resource, as ListMcpResources shows it or made from a template"},
            },
            "required": ["server", "uri"],
            "additionalProperties": false,
        }),
        |call| async { Ok(read(call).await?.into()) },
    );
    [list, read].map(|tool| tool.hints(hints).for_every_agent())
}

/// An entry of the list. Members that the server omits are omitted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_template: Option<String>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl Listed {
    fn new(server: &str, name: &str, raw: &Json) -> Self {
        let text = |member: &str| raw.field::<String>(member).map(|text| shown(&text));
        Self {
            server: server.to_owned(),
            uri: None,
            uri_template: None,
            name: shown(name),
            title: text("title"),
            description: text("description"),
            mime_type: text("mimeType"),
            size: raw.field("size"),
        }
    }
}

fn shown(text: &str) -> String {
    sanitize::shown(text).0.into_owned()
}

fn list(call: &HostCall) -> Result<CallOutput, String> {
    let server: Option<String> = call.arguments.field("server");
    if let Some(server) = &server {
        let known = call.host.connection_to(server);
        known.map_err(|error| explained(&error.to_string(), error.hint()))?;
    }
    let guard = call.host.guard();
    let wanted = |name: &str| {
        server.as_deref().is_none_or(|server| server == name)
            && guard.denies_server(LIST, name).is_none()
    };
    let mut entries = Vec::new();
    for found in call.host.resources() {
        if wanted(&found.server) {
            let resource = &found.resource;
            entries.push(Listed {
                uri: Some(resource.uri.to_string()),
                ..Listed::new(&found.server, &resource.name, &resource.raw)
            });
        }
    }
    for found in call.host.resource_templates() {
        if wanted(&found.server) {
            let template = &found.template;
            entries.push(Listed {
                uri_template: Some(template.uri_template.to_string()),
                ..Listed::new(&found.server, &template.name, &template.raw)
            });
        }
    }
    Ok(bounded(&entries))
}

/// Returns as many entries as fit, and a note on how many do not.
fn bounded(entries: &[Listed]) -> CallOutput {
    let mut text = "[".to_owned();
    let mut left_out = entries.len();
    for entry in entries.iter().take(MAX_LISTED) {
        let Ok(entry) = serde_json::to_string(entry) else {
            continue;
        };
        if text.len() + entry.len() > MAX_ANSWER {
            continue;
        }
        if text.len() > 1 {
            text.push(',');
        }
        text.push('\n');
        text.push_str(&entry);
        left_out -= 1;
    }
    text.push_str(if text.len() > 1 { "\n]" } else { "]" });
    let mut output = CallOutput::of_text(text);
    if left_out > 0 {
        let note = format!("{left_out} more are not shown; name a server to see only its own");
        output.content.push(Content::Text(note.into()));
    }
    output
}

async fn read(mut call: HostCall) -> Result<CallOutput, String> {
    let argument = |name: &str| {
        let value: Option<String> = call.arguments.field(name);
        value.ok_or_else(|| format!("the argument \"{name}\" is missing, or no text"))
    };
    let (server, uri) = (argument("server")?, argument("uri")?);
    // A rule that denies all tools of a server denies its resources as well.
    let guard = Arc::clone(call.host.guard());
    let allowed = guard.check_server(READ, &server, &call.arguments).await;
    allowed.map_err(|error| error.to_string())?;
    let mut options = ReadOptions::new();
    options.on_progress = call.on_progress.take();
    let read = call.host.read_resource(&server, &uri, options).await;
    let read =
        read.map_err(|error| explained(&sanitize::sanitize(&error.to_string()).0, error.hint()))?;
    let mut output = CallOutput::of_text(String::new());
    output.content = blocks(&read);
    if output.content.is_empty() {
        let nothing = Content::Text("the resource is empty".into());
        output.content.push(nothing);
    }
    output.warnings = read.warnings;
    Ok(output)
}

/// Converts contents to blocks: text as it is, binary data as an embedded resource, which is fitted
/// like that of any tool.
fn blocks(read: &ResourceContents) -> Vec<Content> {
    let blocks = read.contents.iter().map(|content| match &content.body {
        ResourceBody::Text(text) => Content::Text(text.clone()),
        ResourceBody::Blob(_) => {
            let mut block = ObjectWriter::new();
            block.string("type", "resource");
            block.raw("resource", &content.raw);
            Content::Other {
                kind: "resource".into(),
                raw: block.finish(),
            }
        }
    });
    blocks.collect()
}

fn explained(what: &str, hint: Option<String>) -> String {
    match hint {
        Some(hint) => format!("{what}; {hint}"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: usize, text: &str) -> Listed {
        let raw = serde_json::json!({"description": text, "size": n});
        Listed {
            uri: Some(format!("a:{n}")),
            ..Listed::new("s", "n", &Json::from(raw))
        }
    }

    #[test]
    fn a_list_is_json_and_has_an_end() {
        assert_eq!(bounded(&[]).text(), "[]");
        let entries: Vec<_> = (0..MAX_LISTED + 7).map(|n| entry(n, "d")).collect();
        let output = bounded(&entries);
        let listed: Vec<serde_json::Value> =
            serde_json::from_str(&output.content[0].text().unwrap()).unwrap();
        assert_eq!(listed.len(), MAX_LISTED);
        assert_eq!(
            listed[1],
            serde_json::json!({"server": "s", "uri": "a:1", "name": "n", "description": "d", "size": 1})
        );
        assert!(output.content[1].text().unwrap().starts_with("7 more"));
        let entries: Vec<_> = (0..100).map(|n| entry(n, &"é".repeat(3000))).collect();
        let output = bounded(&entries);
        assert!(output.text().len() < MAX_ANSWER + 200);
        assert!(output.text().contains("… [truncated]"));
        assert!(output.text().contains("more are not shown"));
    }

    #[test]
    fn what_cannot_be_seen_is_not_shown_to_a_model() {
        assert_eq!(shown("a\u{200b}\u{1b}[31mb\u{e0041}\nc"), "ab\nc");
    }
}
