//! Connections: one task owns each; everyone else holds a handle and reads snapshots.

mod backoff;
mod changes;
mod custom;
mod factory;
mod inbound;
mod machine;
mod open;
mod pending_notifications;
mod relay;
mod resource_subscriptions;
mod roots;
mod sampling;
mod start_clock;
mod startup_limiter;
mod state;
mod task;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use trunkline_config::{ServerEntry, TransportEntry};
use trunkline_transport::SdkBridge;
use trunkline_wire::version::Era;

pub(crate) use crate::elicit::Elicit;
pub(crate) use custom::CustomServer;
pub(crate) use factory::plain_server;
pub(crate) use machine::Machine;
pub use relay::{Relay, RelayFuture, RelayStream, RelayedServer};
pub use roots::{Roots, RootsRequest};
pub use sampling::{Sampling, SamplingRequest};
pub(crate) use startup_limiter::StartupLimiter;
pub(crate) use state::SIGN_IN_HINT;
pub use state::{ConnectFailure, ConnectTimeout, Connected, FailureKind, State};

use pending_notifications::PendingNotifications;
use resource_subscriptions::ResourceSubscriptions;

use crate::audit::Audit;
use crate::builder::{EntryFilter, HostBuilder};
use crate::builtin::Builtin;
use crate::catalog::{
    Catalog, CatalogKey, CatalogStore, Expiry, FetchCache, Lists, ServerTools, ToolOptions,
};
use crate::elicit::{Broker, InFlight};
use crate::eras::EraMemory;
use crate::event::{EventSender, NotificationTap};
use crate::hooks::Hooks;
use crate::logs::{LogStore, MessageTap, Recorder, Tracer};
use crate::network::Network;
use crate::permission::policy::HostPolicy;
use crate::result::Results;
use crate::sandbox::SandboxSetup;
use crate::secrets::Secrets;
use crate::settings::Settings;

/// State shared by all connections of a host.
pub(crate) struct HostShared {
    pub(crate) settings: Settings,
    pub(crate) eras: EraMemory,
    pub(crate) limiter: StartupLimiter,
    pub(crate) events: EventSender,
    /// Answers elicitations.
    pub(crate) broker: Arc<Broker>,
    /// The user's commands before and after calls.
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) audit: Audit,
    /// The organisation's restrictions of calls.
    pub(crate) call_policy: HostPolicy,
    /// The embedder's model, for servers that request sampling.
    pub(crate) sampling: Option<Arc<dyn Sampling>>,
    /// The roots of the program's clients.
    pub(crate) roots: Option<Arc<dyn Roots>>,
    /// Receives the notifications that the program may forward.
    pub(crate) on_notification: Option<NotificationTap>,
    /// Selects the servers that run only for agents.
    pub(crate) private: Option<EntryFilter>,
    /// The level of log messages that servers are asked for.
    pub(crate) log_level: ArcSwapOption<String>,
    pub(crate) secrets: Option<Arc<dyn Secrets>>,
    pub(crate) network: Network,
    /// Runs local servers elsewhere.
    pub(crate) relay: Option<Arc<dyn Relay>>,
    /// The bridge to the embedding process.
    pub(crate) sdk: Option<SdkBridge>,
    pub(crate) logs: Option<LogStore>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) tap: Option<MessageTap>,
    pub(crate) results: Results,
    /// How servers are started in a sandbox.
    pub(crate) sandbox: SandboxSetup,
    /// Incremented when any catalog changes, so the pool knows when to rebuild.
    pub(crate) catalogs: AtomicU64,
    pub(crate) expiry: Expiry,
    /// Stores catalogs between runs.
    pub(crate) store: Option<CatalogStore>,
}

/// The origin of a server.
#[derive(Clone)]
pub(crate) enum Source {
    Entry(Arc<ServerEntry>),
    Builtin(Arc<Builtin>),
    /// Reached over a transport of the embedding program's own.
    Custom(Arc<CustomServer>),
}

