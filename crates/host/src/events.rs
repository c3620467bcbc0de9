//! Tells whoever listens what has changed (LIF-11).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};

/// How long changes are collected before they are told.
const BATCH: Duration = Duration::from_millis(16);

/// How many batches a slow listener may be behind before it misses some.
const CAPACITY: usize = 64;

/// What has changed since the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The servers whose state or catalog changed, by name.
    pub servers: BTreeSet<Arc<str>>,
    /// The resources that changed and were subscribed to, each beside its server's name: what they hold may be another now.
    pub resources_updated: BTreeSet<(Arc<str>, String)>,
    /// The listener was too slow and missed something: look at everything.
    pub missed: bool,
}

impl Changes {
    /// Forgets those of other servers.
    fn keep(&mut self, of: impl Fn(&str) -> bool) {
        self.servers.retain(|server| of(server));
        self.resources_updated.retain(|(server, _)| of(server));
    }
}

/// A listener's end. Being slow harms nobody but the listener.
pub struct Events {
    changes: broadcast::Receiver<Arc<Changes>>,
    /// Whose changes are of interest; `None` is everybody's.
    of: Option<Of>,
}

type Of = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Events {
    /// Waits for the next changes; `None` once the host is gone.
    pub async fn next(&mut self) -> Option<Changes> {
        loop {
            return match self.changes.recv().await {
                Ok(changes) => {
                    let mut changes = Arc::unwrap_or_clone(changes);
                    if let Some(of) = &self.of {
                        changes.keep(of);
                        if changes == Changes::default() {
                            continue;
                        }
                    }
                    Some(changes)
                }
                Err(broadcast::error::RecvError::Lagged(_)) => Some(Changes {
                    missed: true,
                    ..Changes::default()
                }),
                Err(broadcast::error::RecvError::Closed) => None,
            };
        }
    }

    /// Only the changes of these servers.
    pub(crate) fn of(mut self, of: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.of = Some(Box::new(of));
        self
    }
}

/// The teller's end.
pub(crate) struct Teller {
    changes: Mutex<Changes>,
    news: Notify,
    listeners: broadcast::Sender<Arc<Changes>>,
}

impl Teller {
    pub(crate) fn new() -> Self {
        Self {
            changes: Mutex::default(),
            news: Notify::new(),
            listeners: broadcast::Sender::new(CAPACITY),
        }
    }

    pub(crate) fn changed(&self, server: &Arc<str>) {
        if self.listeners.receiver_count() == 0 {
            return;
        }
        self.lock().servers.insert(Arc::clone(server));
        self.news.notify_one();
    }

    /// A resource of a server has changed.
    pub(crate) fn updated(&self, server: &Arc<str>, uri: String) {
        if self.listeners.receiver_count() == 0 {
            return;
        }
        let mut changes = self.lock();
        changes.resources_updated.insert((Arc::clone(server), uri));
        self.news.notify_one();
    }

    pub(crate) fn subscribe(&self) -> Events {
        Events {
            changes: self.listeners.subscribe(),
            of: None,
        }
    }

    /// Tells in batches, for as long as it is polled.
    pub(crate) async fn tell(&self) {
        loop {
            self.news.notified().await;
            tokio::time::sleep(BATCH).await;
            let changes = std::mem::take(&mut *self.lock());
            if changes != Changes::default() {
                let _ = self.listeners.send(Arc::new(changes));
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_told_once_and_a_slow_listener_is_told_that_it_missed_some() {
        let teller = Arc::new(Teller::new());
        let mut quick = teller.subscribe();
        let mut slow = teller.subscribe();
        let telling = tokio::spawn({
            let teller = Arc::clone(&teller);
            async move { teller.tell().await }
        });
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        for _ in 0..10 {
            teller.changed(&a);
            teller.changed(&b);
        }
        assert_eq!(
            quick.next().await.unwrap().servers,
            BTreeSet::from([a.clone(), b])
        );
        for _ in 0..=CAPACITY {
            teller.changed(&a);
            quick.next().await.unwrap();
        }
        assert!(slow.next().await.unwrap().missed);
        assert!(!slow.next().await.unwrap().missed);
        telling.abort();
    }
}
