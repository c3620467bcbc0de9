//! Keeps the lists of a connected server in step with what it says of them (LIF-9).
//!
//! Both halves run inside the task that owns the connection, for as long as the connection stands: one fetches the lists that
//! are said to have changed, the other keeps a modern server's subscription open. Neither is in the way of a call.

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
use super::resource_subscriptions::{READ, ask_again};
use super::state::{Connected, State};
use super::{Core, task};
use crate::catalog::{self, Lists};
use crate::settings;

/// How long to wait after a server says that a list has changed: it may be about to say more.
const QUIET: Duration = Duration::from_millis(50);

/// How soon one fetch may follow another, however much the server says.
const SPACING: Duration = Duration::from_millis(250);

/// How often in a row a subscription may fail without having been acknowledged.
const MAX_REFUSALS: u32 = 5;

/// Fetches again whatever is said to have changed.
pub(super) async fn follow(core: &Core, connected: &Arc<Connected>) -> Infallible {
    let mut earliest = Instant::now();
    loop {
        core.notifications.heard().await;
        sleep_until(earliest.max(Instant::now() + QUIET)).await;
        earliest = Instant::now() + SPACING;
        // On the heap: it is large, and seldom needed.
        Box::pin(fetch_again(core, connected, core.notifications.take())).await;
    }
}

/// Passes on which resources have changed.
pub(super) async fn tell_updates(core: &Core) -> Infallible {
    loop {
        for uri in core.notifications.updates().await {
            core.fetched.forget(READ, &uri);
            core.context.events.updated(&core.name, uri);
        }
    }
}

async fn fetch_again(core: &Core, connected: &Arc<Connected>, lists: Lists) {
    let client = &connected.client;
    let previous = Arc::clone(&core.status.load().catalog);
    let offer = core.offer(is_routed(client));
    let deadline = settings::deadline(task::limit(core));
    let fetched = catalog::fetch(&offer, client, deadline, &previous, lists).await;
    // What a connection that is lost could not say is no news about its lists.
    if !client.peer().is_closed() {
        core.renew(Arc::clone(connected), &previous, Arc::new(fetched));
    }
}

/// Whether the server may want to see arguments in headers.
pub(super) fn is_routed(client: &Client) -> bool {
    client.era() == Era::Modern && client.peer().is_routed()
}

/// A subscription that is kept open; nothing, where the server has no use for one.
pub(super) struct Listening(Option<Pin<Box<dyn Future<Output = Infallible> + Send>>>);

impl Listening {
    /// Subscribes to changes of the lists that the server says can change, and of the resources that somebody watches. Nothing is
    /// sent before it is first polled.
    pub(super) fn to(core: &Arc<Core>, client: &Client) -> Self {
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
            Era::Modern if resources || !lists(&subscription).is_empty() => {
                Self(Some(Box::pin(async move {
                    stay_subscribed(&core, &client, &subscription).await
                })))
            }
            Era::Legacy if resources && !core.subscriptions.uris().is_empty() => {
                Self(Some(Box::pin(async move {
                    ask_again(&core, &client).await;
                    pending().await
                })))
            }
            Era::Modern | Era::Legacy => Self(None),
        }
    }

    /// Keeps it open for as long as it is polled.
    pub(super) async fn run(&mut self) -> Infallible {
        match &mut self.0 {
            Some(subscribed) => subscribed.await,
            None => pending().await,
        }
    }
}

/// The lists that a subscription is about.
fn lists(subscription: &Subscription) -> Lists {
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
    // What was watched before may have changed while nobody listened.
    let mut before = core.subscriptions.uris();
    loop {
        let subscription = Subscription {
            uris: subscriptions.borrow_and_update().keys().cloned().collect(),
            ..lists.clone()
        };
        if subscription.uris.is_empty() && self::lists(lists).is_empty() {
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
        // Another takes its place at once.
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
            core.context.settings.reconnect_after,
            attempt,
        ))
        .await;
    }
}

/// One subscription, from its beginning to its end.
async fn subscribe(
    core: &Core,
    client: &Client,
    subscription: &Subscription,
    before: &[String],
) -> Result<(), RequestError> {
    let mut open = pin!(client.listen(subscription));
    tokio::select! {
        // Looked at first: one that is acknowledged and ends at once was a subscription all the same.
        biased;
        () = core.notifications.acknowledged() => {}
        outcome = &mut open => return outcome,
    }
    // Lists that were fetched before the server began to tell of changes may have changed in between. While they are being
    // fetched for the first time, the connection does not stand yet.
    if matches!(core.status.load().state, State::Connected(_)) {
        core.notifications.changed(lists(subscription));
    }
    for uri in before.iter().filter(|uri| subscription.uris.contains(uri)) {
        core.notifications.updated(uri.clone());
    }
    open.await
}
