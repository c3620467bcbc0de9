//! A tool as a model sees it, sanitized and truncated once, when its list arrives.

use std::sync::Arc;

use trunkline_wire::mcp::{Item, Tool};
use trunkline_wire::{ByteString, Json, ObjectWriter};

use super::names::{bare_name, tool_name};
use super::server_tools::ToolOptions;
use crate::call::Checks;
use crate::sanitize::{Removed, one_line, sanitize_schema, shared, shown, strip_hidden_json};

/// The `_meta` member that marks a tool as always loaded (TOOL-5).
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";
/// The `_meta` member with search terms (TOOL-5).
const SEARCH_HINT: &str = "anthropic/searchHint";
/// The `_meta` member with the maximum result size (TOOL-5).
const MAX_RESULT_CHARS: &str = "anthropic/maxResultSizeChars";

/// Upper bound of the result size that a tool can request (TOOL-5).
const MAX_RESULT_CHARS_LIMIT: usize = 500_000;

/// The IDE tools offered to a model (TOOL-7); the program can call all of them.
const IDE_TOOLS: [&str; 2] = ["executeCode", "getDiagnostics"];

/// The original name of the tool that starts a sign-in (AUTH-8).
const SIGN_IN: &str = "authenticate";

/// A tool as a model sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolTool {
    /// The name by which it is called: `mcp__<server>__<tool>`.
    pub name: String,
    /// The server's configured name.
    pub server: Arc<str>,
    /// The server's definition, under its original name; untrusted text, verbatim.
    pub tool: Tool,
    /// The display name, sanitized.
    pub title: Option<ByteString>,
    /// The description: sanitized, truncated to 2,048 characters (TOOL-3, LIF-7), and empty if the
    /// server gives none.
    pub description: ByteString,
    /// Additional search terms, sanitized, on one line.
    pub search_hint: Option<ByteString>,
    /// Maximum number of characters in results, if the server sets one.
    pub max_result_chars: Option<usize>,
    /// The input schema as a model sees it: the bytes of [`PoolTool::tool`], without hidden
    /// characters in descriptions.
    pub shown_schema: Json,
    /// Whether a model always sees the tool; set by the server's entry or by the server.
    pub always_load: bool,
    /// Whether the tool is offered to models; otherwise only the program calls it (TOOL-7).
    pub offered: bool,
    /// Whether it starts the sign-in to its server, and the host itself runs it (AUTH-8).
    pub(crate) signs_in: bool,
    /// Validators for arguments and results.
    pub(crate) checks: Arc<Checks>,
}

impl PoolTool {
    /// Returns the name to show to a person: `server - title (MCP)`, with the original name if
    /// there is no title. The name is sanitized and on one line, but not escaped for a terminal.
    ///
    /// ```
    /// use trunkline::tool::Pool;
    /// use trunkline::Json;
    ///
    /// let list = Json::parse(r#"{"tools":[{"name":"add","title":"Add numbers"}]}"#)?;
    /// let pool = Pool::from_lists([("calculator", list)]);
    /// assert_eq!(pool.tools()[0].display_name(), "calculator - Add numbers (MCP)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn display_name(&self) -> String {
        let title = self.title.as_deref().unwrap_or(&self.tool.name);
        format!("{} - {} (MCP)", one_line(&self.server).0, one_line(title).0)
    }

    /// Returns whether the server declares the tool read-only (TOOL-4).
    pub fn is_read_only(&self) -> bool {
        self.tool.hints.read_only
    }

    /// Returns whether calls may run concurrently, which holds for read-only tools.
    pub fn is_concurrency_safe(&self) -> bool {
        self.is_read_only()
    }

    /// Returns whether the server declares the tool destructive.
    pub fn is_destructive(&self) -> bool {
        self.tool.hints.destructive
    }

    /// Returns whether the server declares that the tool reaches external systems.
    pub fn is_open_world(&self) -> bool {
        self.tool.hints.open_world
    }

    /// Returns the server's definition under another name, for programs that offer it on: all
    /// members as the server wrote them, without hidden characters (TOOL-3). `execution` is left
    /// out, because the host itself drives tasks to their end.
    ///
    /// ```
    /// use trunkline::tool::Pool;
    /// use trunkline::Json;
    ///
    /// let list = Json::parse(r#"{"tools":[{"name":"add","inputSchema":{"x":1.50},"new":1}]}"#)?;
    /// let pool = Pool::from_lists([("calculator", list)]);
    /// let definition = pool.tools()[0].definition("sum");
    /// assert_eq!(definition.as_str(), r#"{"name":"sum","inputSchema":{"x":1.50},"new":1}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn definition(&self, name: &str) -> Json {
        let raw = &self.tool.raw;
        let mut definition = ObjectWriter::with_capacity(raw.as_str().len() + 32);
        let mut has_schema = false;
        definition.string("name", name);
        raw.members(|key, value| match key {
            "name" | "execution" => {}
            "inputSchema" if !has_schema => {
                has_schema = true;
                definition.raw(key, &self.shown_schema);
            }
            "inputSchema" => {}
            _ => {
                let mut removed = Removed::default();
                definition.raw(key, &strip_hidden_json(&value, &mut removed));
            }
        });
        if !has_schema {
            definition.raw("inputSchema", &self.shown_schema);
        }
        definition.finish()
    }

    /// Returns the prefixed name, which cannot collide with an unprefixed tool (TOOL-2).
    pub(super) fn full_name(&self) -> String {
        tool_name(&self.server, &self.tool.name)
    }
}

