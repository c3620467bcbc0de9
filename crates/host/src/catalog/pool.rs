//! The pool: the tools of all servers, sorted, as one immutable snapshot.

use std::sync::Arc;

use trunkline_config::ToolFilter;
use trunkline_wire::mcp::Tool;

use super::names::{tool_name, with_suffix};
use crate::call::Checks;
use crate::host_tool::HostTool;

/// One server's tools, named and sorted.
pub(crate) type Part = Vec<Arc<PoolTool>>;

/// A tool as a model sees it.
#[derive(Clone, Debug)]
pub struct PoolTool {
    /// The name by which it is called: `mcp__<server>__<tool>`.
    pub name: String,
    /// The server's name as configured.
    pub server: Arc<str>,
    /// What the server says about it, under its original name.
    pub tool: Tool,
    /// Whether a model sees it however many tools there are: its server's entry says so, or its server.
    pub always_load: bool,
    /// What arguments and results are held against.
    pub(crate) checks: Arc<Checks>,
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
}

/// The member of a tool's `_meta` by which its server has it always shown (TOOL-5).
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";

/// All tools, sorted by name. An unchanged set is always in the same order.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    own: Arc<[HostTool]>,
    tools: Vec<Arc<PoolTool>>,
    diagnostics: Vec<String>,
}

/// Names and sorts one server's tools; says which could not be offered, were listed twice or had to be renamed.
pub(crate) fn part(offer: &Offer, tools: Vec<Tool>) -> (Part, Vec<String>) {
    let offered = |tool: &Tool| offer.filter.is_none_or(|filter| filter.offers(&tool.name));
    let mut left_out = Vec::new();
    let with_headers = |mut tool: Tool| {
        if offer.headers
            && let Err(reason) = tool.find_header_parameters()
        {
            left_out.push(format!("the tool \"{}\" was left out: {reason}", tool.name));
            return None;
        }
        Some(tool)
    };
    let named = tools
        .into_iter()
        .filter(offered)
        .filter_map(with_headers)
        .map(|tool| {
            let meta = tool.meta.as_ref().and_then(|meta| meta.get(ALWAYS_LOAD));
            Arc::new(PoolTool {
                name: tool_name(offer.server, &tool.name),
                server: Arc::clone(offer.server),
                always_load: offer.always_load || meta.is_some_and(|set| set.as_str() == "true"),
                checks: Arc::default(),
                tool,
            })
        })
        .collect();
    let (part, renamed) = sorted_and_unique(named);
    left_out.extend(renamed);
    (part, left_out)
}

/// Sorts by name; of several with one name the first keeps it and the others get a suffix (TOOL-1). Which is first depends
/// on the original names alone, so that a server that lists its tools in another order does not change what is called what.
fn sorted_and_unique(mut tools: Part) -> (Part, Vec<String>) {
    let mut diagnostics = Vec::new();
    let order = |a: &Arc<PoolTool>, b: &Arc<PoolTool>| {
        let originals = || (&a.server, &*a.tool.name).cmp(&(&b.server, &*b.tool.name));
        a.name.cmp(&b.name).then_with(originals)
    };
    tools.sort_by(order);
    // The sort is stable, so the one that was listed first comes first.
    tools.dedup_by(|later, first| {
        let same = later.name == first.name
            && later.server == first.server
            && later.tool.name == first.tool.name;
        if same {
            diagnostics.push(format!(
                "the tool \"{}\" is listed twice; the first counts",
                later.tool.name
            ));
        }
        same
    });
    let mut renamed = false;
    // From the end, so that each is compared with a neighbour that has not been renamed yet.
    for at in (1..tools.len()).rev() {
        if tools[at].name != tools[at - 1].name {
            continue;
        }
        let later = &tools[at];
        let name = with_suffix(&later.name, &later.server, &later.tool.name);
        diagnostics.push(format!(
            "the tool \"{}\" of \"{}\" is called {name}, because another has its name",
            later.tool.name, later.server
        ));
        tools[at] = Arc::new(PoolTool {
            name,
            ..(**later).clone()
        });
        renamed = true;
    }
    if renamed {
        tools.sort_by(order);
        // Only a tool whose own name looks like another's with its suffix could still be in the way.
        tools.dedup_by(|later, first| {
            let same = later.name == first.name;
            if same {
                diagnostics.push(format!(
                    "the tool \"{}\" of \"{}\" has no name of its own",
                    later.tool.name, later.server
                ));
            }
            same
        });
    }
    (tools, diagnostics)
}

