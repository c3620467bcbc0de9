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
const QUIET: Duration = Duration::from_millis(100);

/// How long files that never rest are waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the list of connectors may take (CFG-1).
const CONNECTORS_LIMIT: Duration = Duration::from_secs(5);

/// What the host holds of it.
pub(crate) struct Discovery {
    set: Arc<ArcSwap<ServerSet>>,
    orders: mpsc::Sender<Order>,
    stop: Arc<Notify>,
    /// Whether everything has been looked at once, connectors included.
    complete: watch::Receiver<bool>,
    loader: Loader,
    /// Whether the files have been read.
    loaded: Arc<AtomicBool>,
    /// The embedding program's servers that policy refuses; they are part of every set.
    refused: Arc<Mutex<Vec<Server>>>,
}

enum Order {
    /// Read everything again; answered once the host has the new set.
    Reload(oneshot::Sender<()>),
    /// A file may have changed.
    Changed,
}

/// Tells by its name whether a server is wanted.
pub(crate) type Wanted = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// How servers are discovered.
pub(crate) struct Plan {
    pub(crate) loader: Loader,
    /// What the loader has already found.
    pub(crate) first: Option<ServerSet>,
    pub(crate) connectors: Option<Arc<dyn Connectors>>,
    /// How the list of connectors is reached; by default as the environment says.
    pub(crate) dialer: Option<Dialer>,
    pub(crate) watch: bool,
    /// Which servers the host wants to know of.
    pub(crate) only: Option<Wanted>,
}

impl Plan {
    fn load(&self, connectors: &[ConnectorEntry], problems: &[Diagnostic]) -> ServerSet {
        let mut set = self.loader.load(connectors);
        set.diagnostics.extend(problems.iter().cloned());
        set.bind_approvals(&self.loader);
        self.wanted(set)
    }

    fn wants_connectors(&self) -> bool {
        self.connectors.is_some() && self.loader.wants_connectors()
    }

    /// The set with only the servers that are wanted.
    fn wanted(&self, mut set: ServerSet) -> ServerSet {
        if let Some(only) = &self.only {
            set.servers.retain(|server| only(&server.entry.name));
        }
        set
    }
}

impl Discovery {
    /// Begins to keep watch. What the loader has found already is there at once; otherwise the keeper reads the files first.
    pub(crate) fn start(mut plan: Plan) -> (Self, Keeper) {
        let first = plan.first.take();
        let loader = plan.loader.clone();
        let has_set = first.is_some();
        let is_loaded = Arc::new(AtomicBool::new(has_set));
        let refused = Arc::default();
        let set = plan.wanted(first.unwrap_or_default());
        let set = Arc::new(ArcSwap::from_pointee(set));
        let (orders, inbox) = mpsc::channel(16);
        let fetch = plan.connectors.is_some();
        let (done, complete) = watch::channel(has_set && !fetch);
        let stop = Arc::new(Notify::new());
        let keeper = Keeper {
            plan: Arc::new(plan),
            set: Arc::clone(&set),
            inbox,
            orders: orders.downgrade(),
            stop: Arc::clone(&stop),
            done,
            loaded: has_set,
            is_loaded: Arc::clone(&is_loaded),
            refused: Arc::clone(&refused),
            watcher: None,
            connectors: Vec::new(),
            of_connectors: Vec::new(),
            of_watching: None,
        };
        let discovery = Self {
            set,
            orders,
            stop,
            complete,
            loader,
            loaded: is_loaded,
            refused,
        };
        (discovery, keeper)
    }

    /// Ends it: nothing is read any more.
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) fn set(&self) -> Arc<ServerSet> {
        self.set.load_full()
    }

    /// The set that decides about the embedding program's own servers. Before the files have been read for the first time,
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
        let (done, carried_out) = oneshot::channel();
        if self.orders.send(Order::Reload(done)).await.is_ok() {
            let _ = carried_out.await;
        }
    }

    /// Waits until the connectors are known, or known not to come.
    pub(crate) async fn complete(&self) {
        let mut complete = self.complete.clone();
        let _ = complete.wait_for(|complete| *complete).await;
    }
}

/// The task's end.
pub(crate) struct Keeper {
    plan: Arc<Plan>,
    set: Arc<ArcSwap<ServerSet>>,
    inbox: mpsc::Receiver<Order>,
    orders: mpsc::WeakSender<Order>,
    stop: Arc<Notify>,
    done: watch::Sender<bool>,
    loaded: bool,
    is_loaded: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<Server>>>,
    watcher: Option<Watcher>,
    connectors: Vec<ConnectorEntry>,
    /// What is wrong with the connectors.
    of_connectors: Vec<Diagnostic>,
    /// Why changes are not noticed.
    of_watching: Option<Diagnostic>,
}

