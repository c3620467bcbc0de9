//! The pool: the tools of all servers, sorted, as one immutable snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline_config::normalize_name;
use trunkline_wire::Json;
use trunkline_wire::mcp::{Item, Tool};

use super::alike::look_alikes;
use super::names::tool_name;
use super::part::{Offer, Part, part};
use super::tool::PoolTool;
use super::unique::sorted_and_unique;
use crate::host_tool::HostTool;

/// All tools, sorted by name. An unchanged set is always in the same order.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    own: Arc<[HostTool]>,
    tools: Vec<Arc<PoolTool>>,
    /// The servers' parts, each with its index.
    parts: Vec<Arc<Part>>,
    diagnostics: Vec<String>,
}

/// Which original names the normalised ones stand for (TOOL-1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormalizedNames {
    /// Servers, by their normalised names; two servers may have the same.
    pub servers: BTreeMap<String, Vec<String>>,
    /// Tools: what each server calls them, by the names in the pool.
    pub tools: BTreeMap<String, String>,
}

impl Pool {
    /// A pool of lists that are at hand: for each server, the result of its `tools/list`. Entries that are no tools are left out. A
    /// host makes its own pool, of what its servers say; see [`Host::pool`](crate::Host::pool).
    ///
    /// ```
    /// use trunkline::tool::Pool;
    /// use trunkline::Json;
    ///
    /// let list = Json::parse(r#"{"tools":[{"name":"add","description":"Adds two numbers"}]}"#)?;
    /// let pool = Pool::from_lists([("calculator", list)]);
    /// assert_eq!(pool.search("sum of numbers", 1)[0].tool.name, "mcp__calculator__add");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_lists<'s>(lists: impl IntoIterator<Item = (&'s str, Json)>) -> Self {
        let parts: Vec<_> = lists
            .into_iter()
            .map(|(server, list)| part_of_list(server, &list))
            .collect();
        Self::of(&Arc::default(), &parts)
    }

    /// The same pool with another list for one server, whose part alone is made anew.
    #[must_use]
    pub fn with_list(&self, server: &str, list: &Json) -> Self {
        let new = part_of_list(server, list);
        let is_old = |part: &&Arc<Part>| part.first().is_some_and(|tool| &*tool.server == server);
        let others = self.parts.iter().filter(|part| !is_old(part));
        Self::of(&self.own, others.chain([&new]))
    }

    /// Puts the servers' parts together; they must come in an order that does not change by itself.
    pub(crate) fn of<'a>(
        own: &Arc<[HostTool]>,
        parts: impl IntoIterator<Item = &'a Arc<Part>>,
    ) -> Self {
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect();
        // By name, so that mostly nothing is left to sort.
        let mut by_name: Vec<&[Arc<PoolTool>]> = parts.iter().map(|part| &***part).collect();
        by_name.sort_by(|a, b| name_of(a.first()).cmp(&name_of(b.first())));
        let (tools, mut diagnostics) = if are_apart(&by_name, own) {
            (by_name.concat(), Vec::new())
        } else {
            let tools = parts.iter().flat_map(|part| part.iter().cloned());
            sorted_and_unique(tools.collect(), own)
        };
        let servers = parts.iter().filter_map(|part| part.first());
        for [one, other] in look_alikes(servers.map(|tool| &*tool.server)) {
            diagnostics.push(format!(
                "the names of the servers \"{one}\" and \"{other}\" look alike; make sure that both are meant"
            ));
        }
        Self {
            own: Arc::clone(own),
            tools,
            parts,
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

    /// The tools, sorted by name: all that can be called.
    pub fn tools(&self) -> &[Arc<PoolTool>] {
        &self.tools
    }

    /// Those of the tools that are offered to a model, sorted by name (TOOL-7).
    pub fn offered(&self) -> impl Iterator<Item = &Arc<PoolTool>> {
        self.tools.iter().filter(|tool| tool.offered)
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

    /// Which original names the normalised ones stand for.
    pub fn normalized_names(&self) -> NormalizedNames {
        let mut names = NormalizedNames::default();
        for tool in &self.tools {
            let servers = names.servers.entry(normalize_name(&tool.server));
            let servers = servers.or_default();
            if servers.last().is_none_or(|last| **last != *tool.server) {
                servers.push(tool.server.to_string());
            }
            names
                .tools
                .insert(tool.name.clone(), tool.tool.name.to_string());
        }
        for servers in names.servers.values_mut() {
            servers.sort();
            servers.dedup();
        }
        names
    }

    /// Which tools had to be renamed because another came to the same name, and which servers look alike.
    pub fn diagnostics(&self) -> &[String] {
        &self.diagnostics
    }

    pub(crate) fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    /// The tool of the pool that `tool`, of a part, has become: they differ where it had to be renamed.
    pub(crate) fn of_part(&self, tool: &Arc<PoolTool>) -> Option<&Arc<PoolTool>> {
        let same = |found: &&Arc<PoolTool>| {
            found.server == tool.server && found.tool.name == tool.tool.name
        };
        self.get(&tool.name)
            .filter(same)
            .or_else(|| self.tools.iter().find(same))
    }
}

fn name_of(tool: Option<&Arc<PoolTool>>) -> Option<&str> {
    tool.map(|tool| tool.name.as_str())
}

/// Whether sorted parts that follow each other in order of their first names have no name among each other's, and none has one of
/// the host's. As most names begin with their server's, they hardly ever do.
fn are_apart(parts: &[&[Arc<PoolTool>]], own: &[HostTool]) -> bool {
    let in_a_row = parts
        .windows(2)
        .all(|pair| name_of(pair[0].last()) < name_of(pair[1].first()));
    let has = |part: &&[Arc<PoolTool>], own: &HostTool| {
        part.binary_search_by(|tool| tool.name.cmp(&own.name))
            .is_ok()
    };
    in_a_row
        && !parts
            .iter()
            .any(|part| own.iter().any(|own| has(part, own)))
}

fn part_of_list(server: &str, list: &Json) -> Arc<Part> {
    let mut tools = Vec::new();
    if let Some(list) = list.get("tools") {
        list.elements(|entry| tools.extend(Tool::read(entry).ok()));
    }
    let server = server.into();
    part(&Offer::plain(&server), tools).0.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::result::CallOutput;

    fn part_of(server: &str, tools: &[&str]) -> Arc<Part> {
        offered_as(Offer::plain(&server.into()), tools)
    }

    fn offered_as(offer: Offer, tools: &[&str]) -> Arc<Part> {
        let read = |name| Tool::read(Json::from(json!({"name": name}))).unwrap();
        part(&offer, tools.iter().map(read).collect()).0.into()
    }

    fn own(names: &[&str]) -> Arc<[HostTool]> {
        let tool = |name: &&str| {
            HostTool::new(*name, "", json!({}), |_| async {
                Ok(CallOutput::of_text(""))
            })
        };
        names.iter().map(tool).collect()
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
    fn servers_whose_names_lie_among_anothers_are_sorted_too() {
        let (a, within) = (part_of("a", &["a", "x"]), part_of("a__b", &["y"]));
        for parts in [[&a, &within], [&within, &a]] {
            let pool = Pool::of(&Arc::default(), parts);
            assert_eq!(names(&pool), ["mcp__a__a", "mcp__a__b__y", "mcp__a__x"]);
        }
        let (one, ten) = (part_of("s1", &["a", "z"]), part_of("s10", &["b"]));
        let pool = Pool::of(&Arc::default(), [&one, &ten]);
        assert_eq!(names(&pool), ["mcp__s10__b", "mcp__s1__a", "mcp__s1__z"]);
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

    #[test]
    fn a_tool_whose_name_looks_like_anothers_with_its_suffix_stays_callable() {
        let pool = Pool::of(&Arc::default(), [&part_of("s", &["a.b", "a_b"])]);
        let suffixed = pool.find("s", "a_b").unwrap().name.clone();
        assert_eq!(suffixed.len(), "mcp__s__a_b".len() + 9);
        let rival = suffixed.strip_prefix("mcp__s__").unwrap();
        let pool = Pool::of(&Arc::default(), [&part_of("s", &["a.b", "a_b", rival])]);
        assert_eq!(pool.tools().len(), 3);
        assert_eq!(&*pool.get(&suffixed).unwrap().tool.name, rival);
        assert!(
            pool.find("s", "a_b")
                .unwrap()
                .name
                .starts_with("mcp__s__a_b_")
        );
    }

    #[test]
    fn a_server_in_the_program_may_go_without_a_prefix_and_gets_it_back_where_the_name_is_taken() {
        let bare = |server: &str, tools: &[&str]| {
            let server = server.into();
            let offer = Offer {
                prefix: false,
                ..Offer::plain(&server)
            };
            offered_as(offer, tools)
        };
        let (one, two) = (bare("one", &["Read", "add", "x"]), bare("two", &["add"]));
        let pool = Pool::of(&own(&["Read"]), [&one, &two, &part_of("three", &["y"])]);
        assert_eq!(
            names(&pool),
            [
                "add",
                "mcp__one__Read",
                "mcp__three__y",
                "mcp__two__add",
                "x"
            ]
        );
        assert_eq!(&*pool.get("add").unwrap().server, "one");
        assert_eq!(pool.own_tool("Read").unwrap().name, "Read");
        assert_eq!(
            pool.diagnostics(),
            [
                "the tool \"Read\" of \"one\" is called mcp__one__Read, because another has its name",
                "the tool \"add\" of \"two\" is called mcp__two__add, because another has its name",
            ]
        );
        assert_eq!(pool.find("two", "add").unwrap().name, "mcp__two__add");
    }

    #[test]
    fn a_built_in_wins_even_a_name_with_a_prefix() {
        let pool = Pool::of(&own(&["mcp__s__t"]), [&part_of("s", &["t"])]);
        assert!(pool.get("mcp__s__t").is_none());
        assert!(pool.find("s", "t").unwrap().name.starts_with("mcp__s__t_"));
    }

    #[test]
    fn servers_that_look_alike_are_told() {
        let (latin, cyrillic) = (part_of("github", &["t"]), part_of("g\u{456}thub", &["t"]));
        let pool = Pool::of(&Arc::default(), [&latin, &cyrillic]);
        assert_eq!(
            pool.diagnostics(),
            [
                "the names of the servers \"github\" and \"g\u{456}thub\" look alike; make sure that both are meant"
            ]
        );
    }

    #[test]
    fn normalised_names_lead_back_to_the_original_ones() {
        let (dot, line) = (part_of("x.y", &["get it"]), part_of("x_y", &["t"]));
        let names = Pool::of(&Arc::default(), [&dot, &line]).normalized_names();
        assert_eq!(names.servers["x_y"], ["x.y", "x_y"]);
        assert_eq!(names.tools["mcp__x_y__get_it"], "get it");
        assert_eq!(names.tools.len(), 2);
    }

    #[test]
    fn one_servers_change_leaves_the_others_parts_as_they_are() {
        let list = |names: &[&str]| {
            let tools: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            Json::from(json!({"tools": tools}))
        };
        let before = Pool::from_lists([
            ("a", list(&["x"])),
            ("b", list(&["y"])),
            ("c", list(&["z"])),
        ]);
        let after = before.with_list("b", &list(&["new", "w"]));
        assert_eq!(
            names(&after),
            ["mcp__a__x", "mcp__b__new", "mcp__b__w", "mcp__c__z"]
        );
        for name in ["mcp__a__x", "mcp__c__z"] {
            assert!(Arc::ptr_eq(
                before.get(name).unwrap(),
                after.get(name).unwrap()
            ));
        }
        assert_eq!(after.with_list("b", &list(&[])).tools().len(), 2);
        assert!(Pool::from_lists([("a", Json::null())]).tools().is_empty());
    }
}
