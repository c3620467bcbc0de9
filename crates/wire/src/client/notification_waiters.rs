//! Callers that wait for a notification about one elicitation or task.
//!
//! Servers may omit these notifications, so every caller has another way to find out. A
//! notification without a waiting caller is dropped.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::json::Json;

/// The subject of a notification.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    /// A completed elicitation, by its id.
    Elicitation(String),
    /// A changed task, by its id.
    Task(String),
}

/// The registry of waiting callers.
#[derive(Default)]
pub struct NotificationWaiters(Mutex<HashMap<Topic, watch::Sender<Option<Json>>>>);

impl NotificationWaiters {
    /// Passes a notification on to the callers that wait for it.
    pub fn notify(&self, method: &str, params: Option<&Json>) {
        let (topic, member): (fn(String) -> Topic, _) = match method {
            "notifications/elicitation/complete" => (Topic::Elicitation, "elicitationId"),
            "notifications/tasks/status" | "notifications/tasks" => (Topic::Task, "taskId"),
            _ => return,
        };
        let Some((params, id)) = params.and_then(|params| Some((params, params.field(member)?)))
        else {
            return;
        };
        if let Some(waiting) = self.lock().get(&topic(id)) {
            waiting.send_replace(Some(params.clone()));
        }
    }

    /// Registers a caller.
    pub(super) fn subscribe(&self, topic: Topic) -> NotificationWaiter<'_> {
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

/// A registered caller.
pub(super) struct NotificationWaiter<'s> {
    receiver: watch::Receiver<Option<Json>>,
    topic: Topic,
    waiters: &'s NotificationWaiters,
}

impl NotificationWaiter<'_> {
    /// Waits for a notification, and returns the newest.
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
        // The count includes our own receiver.
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
    async fn a_notification_reaches_only_the_callers_that_wait_for_it() {
        let waiters = NotificationWaiters::default();
        let params = Json::parse(r#"{"taskId":"a","status":"working"}"#).unwrap();
        waiters.notify("notifications/tasks/status", Some(&params));
        let mut one = waiters.subscribe(Topic::Task("a".to_owned()));
        let mut other = waiters.subscribe(Topic::Task("b".to_owned()));
        let mut page = waiters.subscribe(Topic::Elicitation("a".to_owned()));
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
