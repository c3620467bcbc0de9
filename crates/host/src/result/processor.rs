//! Processes one result for a model, block by block (RES-1 … RES-3). `large` bounds the whole.

use trunkline_wire::Json;
use trunkline_wire::mcp::Content;

use super::base64::{self, Base64Error, encoded_len};
use super::block_text::{BlockText, replaced};
use super::file_type::{self, ENOUGH};
use super::image::{self, Fitted, ImageLimits, MAX_PIXELS};
use super::large::Part;
use super::results::{ResultOrigin, Results};
use super::size::Limit;
use super::store::SavingFile;
use super::{CallOutput, SavedFile, note};

/// The number of files and notes of one result. Blocks are cheap to send.
const MAX_NOTES: usize = 100;

/// The number of images of one result: models take no more, and each may have megabytes.
const MAX_IMAGES: usize = 20;

/// The number of blocks of one result: even empty ones cost tokens.
pub(super) const MAX_BLOCKS: usize = 10_000;

/// Processes one result.
pub(super) struct ResultProcessor {
    pub(super) results: Results,
    pub(super) server: String,
    pub(super) tool: String,
    /// The limit for text.
    pub(super) limit: Option<Limit>,
    /// The number of pixels that may still be decoded.
    pixels: u64,
    /// The number of bytes beside the text of blocks: URIs, annotations.
    beside: usize,
    /// The number of images so far.
    pictures: usize,
    /// The number of parts saved or omitted.
    notes: usize,
    pub(super) files: Vec<SavedFile>,
    pub(super) warnings: Vec<String>,
}

