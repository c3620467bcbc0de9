//! Text that is too large for a model (RES-4, RES-6): saved to a file, or truncated.

use std::io;
use std::ops::ControlFlow;

use trunkline_wire::Json;
use trunkline_wire::mcp::Content;

use super::SavedFile;
use super::block_text::{BlockText, with_block_text};
use super::compact_schema::{self, DEPTH, HEAD};
use super::file_type::{self, FileType};
use super::note::{self, Large};
use super::processor::ResultProcessor;
use super::size::{Limit, Size};

/// The chunk size of writes.
const CHUNK: usize = 256 * 1024;
/// Longer strings are written without copying.
const APART: usize = 32 * 1024;

/// A part of the output.
pub(super) enum Part {
    /// A block with text.
    BlockText(Content, BlockText),
    /// An image that fits.
    Picture(Content),
    /// A note of the host.
    Note(String),
    /// Other blocks: links, and unknown types.
    Rest(Content),
}

impl Part {
    pub(super) fn into_content(self) -> Content {
        match self {
            Self::BlockText(content, _) | Self::Picture(content) | Self::Rest(content) => content,
            Self::Note(text) => Content::Text(text.into()),
        }
    }
}

/// A saved text.
struct Saved {
    file: SavedFile,
    size: Size,
    shape: Option<(String, bool)>,
}

impl Saved {
    fn note(&self, what: &str) -> Part {
        let shape = self.shape.as_ref();
        let large = Large {
            what,
            file: &self.file,
            size: &self.size,
            shape: shape.map(|(shape, partly)| (&**shape, *partly)),
        };
        Part::Note(large.text())
    }
}

impl ResultProcessor {
    /// Bounds the parts and the structured content.
    pub(super) fn bounded(
        &mut self,
        parts: Vec<Part>,
        structured: Option<Json>,
    ) -> (Vec<Part>, Option<Json>) {
        let Some(limit) = self.limit else {
            return (parts, structured);
        };
        let (structured, large) = match structured {
            Some(structured) if is_large(&structured, &limit) => (None, Some(structured)),
            structured => (structured, None),
        };
        let before = self.files.len();
        // Servers repeat structured content as text, for clients that do not know it.
        let twice = match (&parts[..], &large) {
            ([Part::BlockText(_, words)], Some(large)) => words.says(large.as_str()),
            _ => false,
        };
        let mut parts = if is_over(&parts, &limit) {
            self.shortened(parts, &limit)
        } else {
            parts
        };
        let saved = self.files.len() > before;
        if let Some(large) = large.filter(|_| !(twice && saved)) {
            let alone = parts.is_empty();
            parts.extend(self.without_structure(&large, alone, &limit));
        }
        (parts, structured)
    }

    /// Replaces parts that are too large together.
    fn shortened(&mut self, parts: Vec<Part>, limit: &Limit) -> Vec<Part> {
        if parts.iter().any(|part| matches!(part, Part::Picture(_))) {
            return cut(parts, limit, "what comes with images is not saved");
        }
        match self.save_texts(&parts, limit) {
            Ok((saved, rest_too)) => {
                let mut note = Some(saved.note("the result"));
                let mut left = Vec::new();
                for part in parts {
                    match part {
                        Part::BlockText(..) => left.extend(note.take()),
                        Part::Rest(_) if rest_too => left.extend(note.take()),
                        part => left.push(part),
                    }
                }
                self.files.push(saved.file);
                left
            }
            Err(error) => {
                let why = format!("the rest could not be saved: {error}");
                self.warnings.push(format!(
                    "what \"{}\" gave back was truncated: {why}",
                    self.tool
                ));
                cut(parts, limit, &why)
            }
        }
    }

    /// Saves the text of all parts, and the other parts too if they alone are too large.
    fn save_texts(&self, parts: &[Part], limit: &Limit) -> io::Result<(Saved, bool)> {
        let rest: usize = parts
            .iter()
            .map(|part| match part {
                Part::Rest(content) => content.to_json().as_str().len(),
                _ => 0,
            })
            .sum();
        let rest_too = !limit.allows_any(rest);
        let words: Vec<(BlockText, Option<String>)> = parts
            .iter()
            .filter_map(|part| match part {
                Part::BlockText(content, words) => Some((words.clone(), mime_of(content))),
                Part::Rest(content) if rest_too => {
                    Some((BlockText::Plain(content.to_json().to_text()), None))
                }
                _ => None,
            })
            .collect();
        self.save_text(&words).map(|saved| (saved, rest_too))
    }

    /// Saves texts, separated by line breaks, exactly as the server sent them.
    fn save_text(&self, words: &[(BlockText, Option<String>)]) -> io::Result<Saved> {
        let (kind, shape) = match words {
            [(words, mime)] => kind_of(words, mime.as_deref()),
            _ => (file_type::TEXT, None),
        };
        let store = &self.results.store;
        let mut file = store.create(&self.server, &self.tool, kind.extension)?;
        let mut size = Size::default();
        let mut write = |text: &str| {
            size.add(text);
            file.write(text.as_bytes())
        };
        let mut buffer = String::with_capacity(CHUNK);
        for (index, (words, _)) in words.iter().enumerate() {
            if index > 0 {
                buffer.push('\n');
            }
            words.pieces(|piece| {
                let apart = piece.len() >= APART;
                if apart || buffer.len() + piece.len() > CHUNK {
                    write(&buffer)?;
                    buffer.clear();
                }
                if apart {
                    return in_chunks(piece, &mut write);
                }
                buffer.push_str(piece);
                Ok(())
            })?;
        }
        write(&buffer)?;
        let (path, bytes) = file.finish();
        let file = SavedFile {
            path,
            mime_type: kind.mime.to_owned(),
            size: bytes,
        };
        Ok(Saved { file, size, shape })
    }

