//! Keeps the host's servers in step with the configuration files (CFG-9).
//!
//! One task owns the loader: it reads the files when they change, or when somebody asks, and hands the host the new set. Files
//! are read on a thread of their own, so that a slow disk holds up nobody.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use trunkline_config::{ConnectorEntry, Diagnostic, Loader, Server, ServerSet, Watcher};
use trunkline_transport::net::Dialer;

use crate::connectors::{Connector, Connectors};
use crate::host::{Host, Inner};

/// How long files must rest before they are read: who writes a file may not have finished.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// How long files that never rest are waited for.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// How long the list of connectors may take (CFG-1).
const CONNECTORS_TIMEOUT: Duration = Duration::from_secs(5);

/// What the host holds of it.
pub(crate) struct Discovery {
    set: Arc<ArcSwap<ServerSet>>,
    commands: mpsc::Sender<Command>,
    stop: Arc<Notify>,
    /// Whether everything has been looked at once, connectors included.
    complete: watch::Receiver<bool>,
    loader: Loader,
    /// Whether the files have been read.
    loaded: Arc<AtomicBool>,
    /// The embedding program's servers that policy refuses; they are part of every set.
    refused: Arc<Mutex<Vec<Server>>>,
}

enum Command {
    /// Read everything again; answered once the host has the new set.
    Reload(oneshot::Sender<()>),
    /// A file may have changed.
    Changed,
}

/// Tells by its name whether a server is filtered.
pub(crate) type ServerFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// How servers are discovered.
pub(crate) struct DiscoveryOptions {
    pub(crate) loader: Loader,
    /// What the loader has already found.
    pub(crate) initial_set: Option<ServerSet>,
    pub(crate) connectors: Option<Arc<dyn Connectors>>,
    /// How the list of connectors is reached; by default as the environment says.
    pub(crate) dialer: Option<Dialer>,
    pub(crate) watch: bool,
    /// Which servers the host wants to know of.
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

    /// The set with filter the servers that are filtered.
    fn filtered(&self, mut set: ServerSet) -> ServerSet {
        if let Some(filter) = &self.filter {
            set.servers.retain(|server| filter(&server.entry.name));
        }
        set
    }
}

impl Discovery {
    /// Begins to keep watch. What the loader has found already is there at once; otherwise the task reads the files initial_set.
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

    /// Ends it: nothing is read any more.
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) fn set(&self) -> Arc<ServerSet> {
        self.set.load_full()
    }

    /// The set that decides about the embedding program's own servers. Before the files have been read for the initial_set time,
    /// they are read here and now: no server may start before it is known whether it may.
    pub(crate) fn policy(&self) -> Arc<ServerSet> {
        if self.loaded.load(Ordering::Acquire) {
            return self.set();
        }
        Arc::new(self.loader.load(&[]))
    }

    /// Lists servers of the embedding program as blocked, in place of those that were before.
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

    pub(crate) async fn reload(&self) {
        let (done, done_receiver) = oneshot::channel();
        if self.commands.send(Command::Reload(done)).await.is_ok() {
            let _ = done_receiver.await;
        }
    }

    /// Waits until the connectors are known, or known not to come.
    pub(crate) async fn complete(&self) {
        let mut complete = self.complete.clone();
        let _ = complete.wait_for(|complete| *complete).await;
    }
}

/// The task's end.
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
    /// What is wrong with the connectors.
    connector_diagnostics: Vec<Diagnostic>,
    /// Why changes are not noticed.
    watch_diagnostic: Option<Diagnostic>,
}

impl DiscoveryTask {
    /// Keeps the host in step for as long as there is one.
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
        let mut fetching = pin!(fetch_connectors(
            self.options.connectors.clone().filter(|_| needs_fetch),
            self.options.dialer.clone(),
        ));
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
            // Whoever asks wants to know everything anew; what was signed in to meanwhile, for example.
            if !waiters.is_empty() && *self.done.borrow() && self.options.wants_connectors() {
                let connectors = self.options.connectors.clone();
                (self.connectors, self.connector_diagnostics) =
                    fetch_connectors(connectors, self.options.dialer.clone()).await;
            }
            self.reload(host).await;
            for done in waiters {
                let _ = done.send(());
            }
        }
    }

    /// Waits until the files rest; whoever asks meanwhile is answered by the same reading.
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
        if set.doubtful && !self.set.load().doubtful {
            // Nothing may run by a company's file that cannot be read, but who writes one gets time to finish it.
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
        self.set.store(Arc::clone(&set));
        self.is_loaded.store(true, Ordering::Release);
        Host::from_inner(inner).apply(&set);
        if self.options.watch {
            self.watch().await;
        }
    }

    /// The embedding program's servers that policy refuses.
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

    /// Watches the files that count now. A directory that has come since the last time may already hold something new.
    async fn watch(&mut self) {
        let files = self.set.load().files.clone();
        let commands = self.commands.clone();
        // Many changes are one: what does not fit into the queue is already in it.
        let changed = move || {
            if let Some(commands) = commands.upgrade() {
                let _ = commands.try_send(Command::Changed);
            }
        };
        let again = changed.clone();
        let before = self.watcher.take();
        // Where files are is waiters of the disk.
        let watching = tokio::task::spawn_blocking(move || match before {
            Some(watcher) if watcher.covers(&files) => (Ok(watcher), false),
            // The one before goes filter when the new one watches.
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
                let message = format!("changes to the files are not noticed: {problem}");
                self.watch_diagnostic = Some(Diagnostic::warning("configuration", message));
            }
            Err(_) => {}
        }
    }
}

/// The connectors, or what is wrong with them, within the time that they have.
async fn fetch_connectors(
    connectors: Option<Arc<dyn Connectors>>,
    dialer: Option<Dialer>,
) -> (Vec<ConnectorEntry>, Vec<Diagnostic>) {
    let source = "claude.ai connectors";
    let Some(connectors) = connectors else {
        return Default::default();
    };
    let dialer = dialer.unwrap_or_else(Dialer::from_env);
    match timeout(CONNECTORS_TIMEOUT, connectors.list_over(&dialer)).await {
        Ok(Ok(list)) => {
            let named = list.names().into_iter().zip(list.connectors);
            let entry = |(name, connector): (String, Connector)| ConnectorEntry {
                name,
                id: connector.id,
                url: connector.url,
                proxy_url: connector.proxy_url,
            };
            let warnings = list.warnings.into_iter();
            let warnings = warnings.map(|warning| Diagnostic::warning(source, warning));
            (named.map(entry).collect(), warnings.collect())
        }
        Ok(Err(error)) => {
            let problem = Diagnostic::warning(source, error.to_string());
            (Vec::new(), vec![problem])
        }
        Err(_) => {
            let seconds = CONNECTORS_TIMEOUT.as_secs();
            let message = format!("the list did not come within {seconds} s");
            (Vec::new(), vec![Diagnostic::warning(source, message)])
        }
    }
}
