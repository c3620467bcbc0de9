//! Resolves the words of a command line to a tool, or reports why there is none.

use std::sync::Arc;

use trunkline::config::normalize_name;
use trunkline::server::State;
use trunkline::text::nearest;
use trunkline::tool::{HostTool, Pool, PoolTool, TOOL_SEARCH, may_belong_to, tool_name};
use trunkline::{Host, HostBuilder};
use trunkline_config::{CONNECTOR_PREFIX, Server};

use super::tools::no_servers;
use crate::exit::Exit;
use crate::output;
use crate::session::{self, Configured};
use crate::standing::{self, quoted};

/// The host's built-in tools.
const BUILT_IN: [&str; 3] = ["ListMcpResources", "ReadMcpResource", TOOL_SEARCH];

/// A tool as named on the command line, and the words after it.
pub(crate) enum ToolRef<'a> {
    /// `<server> <tool>`
    Of {
        server: &'a str,
        tool: &'a str,
        words: &'a [String],
    },
    /// `mcp__<server>__<tool>`
    Named { name: &'a str, words: &'a [String] },
    /// A built-in tool of the host.
    BuiltIn { name: &'a str, words: &'a [String] },
}

/// A tool in the pool.
#[derive(Clone, Copy)]
pub(crate) enum ResolvedTool<'p> {
    Server(&'p Arc<PoolTool>),
    BuiltIn(&'p HostTool),
}

impl<'a> ToolRef<'a> {
    /// Parses the words. An `Err` has been reported.
    pub(crate) fn parse(words: &'a [String], configured: &Configured) -> Result<Self, Exit> {
        let names = configured.names();
        let is_known = |name: &str| names.contains(&name) || name.starts_with(CONNECTOR_PREFIX);
        if names.is_empty() && session::connectors(configured.loader.layout()).is_none() {
            return Err(no_servers(configured));
        }
        match words {
            [name, words @ ..] if BUILT_IN.contains(&name.as_str()) && !is_known(name) => {
                Ok(Self::BuiltIn { name, words })
            }
            [name, words @ ..] if name.starts_with("mcp__") && !is_known(name) => {
                let of_it = || {
                    let all = configured.set.servers.iter();
                    all.filter(|server| may_belong_to(name, &server.entry.name))
                };
                let runs = |server: &Server| standing::reason(server).is_none();
                match of_it().next() {
                    Some(server) if !of_it().any(runs) => Err(standing::refuse(server)),
                    None if session::connectors(configured.loader.layout()).is_none() => {
                        Err(no_server_of(name, configured))
                    }
                    _ => Ok(Self::Named { name, words }),
                }
            }
            [word, words @ ..] if !is_known(word) && joined(word, &names).is_some() => {
                let (server, tool) = joined(word, &names).unwrap_or((word, ""));
                Self::of(server, tool, words, configured)
            }
            [server, ..] if !is_known(server) => Err(unknown_server(words, configured)),
            [server, tool, words @ ..] => Self::of(server, tool, words, configured),
            _ => {
                let hint = "usage: `trunkline call <server> <tool>`; list them with `trunkline tools <server>`";
                output::error("no tool given", Some(hint));
                Err(Exit::Usage)
            }
        }
    }

    /// Refers to a tool of a server. An `Err` has been reported.
    fn of(
        server: &'a str,
        tool: &'a str,
        words: &'a [String],
        configured: &Configured,
    ) -> Result<Self, Exit> {
        if let Some(server) = configured.foremost(server)
            && standing::reason(server).is_some()
        {
            return Err(standing::refuse(server));
        }
        Ok(Self::Of {
            server,
            tool,
            words,
        })
    }

    /// Returns whether a single word names a tool rather than a server.
    pub(crate) fn is_tool(word: &str, configured: &Configured) -> bool {
        let looks_so = word.starts_with("mcp__") || BUILT_IN.contains(&word);
        looks_so && !configured.names().contains(&word)
    }

    /// Returns a filter for the servers that may have the tool; no other needs to start.
    pub(crate) fn servers(&self) -> impl Fn(&str) -> bool + Send + Sync + 'static + use<> {
        let (exact, name) = match self {
            Self::Of { server, .. } => (Some(true), (*server).to_owned()),
            Self::Named { name, .. } => (Some(false), (*name).to_owned()),
            Self::BuiltIn { .. } => (None, String::new()),
        };
        move |server| match exact {
            Some(true) => server == name,
            Some(false) => may_belong_to(&name, server),
            None => true,
        }
    }

    /// Returns a builder for a host with the servers that may have the tool.
    pub(crate) fn host(&self, configured: Configured) -> HostBuilder {
        let may_be_connector = match self {
            Self::Of { server, .. } => server.starts_with(CONNECTOR_PREFIX),
            Self::Named { name, .. } => name.starts_with("mcp__claude_ai_"),
            Self::BuiltIn { .. } => true,
        };
        let builder = configured.host_with_daemon().only(self.servers());
        let connectors = may_be_connector.then(|| session::connectors(&session::layout()));
        match connectors.flatten() {
            Some(connectors) => builder.connectors(connectors),
            None => builder,
        }
    }

    /// Returns the words after the tool's name.
    pub(crate) fn words(&self) -> &'a [String] {
        match self {
            Self::Of { words, .. } | Self::Named { words, .. } | Self::BuiltIn { words, .. } => {
                words
            }
        }
    }

    /// Looks the tool up in the pool.
    pub(crate) fn find<'p>(&self, pool: &'p Pool) -> Option<ResolvedTool<'p>> {
        match self {
            Self::Of { server, tool, .. } => pool.find(server, tool).map(ResolvedTool::Server),
            Self::Named { name, .. } => pool.get(name).map(ResolvedTool::Server),
            Self::BuiltIn { name, .. } => pool.own_tool(name).map(ResolvedTool::BuiltIn),
        }
    }

    /// Reports why the tool is missing: its server failed, or the name is unknown.
    pub(crate) fn report_missing(&self, host: &Host) -> Exit {
        let servers = host.servers();
        if let Some(exit) = servers.iter().find_map(|server| report_down(server)) {
            return exit;
        }
        if let Self::BuiltIn { name, .. } = self {
            let what = format!("there is no \"{name}\": no server has resources");
            output::error(&what, Some("see `trunkline status`"));
            return Exit::Usage;
        }
        let name = match self {
            Self::Of { server, tool, .. } => tool_name(server, tool),
            Self::Named { name, .. } | Self::BuiltIn { name, .. } => (*name).to_owned(),
        };
        if let Err(error) = host.find_tool(&name)
            && error.server().is_some()
        {
            output::error(&error.to_string(), error.hint().as_deref());
            return Exit::from(&error);
        }
        let pool = host.pool();
        let (what, near) = match self {
            Self::Of { server, tool, .. } => (
                format!("the server \"{server}\" has no tool \"{tool}\""),
                similar(tool, pool.tools().iter().map(|tool| &*tool.tool.name)),
            ),
            Self::Named { name, .. } | Self::BuiltIn { name, .. } => (
                format!("there is no tool \"{name}\""),
                similar(name, pool.tools().iter().map(|tool| tool.name.as_str())),
            ),
        };
        let hint = match (near, &servers[..]) {
            (Some(near), _) => format!("did you mean \"{near}\"?"),
            (None, [server]) => {
                let server = quoted(&server.name);
                format!("list them with `trunkline tools {server}`")
            }
            (None, _) => "list them with `trunkline tools`".to_owned(),
        };
        for problem in servers
            .iter()
            .flat_map(|server| server.catalog.diagnostics.iter())
        {
            output::warning(problem);
        }
        output::error(&what, Some(&hint));
        Exit::Usage
    }
}

