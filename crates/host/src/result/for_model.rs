//! Results in the formats of model APIs.

use serde_json::{Value, json};
use trunkline_wire::Json;

use super::{CallOutput, Content, ContentBlock, shown_block};
use crate::catalog::Format;
use crate::sanitize::{Removed, one_line, sanitize_json, strip_hidden_json};

/// The text of an empty result: some APIs reject empty text.
const NOTHING: &str = "(the tool gave back nothing)";

impl CallOutput {
    /// Returns the content in the format of a model API: the `content` of Anthropic's `tool_result`
    /// block or of OpenAI's `tool` message, the `output` of a `function_call_output` in OpenAI's
    /// Responses API, or an MCP result. Where the API takes no images, a line replaces each.
    ///
    /// Hidden characters are removed, even from a [raw](crate::CallOptions::raw) output.
    ///
    /// ```
    /// use trunkline::CallOutput;
    /// use trunkline::tool::Format;
    ///
    /// let output = CallOutput::of_text("noon");
    /// assert_eq!(output.for_model(Format::OpenAi), "noon");
    /// assert_eq!(output.for_model(Format::Anthropic)[0]["text"], "noon");
    /// ```
    pub fn for_model(&self, format: Format) -> Value {
        match format {
            Format::Anthropic => Value::Array(self.blocks().iter().map(anthropic).collect()),
            Format::OpenAiResponses if self.content().any(|content| is_image(&content)) => {
                Value::Array(self.blocks().iter().map(responses).collect())
            }
            Format::OpenAi | Format::OpenAiResponses => {
                let texts: Vec<_> = self.blocks().iter().map(plain).collect();
                json!(texts.join("\n"))
            }
            Format::Mcp => {
                let block = |block: &ContentBlock| match tree(&block.to_json()) {
                    Value::String(text) => json!({"type": "text", "text": text}),
                    block => block,
                };
                let content: Vec<_> = self.content.iter().cloned().map(shown_block).collect();
                let content: Vec<_> = content.iter().map(block).collect();
                let mut result = json!({"content": content, "isError": self.is_error});
                if let Some(structured) = &self.structured_content {
                    result["structuredContent"] = tree(&visible(structured));
                }
                result
            }
        }
    }

    /// Returns the blocks, or a text in place of them.
    fn blocks(&self) -> Vec<ContentBlock> {
        if !self.content.is_empty() {
            return self.content.iter().cloned().map(shown_block).collect();
        }
        let text = match &self.structured_content {
            Some(structured) => visible(structured).as_str().to_owned(),
            None => NOTHING.to_owned(),
        };
        vec![ContentBlock::Text(text.into())]
    }
}

fn visible(json: &Json) -> Json {
    strip_hidden_json(json, &mut Removed::default())
}

/// Parses JSON. Lone surrogates and deep nesting, which a `Value` cannot hold, are repaired or stay
/// text.
fn tree(json: &Json) -> Value {
    let tree = json.to_value();
    let tree = tree.or_else(|_| sanitize_json(json).0.to_value());
    tree.unwrap_or_else(|_| Value::from(json.as_str()))
}

fn anthropic(block: &ContentBlock) -> Value {
    match image(block) {
        Some((media_type, data)) => {
            let source = json!({"type": "base64", "media_type": media_type, "data": data});
            json!({"type": "image", "source": source})
        }
        None => json!({"type": "text", "text": plain(block)}),
    }
}

/// An item of `function_call_output.output` in OpenAI's Responses API.
fn responses(block: &ContentBlock) -> Value {
    match image(block) {
        Some((mime_type, data)) => {
            let url = format!("data:{mime_type};base64,{data}");
            json!({"type": "input_image", "image_url": url})
        }
        None => json!({"type": "input_text", "text": plain(block)}),
    }
}

fn is_image(content: &Content) -> bool {
    matches!(content, Content::Image(_))
}

/// The MIME type and the Base64 data of an image.
fn image(block: &ContentBlock) -> Option<(String, String)> {
    match Content::from(block) {
        Content::Image(image) => Some((image.mime_type()?, image.base64()?)),
        _ => None,
    }
}

