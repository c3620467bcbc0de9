//! The pool of a host, rebuilt on demand after a change.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trunkline_config::{EntryStatus, ToolFilter};

use super::{Host, Parent, lock};
use crate::call::{Arguments, CallError, CallOptions, Cause};
use crate::catalog::{Pool, PoolTool, ServerTools, may_belong_to, tool_name};
use crate::connection::{Connection, ServerStatus, Source, State};
use crate::context;
use crate::result::CallOutput;
use trunkline_config::nearest;

/// A pool and the count of catalog changes that it includes.
pub(super) struct Built {
    catalogs: u64,
    pool: Arc<Pool>,
}

impl Built {
    /// Nothing built yet: the count is never reached.
    pub(super) fn nothing() -> Self {
        Self {
            catalogs: u64::MAX,
            pool: Arc::default(),
        }
    }
}

impl Host {
    /// Returns the tools of all servers: an immutable snapshot, rebuilt after a change. Stale lists
    /// are refreshed in the background.
    pub fn pool(&self) -> Arc<Pool> {
        self.refresh_stale();
        let catalogs = &self.inner.context.catalogs;
        let built = self.inner.pool.load();
        if built.catalogs == catalogs.load(Ordering::Acquire) {
            return Arc::clone(&built.pool);
        }
        let _building = lock(&self.inner.building);
        // Load the count first: a concurrent change then makes this pool stale instead of getting
        // lost.
        let count = catalogs.load(Ordering::Acquire);
        let built = self.inner.pool.load();
        if built.catalogs == count {
            return Arc::clone(&built.pool);
        }
        let own = if context::tools_needed(&self.statuses()) {
            &self.inner.own_tools_and_resources
        } else {
            &self.inner.own_tools
        };
        let pool = Arc::new(Pool::of(own, &self.parts()));
        self.inner.pool.store(Arc::new(Built {
            catalogs: count,
            pool: Arc::clone(&pool),
        }));
        pool
    }

    /// Calls the tool that `server` lists as `tool`, whatever its name in the pool.
    ///
    /// # Errors
    ///
    /// As for [`Host::call`].
    pub async fn call_on(
        &self,
        server: &str,
        tool: &str,
        arguments: impl Into<Arguments>,
        options: CallOptions<'_>,
    ) -> Result<CallOutput, CallError> {
        if self.pool().find(server, tool).is_none() {
            // A server that is still connecting has no tools yet.
            let _ = self.ready_for(server).await;
        }
        let found = self.pool().find(server, tool).map(|tool| tool.name.clone());
        let name = found.unwrap_or_else(|| tool_name(server, tool));
        self.call(&name, arguments, options).await
    }

    /// Returns the visible tools of each server, in the order of the servers' names.
    fn parts(&self) -> Vec<Arc<ServerTools>> {
        let tools = |connection: &Arc<Connection>| connection.tools();
        let Some(Parent { scope, host }) = &self.inner.parent else {
            return self.inner.connections.load().values().map(tools).collect();
        };
        let own = self.inner.connections.load();
        let hidden = |tool: &Arc<ServerTools>| {
            let server = tool.first().map(|tool| &tool.server);
            server.is_some_and(|server| own.contains_key(server) || !scope.has_server(server, host))
        };
        let mut parts = host.parts();
        parts.retain(|part| !hidden(part));
        let seen = parts.iter().map(|part| scope.part(part, host));
        let mut parts: Vec<_> = seen.chain(own.values().map(tools)).collect();
        parts.retain(|part| !part.is_empty());
        parts.sort_by(|a, b| a[0].server.cmp(&b[0].server));
        parts
    }