/// Reports a server that has no tools because of its state.
fn report_down(server: &trunkline::server::ServerStatus) -> Option<Exit> {
    if let Some(failure) = server.state.failure() {
        output::error(
            &format!("could not connect to \"{}\": {failure}", server.name),
            standing::thorough_hint(server).as_deref(),
        );
        output::stderr_lines(&server.name, &failure.stderr);
        return Some(Exit::NotConnected);
    }
    if let Some(asked) = server.state.sign_in() {
        let what = format!("could not connect to \"{}\": {asked}", server.name);
        output::error(&what, standing::state_hint(server).as_deref());
        return Some(Exit::NeedsAuth);
    }
    if matches!(server.state, State::Disabled) {
        return Some(standing::disabled(&server.name));
    }
    // A failed list explains the missing tool better than a suggestion.
    let failed = |problem: &&String| problem.starts_with("tools/list failed");
    let problem = server.catalog.diagnostics.iter().find(failed)?;
    output::error(
        &format!(
            "the tools of \"{}\" could not be listed: {problem}",
            server.name
        ),
        None,
    );
    if let State::Connected(connected) = &server.state {
        output::stderr_lines(&server.name, &connected.stderr(10));
    }
    Some(Exit::NotConnected)
}

/// Returns a similar name: the nearest by spelling, or the only one that contains it.
fn similar<'n>(wanted: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<&'n str> {
    nearest(wanted, names.clone()).or_else(|| {
        let lowered = wanted.to_lowercase();
        let mut having = names.filter(|name| name.to_lowercase().contains(&lowered));
        let first = having.next()?;
        having.next().is_none().then_some(first)
    })
}

