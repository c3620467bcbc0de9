//! The host from start to shutdown: `servers` come and go, the `pool` holds their tools, an agent
//! has a `view` of both, and `approval` decides about a project's servers.

mod approval;
mod pool;
mod servers;
mod view;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use trunkline_config::ServerSet;

pub use approval::ApprovalError;
use pool::Built;
use servers::Changing;

use crate::agent::AgentScope;
use crate::audit::Audit;
use crate::builder::HostBuilder;
use crate::catalog::Expiry;
use crate::connection::{Connection, HostShared, Machine, StartupLimiter};
use crate::context;
use crate::discovery::Discovery;
use crate::elicit::Broker;
use crate::event::EventSender;
use crate::hooks::Hooks;
use crate::host_tool::HostTool;
use crate::logs::{FLUSH_TIMEOUT, LogStore, Tracer};
use crate::permission::Guard;
use crate::permission::policy::HostPolicy;
use crate::pins::Pins;
use crate::result::Results;
use crate::search;
use crate::settings::Settings;

/// Selects servers by name.
pub(crate) type ServerFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

type Connections = BTreeMap<Arc<str>, Arc<Connection>>;

/// An MCP host. Clones share it. Dropping the last one closes its connections in the background;
/// [`Host::shutdown`] waits for that.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// The host of the agent whose view this is (AGT-1).
    parent: Option<Parent>,
    /// The client that the agent's own servers belong to.
    owner: Option<Arc<str>>,
    guard: Arc<Guard>,
    discovery: Option<Discovery>,
    context: Arc<HostShared>,
    connections: ArcSwap<Connections>,
    /// Held, never across an await, to add or remove connections.
    changing: Mutex<Changing>,
    /// Sorted by name.
    own_tools: Arc<[HostTool]>,
    /// The same, and the tools for resources.
    own_tools_and_resources: Arc<[HostTool]>,
    pool: ArcSwap<Built>,
    /// Held, never across an await, to build the pool.
    building: Mutex<()>,
    events: Option<AbortHandle>,
    /// Whether the program's own servers are exempt from policy.
    bypass_policy: bool,
    /// Whether the shutdown has begun.
    ended: AtomicBool,
    /// Whether the shutdown is complete; events end with it.
    closed: watch::Sender<bool>,
}

/// The host of an agent, and what the agent sees of it.
struct Parent {
    host: Host,
    scope: AgentScope,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(events) = &self.events {
            events.abort();
        }
    }
}