impl Source {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Entry(entry) => &entry.name,
            Self::Builtin(builtin) => builtin.name(),
            Self::Custom(custom) => custom.name(),
        }
    }

    pub(crate) fn entry(&self) -> Option<&Arc<ServerEntry>> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Builtin(_) | Self::Custom(_) => None,
        }
    }

    fn transport(&self) -> Option<&TransportEntry> {
        self.entry().map(|entry| &entry.transport)
    }

    pub(crate) fn hash(&self) -> String {
        match self {
            Self::Entry(entry) => entry.hash(),
            Self::Builtin(builtin) => format!("builtin:{}:{}", builtin.id(), builtin.name()),
            Self::Custom(custom) => format!("custom:{}:{}", custom.id(), custom.name()),
        }
    }

    /// Returns the key of its pins (TOOL-11), which differs between servers of the same name.
    pub(crate) fn pin_key(&self) -> String {
        match self {
            Self::Entry(entry) => {
                let signature = trunkline_config::signature(entry).unwrap_or_default();
                format!("{}\n{signature}", entry.name)
            }
            Self::Builtin(builtin) => format!("{}\nbuiltin", builtin.name()),
            Self::Custom(custom) => format!("{}\ncustom", custom.name()),
        }
    }

    /// Returns the key of its stored catalog (LIF-13), which belongs to the identity signed in.
    /// Only servers that can be identified have one: not those in the embedding program or an IDE,
    /// nor those that a `headersHelper` or the program's own credentials sign in to.
    fn catalog_key(&self, hash: &str, network: &Network) -> Option<CatalogKey> {
        let transport = self.transport()?;
        let known = !transport.is_embedded()
            && !transport.is_ide()
            && !transport.is_connector()
            && transport.headers_helper().is_none();
        // A keychain reference names its account.
        let identity = self.entry().filter(|_| known)?;
        let identity = network.identity(identity)?;
        Some(CatalogKey::new(
            hash,
            Some(&*identity).filter(|name| !name.is_empty()),
        ))
    }

    /// Returns whether it is reached over HTTP, where modern servers may request arguments in
    /// headers.
    fn is_http(&self) -> bool {
        let flavour = self.transport().and_then(TransportEntry::http_flavour);
        flavour.is_some() && !self.is_ide()
    }

    /// Returns whether it runs in the embedding program, where tools may go without a prefix
    /// (TOOL-2).
    pub(crate) fn is_embedded(&self) -> bool {
        let transport = self.transport().map(TransportEntry::is_embedded);
        transport.unwrap_or(matches!(self, Self::Builtin(_)))
    }

    /// Returns the options for its tools. `bare` omits the prefix for servers in the embedding
    /// program.
    fn tool_options<'s>(
        &'s self,
        server: &'s Arc<str>,
        header_parameters: bool,
        bare: bool,
    ) -> ToolOptions<'s> {
        let entry = self.entry();
        ToolOptions {
            server,
            filter: entry.map(|entry| &entry.tools),
            always_load: entry.is_some_and(|entry| entry.always_load),
            header_parameters,
            prefix: !(bare && self.is_embedded()),
            is_ide: self.is_ide(),
        }
    }

    /// Returns whether it starts with its first call (LIF-13); `all` is the default.
    fn is_lazy(&self, all: bool) -> bool {
        self.entry().is_some_and(|entry| entry.lazy.unwrap_or(all))
    }

    fn is_ide(&self) -> bool {
        self.transport().is_some_and(TransportEntry::is_ide)
    }

    /// Returns whether connecting starts a local process (LIF-2).
    fn is_local(&self) -> bool {
        let transport = self.transport().map(TransportEntry::is_local);
        transport.unwrap_or(matches!(self, Self::Builtin(_)))
    }
}

