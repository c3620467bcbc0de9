//! Connections: one task owns each, everyone else holds a handle and reads snapshots.

mod backoff;
mod changes;
mod elicited;
mod factory;
mod inbound;
mod machine;
mod open;
mod pending_notifications;
mod resource_subscriptions;
mod sampling;
mod start_clock;
mod startup_limiter;
mod state;
mod task;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use trunkline_config::{ServerEntry, TransportEntry};
use trunkline_transport::SdkBridge;
use trunkline_transport::http::Credentials;
use trunkline_transport::net::Dialer;

pub use inbound::Elicit;
pub(crate) use machine::Machine;
pub use sampling::{Sampling, SamplingRequest};
pub(crate) use startup_limiter::StartupLimiter;
pub(crate) use state::SIGN_IN_HINT;
pub use state::{ConnectFailure, Connected, FailureKind, State};

use pending_notifications::PendingNotifications;
use resource_subscriptions::ResourceSubscriptions;

use crate::builtin::Builtin;
use crate::catalog::{Catalog, CatalogKey, CatalogStore, Expiry, FetchCache, Lists, ToolOptions};
use crate::eras::EraMemory;
use crate::event::EventSender;
use crate::logs::{LogStore, Recorder, Tracer};
use crate::result::Results;
use crate::secrets::Secrets;
use crate::settings::Settings;

/// What all connections of a host share.
pub(crate) struct HostShared {
    pub(crate) settings: Settings,
    pub(crate) eras: EraMemory,
    pub(crate) limiter: StartupLimiter,
    pub(crate) events: EventSender,
    pub(crate) elicit: Option<Arc<dyn Elicit>>,
    /// The embedder's model, for servers that ask for one.
    pub(crate) sampling: Option<Arc<dyn Sampling>>,
    pub(crate) secrets: Option<Arc<dyn Secrets>>,
    pub(crate) dialer: Dialer,
    /// The way to the process that we are embedded in.
    pub(crate) sdk: Option<SdkBridge>,
    pub(crate) credentials: Option<CredentialsLookup>,
    /// Who we are to the proxy of claude.ai's connectors.
    pub(crate) connector_credentials: Option<Arc<dyn Credentials>>,
    pub(crate) logs: Option<LogStore>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) results: Results,
    /// Counts the changes to any catalog, so that the pool has_credentials when it is out of date.
    pub(crate) catalogs: AtomicU64,
    /// When the next list becomes stale.
    pub(crate) expiry: Expiry,
    /// Where catalogs are kept from one run to the next.
    pub(crate) store: Option<CatalogStore>,
}

impl HostShared {
    /// Whether we are somebody to this server, whose catalog may then be another's tomorrow.
    fn has_credentials(&self, source: &Source) -> bool {
        match (source, &self.credentials) {
            (Source::Entry(entry), Some(find)) => find(entry).is_some(),
            _ => false,
        }
    }
}

/// Finds out who we are to a server.
pub(crate) type CredentialsLookup =
    Arc<dyn Fn(&ServerEntry) -> Option<Arc<dyn Credentials>> + Send + Sync>;

/// Where a server comes from.
#[derive(Clone)]
pub(crate) enum Source {
    Entry(Arc<ServerEntry>),
    Builtin(Arc<Builtin>),
}

