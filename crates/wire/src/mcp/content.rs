//! Tool results.

use bytestring::ByteString;

use crate::json::Json;

/// Longer text is decoded on demand: a caller that only forwards or saves it needs no second copy.
const MAX_DECODED_TEXT: usize = 128 * 1024;

/// The maximum number of content blocks that are read from one result (SEC-4): an empty block is
/// three bytes of text, and many times that in memory.
pub const MAX_CONTENT_BLOCKS: usize = 100_000;

/// The maximum number of input requests that are read; more are an error of the server's.
const MAX_INPUT_REQUESTS: usize = 1000;

/// A content block.
#[derive(Clone, Debug)]
pub enum Content {
    /// A text block.
    Text(ByteString),
    /// Any other block, known or not, as the server wrote it. Also a text block that is long or has
    /// annotations; see [`Content::text`].
    Other {
        /// The `type`: `text`, `image`, `audio`, `resource`, `resource_link`, or a newer one.
        kind: ByteString,
        /// The whole block.
        raw: Json,
    },
}

impl Content {
    pub(crate) fn from_json(raw: Json) -> Self {
        let (mut kind, mut text, mut extra) = (None, None, false);
        raw.members(|key, value| match key {
            "type" => kind = value.as_string(),
            "text" => text = Some(value),
            _ => extra = true,
        });
        let kind = kind.unwrap_or_default();
        let short = text
            .filter(|text| &*kind == "text" && !extra && text.as_str().len() <= MAX_DECODED_TEXT);
        match short.and_then(|text| text.as_string()) {
            Some(text) => Self::Text(text),
            None => Self::Other { kind, raw },
        }
    }

    /// Returns the `type` of the block.
    pub fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Other { kind, .. } => kind,
        }
    }

    /// Returns the text of a text block.
    pub fn text(&self) -> Option<ByteString> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Other { kind, raw } if &**kind == "text" => raw.get("text")?.as_string(),
            Self::Other { .. } => None,
        }
    }

    /// Calls `visit` with the text of a text block in chunks, without a copy of it in memory. Stops
    /// at the first error. Returns false if there is no text.
    pub fn text_chunks<E>(&self, mut visit: impl FnMut(&str) -> Result<(), E>) -> Result<bool, E> {
        match self {
            Self::Text(text) => visit(text).map(|()| true),
            Self::Other { kind, raw } if &**kind == "text" => match raw.get("text") {
                Some(text) => text.string_chunks(visit),
                None => Ok(false),
            },
            Self::Other { .. } => Ok(false),
        }
    }

    /// Returns the block as JSON.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Text(text) => {
                let mut object = crate::ObjectWriter::with_capacity(text.len() + 32);
                object.string("type", "text").string("text", text);
                object.finish()
            }
            Self::Other { raw, .. } => raw.clone(),
        }
    }
}

/// The result of `tools/call`.
#[derive(Clone, Debug)]
pub struct CallToolResult {
    /// The content blocks, up to [`MAX_CONTENT_BLOCKS`].
    pub content: Vec<Content>,
    /// The number of blocks beyond [`MAX_CONTENT_BLOCKS`], which are not read.
    pub omitted: usize,
    /// The structured result, byte for byte.
    pub structured_content: Option<Json>,
    /// Whether the tool reports a failure.
    pub is_error: bool,
    /// The `_meta` of the result.
    pub meta: Option<Json>,
    /// The whole result as the server wrote it. `None` in the form of protocol version 2024-10-07,
    /// which today's clients do not read.
    pub raw: Option<Json>,
}

/// The kind of a result, from `resultType`.
#[derive(Clone, Debug)]
pub enum ResultKind {
    /// A final result.
    Complete,
    /// The server needs input first (MRTR).
    InputRequired {
        /// The input requests, by key.
        requests: Vec<(String, Json)>,
        /// Opaque state, to be returned unchanged.
        state: Option<Json>,
    },
    /// An unknown kind.
    Unknown(String),
}

