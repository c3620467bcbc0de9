//! What a call gives back, fit for a model (RES-1 … RES-7).
//!
//! ```text
//! CallResult ─▶ results (small? then done) ─▶ job: each block ─▶ large: all of it ─▶ CallOutput
//!                                              │ image: fits        │ size: too much?
//!                                              └ base64 ─▶ store ◀──┘ words ─▶ shape, note
//! ```
//!
//! A result that is plain and small, which nearly all are, passes untouched. The rest is worked on in one go, off the runtime's threads. What
//! a server sent is never in memory a second time as a whole, but for images.
//!
//! *Invariant:* no path, file name or extension is ever a server's. *Invariant:* what a result comes to is bounded, whatever was sent; only
//! [`CallOptions::raw`](crate::CallOptions::raw) and limits that somebody has lifted give more.

mod base64;
mod block_text;
mod compact_schema;
mod fit;
mod for_model;
mod image;
mod kind;
mod large;
mod memory_budget;
mod note;
mod processor;
mod results;
mod size;
mod store;

use std::borrow::Cow;
use std::path::PathBuf;

use trunkline_wire::Json;
use trunkline_wire::mcp::CallToolResult;

use crate::sanitize::{Removed, strip_hidden};

pub use compact_schema::infer_compact_schema;
pub(crate) use results::About;
pub use results::Results;
pub(crate) use store::{is_ours as is_saved_result, is_result_of};
pub use trunkline_wire::mcp::Content;

/// What a tool gave back.
#[derive(Clone, Debug)]
pub struct CallOutput {
    /// The blocks, in order; unknown kinds included.
    pub content: Vec<Content>,
    /// The machine-readable result: byte for byte, except that hidden characters in its texts and keys are removed (TOOL-3).
    pub structured_content: Option<Json>,
    /// The tool ran and reports a failure of its own (CALL-5).
    pub is_error: bool,
    /// The result's `_meta`, without hidden characters too.
    pub meta: Option<Json>,
    /// What was written to disk instead of being given back.
    pub files: Vec<SavedFile>,
    /// What was odd about it.
    pub warnings: Vec<String>,
}

/// A part of a result that was written to disk.
#[derive(Clone, Debug)]
pub struct SavedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its MIME type, as far as it is known.
    pub mime_type: String,
    /// How many bytes it has.
    pub size: u64,
}

impl CallOutput {
    /// A result that is text.
    pub fn of_text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Content::Text(text.into().into())],
            structured_content: None,
            is_error: false,
            meta: None,
            files: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A tool's own failure.
    pub fn failure(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::of_text(text)
        }
    }

    /// The text blocks, one below the other.
    pub fn text(&self) -> String {
        let texts: Vec<_> = self.content.iter().filter_map(Content::text).collect();
        texts.join("\n")
    }
}

impl From<CallToolResult> for CallOutput {
    fn from(result: CallToolResult) -> Self {
        let CallToolResult {
            content,
            structured_content,
            is_error,
            meta,
        } = result;
        Self {
            content,
            structured_content,
            is_error,
            meta,
            files: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// A block from elsewhere than a result, a prompt for example, as a model may see it.
pub(crate) fn shown_block(block: Content) -> Content {
    block_text::shown(block, &mut Removed::default())
}

/// The content of a resource with another text, and everything else as it was.
pub(crate) fn with_text(content: &Json, text: &str) -> Json {
    block_text::replaced(content, &[("text", text)])
}

/// What of a server's text a model may see, where that is not all of it (TOOL-3). Every text of a result that is shown goes through
/// here; what is saved to a file does not. A result is data, perhaps the text of a file: what can be seen keeps its spelling.
fn visible(text: &str, removed: &mut Removed) -> Option<String> {
    match strip_hidden(text, removed) {
        Cow::Borrowed(_) => None,
        Cow::Owned(visible) => Some(visible),
    }
}

#[cfg(test)]
mod tests;