impl Source {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Entry(entry) => &entry.name,
            Self::Builtin(builtin) => builtin.name(),
        }
    }

    pub(crate) fn hash(&self) -> String {
        match self {
            Self::Entry(entry) => entry.hash(),
            Self::Builtin(builtin) => format!("builtin:{}", builtin.name()),
        }
    }

    /// Where its tools are pinned (TOOL-11): another server of the same name is none of its business.
    pub(crate) fn pin_key(&self) -> String {
        match self {
            Self::Entry(entry) => {
                let signature = trunkline_config::signature(entry).unwrap_or_default();
                format!("{}\n{signature}", entry.name)
            }
            Self::Builtin(builtin) => format!("{}\nbuiltin", builtin.name()),
        }
    }

    /// Under which key its catalog is kept (LIF-13). Only what can be told apart from everything else is kept: not what lives in
    /// the embedding program or in an IDE that is open now, nor what a `headersHelper` signs in to as somebody we do not know.
    fn catalog_key(&self, hash: &str) -> Option<CatalogKey> {
        let Self::Entry(entry) = self else {
            return None;
        };
        let known = match &entry.transport {
            TransportEntry::Stdio(_) => true,
            TransportEntry::Http(http) => http.headers_helper.is_none(),
            TransportEntry::Ws(ws) => ws.headers_helper.is_none(),
            TransportEntry::Ide(_) | TransportEntry::Sdk | TransportEntry::ClaudeAiProxy { .. } => {
                false
            }
        };
        // A reference to the keychain names its account; signing in will name an identity of its own.
        known.then(|| CatalogKey::new(hash, None))
    }

    /// Whether it is reached over HTTP, where a modern server may ask for arguments in headers.
    fn is_http(&self) -> bool {
        match self {
            Self::Entry(entry) => matches!(
                entry.transport,
                TransportEntry::Http(_) | TransportEntry::ClaudeAiProxy { .. }
            ),
            Self::Builtin(_) => false,
        }
    }

    /// Whether it lives in the embedding program, and its tools need no prefix if that asks for none (TOOL-2).
    pub(crate) fn is_embedded(&self) -> bool {
        match self {
            Self::Entry(entry) => matches!(entry.transport, TransportEntry::Sdk),
            Self::Builtin(_) => true,
        }
    }

    /// How its tools are offered; `headers` says whether arguments may have to be repeated there, `bare` whether servers in the
    /// embedding program go without a prefix.
    fn tool_options<'s>(
        &'s self,
        server: &'s Arc<str>,
        header_parameters: bool,
        bare: bool,
    ) -> ToolOptions<'s> {
        let entry = match self {
            Self::Entry(entry) => Some(entry),
            Self::Builtin(_) => None,
        };
        ToolOptions {
            server,
            filter: entry.map(|entry| &entry.tools),
            always_load: entry.is_some_and(|entry| entry.always_load),
            header_parameters,
            prefix: !(bare && self.is_embedded()),
            is_ide: entry.is_some_and(|entry| matches!(entry.transport, TransportEntry::Ide(_))),
        }
    }

    /// Whether it is started by its first call (LIF-13), as its entry says, or else `all`.
    fn is_lazy(&self, all: bool) -> bool {
        match self {
            Self::Entry(entry) => entry.lazy.unwrap_or(all),
            Self::Builtin(_) => false,
        }
    }

    /// Whether it starts something on this machine, or only connects to something elsewhere (LIF-2).
    fn is_local(&self) -> bool {
        match self {
            Self::Entry(entry) => matches!(
                entry.transport,
                TransportEntry::Stdio(_) | TransportEntry::Sdk
            ),
            Self::Builtin(_) => true,
        }
    }
}

/// A server as it stands now: an immutable snapshot.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its entry; absent for one that is built into the embedding program.
    pub entry: Option<Arc<ServerEntry>>,
    /// Where its connection stands.
    pub state: State,
    /// What it offers. A connection that was lost keeps what it last offered.
    pub catalog: Arc<Catalog>,
}

/// The handle of a connection. The connection ends when it is dropped.
pub(crate) struct Connection {
    core: Arc<Core>,
    commands: mpsc::Sender<Command>,
}

/// What the task and the handles share.
struct Core {
    name: Arc<str>,
    source: Source,
    hash: String,
    status: ArcSwap<ServerStatus>,
    /// Counts the changes of `status`.
    version: watch::Sender<u64>,
    shared: Arc<HostShared>,
    /// What the server said about its lists.
    notifications: Arc<PendingNotifications>,
    /// Which of its resources somebody wants to hear about.
    subscriptions: ResourceSubscriptions,
    /// What was fetched from it and is still fresh.
    fetched: FetchCache,
    /// Under which key its catalog is kept.
    catalog_key: Option<CatalogKey>,
    /// Writes down what happens to it.
    recorder: Recorder,
}

enum Command {
    /// Drop what stands and connect afresh; answered once that is under way.
    Reconnect(oneshot::Sender<()>),
    /// Connect if the last attempt has failed or none was made yet; many callers may ask for it at once.
    Retry,
    /// Drop what stands and rest; answered once nothing is left.
    Disable(oneshot::Sender<()>),
    /// As `Disable`, for good.
    ShutDown(oneshot::Sender<()>),
}

impl Connection {
    /// Starts to connect, once `before` is gone; a lazy one whose catalog is known waits for somebody to need it.
    pub(crate) fn start(
        source: Source,
        hash: String,
        shared: &Arc<HostShared>,
        before: Option<oneshot::Receiver<()>>,
    ) -> Self {
        let name: Arc<str> = source.name().into();
        let (entry, disabled) = match &source {
            Source::Entry(entry) => (Some(Arc::clone(entry)), entry.disabled),
            Source::Builtin(_) => (None, false),
        };
        let catalog_key = source
            .catalog_key(&hash)
            .filter(|_| !shared.has_credentials(&source));
        let store = shared.store.as_ref().filter(|_| !disabled);
        let bare = shared.settings.sdk_without_prefix;
        let options = source.tool_options(&name, source.is_http(), bare);
        let warm = store
            .zip(catalog_key.as_ref())
            .and_then(|(store, key)| store.load(key, options))
            .unwrap_or_default();
        // With nothing to show, nobody would ever ask for it.
        let lazy = source.is_lazy(shared.settings.lazy) && !warm.is_empty();
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
        );
        recorder.log_initial_state(&state);
        let core = Arc::new(Core {
            status: ArcSwap::from_pointee(ServerStatus {
                name: Arc::clone(&name),
                entry,
                state,
                catalog: Arc::new(warm),
            }),
            name,
            hash,
            source,
            version: watch::Sender::new(0),
            shared: Arc::clone(shared),
            notifications: Arc::default(),
            subscriptions: ResourceSubscriptions::default(),
            fetched: FetchCache::default(),
            catalog_key,
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

    pub(crate) fn source(&self) -> &Source {
        &self.core.source
    }

    /// How long one call may take, where the server's entry says so.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        match &self.core.source {
            Source::Entry(entry) => entry.timeout,
            Source::Builtin(_) => None,
        }
    }

