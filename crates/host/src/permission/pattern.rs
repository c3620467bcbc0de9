//! Matches rules and scopes against tools (TOOL-10). Pure functions.
//!
//! A joined name such as `mcp__a__b__c` does not tell where the server's name ends. A rule that
//! permits is therefore read narrowly: the server's name ends at the first `__`. A rule that
//! forbids is read in every possible way.

use trunkline_config::{Glob, normalize_name};

use crate::catalog::{PoolTool, tool_name};

/// The prefix of the names of servers' tools.
const PREFIX: &str = "mcp__";
/// The separator between the names of server and tool.
const SEPARATOR: &str = "__";

/// Knows all servers.
pub(crate) trait KnownServers {
    /// True if another server than `server` has this name, as configured or normalized.
    fn others_have(&self, name: &str, server: &str) -> bool;
}

impl KnownServers for [&str] {
    fn others_have(&self, name: &str, server: &str) -> bool {
        is_anothers(self.iter().copied(), name, server)
    }
}

/// True if one of `servers`, other than `server`, has this name, as configured or normalized.
pub(crate) fn is_anothers<'s>(
    mut servers: impl Iterator<Item = &'s str>,
    name: &str,
    server: &str,
) -> bool {
    servers.any(|other| other != server && (other == name || normalize_name(other) == name))
}

/// Matches servers by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerPattern {
    /// The name as configured, or normalized if that is unique; `*` matches anything.
    Glob(Glob),
    /// The name as configured.
    Exact(String),
}

impl ServerPattern {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Glob(Glob::new(text))
    }

    pub(crate) fn matches(&self, server: &str, known: &(impl KnownServers + ?Sized)) -> bool {
        match self {
            Self::Exact(name) => name == server,
            Self::Glob(glob) if glob.as_str() == server => true,
            Self::Glob(glob) if is_wild(glob) => {
                glob.matches(server) || glob.matches(&normalize_name(server))
            }
            Self::Glob(glob) => {
                normalize_name(server) == glob.as_str() && !known.others_have(glob.as_str(), server)
            }
        }
    }

    fn is_wild(&self) -> bool {
        matches!(self, Self::Glob(glob) if is_wild(glob))
    }
}

/// How a pattern matches a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// By the names of server and tool, without `*`.
    Named,
    /// By the whole server, or by a `*`.
    Wide,
}

/// Matches tools by a rule or a scope: `mcp__server`, `mcp__server__tool`, or a name without
/// prefix.
///
/// A server's name that contains `__`, as configured or normalized, is quoted:
/// `mcp__"my__server"__tool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolPattern {
    /// The whole text, for the wide reading.
    text: Glob,
    narrow: Narrow,
    /// A text without prefix also matches the original names of tools.
    originals: bool,
}

/// The narrow reading.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Narrow {
    /// Every tool.
    Everything,
    /// The tools of a server; all of them if `tool` is absent.
    Of {
        server: ServerPattern,
        tool: Option<Glob>,
    },
    /// A name without prefix: a host tool, or a tool of a server without prefix (TOOL-2).
    Bare(Glob),
}

impl ToolPattern {
    /// Parses a permission rule.
    pub(crate) fn of_rule(text: &str) -> Self {
        Self {
            text: Glob::new(text),
            narrow: Narrow::parse(text),
            originals: false,
        }
    }

    /// Parses a scope: a text without prefix also matches the original names of tools.
    pub(crate) fn of_scope(text: &str) -> Self {
        Self {
            originals: true,
            ..Self::of_rule(text)
        }
    }

    /// Matches a tool in the narrow reading, for rules that permit.
    pub(crate) fn permits(
        &self,
        tool: &PoolTool,
        known: &(impl KnownServers + ?Sized),
    ) -> Option<Match> {
        match &self.narrow {
            Narrow::Everything => Some(Match::Wide),
            Narrow::Of { server, tool: name } => {
                if !server.matches(&tool.server, known) {
                    return None;
                }
                let name = name.as_ref().filter(|name| !is_anything(name));
                let found = name.map_or(Some(Match::Wide), |name| matches_name(name, tool))?;
                Some(if server.is_wild() { Match::Wide } else { found })
            }
            Narrow::Bare(name) => {
                let goes_without = !tool.name.starts_with(PREFIX);
                let matches = (goes_without && name.matches(&tool.name))
                    || (self.originals && name.matches(&tool.tool.name));
                let found = if is_wild(name) {
                    Match::Wide
                } else {
                    Match::Named
                };
                matches.then_some(found)
            }
        }
    }