/// Stored catalogs.
impl HostBuilder {
    /// Returns the catalog that an earlier run stored for a server, if the entry and the sign-in
    /// are still the same (LIF-13). Neither starts a host nor connects: for shell completions and
    /// the like, which must answer at once.
    ///
    /// ```
    /// # let cache_dir = std::env::temp_dir().join("my-agent-without-catalogs");
    /// use trunkline::storage::CatalogStore;
    /// use trunkline::{Host, ServerEntry};
    ///
    /// let builder = Host::builder().catalogs(CatalogStore::at(cache_dir));
    /// let entry = ServerEntry::stdio("files", "npx", ["-y", "server-filesystem"]);
    /// assert!(builder.stored_catalog(&entry).is_none());
    /// ```
    pub fn stored_catalog(&self, entry: &ServerEntry) -> Option<Catalog> {
        let source = Source::Entry(Arc::new(entry.clone()));
        let key = source.catalog_key(&source.hash(), &self.network)?;
        let name: Arc<str> = source.name().into();
        let options = source.tool_options(&name, source.is_http(), false);
        self.catalogs.as_ref()?.load(&key, options)
    }
}

/// An immutable snapshot of a server's status.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The name.
    pub name: Arc<str>,
    /// The entry; `None` for a built-in server.
    pub entry: Option<Arc<ServerEntry>>,
    /// The state of the connection.
    pub state: State,
    /// The catalog; a lost connection keeps its last one.
    pub catalog: Arc<Catalog>,
    /// The time of the next attempt to reconnect, while one is awaited.
    pub retry_at: Option<std::time::Instant>,
}

/// The handle of a connection, which ends when the handle is dropped.
pub(crate) struct Connection {
    core: Arc<Core>,
    commands: mpsc::Sender<Command>,
}

/// State shared by the task and the handles.
struct Core {
    name: Arc<str>,
    source: Source,
    hash: String,
    status: ArcSwap<ServerStatus>,
    /// Incremented when `status` changes.
    version: watch::Sender<u64>,
    shared: Arc<HostShared>,
    notifications: Arc<PendingNotifications>,
    /// The calls that the server may elicit input for.
    in_flight: Arc<InFlight>,
    subscriptions: ResourceSubscriptions,
    fetched: FetchCache,
    /// What stands in for the server's tools while it waits for a sign-in.
    sign_in_tools: OnceLock<Arc<ServerTools>>,
    /// Kept for as long as the connection: a sign-in that is under way ends with it.
    #[cfg(feature = "http")]
    _sign_in: Option<Arc<trunkline_auth::ServerAuth>>,
    recorder: Recorder,
}

enum Command {
    /// Disconnect and connect again; answered when connecting starts.
    Reconnect(oneshot::Sender<()>),
    /// Connect if the last attempt failed or none was made; concurrent requests share one attempt.
    Retry,
    /// Disconnect and stay idle; answered when everything is released.
    Disable(oneshot::Sender<()>),
    /// Like `Disable`, permanently.
    ShutDown(oneshot::Sender<()>),
}

impl Connection {
    /// The audit log of the host.
    #[cfg(feature = "http")]
    pub(crate) fn audit(&self) -> &Audit {
        &self.core.shared.audit
    }

