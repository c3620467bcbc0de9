//! The text of a block, without a copy of it where that would be large.

use std::convert::Infallible;
use std::ops::ControlFlow;

use serde_json::Value;
use trunkline_wire::mcp::Content;
use trunkline_wire::{ByteString, Json, ObjectWriter};

use super::size::{Limit, Size};
use super::visible;
use crate::context::MAX_URI;
use crate::sanitize::{Removed, sanitize_json, strip_hidden};

/// A text, decoded or still encoded in the message.
#[derive(Clone, Debug)]
pub(super) enum BlockText {
    Plain(ByteString),
    Spelt(Json),
}

impl BlockText {
    /// Returns the text of a text block or of an embedded text resource.
    pub(super) fn of(content: &Content) -> Option<Self> {
        match content {
            Content::Text(text) => Some(Self::Plain(text.clone())),
            Content::Other { kind, raw } => match &**kind {
                "text" => string(raw, "text"),
                "resource" => string(&raw.get("resource")?, "text"),
                _ => None,
            },
        }
    }

    /// Returns the whole text.
    pub(super) fn text(&self) -> ByteString {
        match self {
            Self::Plain(text) => text.clone(),
            Self::Spelt(json) => json.as_string().unwrap_or_default(),
        }
    }

    /// Returns an upper bound of the length in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            // An escape is never shorter than its character.
            Self::Spelt(json) => json.as_str().len(),
        }
    }

    /// Calls `visit` with the text in chunks.
    pub(super) fn pieces<E>(&self, mut visit: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Plain(text) => visit(text),
            Self::Spelt(json) => json.string_chunks(visit).map(drop),
        }
    }

    /// Returns about `length` bytes of the beginning, and whether there is more.
    pub(super) fn head(&self, length: usize) -> (String, bool) {
        let mut head = String::new();
        let visited = self.pieces(|piece| {
            let room = length.saturating_sub(head.len());
            let part = &piece[..piece.floor_char_boundary(room)];
            head.push_str(part);
            if part.len() < piece.len() {
                Err(())
            } else {
                Ok(())
            }
        });
        (head, visited.is_err())
    }

    /// Adds the text to `size`; stops early once the limit is exceeded.
    pub(super) fn measure(&self, size: &mut Size, limit: &Limit) -> ControlFlow<()> {
        let visited = self.pieces(|piece| {
            size.add(piece);
            if limit.allows(size) { Ok(()) } else { Err(()) }
        });
        match visited {
            Ok(()) => ControlFlow::Continue(()),
            Err(()) => ControlFlow::Break(()),
        }
    }

    /// True if the text is this JSON, apart from whitespace.
    pub(super) fn says(&self, json: &str) -> bool {
        let (mut ours, mut others) = (SignificantBytes::default(), SignificantBytes::default());
        let mut theirs = json.bytes().filter(|byte| others.is_part(*byte));
        let visited = self.pieces(|piece| {
            let mut parts = piece.bytes().filter(|byte| ours.is_part(*byte));
            let same = parts.all(|byte| theirs.next() == Some(byte));
            if same { Ok(()) } else { Err(()) }
        });
        visited.is_ok() && theirs.next().is_none()
    }

    /// Returns the size.
    pub(super) fn size(&self) -> Size {
        let mut size = Size::default();
        let Ok(()) = self.pieces(|piece| {
            size.add(piece);
            Ok::<_, Infallible>(())
        });
        size
    }
}

/// Skips insignificant whitespace in JSON.
#[derive(Default)]
struct SignificantBytes {
    in_string: bool,
    escaped: bool,
}

impl SignificantBytes {
    /// True if the next byte is significant.
    fn is_part(&mut self, byte: u8) -> bool {
        if !self.in_string {
            self.in_string = byte == b'"';
            return !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        }
        if self.escaped {
            self.escaped = false;
        } else {
            self.escaped = byte == b'\\';
            self.in_string = byte != b'"';
        }
        true
    }
}

