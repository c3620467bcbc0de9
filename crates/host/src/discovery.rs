//! Keeps the host's servers in sync with the configuration files (CFG-9).
//!
//! One task owns the loader. It reads the files when they change or on request, and passes the new
//! set to the host. Files are read on the blocking pool, so a slow disk delays nobody.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use trunkline_config::{
    ConnectorEntry, Diagnostic, Editor, Layout, Loader, Server, ServerSet, Watcher,
};

use crate::builder::HostBuilder;
use crate::connectors::ConnectorSource;
use crate::host::{Host, Inner, ServerFilter};
use crate::network::Network;

/// Files are read once unchanged for this long, since a write may be incomplete.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Maximum wait for files that keep changing.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The builder's settings for discovery.
#[derive(Default)]
pub(crate) struct DiscoveryPlan {
    loader: Option<(Loader, Option<ServerSet>)>,
    pub(crate) connectors: Option<ConnectorSource>,
    watch: Option<bool>,
    /// Whether files are watched unless `watch` decides.
    discovers: bool,
    only: Option<ServerFilter>,
}

impl DiscoveryPlan {
    /// Returns the directory of the loader.
    pub(crate) fn project_dir(&self) -> Option<PathBuf> {
        let (loader, _) = self.loader.as_ref()?;
        Some(loader.project().cwd.clone())
    }

    /// Returns the paths of the configuration files, if they are read.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.loader.as_ref().map(|(loader, _)| loader.layout())
    }

    /// Starts discovery if configuration files are read.
    pub(crate) fn start(self, network: &Network) -> Option<(Discovery, DiscoveryTask)> {
        self.options(network).map(Discovery::start)
    }

    pub(crate) fn options(self, network: &Network) -> Option<DiscoveryOptions> {
        let (loader, initial_set) = self.loader?;
        Some(DiscoveryOptions {
            loader,
            initial_set,
            connectors: self.connectors,
            network: network.clone(),
            watch: self.watch.unwrap_or(self.discovers),
            filter: self.only,
        })
    }
}

/// Configuration files.
impl HostBuilder {
    /// Takes the servers from configuration files: all scopes, approval, policy. Watches the files
    /// and follows their changes.
    ///
    /// ```no_run
    /// use trunkline::Host;
    /// use trunkline::config::Layout;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let layout = Layout::from_env().ok_or("no home directory")?;
    /// let host = Host::builder().discover(layout, &std::env::current_dir()?).start();
    /// # host.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn discover(mut self, layout: Layout, cwd: &Path) -> Self {
        self.discovery.discovers = true;
        self.loader(Loader::new(layout, cwd))
    }

    /// Takes the servers from configuration files, as `loader` reads them.
    pub fn loader(mut self, loader: Loader) -> Self {
        self.discovery.loader = Some((loader, None));
        self
    }

    /// As [`HostBuilder::loader`], with a set that the loader has already read.
    pub fn loaded(mut self, loader: Loader, set: ServerSet) -> Self {
        self.discovery.loader = Some((loader, Some(set)));
        self
    }

    /// Whether to follow changes to the configuration files.
    pub fn watch(mut self, watch: bool) -> Self {
        self.discovery.watch = Some(watch);
        self
    }

    /// Takes only the configured servers whose names `wanted` accepts.
    pub fn only(mut self, wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.discovery.only = Some(Arc::new(wanted));
        self
    }
}

/// The host's handle of the discovery task.
pub(crate) struct Discovery {
    set: Arc<ArcSwap<ServerSet>>,
    commands: mpsc::Sender<Command>,
    stop: Arc<Notify>,
    /// Whether everything was loaded once, connectors included.
    complete: watch::Receiver<bool>,
    loader: Loader,
    /// Whether the files have been read.
    loaded: Arc<AtomicBool>,
    /// The embedder's servers that policy refuses; they are part of every set.
    refused: Arc<Mutex<Vec<Server>>>,
}

enum Command {
    /// Read everything again; answered when the host has the new set.
    Reload(oneshot::Sender<()>),
    /// A file may have changed.
    Changed,
}

/// Options of the discovery task.
pub(crate) struct DiscoveryOptions {
    pub(crate) loader: Loader,
    /// A set that the loader has already loaded.
    pub(crate) initial_set: Option<ServerSet>,
    pub(crate) connectors: Option<ConnectorSource>,
    /// The network, for the list of connectors.
    network: Network,
    pub(crate) watch: bool,
    /// The servers to consider.
    pub(crate) filter: Option<ServerFilter>,
}

impl DiscoveryOptions {
    fn load(&self, connectors: &[ConnectorEntry], problems: &[Diagnostic]) -> ServerSet {
        let mut set = self.loader.load(connectors);
        set.diagnostics.extend(problems.iter().cloned());
        set.bind_approvals(&self.loader);
        self.filtered(set)
    }

