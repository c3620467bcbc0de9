//! The servers of a host, each behind one connection: added, changed and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use trunkline_config::{EntryStatus, Server, ServerEntry, ServerSet};

use super::{Connections, Host, Inner, lock};
use crate::builtin::Builtin;
use crate::connection::{Connection, ServerStatus, Source, State};
use crate::discovery::Discovery;
use crate::server::UnknownServer;

/// State of adding and removing connections.
#[derive(Default)]
pub(super) struct Changing {
    /// Replaced connections that are closing.
    pub(super) leaving: Vec<JoinHandle<()>>,
    /// The servers from configuration files.
    discovered: BTreeSet<String>,
    /// The entries that the program added, including those that policy refuses.
    own: BTreeMap<String, Arc<ServerEntry>>,
    /// Agents, whose servers obey the same policy.
    agents: Vec<Weak<Inner>>,
    /// The servers that wait for approval.
    awaiting: BTreeSet<String>,
}

impl Changing {
    /// Checks an agent's servers against the policy when the configuration changes.
    pub(super) fn watch_agent(&mut self, agent: &Arc<Inner>) {
        self.agents.retain(|agent| agent.strong_count() > 0);
        self.agents.push(Arc::downgrade(agent));
    }

    /// The agents that still exist.
    pub(super) fn agents(&self) -> Vec<Host> {
        let agents = self.agents.iter().filter_map(Weak::upgrade);
        agents.map(Host::from_inner).collect()
    }

    /// Closes a connection in the background; resolves when nothing is left of it.
    fn leave(&mut self, connection: Arc<Connection>) -> oneshot::Receiver<()> {
        self.leaving.retain(|leaving| !leaving.is_finished());
        let (gone, left) = oneshot::channel();
        let leave = tokio::spawn(async move {
            connection.shut_down().await;
            let _ = gone.send(());
        });
        self.leaving.push(leave);
        left
    }
}

impl Host {
    /// Adds a server and starts connecting to it. The same name with the same entry is the same
    /// connection (LIF-3); with another entry, the old connection is replaced. Policy applies as
    /// for [`HostBuilder::server`](crate::HostBuilder::server). No effect after [`Host::shutdown`].
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn add(&self, entry: ServerEntry) {
        self.add_all([Source::Entry(Arc::new(entry))]);
    }

    /// Adds a server implemented in this program, in place of one of the same name.
    ///
    /// # Panics
    ///
    /// Panics outside a Tokio runtime.
    pub fn add_builtin(&self, builtin: Builtin) {
        self.add_all([Source::Builtin(Arc::new(builtin))]);
    }

    pub(super) fn add_all(&self, sources: impl IntoIterator<Item = Source>) {
        // Of several with one name only the last is started.
        let by_name: BTreeMap<String, Source> = sources
            .into_iter()
            .map(|source| (source.name().to_owned(), source))
            .collect();
        let mut changing = lock(&self.inner.changing);
        if self.inner.ended.load(Ordering::Acquire) {
            return;
        }
        let mut connections = Connections::clone(&self.inner.connections.load());
        for (name, source) in by_name {
            match source {
                Source::Entry(entry) => _ = changing.own.insert(name, entry),
                Source::Builtin(_) | Source::Custom(_) => {
                    changing.own.remove(&name);
                    changing.discovered.remove(&name);
                    self.connect(source, &mut connections, &mut changing);
                }
            }
        }
        self.admit_own(&mut connections, &mut changing);
        self.inner.connections.store(Arc::new(connections));
        self.inner.context.catalogs.fetch_add(1, Ordering::Release);
    }

    /// Connects the program's entries that policy allows, and closes those that it refuses.
    fn admit_own(&self, connections: &mut Connections, changing: &mut Changing) {
        let judge = (!changing.own.is_empty()).then(|| self.judge()).flatten();
        let mut refused = Vec::new();
        for (name, entry) in changing.own.clone() {
            match judge.as_ref().and_then(|set| set.refusal(&entry)) {
                None => {
                    changing.discovered.remove(&name);
                    self.connect(Source::Entry(entry), connections, changing);
                }
                Some(blocked) => {
                    refused.push(Server::blocked(ServerEntry::clone(&entry), blocked));
                    if !changing.discovered.contains(&name)
                        && let Some(old) = connections.remove(name.as_str())
                    {
                        drop(changing.leave(old));
                        self.inner.context.events.changed(&name.into());
                    }
                }
            }
        }
        if let Some(discovery) = &self.inner.discovery {
            discovery.list_refused(refused);
        }
    }

