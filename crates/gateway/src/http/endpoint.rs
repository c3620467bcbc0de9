//! One request: its checks, in order, and its route.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ALLOW,
    HeaderMap, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use trunkline::server::State;

use super::body::BodyBudget;
use super::guard::{Foreign, Guard};
use super::identity::{AuthFailure, Authenticator, Identity};
use super::metrics::{Limit, Metrics};
use super::oauth::METADATA_PATH;
use super::options::HttpOptions;
use super::respond::{self, HTTP, Response};
use super::route::Route;
use super::table::SessionTable;
use crate::gateway::Gateway;
use crate::store::{Rate, RateDecision, Stores, now_millis};

/// The rate of failed authentications of one address.
const FAILURES: Rate = Rate {
    per_second: 1.0,
    burst: 30.0,
};

/// The clients whose concurrency is counted, before idle ones are forgotten.
const MAX_CLIENTS: usize = 4096;

pub(super) type Request = http::Request<Incoming>;

/// The endpoint, shared by all connections.
pub(super) struct Endpoint {
    pub(super) gateway: Gateway,
    pub(super) options: HttpOptions,
    pub(super) stores: Stores,
    pub(super) table: SessionTable,
    pub(super) budget: BodyBudget,
    pub(super) metrics: Arc<Metrics>,
    pub(super) in_flight: InFlight,
    pub(super) draining: AtomicBool,
    guard: Guard,
    auth: Authenticator,
    clients: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Endpoint {
    pub(super) fn new(
        gateway: Gateway,
        stores: Stores,
        options: HttpOptions,
        auth: Authenticator,
    ) -> Self {
        let loopback = options.address.ip().is_loopback();
        let limits = &options.limits;
        Self {
            table: SessionTable::new(
                gateway.clone(),
                stores.clone(),
                limits.sessions_per_client,
                limits.session_idle,
            ),
            budget: BodyBudget::new(limits.total_body_bytes),
            guard: Guard::new(loopback, &options.hosts, &options.origins),
            metrics: Arc::default(),
            in_flight: InFlight::default(),
            draining: AtomicBool::new(false),
            clients: Mutex::default(),
            gateway,
            options,
            stores,
            auth,
        }
    }

    /// Handles a request.
    pub(super) async fn handle(self: Arc<Self>, peer: SocketAddr, request: Request) -> Response {
        let (mut response, origin) = match self.guard.check(request.headers()) {
            Ok(origin) => {
                let origin = origin.cloned();
                (self.route(peer.ip(), request).await, origin)
            }
            Err(foreign) => (self.refuse_foreign(foreign), None),
        };
        if let Some(origin) = origin {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(VARY, HeaderValue::from_static("origin"));
            headers.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("mcp-session-id, www-authenticate"),
            );
        }
        self.metrics.responded(response.status());
        response
    }

    fn refuse_foreign(&self, foreign: Foreign) -> Response {
        let (limit, status, reason) = match foreign {
            Foreign::BadHost => (
                Limit::Host,
                StatusCode::BAD_REQUEST,
                "the request needs one valid Host header",
            ),
            Foreign::Host => (
                Limit::Host,
                StatusCode::FORBIDDEN,
                "this Host is not served here; allow it with --allow-host",
            ),
            Foreign::Origin => (
                Limit::Origin,
                StatusCode::FORBIDDEN,
                "pages of this Origin may not connect; allow it with --allow-origin",
            ),
        };
        self.metrics.hit(limit);
        respond::refuse(status, HTTP, reason)
    }

    async fn route(self: &Arc<Self>, peer: IpAddr, request: Request) -> Response {
        let Some(route) = Route::find(request.uri()) else {
            return respond::text(StatusCode::NOT_FOUND, "not found; the endpoint is /mcp");
        };
        if request.method() == Method::OPTIONS {
            return preflight(request.headers());
        }
        let get = request.method() == Method::GET;
        match &route {
            Route::Health | Route::Ready | Route::Metrics | Route::ResourceMetadata if !get => {
                return not_allowed("GET");
            }
            Route::Health => return respond::text(StatusCode::OK, "ok"),
            Route::Ready => return self.ready(),
            Route::ResourceMetadata => return self.resource_metadata(),
            _ => {}
        }
        let identity = match self.identify(peer, request.headers()).await {
            Ok(identity) => identity,
            Err(refusal) => return refusal,
        };
        if let Route::Metrics = route {
            let text = self.metrics.render(self.gateway.host(), self.table.count());
            return respond::full(StatusCode::OK, "text/plain; version=0.0.4", text);
        }
        if self.draining.load(Ordering::Acquire) {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let wait = Duration::from_secs(1);
            return respond::refuse_for(status, wait, "the gateway is shutting down");
        }
        if let Err(refusal) = self.check_rate(&identity).await {
            return refusal;
        }
        let method = request.method().clone();
        match (route, method) {
            (Route::Mcp(view), Method::POST) => self.post(&identity, &view, request).await,
            (Route::Mcp(view), Method::GET) => self.listen(&identity, &view, &request).await,
            (Route::Mcp(view), Method::DELETE) => self.delete(&identity, &view, &request).await,
            (Route::Mcp(_), _) => not_allowed("GET, POST, DELETE"),
            (Route::Sse(view), Method::GET) => self.open_sse(&identity, &view),
            (Route::Sse(_), _) => not_allowed("GET"),
            (Route::Messages(session), Method::POST) => {
                self.post_sse(&identity, &session, request).await
            }
            _ => not_allowed("POST"),
        }
    }

    /// Ends the clients whose tokens are no longer valid.
    pub(super) async fn end_revoked(&self) {
        match self.auth.ended(self.table.owners()).await {
            Ok(ended) => {
                for owner in ended {
                    self.table.end_client(&owner).await;
                }
            }
            Err(error) => {
                tracing::warn!(target: "trunkline", %error, "revoked tokens cannot be looked up");
            }
        }
    }