    fn wants_connectors(&self) -> bool {
        self.connectors.is_some() && self.loader.wants_connectors()
    }

    async fn fetch_connectors(&self) -> (Vec<ConnectorEntry>, Vec<Diagnostic>) {
        match &self.connectors {
            Some(connectors) => connectors.fetch(&self.network).await,
            None => Default::default(),
        }
    }

    /// Removes the servers that the filter rejects.
    fn filtered(&self, mut set: ServerSet) -> ServerSet {
        if let Some(filter) = &self.filter {
            set.servers.retain(|server| filter(&server.entry.name));
        }
        set
    }
}

impl Discovery {
    /// Creates the handle and the task. An initial set is available immediately; otherwise the task
    /// reads the files first.
    pub(crate) fn start(mut options: DiscoveryOptions) -> (Self, DiscoveryTask) {
        let initial_set = options.initial_set.take();
        let loader = options.loader.clone();
        let has_set = initial_set.is_some();
        let is_loaded = Arc::new(AtomicBool::new(has_set));
        let refused = Arc::default();
        let set = options.filtered(initial_set.unwrap_or_default());
        let set = Arc::new(ArcSwap::from_pointee(set));
        let (commands, receiver) = mpsc::channel(16);
        let fetch_connectors = options.connectors.is_some();
        let (done, complete) = watch::channel(has_set && !fetch_connectors);
        let stop = Arc::new(Notify::new());
        let task = DiscoveryTask {
            options: Arc::new(options),
            set: Arc::clone(&set),
            receiver,
            commands: commands.downgrade(),
            stop: Arc::clone(&stop),
            done,
            loaded: has_set,
            is_loaded: Arc::clone(&is_loaded),
            refused: Arc::clone(&refused),
            watcher: None,
            connectors: Vec::new(),
            connector_diagnostics: Vec::new(),
            watch_diagnostic: None,
        };
        let discovery = Self {
            set,
            commands,
            stop,
            complete,
            loader,
            loaded: is_loaded,
            refused,
        };
        (discovery, task)
    }

    /// Stops the task.
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) fn set(&self) -> Arc<ServerSet> {
        self.set.load_full()
    }

    /// Returns the set whose policy applies to the embedder's own servers. Reads the files now if
    /// they have not been read yet: no server may start before policy is known.
    pub(crate) fn policy(&self) -> Arc<ServerSet> {
        if self.loaded.load(Ordering::Acquire) {
            return self.set();
        }
        Arc::new(self.loader.load(&[]))
    }

    /// Replaces the embedder's servers that are listed as blocked.
    pub(crate) fn list_refused(&self, servers: Vec<Server>) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_empty() && servers.is_empty() {
            return;
        }
        let before: Vec<_> = refused.iter().map(|server| server.entry.clone()).collect();
        *refused = servers;
        self.set.rcu(|set| {
            let mut set = ServerSet::clone(set);
            set.servers.retain(|server| !before.contains(&server.entry));
            set.servers.extend(refused.iter().cloned());
            set
        });
    }

    /// Edits the files that the loader reads.
    pub(crate) fn editor(&self) -> Editor {
        let cwd = self.loader.project().cwd.clone();
        Editor::new(self.loader.layout().clone(), cwd)
    }

    pub(crate) async fn reload(&self) {
        let (done, done_receiver) = oneshot::channel();
        if self.commands.send(Command::Reload(done)).await.is_ok() {
            let _ = done_receiver.await;
        }
    }

    /// Waits until the connectors are known or have failed.
    pub(crate) async fn complete(&self) {
        let mut complete = self.complete.clone();
        let _ = complete.wait_for(|complete| *complete).await;
    }
}

/// The discovery task.
pub(crate) struct DiscoveryTask {
    options: Arc<DiscoveryOptions>,
    set: Arc<ArcSwap<ServerSet>>,
    receiver: mpsc::Receiver<Command>,
    commands: mpsc::WeakSender<Command>,
    stop: Arc<Notify>,
    done: watch::Sender<bool>,
    loaded: bool,
    is_loaded: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<Server>>>,
    watcher: Option<Watcher>,
    connectors: Vec<ConnectorEntry>,
    connector_diagnostics: Vec<Diagnostic>,
    /// Why changes are not noticed.
    watch_diagnostic: Option<Diagnostic>,
}

impl DiscoveryTask {
    /// Runs until the host is dropped or stopped.
    pub(crate) async fn run(mut self, host: Weak<Inner>) {
        let stop = Arc::clone(&self.stop);
        tokio::select! {
            () = self.run_until_closed(&host) => {}
            () = stop.notified() => {}
        }
    }