    /// The configuration whose policy applies to the program's servers, if any.
    fn judge(&self) -> Option<Arc<ServerSet>> {
        let discovery = self.root().inner.discovery.as_ref();
        discovery
            .filter(|_| !self.inner.bypass_policy)
            .map(Discovery::policy)
    }

    /// Returns the configuration, read now if it has not been read yet; `None` without files.
    pub(crate) fn known_configuration(&self) -> Option<Arc<ServerSet>> {
        let discovery = self.root().inner.discovery.as_ref();
        discovery.map(Discovery::policy)
    }

    /// Replaces the servers from configuration files: new and changed ones connect, others close
    /// (CFG-9). Servers that the program added stay.
    pub(crate) fn apply(&self, set: &ServerSet) {
        self.inner.guard.settings(&set.permissions);
        self.inner.context.hooks.set(&set.hooks);
        self.inner.context.call_policy.set(set);
        let mut changing = lock(&self.inner.changing);
        if self.inner.ended.load(Ordering::Acquire) {
            return;
        }
        self.report_approvals(set, &mut changing);
        let mut connections = Connections::clone(&self.inner.connections.load());
        self.admit_own(&mut connections, &mut changing);
        let mut wanted: BTreeMap<String, ServerEntry> = set
            .for_host()
            .map(|entry| (entry.name.clone(), entry))
            .collect();
        // The program's servers take precedence.
        wanted.retain(|name, _| {
            changing.discovered.contains(name) || !connections.contains_key(name.as_str())
        });
        let gone: Vec<String> = changing
            .discovered
            .iter()
            .filter(|name| !wanted.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            changing.discovered.remove(&name);
            if let Some(old) = connections.remove(name.as_str()) {
                drop(changing.leave(old));
                self.inner.context.events.changed(&name.into());
            }
        }
        for (name, entry) in wanted {
            self.connect(
                Source::Entry(Arc::new(entry)),
                &mut connections,
                &mut changing,
            );
            changing.discovered.insert(name);
        }
        self.inner.connections.store(Arc::new(connections));
        self.inner.context.catalogs.fetch_add(1, Ordering::Release);
        let agents = changing.agents.clone();
        drop(changing);
        for agent in agents.iter().filter_map(Weak::upgrade) {
            Host::from_inner(agent).add_all([]);
        }
    }

    /// Reports the servers that have begun to wait for approval.
    fn report_approvals(&self, set: &ServerSet, changing: &mut Changing) {
        let waits = |server: &&Server| matches!(server.status, EntryStatus::PendingApproval { .. });
        let waiting = set.servers.iter().filter(waits);
        let now: BTreeSet<_> = waiting.map(|server| server.entry.name.clone()).collect();
        for name in now.difference(&changing.awaiting) {
            self.inner.context.events.awaits_approval(name);
        }
        changing.awaiting = now;
    }

    /// Starts a connection, unless the same one exists.
    fn connect(&self, source: Source, connections: &mut Connections, changing: &mut Changing) {
        let hash = source.hash();
        let old = connections.get(source.name());
        if old.is_some_and(|old| old.hash() == hash) {
            return;
        }
        let name: Arc<str> = source.name().into();
        // The new one may need a port or a lock that the old one holds.
        let old = connections.remove(&name).map(|old| changing.leave(old));
        let new = Connection::start(
            source,
            hash,
            &self.inner.context,
            self.inner.owner.clone(),
            old,
        );
        self.inner.context.events.changed(&name);
        connections.insert(name, Arc::new(new));
    }

    /// Removes a server that the program added; returns once nothing of it is left. A configured
    /// server of the same name takes its place.
    ///
    /// # Errors
    ///
    /// The program added no server of this name. [`Host::disable`] stops a configured one.
    pub async fn remove(&self, server: &str) -> Result<(), UnknownServer> {
        let left = {
            let mut changing = lock(&self.inner.changing);
            let mut connections = Connections::clone(&self.inner.connections.load());
            let is_discovered = changing.discovered.contains(server);
            let connection = if is_discovered {
                None
            } else {
                connections.remove(server)
            };
            let was_refused = changing.own.remove(server).is_some() && connection.is_none();
            if connection.is_none() && !was_refused {
                return Err(self.unknown_server(server));
            }
            let left = connection.map(|connection| changing.leave(connection));
            self.admit_own(&mut connections, &mut changing);
            self.inner.connections.store(Arc::new(connections));
            self.inner.context.catalogs.fetch_add(1, Ordering::Release);
            self.inner.context.events.changed(&server.into());
            left
        };
        if let Some(left) = left {
            let _ = left.await;
        }
        if self.inner.discovery.is_some() {
            self.apply(&self.config());
        }
        Ok(())
    }