/// Hidden characters found in one tool.
#[derive(Debug, Default)]
pub(super) struct HiddenCharacters {
    /// The fields from which characters were removed.
    pub(super) fields: Vec<&'static str>,
    pub(super) removed: Removed,
    /// Characters that remain in the schema.
    pub(super) remaining: Removed,
}

impl HiddenCharacters {
    fn record(&mut self, place: &'static str, removed: Removed) {
        if !removed.is_empty() {
            self.fields.push(place);
            self.removed += removed;
        }
    }
}

/// Builds the pool tool and reports its hidden characters.
pub(super) fn pool_tool(options: &ToolOptions, tool: Tool) -> (PoolTool, HiddenCharacters) {
    let mut hidden = HiddenCharacters::default();
    let name = if options.prefix {
        tool_name(options.server, &tool.name)
    } else {
        bare_name(options.server, &tool.name)
    };
    let title = tool.title.as_ref().map(|title| {
        let (made, removed) = one_line(title);
        hidden.record("title", removed);
        shared(title, made)
    });
    let description = tool.description.as_ref().map(|description| {
        let (made, removed) = shown(description);
        hidden.record("description", removed);
        shared(description, made)
    });
    let meta = tool.meta.as_ref().map(Meta::read).unwrap_or_default();
    let search_hint = meta.search_hint.as_ref().map(|hint| {
        let (made, removed) = one_line(hint);
        hidden.record("search hint", removed);
        shared(hint, made)
    });
    let schema = sanitize_schema(&tool.input_schema);
    hidden.record("schema", schema.removed);
    hidden.remaining = schema.left;
    let made = PoolTool {
        name,
        server: Arc::clone(options.server),
        title: title.filter(|title| !title.is_empty()),
        description: description.unwrap_or_default(),
        search_hint: search_hint.filter(|hint| !hint.is_empty()),
        max_result_chars: meta.max_result_chars,
        shown_schema: schema.schema,
        always_load: options.always_load || meta.always_load,
        offered: !options.is_ide || IDE_TOOLS.contains(&&*tool.name),
        signs_in: false,
        checks: Arc::default(),
        tool,
    };
    (made, hidden)
}

/// The tool that starts the sign-in to a server (AUTH-8).
pub(super) fn sign_in_tool(server: &Arc<str>) -> Option<PoolTool> {
    let description = format!(
        "Starts the sign-in to the MCP server \"{server}\", whose tools need it. Returns a URL: ask \
         the user to open it and sign in. The server's tools are available once that is done."
    );
    let tool = Tool::from_json(Json::from(serde_json::json!({
        "name": SIGN_IN,
        "description": description,
        "inputSchema": {"type": "object", "additionalProperties": false},
    })));
    let (mut tool, _) = pool_tool(&ToolOptions::plain(server), tool.ok()?);
    tool.always_load = true;
    tool.signs_in = true;
    Some(tool)
}

/// The members of a tool's `_meta` that concern us.
#[derive(Default)]
struct Meta {
    always_load: bool,
    search_hint: Option<ByteString>,
    max_result_chars: Option<usize>,
}