impl Host {
    /// Configures a new host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    #[expect(clippy::too_many_lines, reason = "one line per part of the host")]
    pub(crate) fn start(mut builder: HostBuilder) -> Self {
        let settings = builder.take_settings();
        let hooks = Hooks::new(builder.runs_hooks(), settings.project_dir.clone());
        let hooks = Arc::new(hooks);
        let HostBuilder {
            discovery,
            sources,
            eras,
            catalogs: store,
            elicit,
            sampling,
            roots,
            on_notification,
            private,
            secrets,
            network,
            relay,
            sdk,
            logs,
            audit,
            tracer,
            tap,
            mut own_tools,
            rules,
            permit,
            pins,
            on_change,
            results,
            bypass_policy,
            mut sandbox,
            ..
        } = builder;
        if let Some(layout) = discovery.layout() {
            sandbox.hide_configuration(layout);
        }
        let (discovery, keeper) = discovery.start(&network).unzip();
        let pins = Pins::new(pins.unwrap_or_default(), on_change);
        let guard = Guard::new(rules, permit, Arc::new(pins));
        search::add_tool_search(&mut own_tools);
        own_tools.sort_by(|a, b| a.name.cmp(&b.name));
        let mut with_resources = own_tools.clone();
        let taken = |tool: &HostTool| own_tools.iter().any(|own| own.name == tool.name);
        with_resources.extend(context::tools().into_iter().filter(|tool| !taken(tool)));
        with_resources.sort_by(|a, b| a.name.cmp(&b.name));
        let context = Arc::new(HostShared {
            limiter: StartupLimiter::new(
                settings.max_local_starts,
                settings.max_remote_starts,
                Machine::here(),
            ),
            settings,
            eras: eras.unwrap_or_default(),
            events: EventSender::new(),
            broker: Arc::new(Broker::new(Arc::clone(&hooks), elicit)),
            hooks,
            audit: Audit::new(audit),
            call_policy: HostPolicy::default(),
            sampling,
            roots,
            on_notification,
            private,
            log_level: ArcSwapOption::empty(),
            secrets,
            network,
            relay,
            sdk,
            logs,
            tracer,
            tap,
            results: results.unwrap_or_default(),
            sandbox,
            catalogs: AtomicU64::new(0),
            expiry: Expiry::new(),
            store,
        });
        let shared = Arc::clone(&context);
        let events = tokio::spawn(async move { shared.events.run().await }).abort_handle();
        let host = Self {
            inner: Arc::new(Inner {
                parent: None,
                owner: None,
                guard: Arc::new(guard),
                discovery,
                bypass_policy,
                context,
                connections: ArcSwap::default(),
                changing: Mutex::default(),
                building: Mutex::default(),
                own_tools: own_tools.into(),
                own_tools_and_resources: with_resources.into(),
                pool: ArcSwap::from_pointee(Built::nothing()),
                events: Some(events),
                ended: AtomicBool::new(false),
                closed: watch::Sender::new(false),
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

    /// The configured servers, including those that may not run, and the problems in the files.
    /// Empty if the host does not read configuration files.
    pub fn config(&self) -> Arc<ServerSet> {
        if let Some(parent) = &self.inner.parent {
            return parent.host.config();
        }
        let discovery = self.inner.discovery.as_ref();
        discovery.map(Discovery::set).unwrap_or_default()
    }

    /// Rereads the configuration files. Servers with unchanged entries keep their connections.
    pub async fn reload(&self) {
        if let Some(discovery) = &self.inner.discovery {
            discovery.reload().await;
        }
    }

    /// Asks all servers for log messages of at least this level: `debug`, `info`, `notice`,
    /// `warning`, `error`, `critical`, `alert` or `emergency`. Without it, servers decide. Their
    /// messages go to their logs, and to
    /// [`HostBuilder::on_notification`](crate::HostBuilder::on_notification).
    pub fn set_log_level(&self, level: &str) {
        let level = Arc::new(level.to_owned());
        let context = &self.inner.context;
        let old = context.log_level.swap(Some(Arc::clone(&level)));
        if old.is_some_and(|old| *old == *level) {
            return;
        }
        let mut hosts = vec![self.root().clone()];
        hosts.extend(lock(&self.root().inner.changing).agents());
        for connection in hosts.iter().flat_map(|host| {
            let own = host.inner.connections.load_full();
            own.values().cloned().collect::<Vec<_>>()
        }) {
            connection.apply_log_level();
        }
    }

    /// Closes all connections for good, and waits until none of their processes is left. Takes a
    /// bounded time. Later calls fail with
    /// [`CallErrorKind::ShutDown`](crate::call::CallErrorKind::ShutDown), and
    /// [`Events`](crate::event::Events) end.
    pub async fn shutdown(&self) {
        if let Some(discovery) = &self.inner.discovery {
            discovery.stop();
        }
        let (connections, leaving) = {
            let mut changing = lock(&self.inner.changing);
            self.inner.ended.store(true, Ordering::Release);
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
        // The last changes are delivered before the events end.
        self.inner.context.events.flush();
        self.inner.closed.send_replace(true);
        if self.inner.parent.is_some() {
            return;
        }
        if let Some(store) = &self.inner.context.store {
            store.flush().await;
        }
        self.inner.context.network.settle().await;
        self.flush().await;
    }

    /// Whether [`Host::shutdown`] was called, here or on the agent's host.
    pub fn is_shut_down(&self) -> bool {
        let parent = self.inner.parent.as_ref();
        self.inner.ended.load(Ordering::Acquire)
            || parent.is_some_and(|parent| parent.host.is_shut_down())
    }

    /// Waits until logs and trace are written.
    async fn flush(&self) {
        self.inner.context.audit.flush(FLUSH_TIMEOUT).await;
        let HostShared { logs, tracer, .. } = &*self.inner.context;
        if let Some(logs) = logs {
            logs.flush().await;
        }
        if let Some(tracer) = tracer {
            tracer.flush().await;
        }
    }

    /// The errors that kept logs, the trace or the audit log from being written.
    pub fn recording_problems(&self) -> Vec<String> {
        let HostShared { logs, tracer, .. } = &*self.inner.context;
        let logs = logs.as_ref().and_then(LogStore::problem);
        let trace = tracer.as_ref().and_then(Tracer::problem);
        let audit = self.inner.context.audit.problems();
        let others = logs.into_iter().chain(trace).map(str::to_owned);
        others.chain(audit).collect()
    }

    /// Reports a changed configuration to subscribers.
    #[cfg(feature = "discovery")]
    pub(crate) fn configuration_changed(&self) {
        self.inner.context.events.configuration_changed();
    }

    /// The host at the top: itself, or the one that the agents above it belong to.
    fn root(&self) -> &Self {
        let mut root = self;
        while let Some(parent) = &root.inner.parent {
            root = &parent.host;
        }
        root
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.context.settings
    }

    #[cfg(feature = "http")]
    pub(crate) fn network(&self) -> &crate::network::Network {
        &self.inner.context.network
    }

    /// The user's commands before and after calls.
    pub(crate) fn hooks(&self) -> &Arc<Hooks> {
        &self.inner.context.hooks
    }

    pub(crate) fn audit(&self) -> &Audit {
        &self.inner.context.audit
    }

    /// Whether this is an agent's view of a host.
    pub(crate) fn is_agent(&self) -> bool {
        self.inner.parent.is_some()
    }

    /// The organisation's restrictions of calls.
    pub(crate) fn call_policy(&self) -> &HostPolicy {
        &self.inner.context.call_policy
    }

    pub(crate) fn guard(&self) -> &Arc<Guard> {
        &self.inner.guard
    }

    pub(crate) fn results(&self) -> &Results {
        &self.inner.context.results
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let servers = self.statuses();
        let states = servers.iter().map(|server| (&server.name, &server.state));
        f.debug_struct("Host")
            .field("is_agent", &self.inner.parent.is_some())
            .field("is_shut_down", &self.is_shut_down())
            .field("servers", &states.collect::<BTreeMap<_, _>>())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