/// Formats a block as text.
fn plain(block: &ContentBlock) -> String {
    if let Some(text) = block.text() {
        return text.to_string();
    }
    let raw = block.to_json();
    let field = |name: &str| raw.field::<String>(name);
    match block.kind() {
        "image" | "audio" => {
            let mime_type = field("mimeType").unwrap_or_default();
            format!("[{} {mime_type}, which cannot be shown here]", block.kind())
        }
        "resource_link" => {
            let name = field("name").unwrap_or_default();
            let uri = field("uri").unwrap_or_default();
            format!("[resource {}: {}]", one_line(&name).0, one_line(&uri).0)
        }
        "resource" => {
            let resource = raw.get("resource");
            let field = |name| resource.as_ref().and_then(|it| it.field::<String>(name));
            let uri = field("uri").unwrap_or_default();
            let uri = one_line(&uri).0;
            match field("text") {
                Some(text) => format!("[resource {uri}]\n{text}"),
                None => format!("[resource {uri}]"),
            }
        }
        _ => raw.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_wire::mcp::CallToolResult;

    use super::*;

    fn output(result: Value) -> CallOutput {
        CallToolResult::from_json(&Json::from(result))
            .unwrap()
            .1
            .into()
    }

    #[test]
    fn every_kind_of_block_has_a_form_for_every_api() {
        let result = output(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "uri": "a:b", "name": "n"},
            {"type": "resource", "resource": {"uri": "c:d", "text": "two"}},
            {"type": "newer", "x": 1},
        ], "structuredContent": {"a": 1}}));
        let texts = |image: Value| {
            json!([
                {"type": "text", "text": "one"}, image, {"type": "text", "text": "[resource n: a:b]"},
                {"type": "text", "text": "[resource c:d]\ntwo"}, {"type": "text", "text": "{\"type\":\"newer\",\"x\":1}"},
            ])
        };
        let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        assert_eq!(
            result.for_model(Format::Anthropic),
            texts(json!({"type": "image", "source": source}))
        );
        assert_eq!(
            result.for_model(Format::OpenAi),
            "one\n[image image/png, which cannot be shown here]\n[resource n: a:b]\n[resource c:d]\ntwo\n{\"type\":\"newer\",\"x\":1}"
        );
        let responses = result.for_model(Format::OpenAiResponses);
        assert_eq!(responses[0], json!({"type": "input_text", "text": "one"}));
        let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"});
        assert_eq!(responses[1], image);
        let whole = result.for_model(Format::Mcp);
        assert_eq!(whole["structuredContent"]["a"], 1);
        assert_eq!(whole["content"][1]["data"], "AAAA");
    }

    #[test]
    fn nothing_hidden_reaches_a_model() {
        let hidden = "a\u{200b}\u{e0041}b";
        for result in [
            json!({"content": [{"type": "text", "text": hidden}], "structuredContent": {"k\u{200b}": [hidden]}}),
            json!({"content": [], "structuredContent": {"k\u{200b}": {"x": hidden}}}),
            json!({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": hidden}}]}),
            json!({"content": [{"type": "newer", "x": hidden}]}),
        ] {
            let output = output(result.clone());
            let all = [
                Format::Anthropic,
                Format::OpenAi,
                Format::OpenAiResponses,
                Format::Mcp,
            ];
            for format in all {
                let shown = output.for_model(format).to_string();
                assert!(shown.contains("ab"), "{format:?} {result}: {shown}");
                let left = |c| matches!(c, '\u{200b}' | '\u{e0041}');
                assert!(!shown.contains(left), "{format:?} {result}: {shown}");
            }
        }
    }

    #[test]
    fn a_result_without_content_says_what_it_has() {
        let structured = output(json!({"content": [], "structuredContent": {"a": 1}}));
        assert_eq!(structured.for_model(Format::OpenAi), r#"{"a":1}"#);
        let nothing = output(json!({"content": []}));
        assert_eq!(nothing.for_model(Format::Anthropic)[0]["text"], NOTHING);
    }

    #[test]
    fn what_no_tree_can_hold_is_no_reason_to_fail() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let text = format!(
            r#"{{"content":[{{"type":"text","text":"\ud800x","a":1}},{{"type":"odd","x":"\udc00"}},{{"type":"odd","x":{deep}}}],"structuredContent":{{"\ud800":{deep}}}}}"#
        );
        let result = CallToolResult::from_json(&Json::parse(text).unwrap())
            .unwrap()
            .1;
        let result = CallOutput::from(result);
        for format in [Format::Anthropic, Format::OpenAi, Format::OpenAiResponses] {
            result.for_model(format);
        }
        let whole = result.for_model(Format::Mcp);
        assert_eq!(whole["content"][1]["type"], "odd");
        assert!(
            whole["content"][2]["text"]
                .as_str()
                .unwrap()
                .contains("[[[")
        );
        assert!(whole["structuredContent"].is_string());
    }
}
