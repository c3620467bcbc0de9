//! The servers of a host: they are added and taken away, and each is one connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use trunkline_config::{EntryStatus, Server, ServerEntry, ServerSet};

use super::{Connections, Host, Inner, lock};
use crate::connection::{Connection, ServerStatus, Source};
use crate::discovery::Discovery;

/// What only those who add or remove connections need to know.
#[derive(Default)]
pub(super) struct Changing {
    /// Replaced connections on their way out.
    pub(super) leaving: Vec<JoinHandle<()>>,
    /// The names of the servers that come from configuration files, and go with them.
    discovered: BTreeSet<String>,
    /// The entries that the embedding program added, those that policy refuses included.
    own: BTreeMap<String, Arc<ServerEntry>>,
    /// Agents, whose own servers are held to the same policy.
    agents: Vec<Weak<Inner>>,
    /// The names of the servers that wait for approval.
    awaiting: BTreeSet<String>,
}

impl Changing {
    /// Has an agent's own servers judged again when the configuration changes.
    pub(super) fn watch_agent(&mut self, agent: &Arc<Inner>) {
        self.agents.retain(|agent| agent.strong_count() > 0);
        self.agents.push(Arc::downgrade(agent));
    }

    /// Ends a connection in the background; the receiver learns when nothing is left of it.
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
    /// Adds a server and starts connecting to it; must be called on a Tokio runtime. The same name with the same entry is the same connection (LIF-3); with
    /// another entry, the old connection is closed and replaced. Policy holds for it as for [`HostBuilder::server`](crate::HostBuilder::server).
    pub fn add(&self, entry: ServerEntry) {
        self.add_all([Source::Entry(Arc::new(entry))]);
    }

    pub(super) fn add_all(&self, sources: impl IntoIterator<Item = Source>) {
        // Of several with one name the last counts, and only that one is started.
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
                Source::Builtin(_) => {
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

    /// Connects the entries that the program added and policy allows, and closes those that it refuses.
    fn admit_own(&self, connections: &mut Connections, changing: &mut Changing) {
        if changing.own.is_empty() {
            return;
        }
        let judge = self.judge();
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

    /// The configuration that decides about the program's own servers; `None` where none does.
    fn judge(&self) -> Option<Arc<ServerSet>> {
        let mut root = self;
        while let Some(parent) = &root.inner.parent {
            root = &parent.host;
        }
        let discovery = root.inner.discovery.as_ref();
        discovery
            .filter(|_| !self.inner.bypass_policy)
            .map(Discovery::policy)
    }

    /// Makes the servers from configuration files be these: new and changed ones connect, those that have gone are closed
    /// (CFG-9). What the embedding program added itself stays as it is.
    pub(crate) fn apply(&self, set: &ServerSet) {
        self.inner.guard.settings(&set.permissions);
        let mut changing = lock(&self.inner.changing);
        if self.inner.ended.load(Ordering::Acquire) {
            return;
        }
        self.tell_of_approvals(set, &mut changing);
        let mut connections = Connections::clone(&self.inner.connections.load());
        self.admit_own(&mut connections, &mut changing);
        let mut wanted: BTreeMap<String, ServerEntry> = set
            .for_host()
            .map(|entry| (entry.name.clone(), entry))
            .collect();
        // The program's own come first.
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

    /// Tells which servers have begun to wait for approval.
    fn tell_of_approvals(&self, set: &ServerSet, changing: &mut Changing) {
        let waits = |server: &&Server| matches!(server.status, EntryStatus::PendingApproval { .. });
        let waiting = set.servers.iter().filter(waits);
        let now: BTreeSet<_> = waiting.map(|server| server.entry.name.clone()).collect();
        for name in now.difference(&changing.awaiting) {
            self.inner.context.events.awaits_approval(name);
        }
        changing.awaiting = now;
    }

    /// Starts a connection, unless the same one is there already.
    fn connect(&self, source: Source, connections: &mut Connections, changing: &mut Changing) {
        let hash = source.hash();
        let old = connections.get(source.name());
        if old.is_some_and(|old| old.hash() == hash) {
            return;
        }
        let name: Arc<str> = source.name().into();
        // What the old one holds, a port or a lock, the new one may need.
        let old = connections.remove(&name).map(|old| changing.leave(old));
        let new = Connection::start(source, hash, &self.inner.context, old);
        self.inner.context.events.changed(&name);
        connections.insert(name, Arc::new(new));
    }

    /// Drops the connection to a server and makes it afresh. An agent can do so only to its own servers.
    pub async fn reconnect(&self, server: &str) {
        if let Some(connection) = self.own_connection(server) {
            connection.reconnect().await;
        }
    }

    /// Has the lists of a server fetched again, in the background; a lazy server that nobody has asked for yet is started.
    pub async fn refresh(&self, server: &str) {
        if let Some(connection) = self.connection(server) {
            connection.refresh().await;
        }
    }

    /// Switches a server off until [`Host::reconnect`]; returns once nothing of it is left. An agent can do so only to its own
    /// servers.
    pub async fn disable(&self, server: &str) {
        if let Some(connection) = self.own_connection(server) {
            connection.disable().await;
        }
    }

    /// Waits until every server is known, and is connected or has failed for the first time. A lazy server that nobody has
    /// asked for is not waited for.
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

    /// Waits until it is known which servers there are.
    pub(crate) async fn known(&self) {
        let mut host = self;
        while let Some(parent) = &host.inner.parent {
            host = &parent.host;
        }
        if let Some(discovery) = &host.inner.discovery {
            discovery.complete().await;
        }
    }

    /// All servers as they stand now, sorted by name. Lists that are no longer fresh are fetched again in the background.
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

    /// One server as it stands now.
    pub fn server(&self, name: &str) -> Option<Arc<ServerStatus>> {
        self.connection(name).map(|connection| connection.status())
    }

    /// Has the lists fetched again that are no longer fresh, as their servers see it (LIF-9).
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
