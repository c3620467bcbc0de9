//! One server's tools: named, sorted, and rebuilt only when that server's list changes.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use trunkline_config::ToolFilter;
use trunkline_wire::mcp::Tool;

use super::confusables::confusable_pairs;
use super::tool::{HiddenCharacters, PoolTool, pool_tool, sign_in_tool};
use super::unique::sorted_and_unique;
use crate::search::Index;

/// Maximum number of tools named individually per kind of diagnostic.
const MAX_REPORTED: usize = 20;

/// One server's tools, sorted by name, with their search index.
#[derive(Debug, Default)]
pub(crate) struct ServerTools {
    tools: Vec<Arc<PoolTool>>,
    /// The names of the tools that the entry's filter hides.
    hidden_tools: Vec<String>,
    index: OnceLock<Index>,
}

impl Deref for ServerTools {
    type Target = [Arc<PoolTool>];

    fn deref(&self) -> &Self::Target {
        &self.tools
    }
}

impl ServerTools {
    /// Returns the tools that match `wanted`.
    pub(crate) fn filtered(&self, wanted: impl Fn(&PoolTool) -> bool) -> Self {
        let tools = self.tools.iter().filter(|tool| wanted(tool));
        Self {
            tools: tools.cloned().collect(),
            hidden_tools: Vec::new(),
            index: OnceLock::new(),
        }
    }

    /// Returns the tool that starts a sign-in, alone (AUTH-8).
    pub(crate) fn sign_in(server: &Arc<str>) -> Self {
        Self {
            tools: sign_in_tool(server).map(Arc::new).into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns these tools and those of `others` with other names, sorted.
    pub(crate) fn and(&self, others: &Self) -> Self {
        let is_new = |other: &&Arc<PoolTool>| {
            let mut tools = self.tools.iter();
            tools.all(|tool| tool.name != other.name)
        };
        let mut tools = self.tools.clone();
        tools.extend(others.tools.iter().filter(is_new).cloned());
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            tools,
            hidden_tools: self.hidden_tools.clone(),
            index: OnceLock::new(),
        }
    }

    /// Returns the original names of the tools that the entry's filter hides.
    pub(crate) fn hidden_tools(&self) -> &[String] {
        &self.hidden_tools
    }

    /// Returns the search index, building it on first use.
    pub(crate) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(&self.tools))
    }
}

/// Options for turning a server's tool list into pool tools.
#[derive(Clone, Copy)]
pub(crate) struct ToolOptions<'o> {
    /// The server's name.
    pub(crate) server: &'o Arc<str>,
    /// The tools to offer; `None` offers all.
    pub(crate) filter: Option<&'o ToolFilter>,
    /// Whether the tools are always loaded.
    pub(crate) always_load: bool,
    /// Whether arguments may have to be repeated in HTTP headers, which modern servers can request.
    pub(crate) header_parameters: bool,
    /// Whether tool names start with the server's name (TOOL-2).
    pub(crate) prefix: bool,
    /// Whether the server is an IDE, which offers only some tools to a model (TOOL-7).
    pub(crate) is_ide: bool,
}

impl<'o> ToolOptions<'o> {
    /// Default options for an ordinary server.
    pub(crate) fn plain(server: &'o Arc<str>) -> Self {
        Self {
            server,
            filter: None,
            always_load: false,
            header_parameters: false,
            prefix: true,
            is_ide: false,
        }
    }
}

/// Names and sorts one server's tools. Returns diagnostics for tools that were dropped, duplicated
/// or renamed, that contain hidden characters, or whose names are confusable.
pub(crate) fn server_tools(options: &ToolOptions, tools: Vec<Tool>) -> (ServerTools, Vec<String>) {
    let mut diagnostics = ToolDiagnostics::default();
    let mut named = Vec::with_capacity(tools.len());
    let mut hidden_tools = Vec::new();
    for mut tool in tools {
        if options
            .filter
            .is_some_and(|filter| !filter.offers(&tool.name))
        {
            hidden_tools.push(tool.name.to_string());
            continue;
        }
        if options.header_parameters
            && let Err(reason) = tool.find_header_parameters()
        {
            diagnostics
                .dropped
                .add(|| format!("skipped tool \"{}\": {reason}", tool.name));
            continue;
        }
        let (tool, hidden) = pool_tool(options, tool);
        diagnostics.hidden(&tool, &hidden);
        named.push(Arc::new(tool));
    }
    let (tools, renamed) = sorted_and_unique(named, &[]);
    for text in renamed {
        diagnostics.renamed.add(|| text);
    }
    for [one, other] in confusable_pairs(tools.iter().map(|tool| &*tool.tool.name)) {
        diagnostics.confusable.add(|| {
            format!(
                "tools \"{one}\" and \"{other}\" have confusable names; check which one is called"
            )
        });
    }
    let part = ServerTools {
        tools,
        hidden_tools,
        index: OnceLock::new(),
    };
    (part, diagnostics.into_messages())
}