impl Pool {
    /// Puts the servers' parts together; they must come in an order that does not change by itself.
    pub(crate) fn of<'a>(own: &Arc<[HostTool]>, parts: impl IntoIterator<Item = &'a Part>) -> Self {
        let tools = parts.into_iter().flatten().cloned().collect();
        let (tools, diagnostics) = sorted_and_unique(tools);
        Self {
            own: Arc::clone(own),
            tools,
            diagnostics,
        }
    }

    /// The host's own tools, sorted by name. They come first, and one of them wins over a server's tool of the same name.
    pub fn own(&self) -> &[HostTool] {
        &self.own
    }

    /// The host's own tool called `name`.
    pub fn own_tool(&self, name: &str) -> Option<&HostTool> {
        let at = self
            .own
            .binary_search_by(|tool| tool.name.as_str().cmp(name));
        at.ok().map(|at| &self.own[at])
    }

    /// The tools, sorted by name.
    pub fn tools(&self) -> &[Arc<PoolTool>] {
        &self.tools
    }

    /// The tool called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<PoolTool>> {
        let at = self
            .tools
            .binary_search_by(|tool| tool.name.as_str().cmp(name));
        at.ok().map(|at| &self.tools[at])
    }

    /// The tool that `server` knows as `tool`, or whose name is so when normalised.
    pub fn find(&self, server: &str, tool: &str) -> Option<&Arc<PoolTool>> {
        let of_server = || {
            self.tools
                .iter()
                .filter(|candidate| &*candidate.server == server)
        };
        of_server()
            .find(|candidate| &*candidate.tool.name == tool)
            .or_else(|| {
                self.get(&tool_name(server, tool))
                    .filter(|found| &*found.server == server)
            })
    }

    /// Which tools had to be renamed because another server's came to the same name.
    pub fn diagnostics(&self) -> &[String] {
        &self.diagnostics
    }
}

#[cfg(test)]
mod tests {
    use trunkline_wire::Json;
    use trunkline_wire::mcp::Item;

    use super::*;

    fn part_of(server: &str, tools: &[&str]) -> Part {
        let tools = tools
            .iter()
            .map(|name| Tool::read(Json::from(serde_json::json!({"name": name}))).unwrap())
            .collect();
        let offer = Offer {
            server: &server.into(),
            filter: None,
            always_load: false,
            headers: false,
        };
        part(&offer, tools).0
    }

    fn names(pool: &Pool) -> Vec<&str> {
        pool.tools().iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn the_pool_is_sorted_and_found_by_name() {
        let (b, a) = (part_of("b", &["z", "y"]), part_of("a", &["m"]));
        let pool = Pool::of(&Arc::default(), [&b, &a]);
        assert_eq!(names(&pool), ["mcp__a__m", "mcp__b__y", "mcp__b__z"]);
        assert_eq!(&*pool.get("mcp__b__y").unwrap().tool.name, "y");
        assert!(pool.get("mcp__b__x").is_none());
        assert_eq!(pool.find("b", "z").unwrap().name, "mcp__b__z");
        assert!(pool.find("a", "z").is_none());
    }

    #[test]
    fn tools_that_come_to_one_name_stay_callable_under_two() {
        let same = [
            "a.b", "a_b", "a b", "a/b", "a:b", "a,b", "a;b", "a+b", "a*b",
        ];
        let pool = Pool::of(&Arc::default(), [&part_of("s", &same)]);
        assert_eq!(pool.tools().len(), same.len());
        let mut backwards = same;
        backwards.reverse();
        assert_eq!(
            names(&pool),
            names(&Pool::of(&Arc::default(), [&part_of("s", &backwards)]))
        );
        let originals: Vec<_> = pool
            .tools()
            .iter()
            .map(|tool| tool.tool.name.to_string())
            .collect();
        assert_eq!(pool.get("mcp__s__a_b").unwrap().tool.name, "a b");
        for original in same {
            assert!(originals.contains(&original.to_owned()));
            assert_eq!(&*pool.find("s", original).unwrap().tool.name, original);
        }
    }

    #[test]
    fn servers_that_come_to_one_name_do_not_hide_each_other() {
        let (dot, line) = (part_of("x.y", &["t"]), part_of("x_y", &["t"]));
        let pool = Pool::of(&Arc::default(), [&dot, &line]);
        assert_eq!(pool.tools().len(), 2);
        assert_eq!(&*pool.get("mcp__x_y__t").unwrap().server, "x.y");
        assert_eq!(pool.diagnostics().len(), 1);
        assert_eq!(
            names(&pool),
            names(&Pool::of(&Arc::default(), [&dot, &line]))
        );
        assert_eq!(&*pool.find("x_y", "t").unwrap().server, "x_y");
    }

    #[test]
    fn a_tool_listed_twice_counts_once() {
        let pool = Pool::of(&Arc::default(), [&part_of("s", &["same", "other", "same"])]);
        assert_eq!(names(&pool), ["mcp__s__other", "mcp__s__same"]);
    }
}