    /// Ready: no server is still on its first attempt to connect.
    fn ready(&self) -> Response {
        let first = |state: &State| {
            let State::Pending {
                attempt,
                last_failure,
            } = state
            else {
                return false;
            };
            *attempt > 0 && last_failure.is_none()
        };
        let servers = self.gateway.host().servers();
        let connecting = servers.iter().filter(|server| first(&server.state));
        let draining = self.draining.load(Ordering::Acquire);
        match connecting.count() {
            _ if draining => respond::text(StatusCode::SERVICE_UNAVAILABLE, "shutting down"),
            0 => respond::text(StatusCode::OK, "ready"),
            count => respond::text(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("connecting to {count} of {} servers", servers.len()),
            ),
        }
    }

    fn resource_metadata(&self) -> Response {
        match &self.auth.oauth {
            Some(oauth) => respond::json(StatusCode::OK, oauth.metadata().to_string().into()),
            None => respond::text(StatusCode::NOT_FOUND, "no issuer is configured"),
        }
    }

    async fn identify(&self, peer: IpAddr, headers: &HeaderMap) -> Result<Identity, Response> {
        let failure = match self.auth.identify(headers).await {
            Ok(identity) => return Ok(identity),
            Err(failure) => failure,
        };
        self.metrics.hit(Limit::Unauthorized);
        let key = format!("auth:{peer}");
        let taken = self.stores.rates.take(&key, FAILURES, now_millis()).await;
        if let Ok(RateDecision::Limited(wait)) = taken {
            let reason = "too many requests without a valid token";
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(respond::refuse_for(status, wait, reason));
        }
        let (status, code, reason) = match failure {
            AuthFailure::Missing => (
                StatusCode::UNAUTHORIZED,
                None,
                "a bearer token is required; create one with `trunkline serve token create`"
                    .to_owned(),
            ),
            AuthFailure::Invalid(reason) => {
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), reason)
            }
            AuthFailure::InsufficientScope => (
                StatusCode::FORBIDDEN,
                Some("insufficient_scope"),
                "the access token lacks a scope".to_owned(),
            ),
            AuthFailure::Unavailable(reason) => {
                tracing::warn!(target: "trunkline", reason, "a token cannot be checked");
                let reason = "the token cannot be checked now".to_owned();
                return Err(respond::refuse(
                    StatusCode::SERVICE_UNAVAILABLE,
                    HTTP,
                    reason,
                ));
            }
        };
        let mut response = respond::refuse(status, HTTP, reason);
        let challenge = match (&self.auth.oauth, code) {
            (Some(oauth), code) => oauth.challenge(code),
            (None, Some(code)) => HeaderValue::try_from(format!("Bearer error=\"{code}\"")).ok(),
            (None, None) => Some(HeaderValue::from_static("Bearer")),
        };
        if let Some(challenge) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        Err(response)
    }

    async fn check_rate(&self, identity: &Identity) -> Result<(), Response> {
        let Some(rate) = self.options.limits.rate else {
            return Ok(());
        };
        let taken = self.stores.rates.take(&identity.key, rate, now_millis());
        match taken.await {
            Ok(RateDecision::Allowed) => Ok(()),
            Ok(RateDecision::Limited(wait)) => {
                self.metrics.hit(Limit::Rate);
                let status = StatusCode::TOO_MANY_REQUESTS;
                Err(respond::refuse_for(status, wait, "too many requests"))
            }
            Err(error) => {
                tracing::warn!(target: "trunkline", %error, "the rate cannot be checked");
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Err(respond::refuse(
                    status,
                    HTTP,
                    "the rate cannot be checked now",
                ))
            }
        }
    }

    /// Counts a request of a client, until the permit is dropped; `None` if there are too many.
    pub(super) fn admit(&self, identity: &Identity) -> Option<OwnedSemaphorePermit> {
        let limit = self.options.limits.requests_per_client;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&identity.key) {
            clients.retain(|_, permits| permits.available_permits() < limit);
        }
        let permits = clients
            .entry(identity.key.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(limit)));
        let admitted = Arc::clone(permits).try_acquire_owned();
        drop(clients);
        admitted
            .inspect_err(|_| self.metrics.hit(Limit::Concurrency))
            .ok()
    }
}

/// The response for a client with too many requests.
pub(super) fn overloaded() -> Response {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let reason = "too many requests at once";
    respond::refuse_for(status, Duration::from_secs(1), reason)
}

pub(super) fn not_allowed(allowed: &'static str) -> Response {
    let mut response = respond::refuse(
        StatusCode::METHOD_NOT_ALLOWED,
        HTTP,
        "the method is not allowed here",
    );
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(ALLOW, allowed);
    response
}

/// Answers a browser that asks whether a page may send a request. The origin is checked already.
fn preflight(headers: &HeaderMap) -> Response {
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let out = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE");
    out.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        out.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Counts the requests that a shutdown waits for.
#[derive(Default)]
pub(super) struct InFlight(Arc<Counter>);

#[derive(Default)]
struct Counter {
    count: AtomicUsize,
    ended: Notify,
}

impl InFlight {
    pub(super) fn enter(&self) -> InFlightGuard {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(Arc::clone(&self.0))
    }

    pub(super) fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Waits until no request is left.
    pub(super) async fn wait(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.count() == 0 {
                return;
            }
            ended.await;
        }
    }
}

pub(super) struct InFlightGuard(Arc<Counter>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_one();
        }
    }
}

/// The path of the resource metadata is also that of each endpoint.
pub(super) fn is_resource_metadata(path: &str) -> bool {
    let rest = path.strip_prefix(METADATA_PATH);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
