//! The running servers: one gateway for each distinct definition.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trunkline::permission::AllowAll;
use trunkline::server::State;
use trunkline::{ServerEntry, Settings};
use trunkline_config::redact::is_inherited_secret;
use trunkline_config::{Secret, StdioEntry, TransportEntry};

use super::{HostFactory, identity};
use crate::gateway::{Gateway, GatewayOptions};
use crate::socket::{ClientEnvironment, SharedServer};

/// How often idle servers are looked for.
pub(super) const REAP_EVERY: Duration = Duration::from_secs(1);

/// How long a client waits for a server that was lost.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often its state is checked meanwhile.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// All servers of the daemon.
pub(super) struct Servers {
    running: Mutex<HashMap<Key, Arc<Running>>>,
    hosts: HostFactory,
    idle: Duration,
}

/// Which process it is: its definition, and what it inherits that matters.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key(SharedServer, identity::Inherited);

/// A server and those who use it.
pub(super) struct Running {
    definition: SharedServer,
    inherited: identity::Inherited,
    gateway: Gateway,
    usage: Mutex<Usage>,
    started: Instant,
    was_connected: AtomicBool,
}

#[derive(Default)]
struct Usage {
    clients: usize,
    idle_since: Option<Instant>,
}

/// The use of a server by one client. Dropping it gives the server up.
pub(super) struct Lease<'a> {
    servers: &'a Servers,
    running: Arc<Running>,
}

/// A server as `status` shows it.
pub(super) struct ServerReport {
    pub(super) definition: SharedServer,
    pub(super) clients: usize,
    pub(super) idle: Option<Duration>,
    pub(super) age: Duration,
    pub(super) state: &'static str,
}

impl Servers {
    pub(super) fn new(hosts: HostFactory, idle: Duration) -> Self {
        Self {
            running: Mutex::default(),
            hosts,
            idle,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.running).is_empty()
    }

    /// Uses a server, which is started if it does not run.
    pub(super) fn lease(&self, server: SharedServer, environment: ClientEnvironment) -> Lease<'_> {
        let inherited = identity::Inherited::of(&environment);
        let mut all = lock(&self.running);
        let key = Key(server.clone(), inherited.clone());
        let running = all.entry(key).or_insert_with(|| {
            tracing::info!(server = server.name, "starts");
            let gateway = self.start(&server, environment);
            Arc::new(Running {
                definition: server,
                inherited,
                gateway,
                usage: Mutex::default(),
                started: Instant::now(),
                was_connected: AtomicBool::new(false),
            })
        });
        // Under the lock of the map, so that the reaper does not take it meanwhile.
        let mut usage = lock(&running.usage);
        usage.clients += 1;
        usage.idle_since = None;
        drop(usage);
        Lease {
            servers: self,
            running: Arc::clone(running),
        }
    }

    fn start(&self, server: &SharedServer, environment: ClientEnvironment) -> Gateway {
        let mut settings = Settings::from_env().legacy_only(server.legacy_only);
        let mut env = secrets(&server.env);
        // Known secrets are variables of the entry, whose values no log shows.
        let (secret, plain): (BTreeMap<_, _>, BTreeMap<_, _>) = environment
            .0
            .into_iter()
            .partition(|(name, value)| is_inherited_secret(name, value));
        for (name, value) in secrets(&secret) {
            env.entry(name).or_insert(value);
        }
        if !plain.is_empty() {
            settings = settings.environment(Some(Arc::new(secrets(&plain))));
        }
        let stdio = StdioEntry {
            command: server.command.clone(),
            args: server.args.clone(),
            env,
            cwd: server.cwd.clone(),
        };
        let entry = ServerEntry::new(&server.name, TransportEntry::Stdio(stdio));
        // The clients' hosts have decided about calls, and process results.
        let builder = (self.hosts)()
            .settings(settings)
            .project_dir(&server.project)
            .bypass_policy(true)
            .permit(AllowAll)
            .server(entry);
        Gateway::start(builder, GatewayOptions::default())
    }

    /// Ends servers that have had no client for a while. Never returns.
    pub(super) async fn reap(&self) {
        let mut ticks = tokio::time::interval(REAP_EVERY);
        loop {
            ticks.tick().await;
            for idle in self.take_idle() {
                tracing::info!(server = idle.definition.name, "stops: it has no clients");
                // Others must not wait for one that is slow to end.
                tokio::spawn(async move { idle.gateway.shutdown().await });
            }
        }
    }

    fn take_idle(&self) -> Vec<Arc<Running>> {
        let mut all = lock(&self.running);
        let is_idle = |running: &Running| {
            let usage = lock(&running.usage);
            let since = usage.idle_since.filter(|_| usage.clients == 0);
            since.is_some_and(|since| since.elapsed() >= self.idle)
        };
        let idle: Vec<_> = all
            .iter()
            .filter(|(_, running)| is_idle(running))
            .map(|(key, _)| key.clone())
            .collect();
        idle.iter().filter_map(|key| all.remove(key)).collect()
    }

    /// Ends all servers.
    pub(super) async fn shutdown(&self) {
        let all: Vec<_> = lock(&self.running).drain().map(|(_, one)| one).collect();
        let ends = all.iter().map(|running| running.gateway.shutdown());
        futures_util::future::join_all(ends).await;
    }

    /// Describes all servers, by name.
    pub(super) fn reports(&self) -> Vec<ServerReport> {
        let mut reports: Vec<_> = lock(&self.running)
            .values()
            .map(|running| {
                let usage = lock(&running.usage);
                let status = running.gateway.host().server(&running.definition.name);
                ServerReport {
                    definition: running.definition.clone(),
                    clients: usage.clients,
                    idle: usage.idle_since.map(|since| since.elapsed()),
                    age: running.started.elapsed(),
                    state: status.map_or("pending", |status| status.state.name()),
                }
            })
            .collect();
        reports.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        reports
    }
}

