//! Changes that clients want to hear of: lists (legacy: always; modern: `subscriptions/listen`) and
//! single resources.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use trunkline::event::Changes;
use trunkline_wire::{Json, ObjectWriter, RpcError};

use crate::errors::{invalid_params, rpc_error};
use crate::gateway::GatewayShared;
use crate::link::ClientLink;
use crate::lists::List;
use crate::route::{self, ResourceAddress};
use crate::session::ClientSession;

/// The `_meta` member that names the subscription of a notification.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The most resources that one client subscribes to (SEC-4).
const MAX_RESOURCES: usize = 1000;

/// The most `subscriptions/listen` requests that one client has open (SEC-4).
const MAX_LISTENERS: usize = 64;

/// The lists whose changes are told, with their notifications.
const LISTS: [(List, &str, &str); 3] = [
    (
        List::Tools,
        "toolsListChanged",
        "notifications/tools/list_changed",
    ),
    (
        List::Resources,
        "resourcesListChanged",
        "notifications/resources/list_changed",
    ),
    (
        List::Prompts,
        "promptsListChanged",
        "notifications/prompts/list_changed",
    ),
];

const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// What one client wants to hear of.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The lists as the client may know them.
    known: Option<[u64; 3]>,
    /// Legacy: the resources by the URI that the client uses.
    resources: HashMap<String, ResourceAddress>,
    /// Modern: the open requests.
    listeners: HashMap<u64, Listener>,
    next_listener: u64,
}

struct Listener {
    /// The id of the request.
    id: Json,
    link: Arc<dyn ClientLink>,
    lists: [bool; 3],
    resources: HashMap<String, ResourceAddress>,
}

impl Subscriptions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSession {
    /// Remembers the lists as they are now, to tell when they change.
    pub(crate) fn remember_lists(&self) {
        let known = self.list_hashes();
        self.subscriptions.lock().known = Some(known);
    }

    fn list_hashes(&self) -> [u64; 3] {
        let hash = |list: List| {
            let mut hasher = DefaultHasher::new();
            self.items(list).as_str().hash(&mut hasher);
            if list == List::Resources {
                self.items(List::Templates).as_str().hash(&mut hasher);
            }
            hasher.finish()
        };
        LISTS.map(|(list, ..)| hash(list))
    }

    /// Legacy: subscribes to a resource.
    pub(crate) async fn subscribe(&self, params: &Json) -> Result<Json, RpcError> {
        let uri: Option<String> = params.field("uri");
        let uri = uri.ok_or_else(|| invalid_params("resources/subscribe needs a uri"))?;
        self.settle().await;
        let address = route::resource(self.host(), self.view(), &uri)?;
        if self.subscriptions.lock().resources.contains_key(&uri) {
            return Ok(Json::empty_object());
        }
        if self.subscriptions.lock().resources.len() >= MAX_RESOURCES {
            let message = format!("at most {MAX_RESOURCES} resources can be subscribed to");
            return Err(RpcError::new(RpcError::INTERNAL_ERROR, message));
        }
        let subscribed = self.host().subscribe(&address.server, &address.uri).await;
        subscribed.map_err(|error| rpc_error(&error))?;
        let earlier = {
            let mut inner = self.subscriptions.lock();
            inner.resources.insert(uri, address.clone())
        };
        // The session may have ended meanwhile, or the client may have asked twice.
        if earlier.is_some() || self.is_closed() {
            self.unsubscribe_all([address]).await;
        }
        Ok(Json::empty_object())
    }

    /// Legacy: ends a subscription.
    pub(crate) async fn unsubscribe(&self, params: &Json) -> Result<Json, RpcError> {
        let uri: Option<String> = params.field("uri");
        let uri = uri.ok_or_else(|| invalid_params("resources/unsubscribe needs a uri"))?;
        let address = self.subscriptions.lock().resources.remove(&uri);
        self.unsubscribe_all(address).await;
        Ok(Json::empty_object())
    }

    async fn unsubscribe_all(&self, addresses: impl IntoIterator<Item = ResourceAddress>) {
        for address in addresses {
            let ResourceAddress { server, uri } = address;
            self.host().unsubscribe(&server, &uri).await;
        }
    }

    /// Modern: tells of changes until the client ends the request.
    pub(crate) async fn listen(
        self: Arc<Self>,
        id: &Json,
        params: &Json,
        link: Arc<dyn ClientLink>,
    ) -> Result<Json, RpcError> {
        let filter = params
            .get("notifications")
            .unwrap_or_else(Json::empty_object);
        let lists = LISTS.map(|(_, member, _)| filter.field(member) == Some(true));
        let wanted: Vec<String> = filter.field("resourceSubscriptions").unwrap_or_default();
        let wanted: HashSet<String> = wanted.into_iter().take(MAX_RESOURCES).collect();
        if self.subscriptions.lock().listeners.len() >= MAX_LISTENERS {
            let message = format!("at most {MAX_LISTENERS} subscriptions can be open");
            return Err(RpcError::new(RpcError::INTERNAL_ERROR, message));
        }
        // Ends the subscriptions when the request does.
        let mut listening = Listening {
            session: Arc::clone(&self),
            number: None,
            resources: HashMap::new(),
        };
        self.settle().await;
        for uri in wanted {
            let Ok(address) = route::resource(self.host(), self.view(), &uri) else {
                continue;
            };
            let subscribed = self.host().subscribe(&address.server, &address.uri).await;
            if subscribed.is_ok() {
                listening.resources.insert(uri, address);
            }
        }
        let acknowledged = acknowledgement(id, lists, listening.resources.keys());
        if self.subscriptions.lock().known.is_none() {
            self.remember_lists();
        }
        link.notify(
            "notifications/subscriptions/acknowledged",
            Some(acknowledged),
        );
        {
            let mut inner = self.subscriptions.lock();
            let number = inner.next_listener;
            inner.next_listener += 1;
            inner.listeners.insert(
                number,
                Listener {
                    id: id.clone(),
                    link,
                    lists,
                    resources: listening.resources.clone(),
                },
            );
            listening.number = Some(number);
        }
        self.gateway().ended().await;
        let mut result = ObjectWriter::new();
        result.string("resultType", "complete");
        result.object("_meta", |meta| _ = meta.raw(SUBSCRIPTION, id));
        Ok(result.finish())
    }

