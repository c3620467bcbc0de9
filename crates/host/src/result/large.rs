//! What is too large for a model (RES-4, RES-6): text goes to a file, or is cut where that cannot be.

use std::io;
use std::ops::ControlFlow;

use trunkline_wire::Json;
use trunkline_wire::mcp::Content;

use super::SavedFile;
use super::block_text::{BlockText, with_words};
use super::compact_schema::{self, DEPTH, HEAD};
use super::kind::{self, Kind};
use super::note::{self, Large};
use super::processor::ResultProcessor;
use super::size::{Limit, Size};

/// How much is written at a time.
const CHUNK: usize = 256 * 1024;
/// From which length a piece is written where it stands.
const APART: usize = 32 * 1024;

/// A part of what a model is shown.
pub(super) enum Part {
    /// A block of text, and its words.
    BlockText(Content, BlockText),
    /// An image that fits.
    Picture(Content),
    /// Something we say.
    Note(String),
    /// Whatever else there is: links, and blocks that are newer than we are.
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

/// Something that is in a file now.
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
    /// The parts and the structured content, neither larger than a model should be given.
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
        // Servers say in text what is in their structured content, for clients that do not know that.
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

    /// What is shown instead of parts that are too much together.
    fn shortened(&mut self, parts: Vec<Part>, limit: &Limit) -> Vec<Part> {
        if parts.iter().any(|part| matches!(part, Part::Picture(_))) {
            return cut(parts, limit, "what comes with images is not saved");
        }
        match self.save_words(&parts, limit) {
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

    /// Writes the words of all parts to a file, and what else there is too if that alone is too much.
    fn save_words(&self, parts: &[Part], limit: &Limit) -> io::Result<(Saved, bool)> {
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

    /// Writes words to a file, one below the other, exactly as the server said them.
    fn save_text(&self, words: &[(BlockText, Option<String>)]) -> io::Result<Saved> {
        let (kind, shape) = match words {
            [(words, mime)] => kind_of(words, mime.as_deref()),
            _ => (kind::TEXT, None),
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

    /// What is said instead of structured content that is too large; it is all that there is if it is `alone`.
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

/// Whether a JSON text is more than the limit allows.
fn is_large(json: &Json, limit: &Limit) -> bool {
    let text = json.as_str();
    !limit.allows_any(text.len()) && !limit.allows(&Size::of(text))
}

/// Whether there is more text than the limit allows.
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

/// At most how many bytes of text a part has.
fn upper_bound(part: &Part) -> usize {
    match part {
        Part::BlockText(_, words) => words.len(),
        Part::Rest(content) => content.to_json().as_str().len(),
        Part::Picture(_) | Part::Note(_) => 0,
    }
}

/// As much of the parts as fits, and a note that says so.
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
                // No character has less than a byte, and none more than four.
                let most = usize::try_from(limit.chars.saturating_mul(4)).unwrap_or(usize::MAX);
                let (head, more) = words.head(most);
                let text = limit.cut(&head, &mut there);
                full = more || text.len() < head.len();
                let content = if full {
                    with_words(&content, text)
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

/// What kind of text it is, and what it is like if it is JSON.
fn kind_of(words: &BlockText, mime: Option<&str>) -> (Kind, Option<(String, bool)>) {
    let (start, _) = words.head(64);
    if compact_schema::may_be_json(&start) {
        let (head, goes_on) = words.head(HEAD);
        if let Some(shape) = compact_schema::describe_head(&head, goes_on, DEPTH) {
            return (kind::JSON, Some((shape, goes_on)));
        }
    }
    (mime.and_then(kind::named).unwrap_or(kind::TEXT), None)
}

/// The type of an embedded resource.
fn mime_of(content: &Content) -> Option<String> {
    match content {
        Content::Other { kind, raw } if &**kind == "resource" => {
            raw.get("resource")?.field("mimeType")
        }
        _ => None,
    }
}

/// Calls `write` with a long text in parts, so that what is counted is still at hand when it is written.
fn in_chunks(text: &str, mut write: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.floor_char_boundary(CHUNK));
        write(now)?;
        rest = later;
    }
    Ok(())
}