    /// Replaces structured content that is too large; `alone` if there is nothing else.
    fn without_structure(&mut self, structured: &Json, alone: bool, limit: &Limit) -> Vec<Part> {
        let words = BlockText::Plain(structured.to_text());
        let what = if alone {
            "the result"
        } else {
            "the structured content of the result"
        };
        match self.save_text(&[(words.clone(), None)]) {
            Ok(saved) => {
                let note = saved.note(what);
                self.files.push(saved.file);
                vec![note]
            }
            Err(error) => {
                let why = format!("it could not be saved: {error}");
                self.warnings
                    .push(format!("{what} of \"{}\" is not whole: {why}", self.tool));
                if alone {
                    let block = Content::Text(structured.to_text());
                    cut(vec![Part::BlockText(block, words)], limit, &why)
                } else {
                    vec![Part::Note(note::left_out(what, &why))]
                }
            }
        }
    }
}

/// True if a JSON text exceeds the limit.
fn is_large(json: &Json, limit: &Limit) -> bool {
    let text = json.as_str();
    !limit.allows_any(text.len()) && !limit.allows(&Size::of(text))
}

/// True if the text of all parts exceeds the limit.
fn is_over(parts: &[Part], limit: &Limit) -> bool {
    let bytes: usize = parts.iter().map(upper_bound).sum();
    if limit.allows_any(bytes) {
        return false;
    }
    let size = &mut Size::default();
    let measure = |part: &Part| match part {
        Part::BlockText(_, words) => words.measure(size, limit),
        Part::Rest(content) => {
            size.add(content.to_json().as_str());
            if limit.allows(size) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        }
        Part::Picture(_) | Part::Note(_) => ControlFlow::Continue(()),
    };
    parts.iter().try_for_each(measure).is_break()
}

/// Returns an upper bound of a part's text in bytes.
fn upper_bound(part: &Part) -> usize {
    match part {
        Part::BlockText(_, words) => words.len(),
        Part::Rest(content) => content.to_json().as_str().len(),
        Part::Picture(_) | Part::Note(_) => 0,
    }
}

/// Truncates the parts, with a note.
fn cut(parts: Vec<Part>, limit: &Limit, why: &str) -> Vec<Part> {
    let (mut there, mut whole) = (Size::default(), Size::default());
    let mut full = false;
    let mut left = Vec::new();
    for part in parts {
        match part {
            Part::BlockText(content, words) => {
                let size = words.size();
                whole.join(&size);
                if full {
                    continue;
                }
                // A character has one to four bytes.
                let most = usize::try_from(limit.chars.saturating_mul(4)).unwrap_or(usize::MAX);
                let (head, more) = words.head(most);
                let text = limit.cut(&head, &mut there);
                full = more || text.len() < head.len();
                let content = if full {
                    with_block_text(&content, text)
                } else {
                    content
                };
                let anything = !full || !text.is_empty();
                if let Some(words) = BlockText::of(&content).filter(|_| anything) {
                    left.push(Part::BlockText(content, words));
                }
            }
            Part::Rest(content) => {
                let size = Size::of(content.to_json().as_str());
                whole.join(&size);
                let mut next = there;
                next.join(&size);
                if !full && limit.allows(&next) {
                    there = next;
                    left.push(Part::Rest(content));
                } else {
                    full = true;
                }
            }
            part => left.push(part),
        }
    }
    left.push(Part::Note(note::truncated(&there, &whole, why)));
    left
}

/// Returns the type of a text, and its description if it is JSON.
fn kind_of(words: &BlockText, mime: Option<&str>) -> (FileType, Option<(String, bool)>) {
    let (start, _) = words.head(64);
    if compact_schema::may_be_json(&start) {
        let (head, goes_on) = words.head(HEAD);
        if let Some(shape) = compact_schema::describe_head(&head, goes_on, DEPTH) {
            return (file_type::JSON, Some((shape, goes_on)));
        }
    }
    (
        mime.and_then(file_type::named).unwrap_or(file_type::TEXT),
        None,
    )
}

/// Returns the MIME type of an embedded resource.
fn mime_of(content: &Content) -> Option<String> {
    match content {
        Content::Other { kind, raw } if &**kind == "resource" => {
            raw.get("resource")?.field("mimeType")
        }
        _ => None,
    }
}

/// Calls `write` with a long text in chunks, so that counted bytes are still in the cache.
fn in_chunks(text: &str, mut write: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.floor_char_boundary(CHUNK));
        write(now)?;
        rest = later;
    }
    Ok(())
}