fn string(object: &Json, key: &str) -> Option<BlockText> {
    let text = object.get(key)?;
    text.as_str()
        .starts_with('"')
        .then_some(BlockText::Spelt(text))
}

/// Replaces the text of a block.
pub(super) fn with_block_text(content: &Content, text: &str) -> Content {
    match content {
        Content::Other { kind, raw } => {
            let raw = if &**kind == "resource" {
                let inner = raw.get("resource").unwrap_or_else(Json::empty_object);
                let inner = replaced(&inner, &[("text", text)]);
                with_member(raw, "resource", &inner)
            } else {
                replaced(raw, &[("text", text)])
            };
            Content::Other {
                kind: kind.clone(),
                raw,
            }
        }
        Content::Text(_) => Content::Text(text.into()),
    }
}

/// Prepares a block for a model.
pub(super) fn shown(content: Content, removed: &mut Removed) -> Content {
    let content = match content {
        Content::Other { kind, raw } if &*kind == "resource" => Content::Other {
            raw: with_visible_address(raw, removed),
            kind,
        },
        content => content,
    };
    let Some(words) = BlockText::of(&content) else {
        return without_hidden_texts(content, removed);
    };
    match visible(&words.text(), removed) {
        Some(visible) => with_block_text(&content, &visible),
        None => content,
    }
}

/// Removes hidden characters beside the text or data of an embedded resource.
fn with_visible_address(raw: Json, removed: &mut Removed) -> Json {
    let Some(resource) = raw.get("resource") else {
        return raw;
    };
    let mut other: Vec<(String, Json)> = Vec::new();
    resource.members(|key, value| {
        if matches!(key, "text" | "blob") {
            return;
        }
        if let Some(uri) = value.as_string().filter(|_| key == "uri") {
            // A URI is used again: visible characters keep their spelling.
            let visible = strip_hidden(&uri[..uri.floor_char_boundary(MAX_URI)], removed);
            if *visible != *uri {
                other.push((key.to_owned(), Json::from(Value::from(&*visible))));
            }
            return;
        }
        let (clean, more) = sanitize_json(&value);
        *removed += more;
        if clean.as_str() != value.as_str() {
            other.push((key.to_owned(), clean));
        }
    });
    if other.is_empty() {
        return raw;
    }
    let resource = other.iter().fold(resource, |resource, (key, value)| {
        with_member(&resource, key, value)
    });
    with_member(&raw, "resource", &resource)
}

/// Removes hidden characters from a block that is neither text nor data, such as a link.
fn without_hidden_texts(content: Content, removed: &mut Removed) -> Content {
    match content {
        Content::Other { kind, raw } if !matches!(&*kind, "image" | "audio" | "resource") => {
            let (raw, more) = sanitize_json(&raw);
            *removed += more;
            Content::Other { kind, raw }
        }
        content => content,
    }
}

/// Replaces or adds string members of an object.
pub(super) fn replaced(object: &Json, texts: &[(&str, &str)]) -> Json {
    let long: usize = texts.iter().map(|(_, text)| text.len()).sum();
    let mut writer = ObjectWriter::with_capacity(long + 256);
    object.members(|key, value| {
        if !texts.iter().any(|(name, _)| *name == key) {
            writer.raw(key, &value);
        }
    });
    for (key, text) in texts {
        writer.string(key, text);
    }
    writer.finish()
}