impl ResultProcessor {
    pub(super) fn new(results: Results, origin: &ResultOrigin, limit: Option<Limit>) -> Self {
        Self {
            results,
            server: origin.server.to_owned(),
            tool: origin.tool.to_owned(),
            limit,
            pixels: MAX_PIXELS,
            beside: 0,
            pictures: 0,
            notes: 0,
            files: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn run(mut self, output: CallOutput) -> CallOutput {
        let CallOutput {
            content,
            structured_content,
            is_error,
            meta,
            mut files,
            mut warnings,
            raw,
        } = output;
        let mut parts = Vec::with_capacity(content.len());
        let mut unsaid = 0;
        for (at, block) in content.into_iter().enumerate() {
            let one_of_many = self.limit.is_some() && at >= MAX_BLOCKS;
            if !one_of_many && (self.notes < MAX_NOTES || is_plain(&block)) {
                parts.extend(self.block(block));
            } else {
                unsaid += 1;
            }
        }
        if unsaid > 0 {
            parts.push(Part::Note(note::unsaid(unsaid)));
        }
        let (parts, structured_content) = self.bounded(parts, structured_content);
        files.append(&mut self.files);
        warnings.append(&mut self.warnings);
        CallOutput {
            content: parts.into_iter().map(Part::into_content).collect(),
            structured_content,
            is_error,
            meta,
            files,
            warnings,
            raw,
        }
    }

    fn block(&mut self, block: Content) -> Vec<Part> {
        if let Some(words) = BlockText::of(&block) {
            let block = self.strip_if_heavy(block, &words);
            return vec![Part::BlockText(block, words)];
        }
        let Content::Other { kind, raw } = &block else {
            return vec![Part::Rest(block)];
        };
        let mime = |object: &Json| object.field::<String>("mimeType");
        match &**kind {
            "image" | "audio" => match raw.get("data") {
                Some(data) => self.data(kind, mime(raw).as_deref(), &data, Some(raw)),
                None => self.left_out(kind, "it has no data"),
            },
            "resource" => {
                let resource = raw.get("resource");
                let blob = resource.as_ref().and_then(|resource| resource.get("blob"));
                match (resource, blob) {
                    (Some(resource), Some(blob)) => {
                        let uri = resource.field::<String>("uri").unwrap_or_default();
                        let what = format!("resource {}", shortened(&uri));
                        self.data(&what, mime(&resource).as_deref(), &blob, None)
                    }
                    _ => vec![Part::Rest(block)],
                }
            }
            _ => vec![Part::Rest(block)],
        }
    }

    /// Returns a block with text; only its text once the rest has become too large.
    fn strip_if_heavy(&mut self, block: Content, words: &BlockText) -> Content {
        let Content::Other { raw, .. } = &block else {
            return block;
        };
        self.beside += raw.as_str().len().saturating_sub(words.len());
        if self.limit.is_none_or(|limit| limit.allows_any(self.beside)) {
            return block;
        }
        Content::Text(words.text())
    }

    /// Processes Base64 data: an image for the model, or a file. `block` is the image block around
    /// it.
    fn data(
        &mut self,
        what: &str,
        mime: Option<&str>,
        data: &Json,
        block: Option<&Json>,
    ) -> Vec<Part> {
        let head = match head(data) {
            Ok(head) => head,
            Err(why) => return self.left_out(what, &format!("its data is not base64: {why}")),
        };
        let sniffed = file_type::sniff(&head);
        let found = sniffed.and_then(|kind| Some((kind.mime, image::format(kind.mime)?)));
        match (found, self.results.images) {
            (Some((found, format)), Some(limits)) => {
                let given = Image {
                    found,
                    format,
                    mime,
                    data,
                    block,
                };
                return self.image(what, &given, &limits);
            }
            (Some((_, format)), None) => {
                if let Err(why) = self.is_whole(format, data) {
                    return self.left_out(what, &why);
                }
            }
            (None, _) if what == "image" && sniffed.is_none() => {
                let claimed = mime.and_then(file_type::named).map(|kind| kind.mime);
                // It claims to be an image that models take, and is not.
                if let Some(claimed) = claimed.filter(|claimed| image::format(claimed).is_some()) {
                    let why = format!("its data is no {claimed}, nor any other image");
                    return self.left_out(what, &why);
                }
            }
            (None, _) => {}
        }
        match self.save_data(mime, data) {
            Ok(file) => {
                self.notes += 1;
                let text = note::saved(what, &file);
                self.files.push(file);
                vec![Part::Note(text)]
            }
            Err(why) => self.left_out(what, &why),
        }
    }

    /// Validates an image before it is saved as one.
    fn is_whole(&mut self, format: image::Format, data: &Json) -> Result<(), String> {
        let bytes = base64::decode_whole(data);
        let bytes = bytes.map_err(|why| format!("its data is not base64: {why}"))?;
        image::is_whole(&bytes, format, &mut self.pixels)
    }

    fn image(&mut self, what: &str, given: &Image, limits: &ImageLimits) -> Vec<Part> {
        self.pictures += 1;
        if self.pictures > MAX_IMAGES {
            return self.left_out(what, "there are too many images");
        }
        let bytes = match base64::decode_whole(given.data) {
            Ok(bytes) => bytes,
            Err(why) => return self.left_out(what, &format!("its data is not base64: {why}")),
        };
        let fitted = match image::fit(&bytes, given.format, limits, &mut self.pixels) {
            Ok(fitted) => fitted,
            Err(why) => {
                return self.left_out(&format!("{what} ({})", given.found), &why);
            }
        };
        if let Some(claimed) = given.mime
            && claimed != given.found
        {
            self.warnings.push(format!(
                "an image of \"{}\" says that it is {}, and is {}",
                self.tool,
                shortened(claimed),
                given.found
            ));
        }
        let mut parts = Vec::with_capacity(2);
        if given.block.is_none() {
            parts.push(Part::Note(note::image_of(what)));
        }
        match fitted {
            Fitted::AsItIs => parts.push(Part::Picture(given.as_it_is(&bytes))),
            Fitted::Anew {
                data,
                mime,
                before,
                after,
            } => {
                parts.push(Part::Picture(given.with(&base64::encode(&data), mime)));
                if before != after {
                    parts.push(Part::Note(note::scaled(before, after)));
                }
            }
        }
        parts
    }

    /// Decodes data into a file.
    fn save_data(&self, mime: Option<&str>, data: &Json) -> Result<SavedFile, String> {
        let mut saving: Option<(SavingFile, String)> = None;
        let decoded = base64::decode(data, |piece| {
            if saving.is_none() {
                let (kind, mime) = file_type::of_data(piece, mime);
                let store = &self.results.store;
                let file = store.create(&self.server, &self.tool, kind.extension)?;
                saving = Some((file, mime));
            }
            match &mut saving {
                Some((file, _)) => file.write(piece),
                None => Ok(()),
            }
        });
        match (decoded, saving) {
            (Ok(()), Some((file, mime_type))) => {
                let (path, size) = file.finish();
                Ok(SavedFile {
                    path,
                    mime_type,
                    size,
                })
            }
            (Ok(()), None) => Err("it is empty".to_owned()),
            (Err(Base64Error::Broken(why)), _) => Err(format!("its data is not base64: {why}")),
            (Err(Base64Error::Sink(error)), _) => Err(format!("it could not be saved: {error}")),
        }
    }

    fn left_out(&mut self, what: &str, why: &str) -> Vec<Part> {
        self.notes += 1;
        self.warnings.push(format!(
            "a part of what \"{}\" gave back was left out ({what}): {why}",
            self.tool
        ));
        vec![Part::Note(note::left_out(what, why))]
    }
}

/// An image as the server sent it.
struct Image<'a> {
    /// The detected type.
    found: &'static str,
    format: image::Format,
    /// The claimed type.
    mime: Option<&'a str>,
    data: &'a Json,
    block: Option<&'a Json>,
}

impl Image<'_> {
    /// Returns the image unchanged, in a block with its detected type.
    fn as_it_is(&self, bytes: &[u8]) -> Content {
        let text = self.data.as_str();
        // In the usual spelling: models see it as it is.
        let odd = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'-' | b'_' | b'\\');
        let usual = text.len() == encoded_len(bytes.len()) + 2 && !text.bytes().any(odd);
        match self.block {
            Some(block) if usual && self.mime == Some(self.found) => Content::Other {
                kind: "image".into(),
                raw: block.clone(),
            },
            _ => self.with(&base64::encode(bytes), self.found),
        }
    }

    fn with(&self, data: &str, mime: &str) -> Content {
        let texts = [("type", "image"), ("data", data), ("mimeType", mime)];
        let block = self.block.cloned().unwrap_or_else(Json::empty_object);
        let raw = replaced(&block, &texts);
        Content::Other {
            kind: "image".into(),
            raw,
        }
    }
}

/// Returns the first bytes of data.
fn head(data: &Json) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    let decoded = base64::decode(data, |piece| {
        head.extend_from_slice(&piece[..piece.len().min(ENOUGH)]);
        Err(())
    });
    match decoded {
        Ok(()) | Err(Base64Error::Sink(())) => Ok(head),
        Err(Base64Error::Broken(why)) => Err(why),
    }
}

/// True if a block needs no note in its place.
fn is_plain(block: &Content) -> bool {
    BlockText::of(block).is_some() || !matches!(block.kind(), "image" | "audio" | "resource")
}

/// Truncates text from a server.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
