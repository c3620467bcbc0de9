//! Refreshes a connected server's lists when it reports changes (LIF-9).
//!
//! Both halves run inside the task that owns the connection and end with it: one refetches changed
//! lists, the other keeps a modern server's subscription open. Neither delays calls.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use trunkline_wire::client::Subscription;
use trunkline_wire::version::Era;
use trunkline_wire::{Client, RequestError, RpcError};

use super::backoff::{self, STABLE};
use super::resource_subscriptions::{RESOURCES_READ, resubscribe};
use super::state::{Connected, State};
use super::{Core, task};
use crate::catalog::{self, Lists};
use crate::settings;

/// Delay after a change notification, since more may follow.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Minimum interval between two fetches.
const MIN_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of consecutive subscription failures without an acknowledgement.
const MAX_REFUSALS: u32 = 5;

/// Refetches the lists reported as changed.
pub(super) async fn refresh_changed_lists(core: &Core, connected: &Arc<Connected>) -> Infallible {
    let mut earliest = Instant::now();
    loop {
        core.notifications.lists_changed().await;
        sleep_until(earliest.max(Instant::now() + DEBOUNCE)).await;
        earliest = Instant::now() + MIN_INTERVAL;
        // Boxed because it is large and rarely needed.
        Box::pin(refetch(core, connected, core.notifications.take_changed())).await;
    }
}

/// Forwards resource updates as events.
pub(super) async fn forward_resource_updates(core: &Core) -> Infallible {
    loop {
        for uri in core.notifications.next_updates().await {
            core.fetched.forget(RESOURCES_READ, &uri);
            core.shared.events.updated(&core.name, uri);
        }
    }
}

async fn refetch(core: &Core, connected: &Arc<Connected>, lists: Lists) {
    let client = &connected.client;
    let previous = Arc::clone(&core.status.load().catalog);
    let options = core.tool_options(needs_header_parameters(client));
    let deadline = settings::deadline(task::connect_timeout(core));
    let fetched = catalog::fetch(&options, client, deadline, &previous, lists).await;
    // A lost connection says nothing about the lists.
    if !client.peer().is_closed() {
        core.publish_refreshed(Arc::clone(connected), &previous, Arc::new(fetched));
    }
}

/// Returns whether the server may require arguments in HTTP headers.
pub(super) fn needs_header_parameters(client: &Client) -> bool {
    client.era() == Era::Modern && client.peer().uses_routing()
}

/// A subscription kept open; empty if the server needs none.
pub(super) struct ChangeSubscription(Option<Pin<Box<dyn Future<Output = Infallible> + Send>>>);

impl ChangeSubscription {
    /// Subscribes to the lists that can change and to watched resources. Sends nothing until first
    /// polled.
    pub(super) fn new(core: &Arc<Core>, client: &Client) -> Self {
        let capabilities = &client.identity().capabilities;
        let [tools, resources, prompts] = capabilities.list_changed;
        let subscription = Subscription {
            tools: capabilities.tools && tools,
            resources: capabilities.resources && resources,
            prompts: capabilities.prompts && prompts,
            uris: Vec::new(),
        };
        let resources = capabilities.subscribe;
        let (core, client) = (Arc::clone(core), client.clone());
        match client.era() {
            Era::Modern if resources || !lists_of(&subscription).is_empty() => {
                Self(Some(Box::pin(async move {
                    stay_subscribed(&core, &client, &subscription).await
                })))
            }
            Era::Legacy if resources && !core.subscriptions.uris().is_empty() => {
                Self(Some(Box::pin(async move {
                    resubscribe(&core, &client).await;
                    pending().await
                })))
            }
            Era::Modern | Era::Legacy => Self(None),
        }
    }

    /// Keeps the subscription open while polled.
    pub(super) async fn run(&mut self) -> Infallible {
        match &mut self.0 {
            Some(subscribed) => subscribed.await,
            None => pending().await,
        }
    }
}

/// Returns the lists that a subscription covers.
fn lists_of(subscription: &Subscription) -> Lists {
    let wanted = [
        (subscription.tools, Lists::TOOLS),
        (subscription.resources, Lists::RESOURCES),
        (subscription.prompts, Lists::PROMPTS),
    ];
    let wanted = wanted.into_iter().filter(|(wanted, _)| *wanted);
    wanted.fold(Lists::NONE, |all, (_, lists)| all | lists)
}

async fn stay_subscribed(core: &Core, client: &Client, lists: &Subscription) -> Infallible {
    let (mut attempt, mut refusals) = (0, 0);
    let mut subscriptions = core.subscriptions.changes();
    // Watched resources may have changed before this subscription.
    let mut before = core.subscriptions.uris();
    loop {
        let subscription = Subscription {
            uris: subscriptions.borrow_and_update().keys().cloned().collect(),
            ..lists.clone()
        };
        if subscription.uris.is_empty() && lists_of(lists).is_empty() {
            let _ = subscriptions.changed().await;
            continue;
        }
        core.notifications.expect_acknowledgement();
        let opened = Instant::now();
        let outcome = tokio::select! {
            outcome = subscribe(core, client, &subscription, &before) => Some(outcome),
            Ok(()) = subscriptions.changed() => None,
        };
        before = subscription.uris;
        // The next iteration replaces it.
        let Some(outcome) = outcome else {
            continue;
        };
        if core.notifications.is_acknowledged() {
            refusals = 0;
        } else {
            refusals += 1;
        }
        let unknown = matches!(
            outcome,
            Err(RequestError::Rpc(RpcError {
                code: RpcError::METHOD_NOT_FOUND,
                ..
            }))
        );
        if unknown || refusals >= MAX_REFUSALS {
            return pending().await;
        }
        attempt = if opened.elapsed() >= STABLE {
            1
        } else {
            attempt + 1
        };
        sleep(backoff::delay(
            core.shared.settings.reconnect_delay,
            attempt,
        ))
        .await;
    }
}

/// Runs one subscription to its end.
async fn subscribe(
    core: &Core,
    client: &Client,
    subscription: &Subscription,
    before: &[String],
) -> Result<(), RequestError> {
    let mut open = pin!(client.listen(subscription));
    tokio::select! {
        // Polled first: a subscription that is acknowledged and ends immediately still counts.
        biased;
        () = core.notifications.acknowledged() => {}
        outcome = &mut open => return outcome,
    }
    // Lists fetched before the acknowledgement may have changed since. During the initial fetch the
    // connection is not established yet.
    if matches!(core.status.load().state, State::Connected(_)) {
        core.notifications.mark_changed(lists_of(subscription));
    }
    for uri in before.iter().filter(|uri| subscription.uris.contains(uri)) {
        core.notifications.mark_updated(uri.clone());
    }
    open.await
}