impl CallToolResult {
    /// Reads the result of `tools/call` and its kind in one pass.
    pub fn from_json(result: &Json) -> Result<(ResultKind, Self), String> {
        let mut read = Self {
            content: Vec::new(),
            omitted: 0,
            structured_content: None,
            is_error: false,
            meta: None,
            raw: None,
        };
        let (mut blocks, mut whole) = (Blocks::default(), None);
        let mut tool_result = None;
        let mut kind = KindMembers::default();
        let other = |key: &str, value| match key {
            // Not a list, or a repeated member; the last one counts.
            "content" => whole = Some(value),
            "structuredContent" => read.structured_content = Some(value),
            "toolResult" => tool_result = Some(value),
            "isError" => read.is_error = value.as_str() == "true",
            "_meta" => read.meta = Some(value),
            _ => kind.member(key, value),
        };
        let block = |block| blocks.push(block);
        let (object, listed) = result.members_and_list("content", other, block);
        if !object {
            return Err("the result is not an object".to_owned());
        }
        let is_current = listed == Some(true) && whole.is_none() && tool_result.is_none();
        read.raw = is_current.then(|| result.clone());
        read.set_content(whole.map_or(blocks, Blocks::read));
        if let Some(tool_result) = tool_result {
            read.add_tool_result(tool_result);
        }
        Ok((kind.into(), read))
    }

    fn set_content(&mut self, blocks: Blocks) {
        self.content = blocks.content;
        self.omitted = blocks.omitted;
    }

    /// Adds the `toolResult` of protocol version 2024-10-07, which servers on old SDKs still send:
    /// a nested result, or any value. Never overwrites current members.
    fn add_tool_result(&mut self, inner: Json) {
        let Some(blocks) = inner.get("content").filter(|_| self.content.is_empty()) else {
            self.add_bare_tool_result(inner);
            return;
        };
        self.set_content(Blocks::read(blocks));
        let structured = || inner.get("structuredContent");
        self.structured_content = self.structured_content.take().or_else(structured);
        self.is_error |= inner.field("isError") == Some(true);
        self.meta = self.meta.take().or_else(|| inner.get("_meta"));
    }

    fn add_bare_tool_result(&mut self, value: Json) {
        if let (Some(text), true) = (value.as_string(), self.content.is_empty()) {
            self.content.push(Content::Text(text));
        } else if !value.is_null() && self.structured_content.is_none() {
            self.structured_content = Some(value);
        }
    }
}

/// Content blocks, of which only so many are read.
#[derive(Default)]
pub(super) struct Blocks {
    pub(super) content: Vec<Content>,
    pub(super) omitted: usize,
}

impl Blocks {
    /// Reads a list of blocks, a bare string, or one block.
    fn read(blocks: Json) -> Self {
        let mut read = Self::default();
        read.extend(blocks);
        read
    }

    /// Adds what [`Blocks::read`] reads.
    pub(super) fn extend(&mut self, blocks: Json) {
        if !blocks.elements(|block| self.push(block)) {
            match blocks.as_string() {
                Some(text) => self.put(|| Content::Text(text)),
                None => self.push(blocks),
            }
        }
    }

    fn push(&mut self, block: Json) {
        self.put(|| Content::from_json(block));
    }

    fn put(&mut self, content: impl FnOnce() -> Content) {
        if self.content.len() < MAX_CONTENT_BLOCKS {
            self.content.push(content());
        } else {
            self.omitted += 1;
        }
    }
}

/// The members that determine the kind of a result.
#[derive(Default)]
struct KindMembers {
    kind: Option<ByteString>,
    requests: Option<Json>,
    state: Option<Json>,
}

impl KindMembers {
    fn member(&mut self, key: &str, value: Json) {
        match key {
            "resultType" => self.kind = value.as_string(),
            "inputRequests" => self.requests = Some(value),
            "requestState" => self.state = Some(value),
            _ => {}
        }
    }
}

