//! The pool: the tools of all servers, sorted, as one immutable snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use trunkline_config::normalize_name;
use trunkline_wire::Json;
use trunkline_wire::mcp::{Item, Tool};

use super::confusables::confusable_pairs;
use super::names::tool_name;
use super::server_tools::{ServerTools, ToolOptions, server_tools};
use super::tool::PoolTool;
use super::unique::sorted_and_unique;
use crate::host_tool::HostTool;

/// All tools, sorted by name. An unchanged set is always in the same order.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    host_tools: Arc<[HostTool]>,
    tools: Vec<Arc<PoolTool>>,
    /// The tools of each server, with their search index.
    parts: Vec<Arc<ServerTools>>,
    diagnostics: Vec<String>,
}

/// Maps normalized names to the original ones (TOOL-1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormalizedNames {
    /// Servers by normalized name; several may share one.
    pub servers: BTreeMap<String, Vec<String>>,
    /// Original tool names by pool name.
    pub tools: BTreeMap<String, String>,
}

impl Pool {
    /// Builds a pool from the `tools/list` result of each server; items that are not tools are
    /// skipped. A host builds its own pool: see [`Host::pool`](crate::Host::pool).
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
            .map(|(server, list)| server_tools_of_list(server, &list))
            .collect();
        Self::of(&Arc::default(), &parts)
    }

    /// Returns the pool with a new list for one server; the tools of the others are shared.
    #[must_use]
    pub fn with_list(&self, server: &str, list: &Json) -> Self {
        let new = server_tools_of_list(server, list);
        let is_old =
            |part: &&Arc<ServerTools>| part.first().is_some_and(|tool| &*tool.server == server);
        let others = self.parts.iter().filter(|part| !is_old(part));
        Self::of(&self.host_tools, others.chain([&new]))
    }

    /// Combines the servers' tools, which must come in a stable order.
    pub(crate) fn of<'a>(
        host_tools: &Arc<[HostTool]>,
        parts: impl IntoIterator<Item = &'a Arc<ServerTools>>,
    ) -> Self {
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect();
        // Sorted by name, so usually nothing is left to sort.
        let mut by_name: Vec<&[Arc<PoolTool>]> = parts.iter().map(|part| &***part).collect();
        by_name.sort_by(|a, b| name_of(a.first()).cmp(&name_of(b.first())));
        let (tools, mut diagnostics) = if are_disjoint(&by_name, host_tools) {
            (by_name.concat(), Vec::new())
        } else {
            let tools = parts.iter().flat_map(|part| part.iter().cloned());
            sorted_and_unique(tools.collect(), host_tools)
        };
        let servers = parts.iter().filter_map(|part| part.first());
        for [one, other] in confusable_pairs(servers.map(|tool| &*tool.server)) {
            diagnostics.push(format!(
                "servers \"{one}\" and \"{other}\" have confusable names; check that both are intended"
            ));
        }
        Self {
            host_tools: Arc::clone(host_tools),
            tools,
            parts,
            diagnostics,
        }
    }

    /// The host's own tools, sorted by name. They come first and win over a server's tool of the
    /// same name.
    pub fn own(&self) -> &[HostTool] {
        &self.host_tools
    }

    /// Returns the host's own tool called `name`.
    pub fn own_tool(&self, name: &str) -> Option<&HostTool> {
        let at = self
            .host_tools
            .binary_search_by(|tool| tool.name.as_str().cmp(name));
        at.ok().map(|at| &self.host_tools[at])
    }

    /// All callable tools, sorted by name.
    pub fn tools(&self) -> &[Arc<PoolTool>] {
        &self.tools
    }

    /// The tools offered to a model, sorted by name (TOOL-7).
    pub fn offered(&self) -> impl Iterator<Item = &Arc<PoolTool>> {
        self.tools.iter().filter(|tool| tool.offered)
    }

    /// Returns the tool called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<PoolTool>> {
        let at = self
            .tools
            .binary_search_by(|tool| tool.name.as_str().cmp(name));
        at.ok().map(|at| &self.tools[at])
    }

    /// Returns the tool that `server` calls `tool`, also by its normalized name.
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

    /// Maps normalized names to the original ones.
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

    /// Reports renamed tools and confusable server names.
    pub fn diagnostics(&self) -> &[String] {
        &self.diagnostics
    }

    pub(crate) fn parts(&self) -> &[Arc<ServerTools>] {
        &self.parts
    }

    /// Returns the pool's version of a server's tool; the two differ if the tool was renamed.
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

/// Returns whether the sorted parts, ordered by their first names, do not overlap each other or the
/// host's tools. They rarely do, since most names start with their server's.
fn are_disjoint(parts: &[&[Arc<PoolTool>]], host_tools: &[HostTool]) -> bool {
    let in_a_row = parts
        .windows(2)
        .all(|pair| name_of(pair[0].last()) < name_of(pair[1].first()));
    let has = |part: &&[Arc<PoolTool>], host_tool: &HostTool| {
        part.binary_search_by(|tool| tool.name.cmp(&host_tool.name))
            .is_ok()
    };
    in_a_row
        && !parts
            .iter()
            .any(|part| host_tools.iter().any(|tool| has(part, tool)))
}