/// Diagnostics about a server's tools.
#[derive(Default)]
struct ToolDiagnostics {
    dropped: CappedMessages,
    renamed: CappedMessages,
    removed: CappedMessages,
    remaining: CappedMessages,
    confusable: CappedMessages,
}

impl ToolDiagnostics {
    fn hidden(&mut self, tool: &PoolTool, hidden: &HiddenCharacters) {
        let name = &tool.tool.name;
        if !hidden.removed.is_empty() {
            let (removed, fields) = (&hidden.removed, hidden.fields.join(", "));
            self.removed
                .add(|| format!("removed {removed} from the {fields} of tool \"{name}\""));
        }
        if !hidden.remaining.is_empty() {
            let kept = &hidden.remaining;
            self.remaining
                .add(|| format!("kept {kept} in names or values of the schema of tool \"{name}\""));
        }
    }

    fn into_messages(self) -> Vec<String> {
        let mut all = Vec::new();
        for (messages, summary) in [
            (self.dropped, "were skipped"),
            (self.renamed, "were renamed or listed twice"),
            (self.removed, "had hidden characters"),
            (self.remaining, "have hidden characters in their schemas"),
            (self.confusable, "have confusable names"),
        ] {
            all.extend(messages.texts);
            if messages.more > 0 {
                all.push(format!("{} more tools {summary}", messages.more));
            }
        }
        all
    }
}

/// Diagnostics of one kind: the first are listed, the others counted.
#[derive(Default)]
struct CappedMessages {
    texts: Vec<String>,
    more: usize,
}

impl CappedMessages {
    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() < MAX_REPORTED {
            self.texts.push(text());
        } else {
            self.more += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trunkline_wire::Json;
    use trunkline_wire::mcp::Item;

    use super::*;

    fn server_tools_of(tools: &[Value]) -> (ServerTools, Vec<String>) {
        let read = |tool| Tool::from_json(Json::from(tool)).unwrap();
        server_tools(
            &ToolOptions::plain(&"s".into()),
            tools.iter().map(read).collect(),
        )
    }

    #[test]
    fn hidden_characters_are_reported_per_tool() {
        let (part, into_messages) = server_tools_of(&[
            json!({"name": "a", "description": "x\u{200b}\u{200b}y", "title": "\u{202e}t"}),
            json!({"name": "b", "inputSchema": {"enum": ["\u{200b}"], "description": "\u{200b}"}}),
            json!({"name": "c", "description": "clean — really"}),
        ]);
        assert_eq!(part.len(), 3);
        assert_eq!(
            into_messages,
            [
                "removed 3 hidden characters (2 zero-width, 1 bidirectional) from the title, description of tool \"a\"",
                "removed 1 hidden character (1 zero-width) from the schema of tool \"b\"",
                "kept 1 hidden character (1 zero-width) in names or values of the schema of tool \"b\"",
            ]
        );
    }

    #[test]
    fn diagnostics_are_bounded() {
        let tools: Vec<_> = (0..100)
            .map(|n| json!({"name": format!("t{n}x"), "description": "\u{200b}"}))
            .collect();
        let (part, into_messages) = server_tools_of(&tools);
        assert_eq!((part.len(), into_messages.len()), (100, MAX_REPORTED + 1));
        assert_eq!(
            into_messages[MAX_REPORTED],
            "80 more tools had hidden characters"
        );
    }

    #[test]
    fn confusable_tool_names_are_reported() {
        let (_, into_messages) = server_tools_of(&[
            json!({"name": "get_issue"}),
            json!({"name": "get_\u{456}ssue"}),
            json!({"name": "other"}),
        ]);
        assert_eq!(
            into_messages,
            [
                "tools \"get_\u{456}ssue\" and \"get_issue\" have confusable names; check which one is called"
            ]
        );
    }
}
