//! What a sub-agent sees of a host (AGT-1): some of the servers and tools, over the same connections, perhaps with servers and rules of its own.

use std::sync::Arc;

use trunkline_config::{Glob, ServerEntry, normalize_name};

use crate::builtin::Builtin;
use crate::catalog::{Part, PoolTool};
use crate::connection::Source;
use crate::permission::{Permit, Rules};

/// What a sub-agent may see and do; see [`Host::agent`](crate::Host::agent).
///
/// ```
/// use trunkline::{AgentScope, Rules};
/// let reader = AgentScope::only(["github"]).tools(["mcp__github__get_*"]).rules(Rules::default().allow("mcp__github"));
/// # drop(reader);
/// ```
#[derive(Default)]
pub struct AgentScope {
    servers: Option<Vec<Glob>>,
    tools: Option<Vec<Glob>>,
    without: Vec<Glob>,
    pub(crate) own: Vec<Source>,
    pub(crate) rules: Rules,
    pub(crate) permit: Option<Arc<dyn Permit>>,
}

impl AgentScope {
    /// Everything that the host has.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only these of the host's servers, by name; `*` stands for anything.
    pub fn only<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        Self {
            servers: Some(globs(servers)),
            ..Self::default()
        }
    }

    /// None of the host's servers: only its own.
    pub fn none() -> Self {
        Self::only::<String>([])
    }

    /// Of the host's tools only these, by their names in the pool or at their server; `*` stands for anything.
    #[must_use]
    pub fn tools<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.tools = Some(globs(tools));
        self
    }

    /// None of these tools of the host.
    #[must_use]
    pub fn without<S: Into<String>>(mut self, tools: impl IntoIterator<Item = S>) -> Self {
        self.without.extend(globs(tools));
        self
    }

    /// A server of its own, which ends with it. One of the host's with the same name is hidden by it.
    #[must_use]
    pub fn server(mut self, entry: ServerEntry) -> Self {
        self.own.push(Source::Entry(Arc::new(entry)));
        self
    }

    /// A server of its own that lives in this process.
    #[must_use]
    pub fn builtin(mut self, builtin: Builtin) -> Self {
        self.own.push(Source::Builtin(Arc::new(builtin)));
        self
    }

    /// Rules of its own, in place of the host's; what those deny stays denied.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Who is asked about its calls; by default whoever the host asks.
    #[must_use]
    pub fn permit(mut self, permit: impl Permit) -> Self {
        self.permit = Some(Arc::new(permit));
        self
    }

    /// Whether it sees a server of the host.
    pub(crate) fn has_server(&self, name: &str) -> bool {
        let fits = |glob: &Glob| glob.matches(name) || glob.matches(&normalize_name(name));
        self.servers
            .as_ref()
            .is_none_or(|servers| servers.iter().any(fits))
    }

    /// Those of a server's tools that it sees.
    pub(crate) fn part(&self, part: &Arc<Part>) -> Arc<Part> {
        if self.tools.is_none() && self.without.is_empty() {
            return Arc::clone(part);
        }
        Arc::new(part.only(|tool| self.has_tool(tool)))
    }

    fn has_tool(&self, tool: &PoolTool) -> bool {
        let fits = |glob: &Glob| glob.matches(&tool.name) || glob.matches(&tool.tool.name);
        let wanted = self.tools.as_ref();
        wanted.is_none_or(|tools| tools.iter().any(fits)) && !self.without.iter().any(fits)
    }
}

fn globs<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Vec<Glob> {
    texts.into_iter().map(Glob::new).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::testing::part_of;

    #[test]
    fn a_scope_chooses_servers_and_tools() {
        assert!(AgentScope::all().has_server("any"));
        assert!(!AgentScope::none().has_server("any"));
        let scope = AgentScope::only(["git*", "my_server"]);
        assert!(scope.has_server("github") && scope.has_server("my server"));
        assert!(!scope.has_server("files"));

        let part = part_of(
            "s",
            ["get", "get_all", "put"].map(|name| json!({"name": name})),
        );
        let names = |scope: AgentScope| {
            let part = scope.part(&part);
            let names = part.iter().map(|tool| tool.tool.name.to_string());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(AgentScope::all()), "get get_all put");
        assert_eq!(names(AgentScope::all().tools(["get*"])), "get get_all");
        let scope = AgentScope::all().tools(["mcp__s__*"]).without(["put"]);
        assert_eq!(names(scope), "get get_all");
        assert_eq!(names(AgentScope::all().tools::<String>([])), "");
    }
}
