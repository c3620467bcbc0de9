//! The pool of a host: put together when somebody asks for it and something has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Above, Host, lock};
use crate::call::CallError;
use crate::catalog::{Part, Pool, may_belong_to};
use crate::connection::Connection;
use crate::context;
use crate::suggest::nearest;

/// A pool and the count of catalog changes that it includes.
pub(super) struct Built {
    catalogs: u64,
    pool: Arc<Pool>,
}

impl Built {
    /// Before anybody has asked: the count is one that is never reached.
    pub(super) fn nothing() -> Self {
        Self {
            catalogs: u64::MAX,
            pool: Arc::default(),
        }
    }
}

impl Host {
    /// The tools of all servers: an immutable snapshot, put together when something has changed since the last. Lists that are
    /// no longer fresh are fetched again in the background.
    pub fn pool(&self) -> Arc<Pool> {
        self.refresh_stale();
        let catalogs = &self.inner.context.catalogs;
        let built = self.inner.pool.load();
        if built.catalogs == catalogs.load(Ordering::Acquire) {
            return Arc::clone(&built.pool);
        }
        let _building = lock(&self.inner.building);
        // Counted before looking: a change in between makes this one out of date at once, not forgotten.
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

    /// The tools of each server, as far as they are seen from here, in the order of the servers' names.
    fn parts(&self) -> Vec<Arc<Part>> {
        let tools = |connection: &Arc<Connection>| Arc::clone(&connection.status().catalog.tools);
        let Some(Above { scope, host }) = &self.inner.above else {
            return self.inner.connections.load().values().map(tools).collect();
        };
        let own = self.inner.connections.load();
        let hidden = |tool: &Arc<Part>| {
            let server = tool.first().map(|tool| &tool.server);
            server.is_some_and(|server| own.contains_key(server) || !scope.has_server(server))
        };
        let mut parts = host.parts();
        parts.retain(|part| !hidden(part));
        let seen = parts.iter().map(|part| scope.part(part));
        let mut parts: Vec<_> = seen.chain(own.values().map(tools)).collect();
        parts.retain(|part| !part.is_empty());
        parts.sort_by(|a, b| a[0].server.cmp(&b[0].server));
        parts
    }

    /// The error for a name that is in no pool: its server may be down, or it may be misspelt.
    pub(crate) fn unknown_tool(&self, name: &str, pool: &Pool) -> CallError {
        let down = self
            .servers()
            .into_iter()
            .find(|status| status.catalog.tools.is_empty() && may_belong_to(name, &status.name));
        match down {
            Some(status) if !matches!(status.state, crate::State::Connected(_)) => {
                CallError::NotConnected {
                    server: status.name.to_string(),
                    state: status.state.clone(),
                }
            }
            _ => CallError::UnknownTool {
                name: name.to_owned(),
                suggestion: nearest(
                    name,
                    pool.tools()
                        .iter()
                        .map(|tool| tool.name.as_str())
                        .filter(|known| *known != name),
                )
                .map(str::to_owned),
            },
        }
    }
}
