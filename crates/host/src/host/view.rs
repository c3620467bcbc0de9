//! The servers that a host or an agent sees (AGT-1): all of them, or those in the agent's scope and
//! its own.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::pool::Built;
use super::{Connections, Host, Inner, Parent, ServerFilter, lock};
use crate::agent::AgentScope;
use crate::connection::Connection;
use crate::event::Events;
use crate::permission::Rules;
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
    /// A view of this host for a sub-agent, over the same connections (AGT-1). It sees what `scope`
    /// allows; its shutdown, or dropping its last clone, closes only its own servers.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn agent(&self, mut scope: AgentScope) -> Self {
        let own = std::mem::take(&mut scope.own);
        let rules = std::mem::take(&mut scope.rules);
        let guard = self.inner.guard.below(rules, scope.permit.take());
        let agent = Self {
            inner: Arc::new(Inner {
                owner: scope.client.take(),
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
        lock(&self.root().inner.changing).watch_agent(&agent.inner);
        agent
    }

    /// All connections: its own, and those that an agent sees of its host.
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

    /// The connection to a visible server.
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

    /// Subscribes to changes of servers and configuration, in batches. The stream ends with
    /// [`Host::shutdown`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use trunkline::{Builtin, Host};
    ///
    /// let host = Host::builder().start();
    /// let mut events = host.events();
    /// host.add_builtin(Builtin::new("clock"));
    /// let changes = events.next().await.unwrap();
    /// assert!(changes.servers.contains("clock"));
    /// host.shutdown().await;
    /// while events.next().await.is_some() {}
    /// # }
    /// ```
    pub fn events(&self) -> Events {
        let closed = self.inner.closed.subscribe();
        let filter = self.inner.parent.as_ref().map(|_| {
            let seen = Arc::downgrade(&self.inner);
            Arc::new(move |server: &str| {
                let host = seen.upgrade().map(Self::from_inner);
                host.is_some_and(|host| host.sees(server))
            }) as ServerFilter
        });
        self.inner.context.events.subscribe(closed, filter)
    }

    /// Replaces the rules given to [`HostBuilder::rules`](crate::HostBuilder::rules), or those of
    /// the agent; rules of settings files stay. Tools that the user approved are checked again.
    pub fn set_rules(&self, rules: Rules) {
        self.inner.guard.set_rules(rules);
    }

    /// Whether a server is visible here.
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