/// Reports a tool name that belongs to no server.
fn no_server_of(name: &str, configured: &Configured) -> Exit {
    configured.warn();
    let servers = configured.names();
    let rest = name.strip_prefix("mcp__").unwrap_or(name);
    let written = rest.split("__").next().unwrap_or_default();
    let normalized: Vec<String> = servers.iter().map(|name| normalize_name(name)).collect();
    let near = nearest(written, normalized.iter().map(String::as_str));
    let meant = near.and_then(|near| normalized.iter().position(|name| name == near));
    let hint = match meant {
        Some(at) => format!(
            "did you mean a tool of \"{}\"? list them with `trunkline tools {}`",
            servers[at],
            quoted(servers[at])
        ),
        None => "list them with `trunkline tools`".to_owned(),
    };
    output::error(&format!("there is no tool \"{name}\""), Some(&hint));
    Exit::Usage
}

/// Splits `server.tool` or `server/tool` at the end of a known server's name, the longest if
/// several fit.
fn joined<'w>(word: &'w str, names: &[&str]) -> Option<(&'w str, &'w str)> {
    let split = |name: &&str| {
        let tool = word.strip_prefix(*name)?.strip_prefix(['/', '.'])?;
        (!tool.is_empty()).then(|| (&word[..name.len()], tool))
    };
    let found = names.iter().filter_map(split);
    found.max_by_key(|(server, _)| server.len())
}

/// Reports an unknown server. The word may be a tool, or a server and a tool in one.
fn unknown_server(words: &[String], configured: &Configured) -> Exit {
    let [word, rest @ ..] = words else {
        return configured.unknown("");
    };
    let names = configured.names();
    let both = ['/', ':', '.'].into_iter().find_map(|between| {
        let (server, tool) = word.split_once(between)?;
        names.contains(&server).then_some((server, tool))
    });
    let is_alone = rest.first().is_none_or(|next| next.contains('='));
    let hint = match both {
        Some((server, tool)) => format!("use `trunkline call {} {}`", quoted(server), quoted(tool)),
        None if is_alone && nearest(word, names.iter().copied()).is_none() => format!(
            "usage: `trunkline call <server> <tool>`; find its server with `trunkline search select:{}`",
            quoted(word)
        ),
        None => return configured.unknown(word),
    };
    configured.warn();
    output::error(&format!("there is no server \"{word}\""), Some(&hint));
    Exit::Usage
}
