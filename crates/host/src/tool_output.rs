//! Results and errors of tools that the embedding program implements.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};
use trunkline_wire::mcp::{CallToolResult, Content};
use trunkline_wire::{Json, ObjectWriter};

use crate::result::CallOutput;

/// The result of a tool that the program implements, on a [`Builtin`](crate::Builtin) server or as
/// a [`HostTool`](crate::tool::HostTool).
///
/// ```
/// use trunkline::tool::ToolOutput;
///
/// let plain: ToolOutput = "done".into();
/// let chart = ToolOutput::text("sales by month").with_image("image/png", b"\x89PNG");
/// let report = ToolOutput::structured(&serde_json::json!({"sum": 5}));
/// # drop((plain, chart, report));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ToolOutput(CallOutput);

impl ToolOutput {
    /// A result without content.
    pub fn empty() -> Self {
        Self::text("").without_content()
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(CallOutput::of_text(text))
    }

    /// A failure that the tool reports to the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self(CallOutput::failure(text))
    }

    /// A structured result, with its JSON text beside it for clients that read only text.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Self {
        match Json::encode(value) {
            Ok(value) => Self(CallOutput {
                structured_content: Some(value.clone()),
                ..CallOutput::of_text(value.as_str())
            }),
            Err(error) => Self::error(format!("the result is not JSON: {error}")),
        }
    }

    /// Adds a text.
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.with_content(&json!({"type": "text", "text": text.into()}))
    }

    /// Adds an image.
    pub fn with_image(self, mime_type: &str, bytes: &[u8]) -> Self {
        let data = STANDARD.encode(bytes);
        self.with_content(&json!({"type": "image", "mimeType": mime_type, "data": data}))
    }

    /// Adds a sound.
    pub fn with_audio(self, mime_type: &str, bytes: &[u8]) -> Self {
        let data = STANDARD.encode(bytes);
        self.with_content(&json!({"type": "audio", "mimeType": mime_type, "data": data}))
    }

    /// Adds a link to a resource.
    pub fn with_resource_link(self, uri: &str, name: &str) -> Self {
        self.with_content(&json!({"type": "resource_link", "uri": uri, "name": name}))
    }

    /// Adds the text of a resource.
    pub fn with_resource(self, uri: &str, mime_type: &str, text: &str) -> Self {
        let resource = json!({"uri": uri, "mimeType": mime_type, "text": text});
        self.with_content(&json!({"type": "resource", "resource": resource}))
    }

    /// Adds a content block of any kind, as MCP writes it.
    pub fn with_content(mut self, block: &Value) -> Self {
        let result = json!({"content": [block]});
        if let Ok((_, read)) = CallToolResult::from_json(&Json::from(result)) {
            self.0.content.extend(read.content);
        }
        self
    }

    /// Sets the `_meta` of the result.
    pub fn with_meta(mut self, meta: Map<String, Value>) -> Self {
        self.0.meta = Some(Value::Object(meta).into());
        self
    }

    pub(crate) fn into_output(self) -> CallOutput {
        self.0
    }

    /// The result of `tools/call`.
    pub(crate) fn to_json(&self) -> Json {
        let CallOutput {
            content,
            structured_content,
            is_error,
            meta,
            ..
        } = &self.0;
        let blocks: Vec<Json> = content.iter().map(Content::to_json).collect();
        let blocks: Vec<&str> = blocks.iter().map(Json::as_str).collect();
        let mut result = ObjectWriter::new();
        result.string("resultType", "complete");
        if let Ok(blocks) = Json::parse(format!("[{}]", blocks.join(","))) {
            result.raw("content", &blocks);
        }
        if let Some(structured) = structured_content {
            result.raw("structuredContent", structured);
        }
        if *is_error {
            result.value("isError", &Value::Bool(true));
        }
        if let Some(meta) = meta {
            result.raw("_meta", meta);
        }
        result.finish()
    }

    fn without_content(mut self) -> Self {
        self.0.content.clear();
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::structured(&value)
    }
}

/// Passes on the result of another call.
impl From<CallOutput> for ToolOutput {
    fn from(output: CallOutput) -> Self {
        Self(output)
    }
}

impl From<ToolError> for ToolOutput {
    fn from(error: ToolError) -> Self {
        Self::error(error.to_string())
    }
}

/// The failure of a tool that the program implements. Any error becomes one by `?`; the model sees
/// its text and those of its sources.
///
/// ```
/// use trunkline::tool::ToolError;
///
/// fn half(text: &str) -> Result<i64, ToolError> {
///     let number: i64 = text.parse()?;
///     if number % 2 != 0 {
///         return Err("the number is odd".into());
///     }
///     Ok(number / 2)
/// }
/// assert_eq!(half("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
// Not an `Error` itself, which would contradict the conversion from every error.
#[derive(Debug)]
pub struct ToolError(Box<dyn std::error::Error + Send + Sync>);

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// Reads a tool's arguments into a type of the program's.
pub(crate) fn parse_arguments<T: serde::de::DeserializeOwned>(
    arguments: &Json,
) -> Result<T, ToolError> {
    serde_json::from_str(arguments.as_str())
        .map_err(|error| format!("the arguments do not fit: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_content_is_written_as_mcp_has_it() {
        let output = ToolOutput::text("a")
            .with_text("b")
            .with_image("image/png", b"\x01\x02")
            .with_audio("audio/wav", b"\x03")
            .with_resource_link("file:///x", "x")
            .with_resource("file:///y", "text/plain", "y")
            .with_content(&json!({"type": "new", "k": 1}))
            .with_meta(Map::from_iter([("m".to_owned(), json!(1))]));
        assert_eq!(
            output.to_json().to_value().unwrap(),
            json!({
                "resultType": "complete",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "b"},
                    {"type": "image", "mimeType": "image/png", "data": "AQI="},
                    {"type": "audio", "mimeType": "audio/wav", "data": "Aw=="},
                    {"type": "resource_link", "uri": "file:///x", "name": "x"},
                    {"type": "resource", "resource": {"uri": "file:///y", "mimeType": "text/plain", "text": "y"}},
                    {"type": "new", "k": 1},
                ],
                "_meta": {"m": 1},
            })
        );
        let failed = ToolOutput::from(ToolError::from("no luck")).to_json();
        assert_eq!(
            failed.to_value().unwrap(),
            json!({"resultType": "complete", "content": [{"type": "text", "text": "no luck"}], "isError": true})
        );
        let structured = ToolOutput::from(json!({"sum": 5}))
            .to_json()
            .to_value()
            .unwrap();
        assert_eq!(structured["structuredContent"], json!({"sum": 5}));
        assert_eq!(structured["content"][0]["text"], r#"{"sum":5}"#);
        assert_eq!(
            ToolOutput::empty().to_json().to_value().unwrap()["content"],
            json!([])
        );
    }

    #[test]
    fn an_error_shows_its_sources() {
        #[derive(Debug, thiserror::Error)]
        #[error("reading failed")]
        struct Outer(#[source] std::fmt::Error);
        let error = ToolError::from(Outer(std::fmt::Error));
        let source = std::fmt::Error.to_string();
        assert_eq!(error.to_string(), format!("reading failed: {source}"));
    }
}