    /// Returns the error for an unknown name: its server may be down or may not run, or the name
    /// may be misspelt.
    pub(crate) fn unknown_tool(&self, name: &str, pool: &Pool) -> CallError {
        if self.is_shut_down() {
            return CallError::shut_down(name);
        }
        match self.owner(name) {
            Some(Owner::NotRunning { server, standing }) => {
                CallError::from(Cause::NotRunning { server, standing })
            }
            Some(Owner::Known(status))
                if matches!(status.state, State::NeedsAuth(_))
                    || (status.catalog.tools.is_empty()
                        && !matches!(status.state, State::Connected(_))) =>
            {
                CallError::not_connected(&status.name, status.state.clone())
            }
            owner => {
                if let Some(Owner::Known(status)) = &owner
                    && let Some(hidden) = self.hidden_tool(status, name)
                {
                    return CallError::from(hidden);
                }
                // A similarly named tool of another server does something else.
                let server = match &owner {
                    Some(Owner::Known(status)) => Some(&status.name),
                    _ => None,
                };
                let of_server =
                    |tool: &&Arc<PoolTool>| server.is_none_or(|server| tool.server == *server);
                let tools = pool.tools().iter().filter(of_server);
                let names = tools.map(|tool| tool.name.as_str());
                CallError::from(Cause::UnknownTool {
                    tool: name.to_owned(),
                    suggestion: nearest(name, names.filter(|known| *known != name))
                        .map(str::to_owned),
                })
            }
        }
    }

    /// Returns the cause for a tool that the filter in its server's entry hides.
    fn hidden_tool(&self, status: &ServerStatus, name: &str) -> Option<Cause> {
        let mut hidden = status.catalog.tools.hidden_tools().iter();
        let tool = hidden.find(|tool| tool_name(&status.name, tool) == name)?;
        let connection = self.connection(&status.name)?;
        let Source::Entry(entry) = connection.source() else {
            return None;
        };
        let denied = ToolFilter {
            allow: None,
            deny: entry.tools.deny.clone(),
        };
        Some(Cause::HiddenTool {
            server: status.name.to_string(),
            tool: tool.clone(),
            filter: if denied.offers(tool) {
                "tools.allow"
            } else {
                "tools.deny"
            },
            source_of_entry: entry.source.clone(),
        })
    }

    /// Returns the server that a tool's name refers to; of several, the one with the longest name.
    fn owner(&self, name: &str) -> Option<Owner> {
        let statuses = self.servers();
        let known = statuses
            .iter()
            .filter(|status| may_belong_to(name, &status.name));
        let known = known.max_by_key(|status| status.name.len());
        let config = self.config();
        let waiting = config.servers.iter().filter(|server| {
            let hidden = matches!(server.status, EntryStatus::Shadowed { .. });
            !hidden
                && !server.status.may_run()
                && self.sees(&server.entry.name)
                && may_belong_to(name, &server.entry.name)
        });
        let waiting = waiting.max_by_key(|server| server.entry.name.len());
        match (known, waiting) {
            (Some(known), Some(waiting)) if known.name.len() >= waiting.entry.name.len() => {
                Some(Owner::Known(Arc::clone(known)))
            }
            (_, Some(waiting)) => Some(Owner::NotRunning {
                server: waiting.entry.name.clone(),
                standing: waiting.status.clone(),
            }),
            (known, None) => known.map(|known| Owner::Known(Arc::clone(known))),
        }
    }

    /// Returns the connections that may still add a tool of this name.
    pub(crate) fn connecting(&self, name: &str) -> Vec<Arc<Connection>> {
        let bare = self.settings().sdk_without_prefix;
        let connections = self.connections();
        let wanted = connections.values().filter(|connection| {
            let status = connection.status();
            matches!(status.state, State::Pending { .. })
                && status.catalog.tools.is_empty()
                && (may_belong_to(name, &status.name)
                    || (bare && connection.source().is_embedded()))
        });
        wanted.cloned().collect()
    }
}

/// The server that a tool's name refers to.
enum Owner {
    Known(Arc<ServerStatus>),
    /// The server is configured but may not run.
    NotRunning {
        server: String,
        standing: EntryStatus,
    },
}
