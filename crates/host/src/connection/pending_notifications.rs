//! Notifications about lists and resources that have not been handled yet.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use trunkline_wire::Json;

use crate::catalog::Lists;

/// Maximum number of pending resource updates and maximum URI length (SEC-4).
const MAX_PENDING_UPDATES: usize = 1024;
const MAX_URI: usize = 8 * 1024;

/// Collects change notifications for the task that owns the connection. Repeated changes of a list
/// are coalesced.
#[derive(Default)]
pub(super) struct PendingNotifications {
    changed: AtomicU8,
    list_changed: Notify,
    updated: Mutex<BTreeSet<String>>,
    resource_updated: Notify,
    acknowledged: AtomicBool,
    acknowledgement: Notify,
}

impl PendingNotifications {
    /// Records a notification about lists or resources.
    pub(super) fn record(&self, notification: &str, params: Option<&Json>) {
        if notification == "notifications/subscriptions/acknowledged" {
            self.acknowledged.store(true, Ordering::Release);
            self.acknowledgement.notify_one();
        } else if notification == "notifications/resources/updated" {
            let uri: Option<String> = params.and_then(|params| params.field("uri"));
            if let Some(uri) = uri {
                self.mark_updated(uri);
            }
        } else {
            self.mark_changed(Lists::changed_by(notification));
        }
    }

    /// Marks a resource as updated.
    pub(super) fn mark_updated(&self, uri: String) {
        let mut updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        if uri.len() <= MAX_URI && updated.len() < MAX_PENDING_UPDATES {
            updated.insert(uri);
            self.resource_updated.notify_one();
        }
    }

    /// Waits for resource updates and takes all of them.
    pub(super) async fn next_updates(&self) -> BTreeSet<String> {
        loop {
            let updated =
                std::mem::take(&mut *self.updated.lock().unwrap_or_else(PoisonError::into_inner));
            if !updated.is_empty() {
                return updated;
            }
            self.resource_updated.notified().await;
        }
    }

    /// Marks lists for refetching.
    pub(super) fn mark_changed(&self, lists: Lists) {
        if !lists.is_empty() {
            self.changed.fetch_or(lists.bits(), Ordering::AcqRel);
            self.list_changed.notify_one();
        }
    }

    /// Waits until a list needs refetching.
    pub(super) async fn lists_changed(&self) {
        while self.changed.load(Ordering::Acquire) == 0 {
            self.list_changed.notified().await;
        }
    }

    /// Takes the lists that need refetching.
    pub(super) fn take_changed(&self) -> Lists {
        Lists::from_bits(self.changed.swap(0, Ordering::AcqRel))
    }

    /// Discards an earlier acknowledgement.
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
    async fn repeated_list_changes_are_coalesced() {
        let notifications = PendingNotifications::default();
        assert!(notifications.lists_changed().now_or_never().is_none());
        for _ in 0..100 {
            notifications.record("notifications/tools/list_changed", None);
            notifications.record("notifications/prompts/list_changed", None);
            notifications.record("notifications/message", None);
        }
        notifications.lists_changed().await;
        assert_eq!(notifications.take_changed(), Lists::TOOLS | Lists::PROMPTS);
        assert!(notifications.lists_changed().now_or_never().is_none());
    }

    #[tokio::test]
    async fn resource_updates_are_deduplicated_and_bounded() {
        let notifications = PendingNotifications::default();
        let uri = |uri: &str| Json::from(serde_json::json!({ "uri": uri }));
        for _ in 0..10 {
            notifications.record("notifications/resources/updated", Some(&uri("a:1")));
        }
        notifications.record("notifications/resources/updated", None);
        notifications.record(
            "notifications/resources/updated",
            Some(&uri(&"x".repeat(MAX_URI + 1))),
        );
        assert_eq!(
            notifications.next_updates().await,
            BTreeSet::from(["a:1".to_owned()])
        );
        assert!(notifications.next_updates().now_or_never().is_none());
        for n in 0..2 * MAX_PENDING_UPDATES {
            notifications.mark_updated(n.to_string());
        }
        assert_eq!(
            notifications.next_updates().await.len(),
            MAX_PENDING_UPDATES
        );
    }

    #[tokio::test]
    async fn acknowledgement_applies_to_its_own_subscription() {
        let notifications = PendingNotifications::default();
        notifications.expect_acknowledgement();
        notifications.record("notifications/subscriptions/acknowledged", None);
        notifications.acknowledged().await;
        notifications.expect_acknowledgement();
        assert!(notifications.acknowledged().now_or_never().is_none());
    }
}
