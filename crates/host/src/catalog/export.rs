//! Exports tools as JSON for model APIs (TOOL-8). The same tools always produce the same bytes,
//! which keeps prompt caches valid; schemas are copied verbatim.

use serde_json::Value;
use trunkline_wire::Json;

use super::{Pool, PoolTool};
use crate::host_tool::HostTool;
use crate::sanitize::{sanitize_json, sanitize_schema};
use crate::search::TOOL_SEARCH;

/// A format for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Anthropic's Messages API: `{name, description, input_schema}`.
    Anthropic,
    /// The Chat Completions API and similar ones:
    /// `{type: "function", function: {name, description, parameters}}`.
    OpenAi,
    /// The Responses API: `{type: "function", name, description, parameters, strict: false}`.
    OpenAiResponses,
    /// MCP's own `tools/list`:
    /// `{name, title, description, inputSchema, outputSchema, annotations, _meta}`.
    Mcp,
}

/// A tool to export: a server's, or the host's own.
#[derive(Clone, Copy)]
pub(crate) enum Definition<'t> {
    Own(&'t HostTool),
    Server(&'t PoolTool),
}

impl Pool {
    /// Exports all tools that are offered to a model, the host's own first, as one JSON array. The
    /// search is omitted, because there is nothing left to search for. For some of the tools see
    /// [`Pool::for_model`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use trunkline::tool::Format;
    /// use trunkline::{Builtin, Host};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock")
    ///     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
    /// let host = Host::builder().builtin(clock).start();
    /// host.ready().await;
    /// let tools = host.pool().export(Format::Anthropic);
    /// assert!(tools.contains(concat!(
    ///     r#"{"name":"mcp__clock__now","description":"Tells the time","#,
    ///     r#""input_schema":{"type":"object"}}"#
    /// )));
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn export(&self, format: Format) -> String {
        let own = self.own().iter().filter(|tool| tool.name != TOOL_SEARCH);
        let own = own.map(Definition::Own);
        let servers = self.offered().map(|tool| Definition::Server(tool));
        export(format, own.chain(servers))
    }

    /// As [`Pool::export`], parsed.
    pub fn export_value(&self, format: Format) -> Value {
        parsed(&self.export(format))
    }
}

/// The value of exported JSON.
pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// The tools as one JSON array.
pub(crate) fn export<'t>(
    format: Format,
    tools: impl IntoIterator<Item = Definition<'t>>,
) -> String {
    let mut out = String::from("[");
    for tool in tools {
        if out.len() > 1 {
            out.push(',');
        }
        tool.write(format, &mut out);
    }
    out.push(']');
    out
}