impl Keeper {
    /// Keeps the host in step for as long as there is one.
    pub(crate) async fn run(mut self, host: Weak<Inner>) {
        let stop = Arc::clone(&self.stop);
        tokio::select! {
            () = self.keep(&host) => {}
            () = stop.notified() => {}
        }
    }

    async fn keep(&mut self, host: &Weak<Inner>) {
        if !self.loaded {
            self.reload(host).await;
        } else if self.plan.watch {
            self.watch().await;
        }
        let fetch_any = !*self.done.borrow() && self.plan.wants_connectors();
        let mut fetching = pin!(fetch(
            self.plan.connectors.clone().filter(|_| fetch_any),
            self.plan.dialer.clone(),
        ));
        loop {
            let mut asked = Vec::new();
            tokio::select! {
                (connectors, problems) = &mut fetching, if !*self.done.borrow() => {
                    self.connectors = connectors;
                    self.of_connectors = problems;
                    if fetch_any {
                        self.reload(host).await;
                    }
                    self.done.send_replace(true);
                    continue;
                }
                order = self.inbox.recv() => match order {
                    Some(Order::Reload(done)) => asked.push(done),
                    Some(Order::Changed) => self.settle(&mut asked).await,
                    None => return,
                },
            }
            // Whoever asks wants to know everything anew; what was signed in to meanwhile, for example.
            if !asked.is_empty() && *self.done.borrow() && self.plan.wants_connectors() {
                let connectors = self.plan.connectors.clone();
                (self.connectors, self.of_connectors) =
                    fetch(connectors, self.plan.dialer.clone()).await;
            }
            self.reload(host).await;
            for done in asked {
                let _ = done.send(());
            }
        }
    }

    /// Waits until the files rest; whoever asks meanwhile is answered by the same reading.
    async fn settle(&mut self, asked: &mut Vec<oneshot::Sender<()>>) {
        let latest = Instant::now() + PATIENCE;
        loop {
            let quiet = (Instant::now() + QUIET).min(latest);
            tokio::select! {
                () = sleep_until(quiet) => return,
                order = self.inbox.recv() => match order {
                    Some(Order::Changed) => {}
                    Some(Order::Reload(done)) => {
                        asked.push(done);
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
            tokio::time::sleep(PATIENCE).await;
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
        if self.plan.watch {
            self.watch().await;
        }
    }

    /// The embedding program's servers that policy refuses.
    fn refused(&self) -> Vec<Server> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn load(&self) -> Option<ServerSet> {
        let plan = Arc::clone(&self.plan);
        let connectors = self.connectors.clone();
        let problems: Vec<_> = [&self.of_connectors[..], self.of_watching.as_slice()].concat();
        let loaded = tokio::task::spawn_blocking(move || plan.load(&connectors, &problems));
        loaded.await.ok()
    }

    /// Watches the files that count now. A directory that has come since the last time may already hold something new.
    async fn watch(&mut self) {
        let files = self.set.load().files.clone();
        let orders = self.orders.clone();
        // Many changes are one: what does not fit into the queue is already in it.
        let changed = move || {
            if let Some(orders) = orders.upgrade() {
                let _ = orders.try_send(Order::Changed);
            }
        };
        let again = changed.clone();
        let before = self.watcher.take();
        // Where files are is asked of the disk.
        let watching = tokio::task::spawn_blocking(move || match before {
            Some(watcher) if watcher.covers(&files) => (Ok(watcher), false),
            // The one before goes only when the new one watches.
            before => {
                let new = Watcher::new(&files, changed);
                drop(before);
                (new, true)
            }
        });
        match watching.await {
            Ok((Ok(watcher), is_new)) => {
                self.watcher = Some(watcher);
                self.of_watching = None;
                if is_new {
                    again();
                }
            }
            Ok((Err(problem), _)) => {
                let message = format!("changes to the files are not noticed: {problem}");
                self.of_watching = Some(Diagnostic::warning("configuration", message));
            }
            Err(_) => {}
        }
    }
}

/// The connectors, or what is wrong with them, within the time that they have.
async fn fetch(
    connectors: Option<Arc<dyn Connectors>>,
    dialer: Option<Dialer>,
) -> (Vec<ConnectorEntry>, Vec<Diagnostic>) {
    let source = "claude.ai connectors";
    let Some(connectors) = connectors else {
        return Default::default();
    };
    let dialer = dialer.unwrap_or_else(Dialer::from_env);
    match timeout(CONNECTORS_LIMIT, connectors.list_over(&dialer)).await {
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
            let seconds = CONNECTORS_LIMIT.as_secs();
            let message = format!("the list did not come within {seconds} s");
            (Vec::new(), vec![Diagnostic::warning(source, message)])
        }
    }
}
