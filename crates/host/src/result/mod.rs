//! Results of calls, prepared for a model (RES-1 … RES-7).
//!
//! ```text
//! CallToolResult ─▶ results (small? done) ─▶ processor: blocks ─▶ large: whole ─▶ CallOutput
//!                                             │ image: resize      │ size: too much? ─▶ note
//!                                             └ base64 ─▶ store ◀──┘ block_text ─▶ compact_schema
//! ```
//!
//! A plain, small result, as most are, passes untouched. Others are processed in one pass on a
//! blocking thread. Apart from images, no result is copied as a whole.
//!
//! *Invariant:* no path, file name or extension comes from a server. *Invariant:* the size of an
//! output is bounded, except with [`CallOptions::raw`](crate::CallOptions::raw) or raised limits.

mod base64;
mod block_text;
mod compact_schema;
mod content;
mod file_type;
mod for_model;
#[cfg(feature = "images")]
mod image;
mod large;
#[cfg(feature = "images")]
mod memory_budget;
mod note;
mod prepare;
mod processor;
mod results;
mod size;
mod store;

use std::borrow::Cow;
use std::path::PathBuf;

use trunkline_wire::{Json, ObjectWriter};

#[cfg(not(feature = "images"))]
use crate::absent::image;
use crate::sanitize::{Removed, strip_hidden};

pub use compact_schema::infer_compact_schema;
pub use content::{
    Content, EmbeddedResource, MediaContent, ResourceLink, TextContent, UnknownContent,
};
pub(crate) use results::ResultOrigin;
pub use results::Results;
pub(crate) use store::{is_our_file as is_saved_result, is_result_of};
pub use trunkline_wire::mcp::{CallToolResult, Content as ContentBlock, ResultKind};

/// The result of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallOutput {
    /// The content blocks, in order; [`content`](Self::content) returns them by type.
    pub content: Vec<ContentBlock>,
    /// The structured result, byte for byte, without hidden characters (TOOL-3).
    pub structured_content: Option<Json>,
    /// True if the tool ran and reports a failure (CALL-5).
    pub is_error: bool,
    /// The result's `_meta`, without hidden characters.
    pub meta: Option<Json>,
    /// The parts that were saved to files instead.
    pub files: Vec<SavedFile>,
    /// Warnings about the result.
    pub warnings: Vec<String>,
    /// The whole result as the server sent it, with [`CallOptions::raw`](crate::CallOptions::raw).
    pub raw: Option<Json>,
}

/// A part of a result that was saved to a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SavedFile {
    /// The path.
    pub path: PathBuf,
    /// The MIME type, as far as it is known.
    pub mime_type: String,
    /// The size in bytes.
    pub size: u64,
}

impl CallOutput {
    /// Creates a text result.
    pub fn of_text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::Text(text.into().into())],
            structured_content: None,
            is_error: false,
            meta: None,
            files: Vec::new(),
            warnings: Vec::new(),
            raw: None,
        }
    }

    /// Creates a failure that the tool reports.
    pub fn failure(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::of_text(text)
        }
    }

    /// Returns the content blocks by their types.
    pub fn content(&self) -> impl Iterator<Item = Content> + '_ {
        self.content.iter().map(Content::from)
    }

    /// Returns the result as an MCP `CallToolResult`: as the server sent it, where
    /// [`raw`](Self::raw) has it.
    pub fn to_json(&self) -> Json {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let blocks: Vec<Json> = self.content.iter().map(ContentBlock::to_json).collect();
        let mut result = ObjectWriter::new();
        // Blocks are JSON already.
        let blocks = Json::encode(&blocks).unwrap_or_else(|_| Json::null());
        result.raw("content", &blocks);
        if let Some(structured) = &self.structured_content {
            result.raw("structuredContent", structured);
        }
        result.value("isError", &self.is_error.into());
        if let Some(meta) = &self.meta {
            result.raw("_meta", meta);
        }
        result.finish()
    }

    /// Returns the text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.content.iter().filter_map(ContentBlock::text).collect();
        texts.join("\n")
    }
}

impl From<CallToolResult> for CallOutput {
    fn from(result: CallToolResult) -> Self {
        let CallToolResult {
            mut content,
            omitted,
            structured_content,
            is_error,
            meta,
            raw: _,
        } = result;
        let mut warnings = Vec::new();
        if omitted > 0 {
            let read = content.len();
            warnings.push(format!(
                "only the first {read} content blocks were read, of {}",
                read + omitted
            ));
            content.push(blocks_left_out(omitted));
        }
        Self {
            content,
            structured_content,
            is_error,
            meta,
            files: Vec::new(),
            warnings,
            raw: None,
        }
    }
}

/// Returns the note in place of blocks that were not read.
pub(crate) fn blocks_left_out(count: usize) -> ContentBlock {
    ContentBlock::Text(note::unsaid(count).into())
}

/// Prepares a block of a prompt for a model.
pub(crate) fn shown_block(block: ContentBlock) -> ContentBlock {
    block_text::shown(block, &mut Removed::default())
}

/// Replaces the text of a resource's content.
pub(crate) fn with_text(content: &Json, text: &str) -> Json {
    block_text::replaced(content, &[("text", text)])
}

/// Removes hidden characters (TOOL-3); `None` if there are none. Every text of a result that is
/// shown passes here; saved files do not. Visible characters keep their spelling: a result is data.
fn visible(text: &str, removed: &mut Removed) -> Option<String> {
    match strip_hidden(text, removed) {
        Cow::Borrowed(_) => None,
        Cow::Owned(visible) => Some(visible),
    }
}

#[cfg(test)]
mod tests;