impl Definition<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Own(tool) => &tool.name,
            Self::Server(tool) => &tool.name,
        }
    }

    fn description(&self) -> &str {
        match self {
            Self::Own(tool) => &tool.description,
            Self::Server(tool) => &tool.description,
        }
    }

    fn schema(&self) -> &Json {
        match self {
            Self::Own(tool) => &tool.input_schema,
            Self::Server(tool) => &tool.shown_schema,
        }
    }

    /// How long it is about, in bytes, however it is written down.
    pub(crate) fn size(&self) -> usize {
        self.name().len() + self.description().len() + self.schema().as_str().len()
    }

    pub(crate) fn write(&self, format: Format, out: &mut String) {
        out.reserve(self.size() + 96);
        match format {
            Format::Anthropic => {
                self.open("{", out);
                member("input_schema", self.schema(), out);
            }
            Format::OpenAi => {
                self.open(r#"{"type":"function","function":{"#, out);
                member("parameters", self.schema(), out);
                out.push('}');
            }
            Format::OpenAiResponses => {
                self.open(r#"{"type":"function","#, out);
                member("parameters", self.schema(), out);
                // Strict would be the default, and few servers' schemas are what it asks for.
                out.push_str(r#","strict":false"#);
            }
            Format::Mcp => self.write_mcp(out),
        }
        out.push('}');
    }

    /// What all forms begin with.
    fn open(&self, before: &str, out: &mut String) {
        out.push_str(before);
        out.push_str(r#""name":"#);
        string(self.name(), out);
        out.push_str(r#","description":"#);
        string(self.description(), out);
    }

    fn write_mcp(&self, out: &mut String) {
        out.push_str(r#"{"name":"#);
        string(self.name(), out);
        if let Self::Server(tool) = self
            && let Some(title) = &tool.title
        {
            out.push_str(r#","title":"#);
            string(title, out);
        }
        out.push_str(r#","description":"#);
        string(self.description(), out);
        member("inputSchema", self.schema(), out);
        match self {
            Self::Own(tool) => {
                let hints = tool.hints;
                let hints = serde_json::json!({
                    "readOnlyHint": hints.read_only,
                    "destructiveHint": hints.destructive,
                    "idempotentHint": hints.idempotent,
                    "openWorldHint": hints.open_world,
                });
                member("annotations", &hints.into(), out);
            }
            Self::Server(tool) => {
                if let Some(schema) = &tool.tool.output_schema {
                    member("outputSchema", &sanitize_schema(schema).schema, out);
                }
                let annotations = tool.tool.raw.get("annotations").filter(Json::is_object);
                if let Some(annotations) = annotations {
                    member("annotations", &sanitize_json(&annotations).0, out);
                }
                if let Some(meta) = &tool.tool.meta {
                    member("_meta", &sanitize_json(meta).0, out);
                }
            }
        }
    }
}

fn member(key: &str, value: &Json, out: &mut String) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
    out.push_str(value.as_str());
}

fn string(text: &str, out: &mut String) {
    out.push_str(Json::from(serde_json::Value::from(text)).as_str());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use trunkline_wire::mcp::{Item, Tool, ToolHints};

    use super::super::server_tools::{ToolOptions, server_tools};
    use super::*;

    fn pool(backwards: bool) -> Pool {
        let mut tools = vec![
            r#"{"name":"b b","description":"Says \"b\"\nand more","inputSchema":{ "type":"object", "x":1.50 }}"#,
            r#"{"name":"a","title":"A\u200b","description":"a\u202e","inputSchema":{"type":"object","properties":{"q":{"description":"\u200bq"}}},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"A\u200b"},"_meta":{"k":1.50}}"#,
        ];
        if backwards {
            tools.reverse();
        }
        let read = |text: &str| Tool::from_json(Json::parse(text.to_owned()).unwrap()).unwrap();
        let server = "s".into();
        let options = ToolOptions::plain(&server);
        let (part, _) = server_tools(&options, tools.into_iter().map(read).collect());
        let own = |name: &str| {
            let work = |_| async { Ok("".into()) };
            HostTool::new(name, "Own", json!({"type": "object"}), work).hints(ToolHints {
                read_only: true,
                ..ToolHints::default()
            })
        };
        let own: Arc<[_]> = [own("Own"), own(TOOL_SEARCH)].into();
        Pool::of(&own, [&Arc::new(part)])
    }

    #[test]
    fn each_format_has_its_shape_and_schemas_stay_byte_for_byte() {
        for (format, golden) in [
            (
                Format::Anthropic,
                include_str!("../../tests/golden/tools.anthropic.json"),
            ),
            (
                Format::OpenAi,
                include_str!("../../tests/golden/tools.openai.json"),
            ),
            (
                Format::OpenAiResponses,
                include_str!("../../tests/golden/tools.openai-responses.json"),
            ),
            (
                Format::Mcp,
                include_str!("../../tests/golden/tools.mcp.json"),
            ),
        ] {
            let text = pool(false).export(format);
            assert_eq!(text, golden.trim_end(), "{format:?}");
            assert_eq!(
                pool(true).export(format),
                text,
                "the order of a list changes nothing"
            );
            assert!(text.contains(r#"{ "type":"object", "x":1.50 }"#));
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
        assert_eq!(Pool::default().export(Format::Mcp), "[]");
    }
}