    /// True if any reading matches a tool, for rules that forbid.
    pub(crate) fn forbids(&self, tool: &PoolTool) -> bool {
        let nobody: &[&str] = &[];
        if self.permits(tool, nobody).is_some() {
            return true;
        }
        let servers = [&*tool.server, &normalize_name(&tool.server)].map(str::to_owned);
        let names = [&*tool.tool.name, &normalize_name(&tool.tool.name)].map(str::to_owned);
        let joined = servers.iter().flat_map(|server| {
            let whole = format!("{PREFIX}{server}");
            let tools = names
                .iter()
                .map(move |name| format!("{PREFIX}{server}{SEPARATOR}{name}"));
            tools.chain([whole])
        });
        self.text.matches(&tool.name)
            || (self.originals && names.iter().any(|name| self.text.matches(name)))
            || joined.into_iter().any(|name| self.text.matches(&name))
    }

    /// True if any reading covers a whole server, for rules that forbid.
    pub(crate) fn forbids_server(&self, server: &str) -> bool {
        if let Narrow::Of { server: of, tool } = &self.narrow {
            let nobody: &[&str] = &[];
            if tool.as_ref().is_none_or(is_anything) && of.matches(server, nobody) {
                return true;
            }
        }
        let text = self.text.as_str();
        let whole = text.trim_end_matches('*').strip_suffix(SEPARATOR);
        let texts = [Some(text), whole.filter(|_| text.ends_with('*'))];
        let names = [server, &normalize_name(server)].map(|name| format!("{PREFIX}{name}"));
        let matches = |text: &str| names.iter().any(|name| Glob::new(text).matches(name));
        texts.into_iter().flatten().any(matches)
    }

    /// True if any reading concerns a server or one of its tools, for rules that mark servers.
    pub(crate) fn reaches_server(&self, server: &str) -> bool {
        let nobody: &[&str] = &[];
        let is_of = match &self.narrow {
            Narrow::Everything => true,
            Narrow::Of { server: of, .. } => of.matches(server, nobody),
            Narrow::Bare(_) => false,
        };
        is_of || self.forbids_server(server)
    }

    /// True if it matches a host tool.
    pub(crate) fn matches_host_tool(&self, name: &str) -> bool {
        self.text.matches(name)
    }
}

impl Narrow {
    fn parse(text: &str) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte == b'*') {
            return Self::Everything;
        }
        let Some(rest) = text.strip_prefix(PREFIX) else {
            return Self::Bare(Glob::new(text));
        };
        if let Some((server, tool)) = quoted(rest) {
            return Self::Of {
                server: ServerPattern::Exact(server.to_owned()),
                tool: tool.map(Glob::new),
            };
        }
        let (server, tool) = match rest.split_once(SEPARATOR) {
            Some((server, tool)) => (server, Some(tool)),
            None => (rest, None),
        };
        Self::Of {
            server: ServerPattern::new(server),
            tool: tool.map(Glob::new),
        }
    }
}

/// Splits `"server"` or `"server"__tool`.
fn quoted(rest: &str) -> Option<(&str, Option<&str>)> {
    let inner = rest.strip_prefix('"')?;
    match inner.split_once("\"__") {
        Some((server, tool)) => Some((server, Some(tool))),
        None => Some((inner.strip_suffix('"')?, None)),
    }
}

/// True if the part of a pattern after the server matches a tool's name.
fn matches_name(name: &Glob, tool: &PoolTool) -> Option<Match> {
    let original = &*tool.tool.name;
    if name.as_str() == original {
        return Some(Match::Named);
    }
    let normalized = normalize_name(original);
    if is_wild(name) {
        let found = name.matches(original) || name.matches(&normalized);
        return found.then_some(Match::Wide);
    }
    // Of several tools with one name, only the first has it.
    let keeps_name =
        !tool.name.starts_with(PREFIX) || tool.name == tool_name(&tool.server, original);
    let server = normalize_name(&tool.server);
    let found = (keeps_name && name.as_str() == normalized)
        || tool.name == format!("{PREFIX}{server}{SEPARATOR}{}", name.as_str());
    found.then_some(Match::Named)
}

fn is_wild(glob: &Glob) -> bool {
    glob.as_str().contains('*')
}

/// True if it consists of `*` only.
fn is_anything(glob: &Glob) -> bool {
    !glob.as_str().is_empty() && glob.as_str().bytes().all(|byte| byte == b'*')
}

