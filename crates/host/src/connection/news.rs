//! What a server has said about its lists and nobody has acted on yet.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::Notify;

use crate::catalog::Lists;

/// Where whoever hears of a change leaves word for the task that owns the connection. However often a list is said to have
/// changed, it is on the slate once.
#[derive(Default)]
pub(super) struct News {
    changed: AtomicU8,
    heard: Notify,
    acknowledged: AtomicBool,
    acknowledgement: Notify,
}

impl News {
    /// Takes note of a notification, if it is about lists.
    pub(super) fn hear(&self, notification: &str) {
        if notification == "notifications/subscriptions/acknowledged" {
            self.acknowledged.store(true, Ordering::Release);
            self.acknowledgement.notify_one();
        } else {
            self.changed(Lists::changed_by(notification));
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
        let news = News::default();
        assert!(news.heard().now_or_never().is_none());
        for _ in 0..100 {
            news.hear("notifications/tools/list_changed");
            news.hear("notifications/prompts/list_changed");
            news.hear("notifications/message");
        }
        news.heard().await;
        assert_eq!(news.take(), Lists::TOOLS | Lists::PROMPTS);
        assert!(news.heard().now_or_never().is_none());
    }

    #[tokio::test]
    async fn an_acknowledgement_counts_for_the_subscription_it_is_for() {
        let news = News::default();
        news.expect_acknowledgement();
        news.hear("notifications/subscriptions/acknowledged");
        news.acknowledged().await;
        news.expect_acknowledgement();
        assert!(news.acknowledged().now_or_never().is_none());
    }
}
