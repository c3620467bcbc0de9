//! Keeps the host's servers in step with the configuration files (CFG-9).
//!
//! One task owns the loader: it reads the files when they change, or when somebody asks, and hands the host the new set. Files
//! are read on a thread of their own, so that a slow disk holds up nobody.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use trunkline_config::{ConnectorEntry, Diagnostic, Loader, ServerSet, Watcher};

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
    /// Whether everything has been looked at once, connectors included.
    complete: watch::Receiver<bool>,
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
    pub(crate) watch: bool,
    /// Which servers the host wants to know of.
    pub(crate) only: Option<Wanted>,
}

impl Plan {
    fn load(&self, connectors: &[ConnectorEntry], problems: &[Diagnostic]) -> ServerSet {
        let mut set = self.loader.load(connectors);
        set.diagnostics.extend(problems.iter().cloned());
        if let Err(problem) = set.record_approvals(&self.loader) {
            set.diagnostics.push(problem);
        }
        self.wanted(set)
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
    /// Reads the files once and begins to keep watch. The caller applies the first set.
    pub(crate) fn start(mut plan: Plan) -> (Self, Keeper) {
        let first = plan.first.take();
        let first = first.unwrap_or_else(|| plan.loader.load(&[]));
        let set = Arc::new(ArcSwap::from_pointee(plan.wanted(first)));
        let (orders, inbox) = mpsc::channel(16);
        let wants_connectors = plan.connectors.is_some() && plan.loader.wants_connectors();
        let (done, complete) = watch::channel(!wants_connectors);
        let keeper = Keeper {
            plan: Arc::new(plan),
            set: Arc::clone(&set),
            inbox,
            orders: orders.downgrade(),
            done,
            watcher: None,
            connectors: Vec::new(),
            problems: Vec::new(),
        };
        let discovery = Self {
            set,
            orders,
            complete,
        };
        (discovery, keeper)
    }

    pub(crate) fn set(&self) -> Arc<ServerSet> {
        self.set.load_full()
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
    done: watch::Sender<bool>,
    watcher: Option<Watcher>,
    connectors: Vec<ConnectorEntry>,
    problems: Vec<Diagnostic>,
}

impl Keeper {
    /// Keeps the host in step for as long as there is one.
    pub(crate) async fn run(mut self, host: Weak<Inner>) {
        self.bind_approvals().await;
        if self.plan.watch {
            self.watch().await;
        }
        let connectors = self.plan.connectors.clone();
        let mut fetching = pin!(fetch(connectors));
        loop {
            let mut asked = Vec::new();
            tokio::select! {
                (connectors, problems) = &mut fetching, if !*self.done.borrow() => {
                    self.connectors = connectors;
                    self.problems.extend(problems);
                    self.reload(&host).await;
                    self.done.send_replace(true);
                    continue;
                }
                order = self.inbox.recv() => match order {
                    Some(Order::Reload(done)) => asked.push(done),
                    Some(Order::Changed) => self.settle(&mut asked).await,
                    None => return,
                },
            }
            self.reload(&host).await;
            for done in asked {
                let _ = done.send(());
            }
        }
    }

    /// Binds approvals by name in the first set to what they were found with. It may have to wait for a lock, so the host has
    /// started without it.
    async fn bind_approvals(&mut self) {
        let (plan, set) = (Arc::clone(&self.plan), self.set.load_full());
        let bound = tokio::task::spawn_blocking(move || set.record_approvals(&plan.loader)).await;
        if let Ok(Err(problem)) = bound {
            self.problems.push(problem);
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
        let set = Arc::new(set);
        self.set.store(Arc::clone(&set));
        Host::from_inner(inner).apply(set.for_host());
        if self.plan.watch {
            self.watch().await;
        }
    }

    async fn load(&self) -> Option<ServerSet> {
        let plan = Arc::clone(&self.plan);
        let (connectors, problems) = (self.connectors.clone(), self.problems.clone());
        let loaded = tokio::task::spawn_blocking(move || plan.load(&connectors, &problems));
        loaded.await.ok()
    }

    /// Watches the files that count now. A directory that has come since the last time may already hold something new.
    async fn watch(&mut self) {
        let files = self.set.load().files.clone();
        if self
            .watcher
            .as_ref()
            .is_some_and(|watcher| watcher.covers(&files))
        {
            return;
        }
        let orders = self.orders.clone();
        // Many changes are one: what does not fit into the queue is already in it.
        let changed = move || {
            if let Some(orders) = orders.upgrade() {
                let _ = orders.try_send(Order::Changed);
            }
        };
        let again = changed.clone();
        let watcher = tokio::task::spawn_blocking(move || Watcher::new(&files, changed)).await;
        match watcher {
            Ok(Ok(watcher)) => {
                self.watcher = Some(watcher);
                again();
            }
            Ok(Err(problem)) => {
                let message = format!("changes to the files are not noticed: {problem}");
                let problem = Diagnostic::warning("configuration", message);
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
            Err(_) => {}
        }
    }
}

/// The connectors, or what is wrong with them, within the time that they have.
async fn fetch(connectors: Option<Arc<dyn Connectors>>) -> (Vec<ConnectorEntry>, Vec<Diagnostic>) {
    let source = "claude.ai connectors";
    let Some(connectors) = connectors else {
        return Default::default();
    };
    match timeout(CONNECTORS_LIMIT, connectors.list()).await {
        Ok(Ok(list)) => {
            let named = list.names().into_iter().zip(list.connectors);
            let entry = |(name, connector): (String, Connector)| ConnectorEntry {
                name,
                id: connector.id,
                url: connector.url,
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
