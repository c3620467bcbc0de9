//! The part of a host that a sub-agent sees (AGT-1): some servers and tools, over the same
//! connections, with servers and rules of its own.

use std::sync::Arc;

use trunkline_config::ServerEntry;

use crate::builtin::Builtin;
use crate::catalog::{PoolTool, ServerTools};
use crate::connection::Source;
use crate::host_tool::HostTool;
use crate::permission::pattern::{KnownServers, ServerPattern, ToolPattern};
use crate::permission::{Permit, Rules};

/// What a sub-agent may see and do; see [`Host::agent`](crate::Host::agent).
///
/// ```
/// use trunkline::permission::Rules;
/// use trunkline::{AgentScope, Builtin, Host};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let schema = serde_json::json!({"type": "object"});
/// let files = Builtin::new("files")
///     .tool("read", "Reads a file", &schema, |_| async { Ok("text".into()) })
///     .tool("delete", "Deletes a file", &schema, |_| async { Ok("deleted".into()) });
/// let host = Host::builder().builtin(files).start();
/// host.ready().await;
///
/// let scope = AgentScope::only(["files"]).tools(["mcp__files__read"]);
/// let reader = host.agent(scope.rules(Rules::default().allow("mcp__files")));
/// assert_eq!(reader.pool().tools().len(), 1);
/// # host.shutdown().await;
/// # }
/// ```
#[derive(Default)]
pub struct AgentScope {
    servers: Option<Vec<ServerPattern>>,
    tools: Option<Vec<ToolPattern>>,
    without: Vec<ToolPattern>,
    pub(crate) own: Vec<Source>,
    pub(crate) rules: Rules,
    pub(crate) permit: Option<Arc<dyn Permit>>,
    pub(crate) client: Option<Arc<str>>,
    filter: Option<ToolFilter>,
}

/// Selects tools.
type ToolFilter = Box<dyn Fn(&PoolTool) -> bool + Send + Sync>;

impl AgentScope {
    /// All servers and tools of the host.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only these servers of the host, by name; `*` matches anything. Hides tools that the program
    /// added to the host ([`HostBuilder::tool`](crate::HostBuilder::tool)) unless
    /// [`AgentScope::tools`] names them.
    pub fn only<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        let servers = servers.into_iter().map(ServerPattern::new);
        Self {
            servers: Some(servers.collect()),
            ..Self::default()
        }
    }

    /// No servers of the host, and no tools that the program added to it.
    pub fn none() -> Self {
        Self::only::<String>([])
    }

    /// Only these tools of the host: named as in a rule (`mcp__server`, `mcp__server__tool`), as
    /// the server lists them, or as the program added them; `*` matches anything. The tools that
    /// search tools and read resources stay.
    #[must_use]
    pub fn tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.tools = Some(patterns(tools));
        self
    }

    /// Hides these tools of the host, named as for [`AgentScope::tools`].
    #[must_use]
    pub fn without<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.without.extend(patterns(tools));
        self
    }

    /// Adds a server for this agent, which closes with it and hides one of the host of the same
    /// name.
    #[must_use]
    pub fn server(mut self, entry: ServerEntry) -> Self {
        self.own.push(Source::Entry(Arc::new(entry)));
        self
    }

    /// Adds a server for this agent, implemented in the program.
    #[must_use]
    pub fn builtin(mut self, builtin: Builtin) -> Self {
        self.own.push(Source::Builtin(Arc::new(builtin)));
        self
    }

    /// Adds rules that replace the host's, except that denied tools stay denied.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Decides about its calls. Defaults to the host's.
    #[must_use]
    pub fn permit(mut self, permit: impl Permit) -> Self {
        self.permit = Some(Arc::new(permit));
        self
    }

    /// Only the tools of the host that `filter` selects as well.
    #[must_use]
    pub fn filter(mut self, filter: impl Fn(&PoolTool) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Box::new(filter));
        self
    }

    /// Names the client that the servers of this agent belong to: questions that they ask outside
    /// of calls are for it.
    #[must_use]
    pub fn client(mut self, client: impl Into<Arc<str>>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Whether it sees a server of the host.
    pub(crate) fn has_server(&self, name: &str, known: &(impl KnownServers + ?Sized)) -> bool {
        self.servers
            .as_ref()
            .is_none_or(|servers| servers.iter().any(|server| server.matches(name, known)))
    }

    /// The tools of a server that it sees.
    pub(crate) fn part(
        &self,
        part: &Arc<ServerTools>,
        known: &(impl KnownServers + ?Sized),
    ) -> Arc<ServerTools> {
        if self.tools.is_none() && self.without.is_empty() && self.filter.is_none() {
            return Arc::clone(part);
        }
        Arc::new(part.filtered(|tool| self.has_tool(tool, known)))
    }

    fn has_tool(&self, tool: &PoolTool, known: &(impl KnownServers + ?Sized)) -> bool {
        let wanted = |pattern: &ToolPattern| pattern.permits(tool, known).is_some();
        let tools = self.tools.as_ref();
        tools.is_none_or(|tools| tools.iter().any(wanted))
            && !self.without.iter().any(|pattern| pattern.forbids(tool))
            && self.filter.as_ref().is_none_or(|filter| filter(tool))
    }

    /// The host's tools that it sees.
    pub(crate) fn host_tools(&self, tools: &[HostTool]) -> Arc<[HostTool]> {
        let seen = tools.iter().filter(|tool| self.has_host_tool(tool));
        seen.cloned().collect()
    }

    fn has_host_tool(&self, tool: &HostTool) -> bool {
        let named = |pattern: &ToolPattern| pattern.matches_host_tool(&tool.name);
        let wanted = match &self.tools {
            // They work on whatever the agent sees.
            _ if tool.serves_every_agent => true,
            Some(tools) => tools.iter().any(named),
            None => self.servers.is_none(),
        };
        wanted && !self.without.iter().any(named)
    }
}