fn server_tools_of_list(server: &str, list: &Json) -> Arc<ServerTools> {
    let mut tools = Vec::new();
    if let Some(list) = list.get("tools") {
        list.elements(|entry| tools.extend(Tool::from_json(entry).ok()));
    }
    let server = server.into();
    server_tools(&ToolOptions::plain(&server), tools).0.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server_tools_of(server: &str, tools: &[&str]) -> Arc<ServerTools> {
        server_tools_with(ToolOptions::plain(&server.into()), tools)
    }

    fn server_tools_with(options: ToolOptions, tools: &[&str]) -> Arc<ServerTools> {
        let read = |name| Tool::from_json(Json::from(json!({"name": name}))).unwrap();
        server_tools(&options, tools.iter().map(read).collect())
            .0
            .into()
    }

    fn own(names: &[&str]) -> Arc<[HostTool]> {
        let tool = |name: &&str| HostTool::new(*name, "", json!({}), |_| async { Ok("".into()) });
        names.iter().map(tool).collect()
    }

    fn names(pool: &Pool) -> Vec<&str> {
        pool.tools().iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn pool_is_sorted_and_searchable_by_name() {
        let (b, a) = (
            server_tools_of("b", &["z", "y"]),
            server_tools_of("a", &["m"]),
        );
        let pool = Pool::of(&Arc::default(), [&b, &a]);
        assert_eq!(names(&pool), ["mcp__a__m", "mcp__b__y", "mcp__b__z"]);
        assert_eq!(&*pool.get("mcp__b__y").unwrap().tool.name, "y");
        assert!(pool.get("mcp__b__x").is_none());
        assert_eq!(pool.find("b", "z").unwrap().name, "mcp__b__z");
        assert!(pool.find("a", "z").is_none());
    }

    #[test]
    fn interleaved_server_names_stay_sorted() {
        let (a, within) = (
            server_tools_of("a", &["a", "x"]),
            server_tools_of("a__b", &["y"]),
        );
        for parts in [[&a, &within], [&within, &a]] {
            let pool = Pool::of(&Arc::default(), parts);
            assert_eq!(names(&pool), ["mcp__a__a", "mcp__a__b__y", "mcp__a__x"]);
        }
        let (one, ten) = (
            server_tools_of("s1", &["a", "z"]),
            server_tools_of("s10", &["b"]),
        );
        let pool = Pool::of(&Arc::default(), [&one, &ten]);
        assert_eq!(names(&pool), ["mcp__s10__b", "mcp__s1__a", "mcp__s1__z"]);
    }

    #[test]
    fn tools_with_colliding_names_stay_callable() {
        let same = [
            "a.b", "a_b", "a b", "a/b", "a:b", "a,b", "a;b", "a+b", "a*b",
        ];
        let pool = Pool::of(&Arc::default(), [&server_tools_of("s", &same)]);
        assert_eq!(pool.tools().len(), same.len());
        let mut backwards = same;
        backwards.reverse();
        assert_eq!(
            names(&pool),
            names(&Pool::of(
                &Arc::default(),
                [&server_tools_of("s", &backwards)]
            ))
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
    fn servers_with_colliding_names_stay_visible() {
        let (dot, line) = (
            server_tools_of("x.y", &["t"]),
            server_tools_of("x_y", &["t"]),
        );
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
    fn duplicate_tool_is_listed_once() {
        let pool = Pool::of(
            &Arc::default(),
            [&server_tools_of("s", &["same", "other", "same"])],
        );
        assert_eq!(names(&pool), ["mcp__s__other", "mcp__s__same"]);
    }

    #[test]
    fn tool_named_like_a_suffixed_name_stays_callable() {
        let pool = Pool::of(&Arc::default(), [&server_tools_of("s", &["a.b", "a_b"])]);
        let suffixed = pool.find("s", "a_b").unwrap().name.clone();
        assert_eq!(suffixed.len(), "mcp__s__a_b".len() + 9);
        let rival = suffixed.strip_prefix("mcp__s__").unwrap();
        let pool = Pool::of(
            &Arc::default(),
            [&server_tools_of("s", &["a.b", "a_b", rival])],
        );
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
    fn unprefixed_server_gets_its_prefix_back_on_collision() {
        let bare = |server: &str, tools: &[&str]| {
            let server = server.into();
            let options = ToolOptions {
                prefix: false,
                ..ToolOptions::plain(&server)
            };
            server_tools_with(options, tools)
        };
        let (one, two) = (bare("one", &["Read", "add", "x"]), bare("two", &["add"]));
        let pool = Pool::of(
            &own(&["Read"]),
            [&one, &two, &server_tools_of("three", &["y"])],
        );
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
                "tool \"Read\" of \"one\" is named mcp__one__Read because its name is taken",
                "tool \"add\" of \"two\" is named mcp__two__add because its name is taken",
            ]
        );
        assert_eq!(pool.find("two", "add").unwrap().name, "mcp__two__add");
    }

    #[test]
    fn host_tool_wins_over_a_prefixed_name() {
        let pool = Pool::of(&own(&["mcp__s__t"]), [&server_tools_of("s", &["t"])]);
        assert!(pool.get("mcp__s__t").is_none());
        assert!(pool.find("s", "t").unwrap().name.starts_with("mcp__s__t_"));
    }

    #[test]
    fn confusable_server_names_are_reported() {
        let (latin, cyrillic) = (
            server_tools_of("github", &["t"]),
            server_tools_of("g\u{456}thub", &["t"]),
        );
        let pool = Pool::of(&Arc::default(), [&latin, &cyrillic]);
        assert_eq!(
            pool.diagnostics(),
            [
                "servers \"github\" and \"g\u{456}thub\" have confusable names; check that both are intended"
            ]
        );
    }

    #[test]
    fn normalized_names_map_back_to_original_names() {
        let (dot, line) = (
            server_tools_of("x.y", &["get it"]),
            server_tools_of("x_y", &["t"]),
        );
        let names = Pool::of(&Arc::default(), [&dot, &line]).normalized_names();
        assert_eq!(names.servers["x_y"], ["x.y", "x_y"]);
        assert_eq!(names.tools["mcp__x_y__get_it"], "get it");
        assert_eq!(names.tools.len(), 2);
    }

    #[test]
    fn changing_one_server_shares_the_tools_of_others() {
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
