//! Tells whoever listens what has changed (LIF-11).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};

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
    /// The servers that now wait for the user's approval, new or changed: nothing of them runs before it is given.
    pub awaiting_approval: BTreeSet<Arc<str>>,
    /// The listener was too slow and missed something: look at everything.
    pub missed: bool,
}

impl Changes {
    /// Forgets those of other servers.
    fn keep(&mut self, of: impl Fn(&str) -> bool) {
        self.servers.retain(|server| of(server));
        self.resources_updated.retain(|(server, _)| of(server));
        self.awaiting_approval.retain(|server| of(server));
    }
}

/// A listener's end. Being slow harms nobody but the listener.
pub struct Events {
    changes: broadcast::Receiver<Arc<Changes>>,
    /// Turns true, or closes, when the host has been shut down.
    closed: watch::Receiver<bool>,
    /// Whose changes are of interest; `None` is everybody's.
    of: Option<Of>,
}

type Of = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Events {
    /// Waits for the next changes; `None` once the host has been shut down or is gone.
    pub async fn next(&mut self) -> Option<Changes> {
        loop {
            let received = tokio::select! {
                // What was told before the end is still heard.
                biased;
                received = self.changes.recv() => received,
                _ = self.closed.wait_for(|closed| *closed) => return None,
            };
            return match received {
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
pub(crate) struct EventSender {
    changes: Mutex<Changes>,
    news: Notify,
    listeners: broadcast::Sender<Arc<Changes>>,
}

impl EventSender {
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

    /// A server has begun to wait for approval.
    pub(crate) fn awaits_approval(&self, server: &str) {
        if self.listeners.receiver_count() == 0 {
            return;
        }
        self.lock().awaiting_approval.insert(server.into());
        self.news.notify_one();
    }

    /// A listener's end; its events end when `closed` turns true or its sender is gone.
    pub(crate) fn subscribe(&self, closed: watch::Receiver<bool>) -> Events {
        Events {
            changes: self.listeners.subscribe(),
            closed,
            of: None,
        }
    }

    /// Tells in batches, for as long as it is polled.
    pub(crate) async fn tell(&self) {
        loop {
            self.news.notified().await;
            tokio::time::sleep(BATCH).await;
            self.tell_now();
        }
    }

    /// Tells what has been collected.
    pub(crate) fn tell_now(&self) {
        let changes = std::mem::take(&mut *self.lock());
        if changes != Changes::default() {
            let _ = self.listeners.send(Arc::new(changes));
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
        let events = Arc::new(EventSender::new());
        let closed = watch::Sender::new(false);
        let mut quick = events.subscribe(closed.subscribe());
        let mut slow = events.subscribe(closed.subscribe());
        let telling = tokio::spawn({
            let events = Arc::clone(&events);
            async move { events.tell().await }
        });
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        for _ in 0..10 {
            events.changed(&a);
            events.changed(&b);
        }
        assert_eq!(
            quick.next().await.unwrap().servers,
            BTreeSet::from([a.clone(), b])
        );
        for _ in 0..=CAPACITY {
            events.changed(&a);
            quick.next().await.unwrap();
        }
        assert!(slow.next().await.unwrap().missed);
        assert!(!slow.next().await.unwrap().missed);

        // What was told before the end is heard, and nothing after it.
        events.changed(&a);
        events.tell_now();
        closed.send_replace(true);
        assert!(quick.next().await.is_some());
        assert_eq!(quick.next().await, None);
        telling.abort();
    }
}
