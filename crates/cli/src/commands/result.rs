//! Prints the result of a call, as text or JSON.

use std::path::Path;

use serde::Serialize;
use trunkline::result::{ContentBlock, SavedFile};
use trunkline::{CallOutput, Json};

use crate::output::{self, Line, Stream, Style, TextKind, inline};
use crate::standing::quoted;

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presentation {
    Json,
    /// As the server sent it.
    Raw,
    /// For a person at a terminal.
    Rendered,
}

impl Presentation {
    /// Returns what the options ask for. A pipe gets results as they are.
    pub(crate) fn new(as_json: bool, raw: bool) -> Self {
        if as_json {
            Self::Json
        } else if raw || !output::on_terminal() {
            Self::Raw
        } else {
            Self::Rendered
        }
    }
}

/// Prints the result of a tool of this server.
pub(crate) fn show(result: &CallOutput, server: Option<&str>, style: Presentation) {
    match style {
        Presentation::Json => return output::json(&document(result)),
        Presentation::Raw => show_raw(result, server),
        Presentation::Rendered => show_rendered(result, server),
    }
    if result.is_error {
        output::note(Line::of(Style::Failed, "the tool reported an error"));
    }
}

fn show_raw(result: &CallOutput, server: Option<&str>) {
    for block in &result.content {
        match block.text() {
            Some(text) => output::tool_text(&text),
            None => output::tool_text(&summary(block, server)),
        }
    }
    if let (true, Some(structured)) = (result.content.is_empty(), &result.structured_content) {
        output::tool_text(structured.as_str());
    }
}

fn show_rendered(result: &CallOutput, server: Option<&str>) {
    let width = output::width(Stream::Out).unwrap_or(80);
    // Behind a mark, a tool's text cannot pass for a message of ours (SEC-3).
    let texts = result.content.iter().map(|block| match block.text() {
        Some(text) => text.to_string(),
        None => summary(block, server),
    });
    let structured = result.structured_content.iter();
    let structured = structured.filter(|_| result.content.is_empty());
    let structured = structured.map(|json| json.as_str().to_owned());
    let lines = output::foreign(texts.chain(structured), TextKind::Unknown, width);
    output::paged_or_folded(lines, "--raw shows all of it");
    for file in &result.files {
        if file.mime_type.starts_with("image/") {
            output::show_image(&file.path);
        }
    }
}

/// Returns a one-line summary of a block that is not text. A link of a known server includes the
/// command that reads it.
pub(crate) fn summary(block: &ContentBlock, server: Option<&str>) -> String {
    let raw = block.to_json();
    let field = |name: &str| raw.field::<String>(name);
    let kind = block.kind();
    match kind {
        "image" | "audio" => {
            let size = field("data").map_or(0, |data| data.len() / 4 * 3);
            let mime = inline(&field("mimeType").unwrap_or_default());
            format!("[{kind} {mime}, about {size} bytes; --json has it]")
        }
        "resource_link" => {
            let uri = field("uri").unwrap_or_default();
            let about = field("description").or_else(|| field("title"));
            let about = about
                .or_else(|| field("name"))
                .filter(|about| *about != uri);
            let about = about.map(|about| format!(": {}", inline(&about)));
            let about = about.unwrap_or_default();
            let (read, uri) = (quoted(&uri), inline(&uri));
            match server {
                Some(server) => {
                    let (server, read) = (quoted(server), inline(&read));
                    format!(
                        "[resource {uri}{about}; read it with `trunkline read {server} {read}`]"
                    )
                }
                None => format!("[resource {uri}{about}]"),
            }
        }
        "resource" => {
            let resource = raw.get("resource");
            let text = resource
                .as_ref()
                .and_then(|resource| resource.field::<String>("text"));
            let uri = resource
                .as_ref()
                .and_then(|resource| resource.field::<String>("uri"));
            text.unwrap_or_else(|| {
                let uri = inline(&uri.unwrap_or_default());
                format!("[resource {uri}; --json has it]")
            })
        }
        _ => raw.to_string(),
    }
}

/// Returns a result for `--json`.
pub(crate) fn document(result: &CallOutput) -> impl Serialize {
    ResultJson::of(result)
}

/// A result for `--json` (UI-2). Unprocessed parts are byte for byte as the server sent them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultJson<'a> {
    content: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Json>,
    is_error: bool,
    files: Vec<FileJson<'a>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Json>,
}

/// A file that replaces part of the content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileJson<'a> {
    path: &'a Path,
    mime_type: &'a str,
    size: u64,
}

impl<'a> ResultJson<'a> {
    fn of(result: &'a CallOutput) -> Self {
        Self {
            content: result.content.iter().map(ContentBlock::to_json).collect(),
            structured_content: result.structured_content.as_ref(),
            is_error: result.is_error,
            files: result.files.iter().map(FileJson::of).collect(),
            meta: result.meta.as_ref(),
        }
    }
}

impl<'a> FileJson<'a> {
    fn of(file: &'a SavedFile) -> Self {
        Self {
            path: &file.path,
            mime_type: &file.mime_type,
            size: file.size,
        }
    }
}
