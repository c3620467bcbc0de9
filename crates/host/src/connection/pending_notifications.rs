//! What a server has said about its lists and resources and nobody has acted on yet.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use trunkline_wire::Json;

use crate::catalog::Lists;

/// How many changed resources are remembered, and how long an address may be (SEC-4).
const MAX_UPDATED: usize = 1024;
const MAX_URI: usize = 8 * 1024;

/// Where whoever hears of a change leaves word for the task that owns the connection. However often a list is said to have
/// changed, it is on the slate once.
#[derive(Default)]
pub(super) struct PendingNotifications {
    changed: AtomicU8,
    heard: Notify,
    updated: Mutex<BTreeSet<String>>,
    heard_of_update: Notify,
    acknowledged: AtomicBool,
    acknowledgement: Notify,
}

impl PendingNotifications {
    /// Takes note of a notification, if it is about lists or resources.
    pub(super) fn hear(&self, notification: &str, params: Option<&Json>) {
        if notification == "notifications/subscriptions/acknowledged" {
            self.acknowledged.store(true, Ordering::Release);
            self.acknowledgement.notify_one();
        } else if notification == "notifications/resources/updated" {
            let uri: Option<String> = params.and_then(|params| params.field("uri"));
            if let Some(uri) = uri {
                self.updated(uri);
            }
        } else {
            self.changed(Lists::changed_by(notification));
        }
    }

    /// This resource has changed.
    pub(super) fn updated(&self, uri: String) {
        let mut updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        if uri.len() <= MAX_URI && updated.len() < MAX_UPDATED {
            updated.insert(uri);
            self.heard_of_update.notify_one();
        }
    }

    /// Waits until some resource has changed, and gives all that have.
    pub(super) async fn updates(&self) -> BTreeSet<String> {
        loop {
            let updated =
                std::mem::take(&mut *self.updated.lock().unwrap_or_else(PoisonError::into_inner));
            if !updated.is_empty() {
                return updated;
            }
            self.heard_of_update.notified().await;
        }
    }

    /// These lists should be fetched again.
    pub(super) fn changed(&self, lists: Lists) {
        if !lists.is_empty() {
            self.changed.fetch_or(lists.bits(), Ordering::AcqRel);
            self.heard.notify_one();
        }
    }

    /// Waits until some list should be fetched again.
    pub(super) async fn heard(&self) {
        while self.changed.load(Ordering::Acquire) == 0 {
            self.heard.notified().await;
        }
    }

    /// The lists that should be fetched again; whoever takes them does so.
    pub(super) fn take(&self) -> Lists {
        Lists::from_bits(self.changed.swap(0, Ordering::AcqRel))
    }

    /// Forgets what an earlier connection, or an earlier subscription, has said.
    pub(super) fn expect_acknowledgement(&self) {
        self.acknowledged.store(false, Ordering::Release);
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Waits until the subscription is acknowledged.
    pub(super) async fn acknowledged(&self) {
        while !self.is_acknowledged() {
            self.acknowledgement.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn however_often_a_change_is_told_it_is_acted_on_once() {
        let notifications = PendingNotifications::default();
        assert!(notifications.heard().now_or_never().is_none());
        for _ in 0..100 {
            notifications.hear("notifications/tools/list_changed", None);
            notifications.hear("notifications/prompts/list_changed", None);
            notifications.hear("notifications/message", None);
        }
        notifications.heard().await;
        assert_eq!(notifications.take(), Lists::TOOLS | Lists::PROMPTS);
        assert!(notifications.heard().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_changed_resource_is_told_once_and_only_so_many() {
        let notifications = PendingNotifications::default();
        let uri = |uri: &str| Json::from(serde_json::json!({ "uri": uri }));
        for _ in 0..10 {
            notifications.hear("notifications/resources/updated", Some(&uri("a:1")));
        }
        notifications.hear("notifications/resources/updated", None);
        notifications.hear(
            "notifications/resources/updated",
            Some(&uri(&"x".repeat(MAX_URI + 1))),
        );
        assert_eq!(
            notifications.updates().await,
            BTreeSet::from(["a:1".to_owned()])
        );
        assert!(notifications.updates().now_or_never().is_none());
        for n in 0..2 * MAX_UPDATED {
            notifications.updated(n.to_string());
        }
        assert_eq!(notifications.updates().await.len(), MAX_UPDATED);
    }

    #[tokio::test]
    async fn an_acknowledgement_counts_for_the_subscription_it_is_for() {
        let notifications = PendingNotifications::default();
        notifications.expect_acknowledgement();
        notifications.hear("notifications/subscriptions/acknowledged", None);
        notifications.acknowledged().await;
        notifications.expect_acknowledgement();
        assert!(notifications.acknowledged().now_or_never().is_none());
    }
}
