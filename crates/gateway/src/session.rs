//! One client: all that belongs to it alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trunkline::Host;
use trunkline_wire::peer::ResponseFuture;
use trunkline_wire::version::Era;
use trunkline_wire::{ByteString, Json, RpcError};

use crate::caller::{Caller, Capabilities};
use crate::client::{ClientInfo, View};
use crate::errors::invalid_params;
use crate::gateway::{GatewayOptions, GatewayShared};
use crate::link::ClientLink;
use crate::lists::List;
use crate::logging::Level;
use crate::open_call::OpenCall;
use crate::parked::Parked;
use crate::profile::Profile;
use crate::subscriptions::Subscriptions;
use crate::translate::{self, Caching};

/// How long after a client connects its lists wait for servers that are still starting.
const SETTLE_TIME: Duration = Duration::from_secs(15);

/// A request of a client, as its endpoint decoded it.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    /// The id as the client wrote it.
    pub id: Json,
    /// The method.
    pub method: ByteString,
    /// The params.
    pub params: Option<Json>,
}

/// One client of a gateway.
pub struct ClientSession {
    key: Arc<str>,
    gateway: Arc<GatewayShared>,
    info: ClientInfo,
    profile: Profile,
    settled_at: Instant,
    state: Mutex<State>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) parked: Mutex<HashMap<String, Parked>>,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<dyn ClientLink>>,
    /// The capabilities of a client that has sent `initialize`.
    legacy: Option<Capabilities>,
    level: Option<Level>,
    closed: bool,
}

#[derive(Default)]
struct Calls {
    open: Vec<(u64, Arc<OpenCall>)>,
    count: u64,
}

impl ClientSession {
    pub(crate) fn new(
        key: Arc<str>,
        gateway: Arc<GatewayShared>,
        info: ClientInfo,
        profile: Profile,
    ) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            key,
            gateway,
            info,
            profile,
            settled_at: now.checked_add(SETTLE_TIME).unwrap_or(now),
            state: Mutex::default(),
            subscriptions: Subscriptions::default(),
            parked: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    /// Returns the client, as its endpoint described it.
    pub fn info(&self) -> &ClientInfo {
        &self.info
    }

    /// Returns a name for the session that is unique in its gateway.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Handles a request. `reply` is where messages go that belong to it: progress, and questions
    /// of servers. Dropping the future cancels the request, upstream too.
    pub fn request(
        self: &Arc<Self>,
        request: ClientRequest,
        reply: Arc<dyn ClientLink>,
    ) -> ResponseFuture {
        let session = Arc::clone(self);
        Box::pin(async move { session.handle(request, reply).await })
    }

    /// Handles a notification.
    pub fn notification(self: &Arc<Self>, method: &str, params: Option<Json>) {
        // A cancellation is handled by the endpoint, which knows the request's future.
        let _ = (method, params);
    }

    /// Sets where messages go that belong to no request: changed lists, log messages. Another link
    /// replaces it.
    pub fn attach(&self, link: Arc<dyn ClientLink>) {
        let mut state = self.state();
        if !state.closed {
            state.link = Some(link);
        }
    }

    /// Ends the calls, subscriptions, questions and private servers of the client.
    pub fn close(&self) {
        {
            let mut state = self.state();
            if std::mem::replace(&mut state.closed, true) {
                return;
            }
            state.link = None;
        }
        self.gateway.clients.remove(&self.key);
        self.lock_parked().clear();
        self.end_subscriptions();
        self.gateway.end_private_servers(self.profile.owner());
    }

    async fn handle(
        self: Arc<Self>,
        request: ClientRequest,
        reply: Arc<dyn ClientLink>,
    ) -> Result<Json, RpcError> {
        if self.state().closed {
            return Err(RpcError::new(
                RpcError::INTERNAL_ERROR,
                "the session has ended",
            ));
        }
        let ClientRequest { id, method, params } = request;
        let params = params.filter(|params| !params.is_null());
        if params.as_ref().is_some_and(|params| !params.is_object()) {
            return Err(invalid_params("params must be an object"));
        }
        let params = params.as_ref();
        let modern = Caller::modern(params)?;
        if &*method == "initialize" && modern.is_none() {
            return self.initialize(params).await;
        }
        let caller = modern.unwrap_or_else(|| {
            let (capabilities, level) = {
                let state = self.state();
                (state.legacy.unwrap_or_default(), state.level)
            };
            Caller::legacy(capabilities, level, params)
        });
        self.want_level(&caller);
        let era = caller.era;
        let params = params.cloned().unwrap_or_else(Json::empty_object);
        match (&*method, era) {
            ("server/discover", _) => {
                self.settle().await;
                // It exists only in the modern era.
                let result = self.discover_result();
                Ok(translate::result(Era::Modern, result, Caching::Hinted))
            }
            ("tools/list", _) => self.list(List::Tools, era).await,
            ("resources/list", _) => self.list(List::Resources, era).await,
            ("resources/templates/list", _) => self.list(List::Templates, era).await,
            ("prompts/list", _) => self.list(List::Prompts, era).await,
            ("tools/call", _) => self.call_tool(caller, &params, reply).await,
            ("resources/read", _) => self.read_resource(caller, &params, reply).await,
            ("prompts/get", _) => self.get_prompt(caller, &params, reply).await,
            ("completion/complete", _) => self.complete(era, &params).await,
            ("ping", Era::Legacy) => Ok(Json::empty_object()),
            ("logging/setLevel", Era::Legacy) => self.set_level(&params),
            ("resources/subscribe", Era::Legacy) => self.subscribe(&params).await,
            ("resources/unsubscribe", Era::Legacy) => self.unsubscribe(&params).await,
            ("subscriptions/listen", Era::Modern) => self.listen(&id, &params, reply).await,
            _ => Err(RpcError::method_not_found(&method)),
        }
    }