impl Meta {
    fn read(meta: &Json) -> Self {
        let mut read = Self::default();
        meta.members(|key, value| match key {
            ALWAYS_LOAD => read.always_load = value.as_str() == "true",
            SEARCH_HINT => read.search_hint = value.as_string(),
            MAX_RESULT_CHARS => {
                let most: Option<u64> = value.decode().ok();
                let most = most.and_then(|most| usize::try_from(most).ok());
                read.max_result_chars = most
                    .filter(|most| *most > 0)
                    .map(|most| most.min(MAX_RESULT_CHARS_LIMIT));
            }
            _ => {}
        });
        read
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trunkline_wire::mcp::Item;

    use super::*;

    fn made(definition: serde_json::Value) -> (PoolTool, HiddenCharacters) {
        let tool = Tool::from_json(Json::from(definition)).unwrap();
        pool_tool(&ToolOptions::plain(&"s".into()), tool)
    }

    #[test]
    fn prose_is_sanitized_and_call_data_is_not() {
        let (tool, hidden) = made(json!({
            "name": "t", "title": "T\u{200b}\n", "description": "\u{1b}[8mhidden\u{1b}[0m ﬁne\u{e0041}",
            "inputSchema": {"properties": {"a": {"description": "x\u{202e}", "enum": ["\u{200b}"]}}},
            "_meta": {"anthropic/searchHint": " find\u{200b} \n things "},
        }));
        assert_eq!(tool.title.as_deref(), Some("T"));
        assert_eq!(&*tool.description, "hidden fine");
        assert_eq!(tool.search_hint.as_deref(), Some("find things"));
        let shown = json!({"properties": {"a": {"description": "x", "enum": ["\u{200b}"]}}});
        assert_eq!(tool.shown_schema.as_str(), shown.to_string());
        assert!(tool.tool.input_schema.as_str().contains('\u{202e}'));
        assert_eq!(
            hidden.fields,
            ["title", "description", "search hint", "schema"]
        );
        assert_eq!((hidden.removed.total(), hidden.remaining.total()), (6, 1));
    }

    #[test]
    fn clean_tool_shares_memory_with_its_frame() {
        let (tool, hidden) =
            made(json!({"name": "t", "description": "Adds", "inputSchema": {"type": "object"}}));
        let original = tool.tool.description.as_ref().unwrap();
        assert_eq!(tool.description.as_ptr(), original.as_ptr());
        assert_eq!(
            tool.shown_schema.as_str().as_ptr(),
            tool.tool.input_schema.as_str().as_ptr()
        );
        assert!(hidden.fields.is_empty() && hidden.remaining.is_empty());
    }

    #[test]
    fn long_description_is_truncated() {
        let (tool, _) = made(json!({"name": "t", "description": "x".repeat(60_000)}));
        assert_eq!(
            &*tool.description,
            format!("{}… [truncated]", "x".repeat(2048))
        );
        assert_eq!(tool.tool.description.unwrap().len(), 60_000);
    }

    #[test]
    fn meta_is_parsed_leniently_and_clamped() {
        for (meta, most, always, hint) in [
            (json!({}), None, false, None),
            (json!({MAX_RESULT_CHARS: 1000}), Some(1000), false, None),
            (
                json!({MAX_RESULT_CHARS: 500_001}),
                Some(500_000),
                false,
                None,
            ),
            (json!({MAX_RESULT_CHARS: 0}), None, false, None),
            (json!({MAX_RESULT_CHARS: -1}), None, false, None),
            (json!({MAX_RESULT_CHARS: "9"}), None, false, None),
            (
                json!({ALWAYS_LOAD: true, SEARCH_HINT: "a\t b"}),
                None,
                true,
                Some("a b"),
            ),
            (
                json!({ALWAYS_LOAD: "true", SEARCH_HINT: 5}),
                None,
                false,
                None,
            ),
            (json!({SEARCH_HINT: " \n "}), None, false, None),
            (json!([]), None, false, None),
        ] {
            let (tool, _) = made(json!({"name": "t", "_meta": meta}));
            let read = (
                tool.max_result_chars,
                tool.always_load,
                tool.search_hint.as_deref(),
            );
            assert_eq!(read, (most, always, hint), "{meta}");
        }
    }

    #[test]
    fn hints_default_to_false() {
        let flags = |tool: &PoolTool| {
            [
                tool.is_read_only(),
                tool.is_concurrency_safe(),
                tool.is_destructive(),
                tool.is_open_world(),
            ]
        };
        let (bare, _) = made(json!({"name": "t"}));
        assert_eq!(flags(&bare), [false; 4]);
        let (reader, _) = made(
            json!({"name": "t", "annotations": {"readOnlyHint": true, "openWorldHint": true, "title": "R"}}),
        );
        assert_eq!(flags(&reader), [true, true, false, true]);
        assert_eq!(reader.title.as_deref(), Some("R"));
        let (other, _) = made(json!({"name": "t", "annotations": {"destructiveHint": true}}));
        assert_eq!(flags(&other), [false, false, true, false]);
    }

    #[test]
    fn ide_offers_only_two_tools() {
        let server = "ide".into();
        let options = ToolOptions {
            is_ide: true,
            ..ToolOptions::plain(&server)
        };
        for (name, offered) in [
            ("executeCode", true),
            ("getDiagnostics", true),
            ("openFile", false),
        ] {
            let tool = Tool::from_json(Json::from(json!({"name": name}))).unwrap();
            assert_eq!(pool_tool(&options, tool).0.offered, offered, "{name}");
        }
    }
}
