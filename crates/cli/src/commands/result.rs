//! What a tool gave back, for people and as JSON.

use std::path::Path;

use serde::Serialize;
use trunkline::result::{Content, SavedFile};
use trunkline::{CallOutput, Json};

use crate::output::{self, inline};
use crate::standing::quoted;

/// Shows what a tool of this server gave back.
pub(crate) fn show(result: &CallOutput, server: Option<&str>, as_json: bool) {
    if as_json {
        output::json(&document(result));
        return;
    }
    for block in &result.content {
        match block.text() {
            Some(text) => output::tool_text(&text),
            None => output::tool_text(&summary(block, server)),
        }
    }
    if let (true, Some(structured)) = (result.content.is_empty(), &result.structured_content) {
        output::tool_text(structured.as_str());
    }
    if result.is_error {
        output::note("the tool reported an error");
    }
}

/// One line in place of a block that is not text. Of a link it says how it is read, if it is known whose it is.
pub(crate) fn summary(block: &Content, server: Option<&str>) -> String {
    let raw = block.to_json();
    let field = |name: &str| raw.field::<String>(name);
    let kind = block.kind();
    match kind {
        "image" | "audio" => {
            let size = field("data").map_or(0, |data| data.len() / 4 * 3);
            let mime = inline(&field("mimeType").unwrap_or_default());
            format!("[{kind} {mime}, about {size} bytes; --json shows it]")
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
                    format!("[resource {uri}{about}; `trunkline read {server} {read}` reads it]")
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
                format!("[resource {uri}; --json shows it]")
            })
        }
        _ => raw.to_string(),
    }
}

/// A result for `--json`.
pub(crate) fn document(result: &CallOutput) -> impl Serialize {
    ResultJson::of(result)
}

/// A result, as UI-2 says; what is left of it as the server sent it is so byte for byte.
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

/// What was saved instead of being in the content.
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
            content: result.content.iter().map(Content::to_json).collect(),
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