fn with_member(object: &Json, name: &str, value: &Json) -> Json {
    let mut writer = ObjectWriter::with_capacity(value.as_str().len() + 256);
    object.members(|key, old| {
        if key != name {
            writer.raw(key, &old);
        }
    });
    writer.raw(name, value);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Content {
        let raw = Json::parse(text.to_owned()).unwrap();
        let kind = raw.field::<String>("type").unwrap().into();
        Content::Other { kind, raw }
    }

    fn text(words: &BlockText) -> String {
        words.head(usize::MAX).0
    }

    #[test]
    fn words_are_found_where_a_block_has_them() {
        let cases = [
            (
                r#"{"type":"text","text":"a\nb","annotations":{}}"#,
                Some("a\nb"),
            ),
            (
                r#"{"type":"resource","resource":{"uri":"x:y","text":"t"}}"#,
                Some("t"),
            ),
            (
                r#"{"type":"resource","resource":{"uri":"x:y","blob":"AAAA"}}"#,
                None,
            ),
            (r#"{"type":"resource"}"#, None),
            (r#"{"type":"text","text":7}"#, None),
            (r#"{"type":"resource_link","text":"x"}"#, None),
        ];
        for (raw, expected) in cases {
            let words = BlockText::of(&block(raw));
            assert_eq!(words.as_ref().map(text).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn a_block_keeps_everything_but_its_words() {
        let cases = [
            (
                r#"{"type":"text","text":"long","annotations":{"a":1}}"#,
                r#"{"type":"text","annotations":{"a":1},"text":"cut\n"}"#,
            ),
            (
                r#"{"type":"resource","_meta":{},"resource":{"text":"t","uri":"x"}}"#,
                r#"{"type":"resource","_meta":{},"resource":{"uri":"x","text":"cut\n"}}"#,
            ),
        ];
        for (before, after) in cases {
            assert_eq!(
                with_block_text(&block(before), "cut\n").to_json().as_str(),
                after
            );
        }
    }

    #[test]
    fn nothing_is_hidden_beside_the_words_of_an_embedded_resource() {
        let seen = |raw: &str| {
            let mut removed = Removed::default();
            let block = shown(block(raw), &mut removed);
            (block.to_json().as_str().to_owned(), removed.total())
        };
        let clean = r#"{"type":"resource","resource":{ "uri":"x:\/\u00e9","text":"t","size":1.0}}"#;
        assert_eq!(seen(clean).1, 0);
        let hidden = "{\"type\":\"resource\",\"resource\":{\"uri\":\"x:\u{e0041}ﬁ\",\"text\":\"t\u{200b}\",\"title\":\"a\u{200b}\"}}";
        let (block, removed) = seen(hidden);
        assert_eq!(
            block,
            r#"{"type":"resource","resource":{"uri":"x:ﬁ","title":"a","text":"t"}}"#
        );
        assert_eq!(removed, 3);
        let long = format!(
            r#"{{"type":"resource","resource":{{"uri":"{}","text":"t"}}}}"#,
            "x".repeat(1_000_000)
        );
        assert!(seen(&long).0.len() < 2 * MAX_URI);
    }

    #[test]
    fn json_says_the_same_however_it_is_laid_out() {
        let text = "{\n \"a b\": [1, \"\\\" \\\\\"]\n}";
        let words = BlockText::Spelt(Json::from(serde_json::json!(text)));
        for (json, same) in [
            (r#"{"a b":[1,"\" \\"]}"#, true),
            (r#"{ "a b" : [ 1 , "\" \\" ] }"#, true),
            (r#"{"ab":[1,"\" \\"]}"#, false),
            (r#"{"a b":[1,"\"\\"]}"#, false),
            (r#"{"a b":[1]}"#, false),
            (r#"{"a b":[1,"\" \\"]}7"#, false),
        ] {
            assert_eq!(words.says(json), same, "{json}");
        }
    }

    #[test]
    fn a_head_ends_between_characters() {
        let words = BlockText::Plain("aé中".into());
        let heads = [0, 1, 2, 3, 5, 6, 7].map(|length| words.head(length));
        let expected = [
            ("", true),
            ("a", true),
            ("a", true),
            ("aé", true),
            ("aé", true),
            ("aé中", false),
            ("aé中", false),
        ];
        assert_eq!(heads, expected.map(|(head, more)| (head.to_owned(), more)));
    }
}
