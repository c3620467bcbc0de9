//! Notifications about one thing that somebody waits for: a page that the user has done with, a task that has moved on.
//!
//! Nobody may rely on them, so whoever waits here also has another way to find out. What nobody waits for is forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::json::Json;

/// What a notification is about: its kind, and the id of the thing.
type Topic = (Kind, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A page is done with.
    Elicitation,
    /// A task has moved on.
    Task,
}

/// Where those who wait leave word, and where notifications are passed on to them.
#[derive(Default)]
pub struct NotificationWaiters(Mutex<HashMap<Topic, watch::Sender<Option<Json>>>>);

impl NotificationWaiters {
    /// Passes a notification on to whoever waits for it.
    pub fn notify(&self, method: &str, params: Option<&Json>) {
        let (kind, member) = match method {
            "notifications/elicitation/complete" => (Kind::Elicitation, "elicitationId"),
            "notifications/tasks/status" | "notifications/tasks" => (Kind::Task, "taskId"),
            _ => return,
        };
        let Some((params, id)) = params.and_then(|params| Some((params, params.field(member)?)))
        else {
            return;
        };
        if let Some(waiting) = self.lock().get(&(kind, id)) {
            waiting.send_replace(Some(params.clone()));
        }
    }

    /// Begins to wait for notifications about one thing.
    pub(super) fn subscribe(&self, kind: Kind, id: &str) -> NotificationWaiter<'_> {
        let topic = (kind, id.to_owned());
        let mut all = self.lock();
        let waiting = all
            .entry(topic.clone())
            .or_insert_with(|| watch::Sender::new(None));
        NotificationWaiter {
            receiver: waiting.subscribe(),
            topic,
            waiters: self,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, watch::Sender<Option<Json>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits.
pub(super) struct NotificationWaiter<'s> {
    receiver: watch::Receiver<Option<Json>>,
    topic: Topic,
    waiters: &'s NotificationWaiters,
}

impl NotificationWaiter<'_> {
    /// The newest notification since the last time.
    pub(super) async fn next(&mut self) -> Json {
        loop {
            if self.receiver.changed().await.is_err() {
                return std::future::pending().await;
            }
            let update = self.receiver.borrow_and_update().clone();
            if let Some(update) = update {
                return update;
            }
        }
    }
}

impl Drop for NotificationWaiter<'_> {
    fn drop(&mut self) {
        let mut all = self.waiters.lock();
        // Our own receiver is still there.
        let last = |waiting: &watch::Sender<Option<Json>>| waiting.receiver_count() <= 1;
        if all.get(&self.topic).is_some_and(last) {
            all.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn only_who_waits_for_it_hears_of_it() {
        let waiters = NotificationWaiters::default();
        let params = Json::parse(r#"{"taskId":"a","status":"working"}"#).unwrap();
        waiters.notify("notifications/tasks/status", Some(&params));
        let mut one = waiters.subscribe(Kind::Task, "a");
        let mut other = waiters.subscribe(Kind::Task, "b");
        let mut page = waiters.subscribe(Kind::Elicitation, "a");
        assert!(one.next().now_or_never().is_none(), "that was before");
        waiters.notify("notifications/tasks", Some(&params));
        waiters.notify("notifications/tasks", None);
        assert_eq!(one.next().await, params);
        assert!(one.next().now_or_never().is_none());
        assert!(other.next().now_or_never().is_none());
        assert!(page.next().now_or_never().is_none());
        drop((one, other, page));
        assert!(waiters.lock().is_empty());
    }
}