    /// Whether it is to an IDE, whose results may have any size (RES-6).
    pub(crate) fn is_ide(&self) -> bool {
        match &self.core.source {
            Source::Entry(entry) => matches!(entry.transport, TransportEntry::Ide(_)),
            Source::Builtin(_) => false,
        }
    }

    /// What the server said, without our secrets.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.core.recorder.redact(text)
    }

    /// How long the server may send nothing while a call waits (TRN-4).
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        let settings = &self.core.shared.settings;
        if self.core.source.is_local() {
            settings.idle_local
        } else {
            settings.idle_remote
        }
    }

    /// The connection if it stands, without waiting.
    pub(crate) fn connected(&self) -> Option<Arc<Connected>> {
        match &self.core.status.load().state {
            State::Connected(connected) if !connected.client.peer().is_closed() => {
                Some(Arc::clone(connected))
            }
            _ => None,
        }
    }

    /// Waits until it stands or has failed for the first time; not for attempts to get it back, nor for a lazy server that
    /// nobody has asked for.
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

    /// Waits until it stands, asking for one more try if it has failed (CALL-1), and for the first if it is lazy. `Err` holds the
    /// state it ended in, or the one it is still in at the deadline.
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

    /// Has its lists fetched again, in the background.
    pub(crate) async fn refresh(&self) {
        self.core.notifications.mark_changed(Lists::ALL);
        if self.status().state.is_lazy() {
            let _ = self.commands.send(Command::Retry).await;
        }
    }

    /// Has those of its lists fetched again that are no longer fresh, in the background. Gives the moment at which the next of
    /// them will not be.
    pub(crate) fn refresh_stale(&self, now: Instant) -> Option<Instant> {
        let status = self.core.status.load();
        // Whoever connects fetches all of them anyway, and a lazy server is not started for this.
        if !matches!(status.state, State::Connected(_)) {
            return None;
        }
        self.core
            .notifications
            .mark_changed(status.catalog.stale(now));
        status.catalog.stale_after(now)
    }

    /// Drops what stands and begins to connect afresh.
    pub(crate) async fn reconnect(&self) {
        self.command(Command::Reconnect).await;
    }

    /// Ends the connection until it is asked for again.
    pub(crate) async fn disable(&self) {
        self.command(Command::Disable).await;
    }

    /// Ends the connection and waits until nothing of it is left.
    pub(crate) async fn shut_down(&self) {
        self.command(Command::ShutDown).await;
    }

    /// Gives an order and waits until it has been carried out.
    async fn command(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) {
        let (done, done_receiver) = oneshot::channel();
        if self.commands.send(command(done)).await.is_ok() {
            let _ = done_receiver.await;
        }
    }
}

impl Core {
    fn tool_options(&self, header_parameters: bool) -> ToolOptions<'_> {
        let bare = self.shared.settings.sdk_without_prefix;
        self.source
            .tool_options(&self.name, header_parameters, bare)
    }

    /// Publishes a catalog that was fetched again from a server that has been connected all along.
    fn publish_refreshed(
        &self,
        connected: Arc<Connected>,
        previous: &Catalog,
        catalog: Arc<Catalog>,
    ) {
        if catalog.shows_the_same(previous) {
            // Nobody need look again, but how long it is fresh counts anew.
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

    /// Takes note of a catalog as it came from the server: when it becomes stale, and for the next run.
    fn store_catalog(&self, catalog: Arc<Catalog>) {
        let fresh_until = catalog.stale_after(Instant::now());
        self.shared.expiry.schedule(fresh_until);
        let keep = catalog.is_worth_keeping();
        if let (Some(store), Some(key), true) = (&self.shared.store, &self.catalog_key, keep) {
            store.save(key.clone(), catalog);
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
        let state = self.redacted(state);
        let current = self.status.load_full();
        let new_catalog = catalog.is_some();
        let catalog = catalog.unwrap_or_else(|| Arc::clone(&current.catalog));
        self.recorder.log_change(&current, &state, &catalog);
        self.status.store(Arc::new(ServerStatus {
            name: Arc::clone(&self.name),
            entry: current.entry.clone(),
            state,
            catalog,
        }));
        if new_catalog {
            self.shared.catalogs.fetch_add(1, Ordering::Release);
        }
        self.version.send_modify(|version| *version += 1);
        self.shared.events.changed(&self.name);
    }
}