    /// Starts connecting once `before` is gone. `owner` is the client that it belongs to, if it is
    /// not shared. A lazy server with a stored catalog waits until it
    /// is needed.
    pub(crate) fn start(
        source: Source,
        hash: String,
        shared: &Arc<HostShared>,
        owner: Option<Arc<str>>,
        before: Option<oneshot::Receiver<()>>,
    ) -> Self {
        let name: Arc<str> = source.name().into();
        let entry = source.entry().cloned();
        let disabled = entry.as_ref().is_some_and(|entry| entry.disabled);
        let store = shared.store.as_ref().filter(|_| !disabled);
        let catalog_key = store.and_then(|_| source.catalog_key(&hash, &shared.network));
        let bare = shared.settings.sdk_without_prefix;
        let options = source.tool_options(&name, source.is_http(), bare);
        let warm = store
            .zip(catalog_key.as_ref())
            .and_then(|(store, key)| store.load(key, options))
            .unwrap_or_default();
        // Without a stored catalog nothing would ever call it.
        let lazy = source.is_lazy(shared.settings.lazy) && !warm.is_empty();
        // A server that each client has for itself is started for its clients.
        let is_private = || {
            let selects = shared.private.as_ref().zip(source.entry());
            selects.is_some_and(|(selects, entry)| selects(entry))
        };
        let lazy = lazy || (owner.is_none() && is_private());
        let state = if disabled {
            State::Disabled
        } else {
            State::Pending {
                attempt: u32::from(!lazy),
                last_failure: None,
            }
        };
        let recorder = Recorder::new(
            &name,
            entry.as_deref(),
            shared.logs.as_ref(),
            shared.tracer.as_ref(),
            shared.tap.as_ref(),
        );
        recorder.log_initial_state(&state);
        #[cfg(feature = "http")]
        let sign_in = entry
            .as_deref()
            .and_then(|entry| shared.network.sign_in(entry));
        let core = Arc::new(Core {
            #[cfg(feature = "http")]
            _sign_in: sign_in,
            status: ArcSwap::from_pointee(ServerStatus {
                name: Arc::clone(&name),
                entry,
                state,
                catalog: Arc::new(warm),
                retry_at: None,
            }),
            name,
            hash,
            source,
            version: watch::Sender::new(0),
            shared: Arc::clone(shared),
            notifications: Arc::default(),
            in_flight: Arc::new(InFlight::owned_by(owner)),
            subscriptions: ResourceSubscriptions::default(),
            fetched: FetchCache::default(),
            sign_in_tools: OnceLock::new(),
            recorder,
        });
        let (commands, receiver) = mpsc::channel(16);
        let task = task::run(Arc::clone(&core), receiver);
        tokio::spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            task.await;
        });
        Self { core, commands }
    }

    pub(crate) fn hash(&self) -> &str {
        &self.core.hash
    }

    pub(crate) fn status(&self) -> Arc<ServerStatus> {
        self.core.status.load_full()
    }

    /// Returns the register of calls in flight, if anybody wants to know whose a server's
    /// questions and messages are.
    pub(crate) fn in_flight(&self) -> Option<&InFlight> {
        let shared = &self.core.shared;
        let wanted = shared.broker.is_staffed()
            || shared.sampling.is_some()
            || shared.on_notification.is_some();
        wanted.then_some(&*self.core.in_flight)
    }

    /// Asks the server for log messages of the level that the program wants.
    pub(crate) fn apply_log_level(&self) {
        if let Some(connected) = self.connected() {
            self.core.apply_log_level(&connected);
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.core.source
    }

    /// Returns the tools to offer. While the server waits for a sign-in, the tool that starts it
    /// stands in for them (AUTH-8); while requests lack scopes, it stands beside them (AUTH-6).
    pub(crate) fn tools(&self) -> Arc<ServerTools> {
        let core = &self.core;
        let status = core.status.load();
        let tools = &status.catalog.tools;
        let Some(entry) = core.source.entry() else {
            return Arc::clone(tools);
        };
        let network = &core.shared.network;
        let sign_in = || {
            let made = || Arc::new(ServerTools::sign_in(&core.name));
            Arc::clone(core.sign_in_tools.get_or_init(made))
        };
        match &status.state {
            State::NeedsAuth(_) if network.has_sign_in_tool(entry) => sign_in(),
            State::Connected(_)
                if !network.missing_scopes(entry).is_empty() && network.has_sign_in_tool(entry) =>
            {
                Arc::new(tools.and(&sign_in()))
            }
            _ => Arc::clone(tools),
        }
    }

    /// Returns the scopes that a refused request lacks, by the server's challenge (AUTH-6), and
    /// offers the tool that asks for them.
    pub(crate) fn demand_scopes(&self, challenge: Option<&str>) -> Vec<String> {
        let core = &self.core;
        let entry = core.source.entry();
        let scopes = entry.map(|entry| core.shared.network.scopes_of(entry, challenge));
        let scopes = scopes.unwrap_or_default();
        if !scopes.is_empty() {
            core.shared.catalogs.fetch_add(1, Ordering::Release);
            core.shared.events.changed(&core.name);
        }
        scopes
    }

    /// Returns the call timeout of the server's entry.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.core.source.entry()?.timeout
    }

    /// Returns whether the server is an IDE, whose results are unbounded (RES-6).
    pub(crate) fn is_ide(&self) -> bool {
        self.core.source.is_ide()
    }

    /// Removes our secrets from the server's text.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.core.recorder.redact(text)
    }

    /// Returns how long the server may stay silent during a call (TRN-4).
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        let settings = &self.core.shared.settings;
        if self.core.source.is_local() {
            settings.local_idle_timeout
        } else {
            settings.remote_idle_timeout
        }
    }

    /// Returns the connection if it is established, without waiting.
    pub(crate) fn connected(&self) -> Option<Arc<Connected>> {
        match &self.core.status.load().state {
            State::Connected(connected) if !connected.client.peer().is_closed() => {
                Some(Arc::clone(connected))
            }
            _ => None,
        }
    }

    /// Waits for the outcome of the first attempt. Does not wait for reconnection attempts or lazy
    /// servers.
    pub(crate) async fn settled(&self) {
        let mut version = self.core.version.subscribe();
        loop {
            version.mark_unchanged();
            if !matches!(
                self.status().state,
                State::Pending {
                    last_failure: None,
                    attempt: 1..,
                }
            ) {
                return;
            }
            if version.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until connected. A failed connection gets one more attempt (CALL-1), a lazy one its
    /// first. `Err` holds the final state, or the current one at the deadline.
    pub(crate) async fn ensure_connected(
        &self,
        deadline: Instant,
    ) -> Result<Arc<Connected>, State> {
        if let Some(connected) = self.connected() {
            return Ok(connected);
        }
        match tokio::time::timeout_at(deadline, self.wait_until_connected()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.status().state.clone()),
        }
    }

    async fn wait_until_connected(&self) -> Result<Arc<Connected>, State> {
        let mut version = self.core.version.subscribe();
        let mut asked = false;
        loop {
            version.mark_unchanged();
            if let Some(connected) = self.connected() {
                return Ok(connected);
            }
            match &self.status().state {
                state
                    if !asked
                        && (matches!(state, State::Failed(_) | State::NeedsAuth(_))
                            || state.is_lazy()) =>
                {
                    asked = true;
                    let _ = self.commands.send(Command::Retry).await;
                }
                state @ (State::Failed(_) | State::Disabled | State::NeedsAuth(_)) => {
                    return Err(state.clone());
                }
                State::Pending { .. } | State::Connected(_) => {}
            }
            if version.changed().await.is_err() {
                return Err(self.status().state.clone());
            }
        }
    }

    /// Refetches all lists in the background.
    pub(crate) async fn refresh(&self) {
        self.core.notifications.mark_changed(Lists::ALL);
        if self.status().state.is_lazy() {
            let _ = self.commands.send(Command::Retry).await;
        }
    }

    /// Refetches stale lists in the background. Returns when the next list becomes stale.
    pub(crate) fn refresh_stale(&self, now: Instant) -> Option<Instant> {
        let status = self.core.status.load();
        // Connecting fetches all lists anyway, and a lazy server is not started for this.
        if !matches!(status.state, State::Connected(_)) {
            return None;
        }
        self.core
            .notifications
            .mark_changed(status.catalog.stale(now));
        status.catalog.stale_after(now)
    }

    /// Disconnects and starts connecting again.
    pub(crate) async fn reconnect(&self) {
        self.command(Command::Reconnect).await;
    }

    /// Disconnects until reconnected.
    pub(crate) async fn disable(&self) {
        self.command(Command::Disable).await;
    }

    /// Disconnects permanently and waits until everything is released.
    pub(crate) async fn shut_down(&self) {
        self.command(Command::ShutDown).await;
    }

    /// Sends a command and waits until it is done.
    async fn command(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) {
        let (done, done_receiver) = oneshot::channel();
        if self.commands.send(command(done)).await.is_ok() {
            let _ = done_receiver.await;
        }
    }
}