    /// Closes the connection to a server and opens a new one. An agent can reconnect only its own
    /// servers.
    ///
    /// # Errors
    ///
    /// There is no server of this name.
    pub async fn reconnect(&self, server: &str) -> Result<(), UnknownServer> {
        let connection = self.own_connection(server);
        let connection = connection.ok_or_else(|| self.unknown_server(server))?;
        connection.reconnect().await;
        Ok(())
    }

    /// Fetches the lists of a server again, in the background; starts a lazy server.
    ///
    /// # Errors
    ///
    /// There is no server of this name.
    pub async fn refresh(&self, server: &str) -> Result<(), UnknownServer> {
        let connection = self.connection(server);
        let connection = connection.ok_or_else(|| self.unknown_server(server))?;
        connection.refresh().await;
        Ok(())
    }

    /// Closes the connection to a server until [`Host::reconnect`]; returns once nothing of it is
    /// left. An agent can disable only its own servers.
    ///
    /// # Errors
    ///
    /// There is no server of this name.
    pub async fn disable(&self, server: &str) -> Result<(), UnknownServer> {
        let connection = self.own_connection(server);
        let connection = connection.ok_or_else(|| self.unknown_server(server))?;
        connection.disable().await;
        Ok(())
    }

    fn unknown_server(&self, server: &str) -> UnknownServer {
        let connections = self.connections();
        let known = connections.keys().map(|name| &**name);
        UnknownServer::new(server, known.filter(|known| *known != server))
    }

    /// Waits until one server is connected or has failed for the first time, and returns its
    /// status. Does not wait for a lazy server that is not needed yet.
    ///
    /// # Errors
    ///
    /// There is no server of this name.
    pub async fn ready_for(&self, server: &str) -> Result<Arc<ServerStatus>, UnknownServer> {
        self.known().await;
        let connection = self.connection(server);
        let connection = connection.ok_or_else(|| self.unknown_server(server))?;
        connection.settled().await;
        Ok(connection.status())
    }

    /// Waits until all servers are known, and connected or failed for the first time. Does not wait
    /// for lazy servers that are not needed yet.
    pub async fn ready(&self) {
        if let Some(discovery) = &self.inner.discovery {
            discovery.complete().await;
        }
        if let Some(parent) = &self.inner.parent {
            parent.host.known().await;
        }
        let connections = self.connections();
        join_all(connections.values().map(|connection| connection.settled())).await;
    }

    /// Waits until the configured servers are known.
    pub(crate) async fn known(&self) {
        if let Some(discovery) = &self.root().inner.discovery {
            discovery.complete().await;
        }
    }

    /// The current status of all servers, sorted by name. Refreshes stale lists in the background.
    pub fn servers(&self) -> Vec<Arc<ServerStatus>> {
        self.refresh_stale();
        self.statuses()
    }

    pub(super) fn statuses(&self) -> Vec<Arc<ServerStatus>> {
        let status = |connection: &Arc<Connection>| connection.status();
        match &self.inner.parent {
            None => self.inner.connections.load().values().map(status).collect(),
            Some(_) => self.connections().values().map(status).collect(),
        }
    }

    /// The names of the servers that are not disabled, here and in every host above.
    pub(crate) fn enabled_servers(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut hosts = Some(self);
        while let Some(host) = hosts {
            let connections = host.inner.connections.load();
            let enabled = connections
                .iter()
                .filter(|(_, connection)| !matches!(connection.status().state, State::Disabled));
            names.extend(enabled.map(|(name, _)| name.to_string()));
            hosts = host.inner.parent.as_ref().map(|parent| &parent.host);
        }
        names
    }

    /// The current status of one server.
    pub fn server(&self, name: &str) -> Option<Arc<ServerStatus>> {
        self.connection(name).map(|connection| connection.status())
    }

    /// Refreshes the lists that are stale, as their servers declare (LIF-9).
    pub(super) fn refresh_stale(&self) {
        let expiry = &self.inner.context.expiry;
        if !expiry.is_due() {
            return;
        }
        let now = Instant::now();
        for connection in self.connections().values() {
            expiry.schedule(connection.refresh_stale(now));
        }
    }
}