fn patterns<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Vec<ToolPattern> {
    let texts = texts.into_iter();
    texts
        .map(|text| ToolPattern::of_scope(&text.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::testing::{server_tools_of, tool};

    #[test]
    fn a_scope_chooses_servers_and_tools() {
        let known: &[&str] = &["any", "github", "my server", "files", "x.y", "x_y"];
        assert!(AgentScope::all().has_server("any", known));
        assert!(!AgentScope::none().has_server("any", known));
        let scope = AgentScope::only(["git*", "my_server", "x_y"]);
        assert!(scope.has_server("github", known) && scope.has_server("my server", known));
        assert!(!scope.has_server("files", known));
        assert!(scope.has_server("x_y", known) && !scope.has_server("x.y", known));

        let part = server_tools_of(
            "s",
            ["get", "get_all", "put"].map(|name| json!({"name": name})),
        );
        let names = |scope: AgentScope| {
            let part = scope.part(&part, known);
            let names = part.iter().map(|tool| tool.tool.name.to_string());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(AgentScope::all()), "get get_all put");
        assert_eq!(names(AgentScope::all().tools(["get*"])), "get get_all");
        let scope = AgentScope::all().tools(["mcp__s__*"]).without(["put"]);
        assert_eq!(names(scope), "get get_all");
        assert_eq!(names(AgentScope::all().tools::<String>([])), "");
    }

    #[test]
    fn a_pattern_for_one_server_does_not_reach_anothers_tools() {
        let known: &[&str] = &["x", "y", "x__z"];
        let reaches = |scope: &AgentScope, server: &str, name: &str| {
            scope.has_tool(&tool(server, name), known)
        };
        let scope = AgentScope::all().tools(["mcp__x__*"]);
        assert!(reaches(&scope, "x", "read"));
        assert!(!reaches(&scope, "y", "mcp__x__read"));
        assert!(!reaches(&scope, "x__z", "read"));
        // A hidden tool is hidden in every reading of the pattern.
        let scope = AgentScope::all().without(["mcp__x__*"]);
        assert!(!reaches(&scope, "x__z", "read") && reaches(&scope, "y", "read"));
    }

    #[test]
    fn a_scope_holds_for_the_hosts_own_tools_too() {
        let host_tool =
            |name: &str| HostTool::new(name, "", json!({}), |_| async { Err("".into()) });
        let search = host_tool("ToolSearch").for_every_agent();
        let tools = [host_tool("Deploy"), search];
        let seen = |scope: AgentScope| {
            let seen = scope.host_tools(&tools);
            let names: Vec<_> = seen.iter().map(|tool| tool.name.as_str()).collect();
            names.join(" ")
        };
        for (scope, expected) in [
            (AgentScope::all(), "Deploy ToolSearch"),
            (AgentScope::none(), "ToolSearch"),
            (AgentScope::only(["github"]), "ToolSearch"),
            (
                AgentScope::only(["github"]).tools(["Deploy"]),
                "Deploy ToolSearch",
            ),
            (AgentScope::all().tools(["mcp__s__*"]), "ToolSearch"),
            (AgentScope::all().tools(["*"]), "Deploy ToolSearch"),
            (AgentScope::all().without(["Dep*"]), "ToolSearch"),
            (AgentScope::all().without(["ToolSearch"]), "Deploy"),
        ] {
            assert_eq!(seen(scope), expected);
        }
    }
}