fn waits_for_sign_in(state: &State) -> bool {
    matches!(state, State::NeedsAuth(_))
}

impl Core {
    /// Asks a legacy server for log messages of the level that the program wants. A modern one
    /// learns it with each request.
    fn apply_log_level(&self, connected: &Connected) {
        let level = self.shared.log_level.load();
        if let Some(level) = &*level
            && connected.era() == Era::Legacy
            && connected.identity().capabilities.logging
        {
            connected.client.request_log_level(level);
        }
    }

    fn tool_options(&self, header_parameters: bool) -> ToolOptions<'_> {
        let bare = self.shared.settings.sdk_without_prefix;
        self.source
            .tool_options(&self.name, header_parameters, bare)
    }

    /// Publishes a refetched catalog of a connected server.
    fn publish_refreshed(
        &self,
        connected: Arc<Connected>,
        previous: &Catalog,
        catalog: Arc<Catalog>,
    ) {
        if catalog.shows_the_same(previous) {
            // Nothing visible changed, but the freshness period restarts.
            let status = ServerStatus {
                catalog: Arc::clone(&catalog),
                ..ServerStatus::clone(&self.status.load())
            };
            self.status.store(Arc::new(status));
        } else {
            let state = State::Connected(connected);
            self.publish(state, Some(Arc::clone(&catalog)));
        }
        self.store_catalog(catalog);
    }

    /// Schedules the refresh of a fetched catalog and stores it for the next run.
    fn store_catalog(&self, catalog: Arc<Catalog>) {
        let fresh_until = catalog.stale_after(Instant::now());
        self.shared.expiry.schedule(fresh_until);
        let Some(store) = &self.shared.store else {
            return;
        };
        // Somebody may have signed in since the last one.
        let key = self.source.catalog_key(&self.hash, &self.shared.network);
        if let (Some(key), true) = (key, catalog.is_worth_keeping()) {
            store.save(key, catalog);
        }
    }

    fn redacted(&self, state: State) -> State {
        let redact = |failure: Arc<ConnectFailure>| Arc::new(failure.redacted(&self.recorder));
        match state {
            State::Failed(failure) => State::Failed(redact(failure)),
            State::NeedsAuth(failure) => State::NeedsAuth(redact(failure)),
            State::Pending {
                attempt,
                last_failure,
            } => State::Pending {
                attempt,
                last_failure: last_failure.map(redact),
            },
            state => state,
        }
    }

    /// Publishes a new state.
    fn publish(&self, state: State, catalog: Option<Arc<Catalog>>) {
        self.publish_with(state, catalog, None);
    }

    /// Publishes that the next attempt is made at `until`.
    fn publish_waiting(&self, state: State, until: Instant) {
        self.publish_with(state, None, Some(until.into_std()));
    }

    fn publish_with(
        &self,
        state: State,
        catalog: Option<Arc<Catalog>>,
        retry_at: Option<std::time::Instant>,
    ) {
        let state = self.redacted(state);
        let current = self.status.load_full();
        let new_catalog = catalog.is_some();
        let is_waiting = waits_for_sign_in(&state);
        let catalog = catalog.unwrap_or_else(|| Arc::clone(&current.catalog));
        self.recorder.log_change(&current, &state, &catalog);
        let audit = &self.shared.audit;
        audit.connection(&self.source, &current.state, &state);
        tracing::info!(target: "trunkline", server = &*self.name, state = state.name());
        self.status.store(Arc::new(ServerStatus {
            name: Arc::clone(&self.name),
            entry: current.entry.clone(),
            state,
            catalog,
            retry_at,
        }));
        if new_catalog || waits_for_sign_in(&current.state) != is_waiting {
            self.shared.catalogs.fetch_add(1, Ordering::Release);
        }
        self.version.send_modify(|version| *version += 1);
        self.shared.events.changed(&self.name);
    }
}
