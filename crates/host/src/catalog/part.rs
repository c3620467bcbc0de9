//! One server's tools: named, sorted, and remade only when that server's list changes.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use trunkline_config::ToolFilter;
use trunkline_wire::mcp::Tool;

use super::alike::look_alikes;
use super::tool::{Hidden, PoolTool, pool_tool};
use super::unique::sorted_and_unique;
use crate::search::Index;

/// How many tools are named one by one in each kind of complaint.
const MAX_TOLD: usize = 20;

/// One server's tools, sorted by name, and what they are found by.
#[derive(Debug, Default)]
pub(crate) struct Part {
    tools: Vec<Arc<PoolTool>>,
    index: OnceLock<Index>,
}

impl Deref for Part {
    type Target = [Arc<PoolTool>];

    fn deref(&self) -> &Self::Target {
        &self.tools
    }
}

impl Part {
    /// Only some of them.
    pub(crate) fn only(&self, wanted: impl Fn(&PoolTool) -> bool) -> Self {
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
pub(crate) struct Offer<'o> {
    /// The server's name.
    pub(crate) server: &'o Arc<str>,
    /// Which of them; `None` is all.
    pub(crate) filter: Option<&'o ToolFilter>,
    /// Whether all of them are always shown.
    pub(crate) always_load: bool,
    /// Whether some arguments may have to be repeated in headers, as modern servers behind HTTP can ask for.
    pub(crate) headers: bool,
    /// Whether their names begin with the server's (TOOL-2).
    pub(crate) prefix: bool,
    /// Whether the server is an IDE, which offers little of what it has to a model (TOOL-7).
    pub(crate) ide: bool,
}

impl<'o> Offer<'o> {
    /// All tools, as any server offers them.
    pub(crate) fn plain(server: &'o Arc<str>) -> Self {
        Self {
            server,
            filter: None,
            always_load: false,
            headers: false,
            prefix: true,
            ide: false,
        }
    }
}

/// Names and sorts one server's tools; says which could not be offered, were listed twice or had to be renamed, what was hidden in
/// them, and which look alike.
pub(crate) fn part(offer: &Offer, tools: Vec<Tool>) -> (Part, Vec<String>) {
    let mut complaints = Complaints::default();
    let mut named = Vec::with_capacity(tools.len());
    for mut tool in tools {
        if offer
            .filter
            .is_some_and(|filter| !filter.offers(&tool.name))
        {
            continue;
        }
        if offer.headers
            && let Err(reason) = tool.find_header_parameters()
        {
            complaints
                .left_out
                .add(|| format!("the tool \"{}\" was left out: {reason}", tool.name));
            continue;
        }
        let (tool, hidden) = pool_tool(offer, tool);
        complaints.hidden(&tool, &hidden);
        named.push(Arc::new(tool));
    }
    let (tools, renamed) = sorted_and_unique(named, &[]);
    for text in renamed {
        complaints.renamed.add(|| text);
    }
    for [one, other] in look_alikes(tools.iter().map(|tool| &*tool.tool.name)) {
        complaints.alike.add(|| {
            format!("the names of the tools \"{one}\" and \"{other}\" look alike; make sure that the right one is called")
        });
    }
    let part = Part {
        tools,
        index: OnceLock::new(),
    };
    (part, complaints.told())
}

/// What is to be said about a server's tools.
#[derive(Default)]
struct Complaints {
    left_out: Told,
    renamed: Told,
    removed: Told,
    left: Told,
    alike: Told,
}

impl Complaints {
    fn hidden(&mut self, tool: &PoolTool, hidden: &Hidden) {
        let name = &tool.tool.name;
        if !hidden.removed.is_empty() {
            let (removed, places) = (&hidden.removed, hidden.places.join(", "));
            let were = if removed.total() == 1 { "was" } else { "were" };
            self.removed.add(|| {
                format!("{removed} {were} removed from the {places} of the tool \"{name}\"")
            });
        }
        if !hidden.left.is_empty() {
            let left = &hidden.left;
            let stand = if left.total() == 1 { "stands" } else { "stand" };
            self.left.add(|| {
                format!("{left} {stand} in names or values of the schema of the tool \"{name}\", which would not work without")
            });
        }
    }

    fn told(self) -> Vec<String> {
        let mut all = Vec::new();
        for (told, what) in [
            (self.left_out, "were left out"),
            (self.renamed, "were renamed or listed twice"),
            (self.removed, "had hidden characters, which were removed"),
            (self.left, "have hidden characters in their schemas"),
            (self.alike, "look like others"),
        ] {
            all.extend(told.texts);
            if told.more > 0 {
                all.push(format!("{} more tools {what}", told.more));
            }
        }
        all
    }
}

/// Complaints of one kind: the first are told, the others counted.
#[derive(Default)]
struct Told {
    texts: Vec<String>,
    more: usize,
}

impl Told {
    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() < MAX_TOLD {
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

    fn part_of(tools: &[Value]) -> (Part, Vec<String>) {
        let read = |tool| Tool::read(Json::from(tool)).unwrap();
        part(&Offer::plain(&"s".into()), tools.iter().map(read).collect())
    }

    #[test]
    fn what_was_hidden_is_told_for_each_tool() {
        let (part, told) = part_of(&[
            json!({"name": "a", "description": "x\u{200b}\u{200b}y", "title": "\u{202e}t"}),
            json!({"name": "b", "inputSchema": {"enum": ["\u{200b}"], "description": "\u{200b}"}}),
            json!({"name": "c", "description": "clean — really"}),
        ]);
        assert_eq!(part.len(), 3);
        assert_eq!(
            told,
            [
                "3 hidden characters (2 zero-width, 1 bidirectional) were removed from the title, description of the tool \"a\"",
                "1 hidden character (1 zero-width) was removed from the schema of the tool \"b\"",
                "1 hidden character (1 zero-width) stands in names or values of the schema of the tool \"b\", which would not work without",
            ]
        );
    }

    #[test]
    fn complaints_are_bounded() {
        let tools: Vec<_> = (0..100)
            .map(|n| json!({"name": format!("t{n}x"), "description": "\u{200b}"}))
            .collect();
        let (part, told) = part_of(&tools);
        assert_eq!((part.len(), told.len()), (100, MAX_TOLD + 1));
        assert_eq!(
            told[MAX_TOLD],
            "80 more tools had hidden characters, which were removed"
        );
    }

    #[test]
    fn names_that_look_alike_are_told() {
        let (_, told) = part_of(&[
            json!({"name": "get_issue"}),
            json!({"name": "get_\u{456}ssue"}),
            json!({"name": "other"}),
        ]);
        assert_eq!(
            told,
            [
                "the names of the tools \"get_\u{456}ssue\" and \"get_issue\" look alike; make sure that the right one is called"
            ]
        );
    }
}