impl From<KindMembers> for ResultKind {
    fn from(members: KindMembers) -> Self {
        match members.kind.as_deref() {
            None | Some("complete") => Self::Complete,
            Some("input_required") => {
                let mut requests = Vec::new();
                if let Some(inputs) = members.requests {
                    inputs.members(|key, value| {
                        if requests.len() < MAX_INPUT_REQUESTS {
                            requests.push((key.to_owned(), value));
                        }
                    });
                }
                Self::InputRequired {
                    requests,
                    state: members.state,
                }
            }
            Some(other) => Self::Unknown(other.to_owned()),
        }
    }
}

impl ResultKind {
    /// Reads the kind of any result. Without a `resultType` it is complete.
    pub fn from_json(result: &Json) -> Self {
        let mut members = KindMembers::default();
        result.members(|key, value| members.member(key, value));
        members.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CallToolResult {
        CallToolResult::from_json(&Json::parse(text.to_owned()).unwrap())
            .unwrap()
            .1
    }

    #[test]
    fn the_last_of_two_content_members_counts() {
        let texts = |text: &str| -> Vec<String> {
            let content = read(text).content;
            let texts = content.iter().filter_map(Content::text);
            texts.map(|text| text.to_string()).collect()
        };
        let two =
            r#"{"content":[{"type":"text","text":"a"}],"content":[{"type":"text","text":"b"}]}"#;
        assert_eq!(texts(two), ["b"]);
        assert_eq!(texts(r#"{"content":[],"content":"c"}"#), ["c"]);
    }

    #[test]
    fn blocks_beyond_the_limit_are_counted_and_not_read() {
        let blocks = vec!["{}"; MAX_CONTENT_BLOCKS + 7].join(",");
        for text in [
            format!(r#"{{"content":[{blocks}]}}"#),
            format!(r#"{{"content":[],"content":[{blocks}]}}"#),
            format!(r#"{{"toolResult":{{"content":[{blocks}]}}}}"#),
        ] {
            let result = read(&text);
            assert_eq!(
                (result.content.len(), result.omitted),
                (MAX_CONTENT_BLOCKS, 7)
            );
        }
        let requests: Vec<_> = (0..2 * MAX_INPUT_REQUESTS)
            .map(|n| format!(r#""k{n}":{{}}"#))
            .collect();
        let text = format!(
            r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#,
            requests.join(",")
        );
        let kind = ResultKind::from_json(&Json::parse(text).unwrap());
        assert!(
            matches!(kind, ResultKind::InputRequired { requests, .. } if requests.len() == MAX_INPUT_REQUESTS)
        );
    }

    #[test]
    fn unknown_blocks_and_keys_are_kept_or_ignored() {
        let result = read(
            r#"{"content":[{"type":"text","text":"a"},{"type":"hologram","x":1},5,{"type":"text","text":7}],
                "structuredContent":[1, 2],"isError":true,"messages":[],"_meta":{"k":1}}"#,
        );
        let kinds: Vec<_> = result.content.iter().map(Content::kind).collect();
        assert_eq!(kinds, ["text", "hologram", "", "text"]);
        assert_eq!(result.content[0].text().as_deref(), Some("a"));
        assert_eq!(
            result.content[1].to_json().as_str(),
            r#"{"type":"hologram","x":1}"#
        );
        assert_eq!(result.content[3].text(), None);
        assert_eq!(result.structured_content.unwrap().as_str(), "[1, 2]");
        assert!(result.is_error);
    }

    #[test]
    fn a_tool_result_of_an_old_server_is_read() {
        type Expected<'e> = (&'e [&'e str], Option<&'e str>, bool, Option<&'e str>);
        let cases: [(&str, Expected); 9] = [
            (
                r#"{"toolResult":{"content":[{"type":"text","text":"a"}],"isError":true}}"#,
                (&["a"], None, true, None),
            ),
            (
                r#"{"toolResult":{"content":[{"type":"text","text":"a"}],"structuredContent":{"x":1},"_meta":{"k":2}}}"#,
                (&["a"], Some(r#"{"x":1}"#), false, Some(r#"{"k":2}"#)),
            ),
            (
                r#"{"toolResult":{"content":"a"},"_meta":{"k":1},"isError":true}"#,
                (&["a"], None, true, Some(r#"{"k":1}"#)),
            ),
            (r#"{"toolResult":"a"}"#, (&["a"], None, false, None)),
            (
                r#"{"toolResult":{"x":1}}"#,
                (&[], Some(r#"{"x":1}"#), false, None),
            ),
            (r#"{"toolResult":[1]}"#, (&[], Some("[1]"), false, None)),
            (r#"{"toolResult":null}"#, (&[], None, false, None)),
            // Current members take precedence.
            (
                r#"{"content":[{"type":"text","text":"a"}],"toolResult":"b"}"#,
                (&["a"], Some(r#""b""#), false, None),
            ),
            (
                r#"{"content":[{"type":"text","text":"a"}],"structuredContent":1,"toolResult":{"content":"b","isError":true}}"#,
                (&["a"], Some("1"), false, None),
            ),
        ];
        for (text, (texts, structured, is_error, meta)) in cases {
            let result = read(text);
            let found: Vec<_> = result.content.iter().filter_map(Content::text).collect();
            assert_eq!(found, texts, "{text}");
            let shown = |json: &Option<Json>| json.as_ref().map(|json| json.as_str().to_owned());
            assert_eq!(
                shown(&result.structured_content).as_deref(),
                structured,
                "{text}"
            );
            assert_eq!(shown(&result.meta).as_deref(), meta, "{text}");
            assert_eq!(result.is_error, is_error, "{text}");
        }
    }

    #[test]
    fn an_annotated_text_block_keeps_its_annotations() {
        let result = read(
            r#"{"content":[{"type":"text","text":"a","annotations":{"audience":["system"]}}]}"#,
        );
        assert_eq!(result.content[0].text().as_deref(), Some("a"));
        assert!(result.content[0].to_json().as_str().contains("audience"));
    }

    #[test]
    fn a_long_text_is_decoded_on_demand() {
        let text = "line\n".repeat(MAX_DECODED_TEXT / 4);
        let block = serde_json::json!({"type": "text", "text": text});
        let result = read(&serde_json::json!({"content": [block]}).to_string());
        let content = &result.content[0];
        assert!(matches!(content, Content::Other { .. }) && content.kind() == "text");
        assert_eq!(content.text().as_deref(), Some(&*text));
        assert_eq!(content.to_json().to_value().unwrap(), block);
        let mut pieces = String::new();
        let visited = content.text_chunks(|piece| {
            pieces.push_str(piece);
            Ok::<_, ()>(())
        });
        assert_eq!((visited, pieces), (Ok(true), text));
        let link = read(r#"{"content":[{"type":"resource_link","text":"x"}]}"#);
        let visited = link.content[0].text_chunks(|_| Err("there is none"));
        assert_eq!(visited, Ok(false));
    }

    #[test]
    fn a_result_of_an_unusual_shape_is_read_as_far_as_possible() {
        assert!(read("{}").content.is_empty());
        assert_eq!(
            read(r#"{"content":"bare"}"#).content[0].text().as_deref(),
            Some("bare")
        );
        assert_eq!(
            read(r#"{"content":{"type":"text","text":"one"}}"#).content[0]
                .text()
                .as_deref(),
            Some("one")
        );
        assert!(CallToolResult::from_json(&Json::null()).is_err());
    }

    #[test]
    fn the_kind_of_a_result_is_detected() {
        let kind = |text: &str| ResultKind::from_json(&Json::parse(text.to_owned()).unwrap());
        assert!(matches!(kind("{}"), ResultKind::Complete));
        assert!(matches!(
            kind(r#"{"resultType":"complete"}"#),
            ResultKind::Complete
        ));
        assert!(matches!(
            kind(r#"{"content":"resultType"}"#),
            ResultKind::Complete
        ));
        assert!(matches!(
            kind(r#"{"resultType":"task"}"#),
            ResultKind::Unknown(_)
        ));
        let ResultKind::InputRequired { requests, state } = kind(
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"x\u0041"}"#,
        ) else {
            panic!()
        };
        assert_eq!(requests[0].0, "a");
        assert_eq!(state.unwrap().as_str(), r#""x\u0041""#);
    }
}