impl Lease<'_> {
    pub(super) fn gateway(&self) -> &Gateway {
        &self.running.gateway
    }

    /// Waits until the server is connected; `Err` says why it is not.
    pub(super) async fn connected(&self) -> Result<(), String> {
        let (host, name) = (self.gateway().host(), &self.running.definition.name);
        let error = |error: trunkline::server::UnknownServer| error.to_string();
        let status = host.ready_for(name).await.map_err(error)?;
        if is_connected(&status.state) {
            self.running.was_connected.store(true, Ordering::Relaxed);
            return Ok(());
        }
        // If it was lost, this client does not wait for the next attempt to restore it.
        if self.running.was_connected.load(Ordering::Relaxed) {
            host.reconnect(name).await.map_err(error)?;
            let latest = Instant::now() + RECONNECT_TIMEOUT;
            while Instant::now() < latest {
                match host.server(name).map(|status| status.state.clone()) {
                    Some(state) if is_connected(&state) => return Ok(()),
                    Some(State::Failed(failure)) => return Err(failure.to_string()),
                    None => break,
                    Some(_) => tokio::time::sleep(CHECK_EVERY).await,
                }
            }
        }
        let failure = status.state.failure().map(ToString::to_string);
        Err(failure.unwrap_or_else(|| "it is not connected".to_owned()))
    }

    /// Forgets a server that cannot be started, unless others use it: the next client tries again
    /// from the beginning.
    pub(super) fn discard(self) {
        let mut all = lock(&self.servers.running);
        let running = &self.running;
        let key = Key(running.definition.clone(), running.inherited.clone());
        let is_same = all
            .get(&key)
            .is_some_and(|one| Arc::ptr_eq(one, &self.running));
        if is_same && lock(&self.running.usage).clients == 1 {
            all.remove(&key);
            let gateway = self.running.gateway.clone();
            tokio::spawn(async move { gateway.shutdown().await });
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut usage = lock(&self.running.usage);
        usage.clients -= 1;
        if usage.clients == 0 {
            usage.idle_since = Some(Instant::now());
        }
    }
}

fn is_connected(state: &State) -> bool {
    matches!(state, State::Connected(_))
}

fn secrets(variables: &BTreeMap<String, String>) -> BTreeMap<String, Secret> {
    let secret = |(name, value): (&String, &String)| (name.clone(), Secret::new(value.clone()));
    variables.iter().map(secret).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