    /// Tells the client of changes that it wants to hear of.
    pub(crate) fn changed(&self, changes: &Changes) {
        let changed = self.changed_lists(changes);
        let is_legacy = self.is_legacy();
        let link = self.link();
        let inner = self.subscriptions.lock();
        for (at, (_, _, notification)) in LISTS.into_iter().enumerate() {
            if !changed[at] {
                continue;
            }
            if let (true, Some(link)) = (is_legacy, &link) {
                link.notify(notification, None);
            }
            for listener in inner.listeners.values().filter(|it| it.lists[at]) {
                listener.notify(notification, None);
            }
        }
        let is_updated = |address: &ResourceAddress| {
            let ResourceAddress { server, uri } = address;
            let mut updated = changes.resources_updated.iter();
            updated.any(|(from, of)| from == server && of == uri)
        };
        for (uri, _) in inner.resources.iter().filter(|(_, it)| is_updated(it)) {
            if let Some(link) = &link {
                let params = serde_json::json!({ "uri": uri });
                link.notify(RESOURCE_UPDATED, Some(params.into()));
            }
        }
        for listener in inner.listeners.values() {
            for (uri, _) in listener.resources.iter().filter(|(_, it)| is_updated(it)) {
                listener.notify(RESOURCE_UPDATED, Some(uri));
            }
        }
    }

    /// The lists that differ from what the client may know.
    fn changed_lists(&self, changes: &Changes) -> [bool; 3] {
        if changes.servers.is_empty() && !changes.missed && !changes.configuration {
            return [false; 3];
        }
        let Some(known) = self.subscriptions.lock().known else {
            return [false; 3];
        };
        let now = self.list_hashes();
        self.subscriptions.lock().known = Some(now);
        std::array::from_fn(|at| known[at] != now[at])
    }

    /// Ends all subscriptions of the client.
    pub(crate) fn end_subscriptions(&self) {
        let resources = {
            let mut inner = self.subscriptions.lock();
            inner.listeners.clear();
            std::mem::take(&mut inner.resources)
        };
        unsubscribe_later(self.host().clone(), resources);
    }
}

/// Ends subscriptions in the background.
fn unsubscribe_later(host: trunkline::Host, resources: HashMap<String, ResourceAddress>) {
    if resources.is_empty() {
        return;
    }
    tokio::spawn(async move {
        for address in resources.into_values() {
            host.unsubscribe(&address.server, &address.uri).await;
        }
    });
}

/// An open `subscriptions/listen` request.
struct Listening {
    session: Arc<ClientSession>,
    number: Option<u64>,
    resources: HashMap<String, ResourceAddress>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.session.subscriptions.lock().listeners.remove(&number);
        }
        let resources = std::mem::take(&mut self.resources);
        unsubscribe_later(self.session.host().clone(), resources);
    }
}

impl Listener {
    fn notify(&self, method: &'static str, uri: Option<&str>) {
        let mut params = ObjectWriter::new();
        params.object("_meta", |meta| _ = meta.raw(SUBSCRIPTION, &self.id));
        if let Some(uri) = uri {
            params.string("uri", uri);
        }
        self.link.notify(method, Some(params.finish()));
    }
}

/// The params that say what the client will hear of.
fn acknowledgement<'u>(
    id: &Json,
    lists: [bool; 3],
    resources: impl Iterator<Item = &'u String>,
) -> Json {
    let mut params = ObjectWriter::new();
    params.object("_meta", |meta| _ = meta.raw(SUBSCRIPTION, id));
    params.object("notifications", |filter| {
        for ((_, member, _), wanted) in LISTS.into_iter().zip(lists) {
            if wanted {
                filter.value(member, &true.into());
            }
        }
        let mut uris: Vec<&String> = resources.collect();
        uris.sort();
        if !uris.is_empty() {
            filter.value("resourceSubscriptions", &serde_json::json!(uris));
        }
    });
    params.finish()
}

/// Tells all clients of changes, until the host is shut down.
pub(crate) async fn forward_changes(
    gateway: Weak<GatewayShared>,
    mut events: trunkline::event::Events,
) {
    while let Some(changes) = events.next().await {
        let Some(gateway) = gateway.upgrade() else {
            return;
        };
        for session in gateway.clients.sessions() {
            session.start_private_servers();
            session.changed(&changes);
        }
    }
}
