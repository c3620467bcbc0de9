//! The host itself: its servers, its pool, its events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use trunkline_config::{ServerEntry, ServerSet};
use trunkline_transport::net::Dialer;

use crate::agent::AgentScope;
use crate::builder::HostBuilder;
use crate::call::CallError;
use crate::catalog::{Expiry, Part, Pool, may_belong_to};
use crate::connection::{Connection, Context, ServerStatus, Source, Window};
use crate::context;
use crate::discovery::Discovery;
use crate::events::{Events, Teller};
use crate::host_tool::HostTool;
use crate::logs::{LogStore, Tracer};
use crate::permission::Guard;
use crate::pins::Pins;
use crate::result::Results;
use crate::search;
use crate::settings::Settings;
use crate::suggest::nearest;

type Connections = BTreeMap<Arc<str>, Arc<Connection>>;

/// An MCP host. Clones share it; when the last one is dropped, its connections are closed in the background. To wait for
/// that, call [`Host::shutdown`].
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// Whom it works for, if it is an agent's (AGT-1).
    above: Option<Above>,
    guard: Arc<Guard>,
    discovery: Option<Discovery>,
    context: Arc<Context>,
    connections: ArcSwap<Connections>,
    /// Held, never across an await, by whoever adds or removes connections.
    changing: Mutex<Changing>,
    /// Sorted by name.
    own_tools: Arc<[HostTool]>,
    /// The same and those that are for resources.
    own_tools_and_resources: Arc<[HostTool]>,
    pool: ArcSwap<Built>,
    /// Held, never across an await, by whoever builds the pool.
    building: Mutex<()>,
    teller: Option<AbortHandle>,
}

/// The host that an agent works for, and what the agent sees of it.
struct Above {
    host: Host,
    scope: AgentScope,
}

/// What only those who add or remove connections need to know.
#[derive(Default)]
struct Changing {
    /// Nothing is started any more.
    ended: bool,
    /// Replaced connections on their way out.
    leaving: Vec<JoinHandle<()>>,
    /// The names of the servers that come from configuration files, and go with them.
    discovered: BTreeSet<String>,
}

