//! One server's tools: named, sorted, and remade only when that server's list changes.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use trunkline_config::ToolFilter;
use trunkline_wire::mcp::Tool;

use super::confusables::confusable_pairs;
use super::tool::{HiddenCharacters, PoolTool, pool_tool};
use super::unique::sorted_and_unique;
use crate::search::Index;

/// How many tools are named one by one in each kind of complaint.
const MAX_REPORTED: usize = 20;

/// One server's tools, sorted by name, and what they are found by.
#[derive(Debug, Default)]
pub(crate) struct ServerTools {
    tools: Vec<Arc<PoolTool>>,
    index: OnceLock<Index>,
}

impl Deref for ServerTools {
    type Target = [Arc<PoolTool>];

    fn deref(&self) -> &Self::Target {
        &self.tools
    }
}

impl ServerTools {
    /// Only some of them.
    pub(crate) fn filtered(&self, wanted: impl Fn(&PoolTool) -> bool) -> Self {
        let tools = self.tools.iter().filter(|tool| wanted(tool));
        Self {
            tools: tools.cloned().collect(),
            index: OnceLock::new(),
        }
    }

    /// What they are found by, made when somebody searches for the first time.
    pub(crate) fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(&self.tools))
    }
}

/// How a server's tools are offered.
#[derive(Clone, Copy)]
pub(crate) struct ToolOptions<'o> {
    /// The server's name.
    pub(crate) server: &'o Arc<str>,
    /// Which of them; `None` is all.
    pub(crate) filter: Option<&'o ToolFilter>,
    /// Whether all of them are always shown.
    pub(crate) always_load: bool,
    /// Whether some arguments may have to be repeated in header_parameters, as modern servers behind HTTP can ask for.
    pub(crate) header_parameters: bool,
    /// Whether their names begin with the server's (TOOL-2).
    pub(crate) prefix: bool,
    /// Whether the server is an IDE, which offers little of what it has to a model (TOOL-7).
    pub(crate) is_ide: bool,
}

impl<'o> ToolOptions<'o> {
    /// All tools, as any server offers them.
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

/// Names and sorts one server's tools; says which could not be offered, were listed twice or had to be renamed, what was hidden in
/// them, and which look confusable.
pub(crate) fn server_tools(options: &ToolOptions, tools: Vec<Tool>) -> (ServerTools, Vec<String>) {
    let mut diagnostics = ToolDiagnostics::default();
    let mut named = Vec::with_capacity(tools.len());
    for mut tool in tools {
        if options
            .filter
            .is_some_and(|filter| !filter.offers(&tool.name))
        {
            continue;
        }
        if options.header_parameters
            && let Err(reason) = tool.find_header_parameters()
        {
            diagnostics
                .dropped
                .add(|| format!("the tool \"{}\" was remaining out: {reason}", tool.name));
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
            format!("the names of the tools \"{one}\" and \"{other}\" look confusable; make sure that the right one is called")
        });
    }
    let part = ServerTools {
        tools,
        index: OnceLock::new(),
    };
    (part, diagnostics.into_messages())
}

/// What is to be said about a server's tools.
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
            let (removed, places) = (&hidden.removed, hidden.fields.join(", "));
            let were = if removed.total() == 1 { "was" } else { "were" };
            self.removed.add(|| {
                format!("{removed} {were} removed from the {places} of the tool \"{name}\"")
            });
        }
        if !hidden.remaining.is_empty() {
            let remaining = &hidden.remaining;
            let stand = if remaining.total() == 1 {
                "stands"
            } else {
                "stand"
            };
            self.remaining.add(|| {
                format!("{remaining} {stand} in names or values of the schema of the tool \"{name}\", which would not work without")
            });
        }
    }

    fn into_messages(self) -> Vec<String> {
        let mut all = Vec::new();
        for (into_messages, what) in [
            (self.dropped, "were remaining out"),
            (self.renamed, "were renamed or listed twice"),
            (self.removed, "had hidden characters, which were removed"),
            (self.remaining, "have hidden characters in their schemas"),
            (self.confusable, "look like others"),
        ] {
            all.extend(into_messages.texts);
            if into_messages.more > 0 {
                all.push(format!("{} more tools {what}", into_messages.more));
            }
        }
        all
    }
}

/// ToolDiagnostics of one kind: the first are into_messages, the others counted.
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
                "3 hidden characters (2 zero-width, 1 bidirectional) were removed from the title, description of the tool \"a\"",
                "1 hidden character (1 zero-width) was removed from the schema of the tool \"b\"",
                "1 hidden character (1 zero-width) stands in names or values of the schema of the tool \"b\", which would not work without",
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
            "80 more tools had hidden characters, which were removed"
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
                "the names of the tools \"get_\u{456}ssue\" and \"get_issue\" look confusable; make sure that the right one is called"
            ]
        );
    }
}