/// Returns the rule that matches exactly this tool.
pub(crate) fn rule_for(tool: &PoolTool) -> String {
    let by_name = ToolPattern::of_rule(&tool.name);
    let nobody: &[&str] = &[];
    if by_name.permits(tool, nobody) == Some(Match::Named) {
        return tool.name.clone();
    }
    // In a rule, `*` matches anything.
    let name = match &*tool.tool.name {
        name if name.contains('*') => normalize_name(name),
        name => name.to_owned(),
    };
    format!("{PREFIX}\"{}\"{SEPARATOR}{name}", tool.server)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::testing::{server_tools_of, tool};

    /// The effect of a rule on a tool: permitted by name, permitted widely, or forbidden.
    fn outcome(rule: &str, tool: &PoolTool, known: &[&str]) -> &'static str {
        let rule = ToolPattern::of_rule(rule);
        match (rule.permits(tool, known), rule.forbids(tool)) {
            (Some(Match::Named), true) => "names",
            (Some(Match::Wide), true) => "reaches",
            (None, true) => "only forbids",
            (None, false) => "-",
            (Some(_), false) => "permits what it cannot forbid",
        }
    }

    #[test]
    fn permission_is_narrow_and_prohibition_is_wide() {
        for (rule, server, name, expected) in [
            ("mcp__github", "github", "get", "reaches"),
            ("mcp__github__*", "github", "get", "reaches"),
            ("mcp__github__get", "github", "get", "names"),
            ("mcp__github__get_*", "github", "get_all", "reaches"),
            ("mcp__*", "anything", "at all", "reaches"),
            ("*", "anything", "at all", "reaches"),
            ("mcp__*__get", "github", "get", "reaches"),
            ("mcp__git*", "github", "get", "reaches"),
            ("mcp__github__get", "github", "get_all", "-"),
            ("mcp__github", "git", "get", "-"),
            ("mcp__git", "github", "get", "-"),
            ("mcp__github__", "github", "get", "-"),
            ("Bash(ls)", "Bash", "ls", "-"),
            ("github", "github", "get", "-"),
            // Both names, as configured and normalized, in any combination.
            ("mcp__my_server__a_b", "my server", "a.b", "names"),
            ("mcp__my server__a.b", "my server", "a.b", "names"),
            ("mcp__my_server__a.b", "my server", "a.b", "names"),
            ("mcp__my server", "my server", "a.b", "reaches"),
            ("mcp__claude_ai_Slack", "claude.ai Slack", "post", "reaches"),
            // A server's name that begins with another's, or with that and a tool's name.
            (
                "mcp__github__get_issue",
                "github__get_issue",
                "steal",
                "only forbids",
            ),
            ("mcp__jira__*", "jira__evil", "steal", "only forbids"),
            ("mcp__jira__evil__*", "jira__evil", "get", "only forbids"),
            ("mcp__jira__evil__get", "jira__evil", "get", "only forbids"),
            ("mcp__jira__evil__get", "jira", "evil__get", "names"),
            ("mcp__jira", "jira__evil", "get", "-"),
            ("mcp__jira", "jira_", "get", "-"),
            ("mcp__jira__*", "jira_", "get", "only forbids"),
            // Another server's tool with the name of one of this server's.
            ("mcp__x__*", "y", "mcp__x__read", "-"),
            ("mcp__x__read", "y", "mcp__x__read", "-"),
            // Quotes mark the end of the server's name.
            ("mcp__\"jira__evil\"__get", "jira__evil", "get", "names"),
            ("mcp__\"jira__evil\"", "jira__evil", "get", "reaches"),
            ("mcp__\"jira__evil\"__*", "jira__evil", "get", "reaches"),
            ("mcp__\"jira__evil\"__get", "jira", "evil__get", "-"),
            ("mcp__\"jira\"__evil__get", "jira", "evil__get", "names"),
            ("mcp__\"a*\"__get", "ab", "get", "-"),
            // Only rules that forbid match across both names.
            ("mcp__*delete*", "s", "delete_all", "only forbids"),
            ("*delete*", "s", "delete_all", "only forbids"),
            ("mcp*", "s", "delete_all", "only forbids"),
        ] {
            let found = outcome(rule, &tool(server, name), &[server]);
            assert_eq!(found, expected, "{rule} on {name:?} of {server:?}");
        }
    }

    #[test]
    fn a_normalised_name_permits_only_the_server_that_it_must_mean() {
        for (rule, server, known, expected) in [
            ("mcp__x_y", "x.y", &["x.y"][..], "reaches"),
            ("mcp__x_y", "x.y", &["x.y", "x_y"], "only forbids"),
            ("mcp__x_y", "x.y", &["x.y", "x y"], "only forbids"),
            ("mcp__x_y", "x_y", &["x.y", "x_y"], "reaches"),
            ("mcp__x.y", "x.y", &["x.y", "x_y"], "reaches"),
            ("mcp__x_y__t", "x.y", &["x.y", "x_y"], "only forbids"),
        ] {
            let found = outcome(rule, &tool(server, "t"), known);
            assert_eq!(found, expected, "{rule} on {server:?} beside {known:?}");
        }
    }

    #[test]
    fn of_tools_that_come_to_one_name_only_the_one_that_has_it_is_permitted_by_it() {
        let part = server_tools_of("s", ["a.b", "a_b"].map(|name| json!({"name": name})));
        let (mut first, mut second) = (None, None);
        for tool in part.iter() {
            let is_first = tool.name == "mcp__s__a_b";
            *(if is_first { &mut first } else { &mut second }) = Some(tool);
        }
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(outcome("mcp__s__a_b", first, &["s"]), "names");
        assert_eq!((&*first.tool.name, &*second.tool.name), ("a.b", "a_b"));
        // Its original name.
        assert_eq!(outcome("mcp__s__a_b", second, &["s"]), "names");
        assert_eq!(outcome(&second.name, second, &["s"]), "names");
        assert_eq!(outcome(&second.name, first, &["s"]), "-");
        let part = server_tools_of("s", ["a b", "a.b"].map(|name| json!({"name": name})));
        let renamed = part.iter().find(|tool| tool.name != "mcp__s__a_b").unwrap();
        assert_eq!(outcome("mcp__s__a_b", renamed, &["s"]), "only forbids");
    }

    #[test]
    fn a_long_name_is_matched_as_it_is_and_as_it_was_shortened() {
        let long = tool("s", &"x".repeat(80));
        let whole = format!("mcp__s__{}", "x".repeat(80));
        for rule in [&whole, &long.name] {
            assert_eq!(outcome(rule, &long, &["s"]), "names", "{rule}");
        }
    }

    #[test]
    fn a_server_is_forbidden_as_a_whole_or_not_at_all() {
        for (rule, server, expected) in [
            ("mcp__a b", "a b", true),
            ("mcp__a_b", "a b", true),
            ("mcp__a_b__*", "a b", true),
            ("mcp__a_b__**", "a b", true),
            ("mcp__\"a b\"", "a b", true),
            ("mcp__\"a b\"__*", "a b", true),
            ("mcp__*", "a b", true),
            ("mcp__*__*", "a b", true),
            ("*", "a b", true),
            ("mcp__a_b__get", "a b", false),
            ("mcp__a", "a b", false),
            ("a_b", "a b", false),
            ("mcp__\"a b\"__get", "a b", false),
            ("mcp__a__b", "a__b", true),
        ] {
            let found = ToolPattern::of_rule(rule).forbids_server(server);
            assert_eq!(found, expected, "{rule} on {server:?}");
        }
    }

    #[test]
    fn a_scope_may_name_tools_as_their_servers_do() {
        for (text, server, name, permits, forbids) in [
            ("get*", "s", "get_all", true, true),
            ("get", "s", "get_all", false, false),
            ("a_b", "s", "a.b", false, true),
            ("mcp__x__*", "y", "mcp__x__read", false, true),
            ("mcp__y__*", "y", "mcp__x__read", true, true),
        ] {
            let (scope, tool) = (ToolPattern::of_scope(text), tool(server, name));
            let found = scope.permits(&tool, &[server][..]).is_some();
            assert_eq!(found, permits, "{text} on {name:?} of {server:?}");
            assert_eq!(scope.forbids(&tool), forbids, "{text} on {name:?}");
        }
    }

    #[test]
    fn every_tool_has_a_rule_that_names_it() {
        for (server, name, rule) in [
            ("github", "get", "mcp__github__get"),
            ("my server", "a.b", "mcp__my_server__a_b"),
            ("a__b", "c", "mcp__\"a__b\"__c"),
            ("GitHub (work)", "get", "mcp__\"GitHub (work)\"__get"),
            ("\u{fc}n\u{ef}", "t", "mcp__\"\u{fc}n\u{ef}\"__t"),
            ("a__b", "get*", "mcp__\"a__b\"__get_"),
        ] {
            let tool = tool(server, name);
            assert_eq!(rule_for(&tool), rule);
            assert_eq!(outcome(rule, &tool, &[server]), "names", "{rule}");
        }
    }
}