impl Changing {
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

/// A pool and the count of catalog changes that it includes.
struct Built {
    catalogs: u64,
    pool: Arc<Pool>,
}

impl Built {
    /// Before anybody has asked: the count is one that is never reached.
    fn nothing() -> Self {
        Self {
            catalogs: u64::MAX,
            pool: Arc::default(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(teller) = &self.teller {
            teller.abort();
        }
    }
}

impl Host {
    /// Begins to put a host together.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    pub(crate) fn start(mut builder: HostBuilder) -> Self {
        let (discovery, keeper) = builder.plan().map(Discovery::start).unzip();
        let HostBuilder {
            sources,
            settings,
            eras,
            catalogs: store,
            elicit,
            secrets,
            dialer,
            sdk,
            credentials,
            connector_credentials,
            logs,
            tracer,
            mut own_tools,
            rules,
            permit,
            pins,
            on_change,
            results,
            ..
        } = builder;
        let guard = Guard::new(rules, permit, Arc::new(Pins::new(pins, on_change)));
        search::add_to(&mut own_tools);
        own_tools.sort_by(|a, b| a.name.cmp(&b.name));
        let mut with_resources = own_tools.clone();
        let taken = |tool: &HostTool| own_tools.iter().any(|own| own.name == tool.name);
        with_resources.extend(context::tools().into_iter().filter(|tool| !taken(tool)));
        with_resources.sort_by(|a, b| a.name.cmp(&b.name));
        let context = Arc::new(Context {
            window: Window::new(settings.local_at_once, settings.remote_at_once),
            settings,
            eras,
            teller: Teller::new(),
            elicit,
            secrets,
            dialer: dialer.unwrap_or_else(Dialer::from_env),
            sdk,
            credentials,
            connector_credentials,
            logs,
            tracer,
            results: results.unwrap_or_default(),
            catalogs: AtomicU64::new(0),
            expiry: Expiry::new(),
            store,
        });
        let telling = Arc::clone(&context);
        let teller = tokio::spawn(async move { telling.teller.tell().await }).abort_handle();
        let host = Self {
            inner: Arc::new(Inner {
                above: None,
                guard: Arc::new(guard),
                discovery,
                context,
                connections: ArcSwap::default(),
                changing: Mutex::default(),
                building: Mutex::default(),
                own_tools: own_tools.into(),
                own_tools_and_resources: with_resources.into(),
                pool: ArcSwap::from_pointee(Built::nothing()),
                teller: Some(teller),
            }),
        };
        host.add_all(sources);
        if let Some(keeper) = keeper {
            host.apply(&host.config());
            tokio::spawn(keeper.run(Arc::downgrade(&host.inner)));
        }
        host
    }

    pub(crate) fn from_inner(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

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
                context: Arc::clone(&self.inner.context),
                connections: ArcSwap::default(),
                changing: Mutex::default(),
                building: Mutex::default(),
                own_tools: Arc::clone(&self.inner.own_tools),
                own_tools_and_resources: Arc::clone(&self.inner.own_tools_and_resources),
                pool: ArcSwap::from_pointee(Built::nothing()),
                teller: None,
                above: Some(Above {
                    host: self.clone(),
                    scope,
                }),
            }),
        };
        agent.add_all(own);
        agent
    }

    /// What the configuration files come to: every server, those that may not run included, and what is wrong with the files.
    /// Empty when the host was not told to look for any.
    pub fn config(&self) -> Arc<ServerSet> {
        if let Some(above) = &self.inner.above {
            return above.host.config();
        }
        let discovery = self.inner.discovery.as_ref();
        discovery.map(Discovery::set).unwrap_or_default()
    }

    /// Reads the configuration files again, now. Servers whose entries have not changed keep their connections.
    pub async fn reload(&self) {
        if let Some(discovery) = &self.inner.discovery {
            discovery.reload().await;
        }
    }

    /// Makes the servers from configuration files be these: new and changed ones connect, those that have gone are closed
    /// (CFG-9). What the embedding program added itself stays as it is.
    pub(crate) fn apply(&self, set: &ServerSet) {
        self.inner.guard.settings(&set.permissions);
        let mut changing = lock(&self.inner.changing);
        if changing.ended {
            return;
        }
        let mut connections = Connections::clone(&self.inner.connections.load());
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
                self.inner.context.teller.changed(&name.into());
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
        self.inner.context.teller.changed(&name);
        connections.insert(name, Arc::new(new));
    }

    /// Adds a server and starts connecting to it; must be called on a Tokio runtime. The same name with the same entry is the same connection (LIF-3); with
    /// another entry, the old connection is closed and replaced.
    pub fn add(&self, entry: ServerEntry) {
        self.add_all([Source::Entry(Arc::new(entry))]);
    }

    fn add_all(&self, sources: impl IntoIterator<Item = Source>) {
        // Of several with one name the last counts, and only that one is started.
        let by_name: BTreeMap<String, Source> = sources
            .into_iter()
            .map(|source| (source.name().to_owned(), source))
            .collect();
        let mut changing = lock(&self.inner.changing);
        if changing.ended {
            return;
        }
        let mut connections = Connections::clone(&self.inner.connections.load());
        for source in by_name.into_values() {
            changing.discovered.remove(source.name());
            self.connect(source, &mut connections, &mut changing);
        }
        self.inner.connections.store(Arc::new(connections));
        self.inner.context.catalogs.fetch_add(1, Ordering::Release);
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
        if let Some(above) = &self.inner.above {
            above.host.known().await;
        }
        let connections = self.connections();
        join_all(connections.values().map(|connection| connection.settled())).await;
    }

    /// All servers as they stand now, sorted by name. Lists that are no longer fresh are fetched again in the background.
    pub fn servers(&self) -> Vec<Arc<ServerStatus>> {
        self.refresh_stale();
        self.statuses()
    }

    fn statuses(&self) -> Vec<Arc<ServerStatus>> {
        let status = |connection: &Arc<Connection>| connection.status();
        match &self.inner.above {
            None => self.inner.connections.load().values().map(status).collect(),
            Some(_) => self.connections().values().map(status).collect(),
        }
    }

    /// All connections: its own, and for an agent those that it sees of the host it works for.
    fn connections(&self) -> Arc<Connections> {
        let own = self.inner.connections.load_full();
        let Some(Above { host, scope }) = &self.inner.above else {
            return own;
        };
        let mut all = Connections::clone(&host.connections());
        all.retain(|name, _| scope.has_server(name));
        all.extend(
            own.iter()
                .map(|(name, own)| (Arc::clone(name), Arc::clone(own))),
        );
        Arc::new(all)
    }

    /// Waits until it is known which servers there are.
    async fn known(&self) {
        let mut host = self;
        while let Some(above) = &host.inner.above {
            host = &above.host;
        }
        if let Some(discovery) = &host.inner.discovery {
            discovery.complete().await;
        }
    }

    /// One server as it stands now.
    pub fn server(&self, name: &str) -> Option<Arc<ServerStatus>> {
        self.connection(name).map(|connection| connection.status())
    }

    /// Has the lists fetched again that are no longer fresh, as their servers see it (LIF-9).
    fn refresh_stale(&self) {
        let expiry = &self.inner.context.expiry;
        if !expiry.is_due() {
            return;
        }
        let now = Instant::now();
        for connection in self.connections().values() {
            expiry.note(connection.refresh_stale(now));
        }
    }

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

    /// Changes of state and catalog from now on, in batches.
    pub fn events(&self) -> Events {
        let events = self.inner.context.teller.subscribe();
        if self.inner.above.is_none() {
            return events;
        }
        let seen = Arc::downgrade(&self.inner);
        events.of(move |server| {
            let host = seen.upgrade().map(Self::from_inner);
            host.is_some_and(|host| host.sees(server))
        })
    }

    /// Whether a server is its own, or seen by the agent whose this is.
    fn sees(&self, server: &str) -> bool {
        match &self.inner.above {
            None => true,
            Some(Above { host, scope }) => {
                self.inner.connections.load().contains_key(server)
                    || (scope.has_server(server) && host.sees(server))
            }
        }
    }

    /// Closes every connection, for good, and waits until no process of theirs is left. Every wait inside has an end.
    pub async fn shutdown(&self) {
        if let Some(discovery) = &self.inner.discovery {
            discovery.stop();
        }
        let (connections, leaving) = {
            let mut changing = lock(&self.inner.changing);
            changing.ended = true;
            let leaving = std::mem::take(&mut changing.leaving);
            (self.inner.connections.swap(Arc::default()), leaving)
        };
        self.inner.context.catalogs.fetch_add(1, Ordering::Release);
        join_all(
            connections
                .values()
                .map(|connection| connection.shut_down()),
        )
        .await;
        join_all(leaving).await;
        if self.inner.above.is_some() {
            return;
        }
        if let Some(store) = &self.inner.context.store {
            store.written().await;
        }
        self.flush().await;
    }

    /// Waits for the disk, so that what is said about the end is written too.
    async fn flush(&self) {
        let Context { logs, tracer, .. } = &*self.inner.context;
        if let Some(logs) = logs {
            logs.flush().await;
        }
        if let Some(tracer) = tracer {
            tracer.flush().await;
        }
    }

    /// What kept logs or the trace from being written, if anything did.
    pub fn recording_problems(&self) -> Vec<String> {
        let Context { logs, tracer, .. } = &*self.inner.context;
        let logs = logs.as_ref().and_then(LogStore::problem);
        let trace = tracer.as_ref().and_then(Tracer::problem);
        logs.into_iter().chain(trace).map(str::to_owned).collect()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.context.settings
    }

    pub(crate) fn guard(&self) -> &Arc<Guard> {
        &self.inner.guard
    }

    pub(crate) fn results(&self) -> &Results {
        &self.inner.context.results
    }

    /// The connection to a server that is seen from here.
    pub(crate) fn connection(&self, server: &str) -> Option<Arc<Connection>> {
        let own = self.own_connection(server);
        own.or_else(|| {
            let above = self.inner.above.as_ref()?;
            let seen = above.scope.has_server(server);
            seen.then(|| above.host.connection(server)).flatten()
        })
    }

    fn own_connection(&self, server: &str) -> Option<Arc<Connection>> {
        self.inner.connections.load().get(server).cloned()
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
