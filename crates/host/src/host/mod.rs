//! The host itself, from its start to its end: `servers` come and go, the `pool` is made of what they offer, and an agent has a `view` of it.

mod pool;
mod servers;
mod view;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use trunkline_config::ServerSet;
use trunkline_transport::net::Dialer;

use pool::Built;
use servers::Changing;

use crate::agent::AgentScope;
use crate::builder::HostBuilder;
use crate::catalog::Expiry;
use crate::connection::{Connection, HostShared, Machine, StartupLimiter};
use crate::context;
use crate::discovery::Discovery;
use crate::event::EventSender;
use crate::host_tool::HostTool;
use crate::logs::{LogStore, Tracer};
use crate::permission::Guard;
use crate::pins::Pins;
use crate::result::Results;
use crate::search;
use crate::settings::Settings;

type Connections = BTreeMap<Arc<str>, Arc<Connection>>;

/// An MCP host. Clones share it; when the last one is dropped, its connections are closed in the background. To wait for
/// that, call [`Host::shutdown`].
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// Whom it works for, if it is an agent's (AGT-1).
    parent: Option<Parent>,
    guard: Arc<Guard>,
    discovery: Option<Discovery>,
    context: Arc<HostShared>,
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
    events: Option<AbortHandle>,
    /// Whether the program's own servers are exempt from policy.
    bypass_policy: bool,
    /// Nothing is started and nothing is called any more.
    ended: AtomicBool,
    /// Whether the shutdown is over, and with it the events.
    closed: watch::Sender<bool>,
}

/// The host that an agent works for, and what the agent sees of it.
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
    /// Begins to put a host together.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    pub(crate) fn start(mut builder: HostBuilder) -> Self {
        let settings = builder.take_settings();
        let (discovery, keeper) = builder.plan().map(Discovery::start).unzip();
        let HostBuilder {
            sources,
            eras,
            catalogs: store,
            elicit,
            sampling,
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
            bypass_policy,
            ..
        } = builder;
        let guard = Guard::new(rules, permit, Arc::new(Pins::new(pins, on_change)));
        search::add_tool_search(&mut own_tools);
        own_tools.sort_by(|a, b| a.name.cmp(&b.name));
        let mut with_resources = own_tools.clone();
        let taken = |tool: &HostTool| own_tools.iter().any(|own| own.name == tool.name);
        with_resources.extend(context::tools().into_iter().filter(|tool| !taken(tool)));
        with_resources.sort_by(|a, b| a.name.cmp(&b.name));
        let context = Arc::new(HostShared {
            limiter: StartupLimiter::new(
                settings.local_at_once,
                settings.remote_at_once,
                Machine::here(),
            ),
            settings,
            eras,
            events: EventSender::new(),
            elicit,
            sampling,
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
        let events = tokio::spawn(async move { telling.events.tell().await }).abort_handle();
        let host = Self {
            inner: Arc::new(Inner {
                parent: None,
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

    /// What the configuration files come to: every server, those that may not run included, and what is wrong with the files.
    /// Empty when the host was not told to look for any.
    pub fn config(&self) -> Arc<ServerSet> {
        if let Some(parent) = &self.inner.parent {
            return parent.host.config();
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

    /// Closes every connection, for good, and waits until no process of theirs is left. Every wait inside has an end.
    /// Later calls fail with [`CallErrorKind::ShutDown`](crate::call::CallErrorKind::ShutDown), and
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
        // The last changes are told before the events end.
        self.inner.context.events.tell_now();
        self.inner.closed.send_replace(true);
        if self.inner.parent.is_some() {
            return;
        }
        if let Some(store) = &self.inner.context.store {
            store.flush().await;
        }
        self.flush().await;
    }

    /// Whether [`Host::shutdown`] has been called, here or on the host that this one works for.
    pub fn is_shut_down(&self) -> bool {
        let parent = self.inner.parent.as_ref();
        self.inner.ended.load(Ordering::Acquire)
            || parent.is_some_and(|parent| parent.host.is_shut_down())
    }

    /// Waits for the disk, so that what is said about the end is written too.
    async fn flush(&self) {
        let HostShared { logs, tracer, .. } = &*self.inner.context;
        if let Some(logs) = logs {
            logs.flush().await;
        }
        if let Some(tracer) = tracer {
            tracer.flush().await;
        }
    }

    /// What kept logs or the trace from being written, if anything did.
    pub fn recording_problems(&self) -> Vec<String> {
        let HostShared { logs, tracer, .. } = &*self.inner.context;
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
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