    async fn list(&self, list: List, era: Era) -> Result<Json, RpcError> {
        self.settle().await;
        let result = self.list_result(list, era);
        Ok(translate::result(era, result, Caching::Hinted))
    }

    async fn initialize(&self, params: Option<&Json>) -> Result<Json, RpcError> {
        let params = params.ok_or_else(|| invalid_params("initialize needs params"))?;
        self.settle().await;
        let declared = params.get("capabilities");
        let requested: Option<String> = params.field("protocolVersion");
        let (result, _version) = self.initialize_result(requested.as_deref());
        self.remember_lists();
        let mut state = self.state();
        state.legacy = Some(Capabilities::from_json(declared.as_ref()));
        Ok(result)
    }

    /// Waits for servers that are still starting and whose tools are unknown, for a bounded time
    /// after the client has connected.
    pub(crate) async fn settle(&self) {
        let is_unknown = |status: &Arc<trunkline::server::ServerStatus>| {
            status.catalog.identity.is_none()
                && matches!(status.state, trunkline::server::State::Pending { .. })
        };
        if self.host().servers().iter().any(is_unknown) {
            let _ = tokio::time::timeout_at(self.settled_at, self.host().ready()).await;
        }
    }

    fn set_level(&self, params: &Json) -> Result<Json, RpcError> {
        let level = params.get("level").unwrap_or_else(Json::null);
        let level = Level::from_json(&level)?;
        self.state().level = Some(level);
        self.gateway.want_level(level);
        Ok(Json::empty_object())
    }

    fn want_level(&self, caller: &Caller) {
        if let (Some(level), Era::Modern) = (caller.level, caller.era) {
            self.gateway.want_level(level);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_parked(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.gateway.clients.remove(&self.key);
    }
}

/// What the other modules see of a session.
impl ClientSession {
    pub(crate) fn host(&self) -> &Host {
        self.profile.host()
    }

    pub(crate) fn gateway(&self) -> &Arc<GatewayShared> {
        &self.gateway
    }

    pub(crate) fn options(&self) -> &GatewayOptions {
        &self.gateway.options
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    pub(crate) fn view(&self) -> &View {
        &self.info.view
    }

    /// Whether the endpoint shows a server.
    pub(crate) fn shows_server(&self, name: &str) -> bool {
        match self.view() {
            View::All => true,
            View::Server(only) => only == name,
        }
    }

    /// Whether the client sees a server.
    pub(crate) fn sees(&self, server: &str) -> bool {
        self.shows_server(server) && self.host().server(server).is_some()
    }

    pub(crate) fn link(&self) -> Option<Arc<dyn ClientLink>> {
        self.state().link.clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Whether the client has sent `initialize`.
    pub(crate) fn is_legacy(&self) -> bool {
        self.state().legacy.is_some()
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.state().legacy.unwrap_or_default()
    }

    pub(crate) fn level(&self) -> Option<Level> {
        self.state().level
    }

    /// The open calls of the client to a server, oldest first.
    pub(crate) fn open_calls_to(&self, server: &str) -> Vec<Arc<OpenCall>> {
        let calls = self.lock_calls();
        let to_server = calls
            .open
            .iter()
            .filter(|(_, call)| call.server() == server);
        to_server.map(|(_, call)| Arc::clone(call)).collect()
    }

    /// Registers a call until the guard is dropped.
    pub(crate) fn register(self: &Arc<Self>, call: &Arc<OpenCall>) -> RegisteredCall {
        let mut calls = self.lock_calls();
        calls.count += 1;
        let number = calls.count;
        calls.open.push((number, Arc::clone(call)));
        RegisteredCall {
            session: Arc::clone(self),
            call: Arc::clone(call),
            number,
        }
    }
}

/// A call's place in its session.
pub(crate) struct RegisteredCall {
    session: Arc<ClientSession>,
    call: Arc<OpenCall>,
    number: u64,
}

impl Drop for RegisteredCall {
    fn drop(&mut self) {
        let mut calls = self.session.lock_calls();
        calls.open.retain(|(number, _)| *number != self.number);
        drop(calls);
        self.call.end();
    }
}