    async fn run_until_closed(&mut self, host: &Weak<Inner>) {
        if !self.loaded {
            self.reload(host).await;
        } else if self.options.watch {
            self.watch().await;
        }
        let needs_fetch = !*self.done.borrow() && self.options.wants_connectors();
        let options = Arc::clone(&self.options);
        let mut fetching = pin!(async move {
            if needs_fetch {
                options.fetch_connectors().await
            } else {
                Default::default()
            }
        });
        loop {
            let mut waiters = Vec::new();
            tokio::select! {
                (connectors, problems) = &mut fetching, if !*self.done.borrow() => {
                    self.connectors = connectors;
                    self.connector_diagnostics = problems;
                    if needs_fetch {
                        self.reload(host).await;
                    }
                    self.done.send_replace(true);
                    continue;
                }
                command = self.receiver.recv() => match command {
                    Some(Command::Reload(done)) => waiters.push(done),
                    Some(Command::Changed) => self.debounce(&mut waiters).await,
                    None => return,
                },
            }
            // An explicit reload also fetches connectors, which may have changed with a sign-in.
            if !waiters.is_empty() && *self.done.borrow() && self.options.wants_connectors() {
                (self.connectors, self.connector_diagnostics) =
                    self.options.fetch_connectors().await;
            }
            self.reload(host).await;
            for done in waiters {
                let _ = done.send(());
            }
        }
    }

    /// Waits until the files are unchanged. Reload requests that arrive meanwhile share the same
    /// read.
    async fn debounce(&mut self, waiters: &mut Vec<oneshot::Sender<()>>) {
        let latest = Instant::now() + MAX_WAIT;
        loop {
            let quiet = (Instant::now() + DEBOUNCE).min(latest);
            tokio::select! {
                () = sleep_until(quiet) => return,
                command = self.receiver.recv() => match command {
                    Some(Command::Changed) => {}
                    Some(Command::Reload(done)) => {
                        waiters.push(done);
                        return;
                    }
                    None => return,
                },
            }
        }
    }

    async fn reload(&mut self, host: &Weak<Inner>) {
        let Some(mut set) = self.load().await else {
            return;
        };
        if set.managed_unreadable && !self.set.load().managed_unreadable {
            // An unreadable managed file blocks all servers, but its writer gets time to finish.
            tokio::time::sleep(MAX_WAIT).await;
            match self.load().await {
                Some(again) => set = again,
                None => return,
            }
        }
        let Some(inner) = host.upgrade() else {
            return;
        };
        set.servers.extend(self.refused());
        let set = Arc::new(set);
        let before = self.set.swap(Arc::clone(&set));
        let was_loaded = self.is_loaded.swap(true, Ordering::AcqRel);
        let host = Host::from_inner(inner);
        host.apply(&set);
        if was_loaded {
            host.audit().configuration(&before, &set);
        }
        if is_changed(&before, &set) {
            host.configuration_changed();
        }
        if self.options.watch {
            self.watch().await;
        }
    }

    fn refused(&self) -> Vec<Server> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn load(&self) -> Option<ServerSet> {
        let options = Arc::clone(&self.options);
        let connectors = self.connectors.clone();
        let problems: Vec<_> = [
            &self.connector_diagnostics[..],
            self.watch_diagnostic.as_slice(),
        ]
        .concat();
        let loaded = tokio::task::spawn_blocking(move || options.load(&connectors, &problems));
        loaded.await.ok()
    }

    /// Watches the current files. A new directory may already contain changes.
    async fn watch(&mut self) {
        let files = self.set.load().files.clone();
        let commands = self.commands.clone();
        // Changes are coalesced: a full queue already holds one.
        let changed = move || {
            if let Some(commands) = commands.upgrade() {
                let _ = commands.try_send(Command::Changed);
            }
        };
        let again = changed.clone();
        let before = self.watcher.take();
        // Resolving paths touches the disk.
        let watching = tokio::task::spawn_blocking(move || match before {
            Some(watcher) if watcher.covers(&files) => (Ok(watcher), false),
            // Drop the old watcher only once the new one runs.
            before => {
                let new = Watcher::new(&files, changed);
                drop(before);
                (new, true)
            }
        });
        match watching.await {
            Ok((Ok(watcher), is_new)) => {
                self.watcher = Some(watcher);
                self.watch_diagnostic = None;
                if is_new {
                    again();
                }
            }
            Ok((Err(problem), _)) => {
                let message = format!("cannot watch the files for changes: {problem}");
                self.watch_diagnostic = Some(Diagnostic::warning("configuration", message));
            }
            Err(_) => {}
        }
    }
}

/// Whether a subscriber would see a difference.
fn is_changed(before: &ServerSet, now: &ServerSet) -> bool {
    let shown = |server: &Server| (server.entry.clone(), server.status.clone());
    before.diagnostics != now.diagnostics
        || before.permissions != now.permissions
        || before.hooks != now.hooks
        || !before
            .servers
            .iter()
            .map(shown)
            .eq(now.servers.iter().map(shown))
}
