//! What is seen from here: everything, or for an agent (AGT-1) what is its own and what its scope lets it see of the host parent.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::pool::Built;
use super::{Connections, Host, Inner, Parent, lock};
use crate::agent::AgentScope;
use crate::connection::Connection;
use crate::event::Events;
use crate::permission::pattern::{KnownServers, is_anothers};

impl KnownServers for Host {
    fn others_have(&self, name: &str, server: &str) -> bool {
        let config = self.config();
        let configured = config.servers.iter().map(|known| &*known.entry.name);
        let connections = self.connections();
        let known = connections.keys().map(|known| &**known);
        is_anothers(known.chain(configured), name, server)
    }
}

impl Host {
    /// A view of this host for a sub-agent, over the same connections (AGT-1): it is called like a host, sees what `scope` lets it
    /// see, and its shutdown, or dropping the last clone of it, ends only the servers that are its own. Must be called on a Tokio
    /// runtime.
    pub fn agent(&self, mut scope: AgentScope) -> Self {
        let own = std::mem::take(&mut scope.own);
        let rules = std::mem::take(&mut scope.rules);
        let guard = self.inner.guard.below(rules, scope.permit.take());
        let agent = Self {
            inner: Arc::new(Inner {
                guard: Arc::new(guard),
                discovery: None,
                bypass_policy: self.inner.bypass_policy,
                context: Arc::clone(&self.inner.context),
                connections: ArcSwap::default(),
                changing: Mutex::default(),
                building: Mutex::default(),
                own_tools: scope.host_tools(&self.inner.own_tools),
                own_tools_and_resources: scope.host_tools(&self.inner.own_tools_and_resources),
                pool: ArcSwap::from_pointee(Built::nothing()),
                events: None,
                ended: AtomicBool::new(false),
                closed: watch::Sender::new(false),
                parent: Some(Parent {
                    host: self.clone(),
                    scope,
                }),
            }),
        };
        agent.add_all(own);
        let mut root = self;
        while let Some(parent) = &root.inner.parent {
            root = &parent.host;
        }
        lock(&root.inner.changing).watch_agent(&agent.inner);
        agent
    }

    /// All connections: its own, and for an agent those that it sees of the host it works for.
    pub(super) fn connections(&self) -> Arc<Connections> {
        let own = self.inner.connections.load_full();
        let Some(Parent { host, scope }) = &self.inner.parent else {
            return own;
        };
        let mut all = Connections::clone(&host.connections());
        all.retain(|name, _| scope.has_server(name, host));
        all.extend(
            own.iter()
                .map(|(name, own)| (Arc::clone(name), Arc::clone(own))),
        );
        Arc::new(all)
    }

    /// The connection to a server that is seen from here.
    pub(crate) fn connection(&self, server: &str) -> Option<Arc<Connection>> {
        let own = self.own_connection(server);
        own.or_else(|| {
            let parent = self.inner.parent.as_ref()?;
            let seen = parent.scope.has_server(server, &parent.host);
            seen.then(|| parent.host.connection(server)).flatten()
        })
    }

    pub(super) fn own_connection(&self, server: &str) -> Option<Arc<Connection>> {
        self.inner.connections.load().get(server).cloned()
    }

    /// Changes of state and catalog from now on, in batches. They end with [`Host::shutdown`].
    pub fn events(&self) -> Events {
        let closed = self.inner.closed.subscribe();
        let events = self.inner.context.events.subscribe(closed);
        if self.inner.parent.is_none() {
            return events;
        }
        let seen = Arc::downgrade(&self.inner);
        events.of(move |server| {
            let host = seen.upgrade().map(Self::from_inner);
            host.is_some_and(|host| host.sees(server))
        })
    }

    /// Whether a server is its own, or seen by the agent whose this is.
    pub(super) fn sees(&self, server: &str) -> bool {
        match &self.inner.parent {
            None => true,
            Some(Parent { host, scope }) => {
                self.inner.connections.load().contains_key(server)
                    || (scope.has_server(server, host) && host.sees(server))
            }
        }
    }
}
