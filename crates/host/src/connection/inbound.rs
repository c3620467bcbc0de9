//! Handles the requests and notifications of a server.

use std::sync::{Arc, Mutex, PoisonError};

use trunkline_wire::client::NotificationWaiters;
use trunkline_wire::mcp::TASKS;
use trunkline_wire::offload::offload;
use trunkline_wire::peer::{Handler, ResponseFuture};
use trunkline_wire::{ByteString, Json, RpcError};

use super::pending_notifications::PendingNotifications;
use super::roots::{self, RootsRequest};
use super::{HostShared, sampling};
use crate::elicit::{Callers, Elicitation, InFlight, NoAsker, cancel};
use crate::event::{Audience, ServerNotification};
use crate::logs::Recorder;

/// The length of the first invalid message that is kept, in characters.
const NONSENSE_KEPT: usize = 200;

/// The handler of a connection's inbound messages.
pub(super) struct Inbound {
    server: Arc<str>,
    shared: Arc<HostShared>,
    in_flight: Arc<InFlight>,
    notifications: Arc<PendingNotifications>,
    waiters: NotificationWaiters,
    nonsense: Mutex<Option<String>>,
    recorder: Recorder,
}

impl Inbound {
    pub(super) fn new(
        server: Arc<str>,
        shared: Arc<HostShared>,
        in_flight: Arc<InFlight>,
        notifications: Arc<PendingNotifications>,
        recorder: Recorder,
    ) -> Self {
        Self {
            server,
            shared,
            in_flight,
            notifications,
            waiters: NotificationWaiters::default(),
            nonsense: Mutex::default(),
            recorder,
        }
    }

    /// Takes the first output that was not a message.
    pub(super) fn take_nonsense(&self) -> Option<String> {
        self.nonsense
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Handles a request, or an input that a response asks for under `key`.
    fn answer(
        &self,
        key: Option<&str>,
        method: ByteString,
        params: Option<Json>,
    ) -> ResponseFuture {
        match &*method {
            "roots/list" => self.roots(key),
            "elicitation/create" => self.elicit(key, params.unwrap_or_else(Json::empty_object)),
            "sampling/createMessage" => self.sample(key, params),
            _ => Box::pin(async move { Err(RpcError::method_not_found(&method)) }),
        }
    }

    /// Asks hooks and the user (ELI-1).
    fn elicit(&self, key: Option<&str>, params: Json) -> ResponseFuture {
        if !self.shared.broker.is_staffed() {
            return Box::pin(async move { Ok(cancel()) });
        }
        let (broker, recorder) = (Arc::clone(&self.shared.broker), self.recorder.clone());
        let (server, in_flight) = (Arc::clone(&self.server), Arc::clone(&self.in_flight));
        let key = key.map(str::to_owned);
        Box::pin(async move {
            let asking = match in_flight.asking().await {
                Ok(asking) => asking,
                Err(problem) => {
                    recorder.notice(problem.reason());
                    return Ok(cancel());
                }
            };
            let bytes = params.as_str().len();
            let elicitation = move || {
                let elicitation = Elicitation::new(&server, &asking, key, params);
                (elicitation, asking)
            };
            let Ok((elicitation, asking)) = offload(bytes, elicitation).await else {
                return Ok(cancel());
            };
            let warn = |problem: &str| {
                recorder.notice(problem);
                asking.warn(problem);
            };
            tokio::select! {
                biased;
                // The call is over: nobody waits for the answer (ELI-5).
                () = asking.ended() => Ok(cancel()),
                result = broker.answer(elicitation, warn) => Ok(result),
            }
        })
    }

    /// Asks the embedder's model.
    fn sample(&self, key: Option<&str>, params: Option<Json>) -> ResponseFuture {
        let (sampling, server) = (self.shared.sampling.clone(), Arc::clone(&self.server));
        let (in_flight, recorder) = (Arc::clone(&self.in_flight), self.recorder.clone());
        let key = key.map(str::to_owned);
        Box::pin(async move {
            let asking = in_flight.asking().await.map_err(|problem| {
                recorder.notice(problem.reason());
                RpcError::new(RpcError::INTERNAL_ERROR, problem.reason())
            })?;
            let client = asking.client();
            tokio::select! {
                biased;
                () = asking.ended() => {
                    let reason = NoAsker::Ended.reason();
                    Err(RpcError::new(RpcError::INTERNAL_ERROR, reason))
                }
                answer = sampling::answer(sampling.as_ref(), &server, client, key, params) => {
                    answer
                }
            }
        })
    }

    fn roots(&self, key: Option<&str>) -> ResponseFuture {
        let client = self.in_flight.current_client();
        let request = client.map(|client| RootsRequest {
            server: Arc::clone(&self.server),
            client,
            input_key: key.map(str::to_owned),
        });
        let roots = self.shared.roots.clone();
        let project_dir = self.shared.settings.project_dir.as_deref().map(Arc::from);
        Box::pin(async move { Ok(roots::answer(roots, request, project_dir).await) })
    }

    /// Reports a notification that the program may forward to its clients.
    fn forward(&self, method: &str, params: Option<&Json>) {
        let Some(tap) = &self.shared.on_notification else {
            return;
        };
        if !matches!(
            method,
            "notifications/message" | "notifications/elicitation/complete"
        ) {
            return;
        }
        tap(&ServerNotification {
            server: Arc::clone(&self.server),
            method: method.to_owned(),
            params: params.cloned(),
            audience: match self.in_flight.callers() {
                Callers::None => Audience::Everyone,
                Callers::One(Some(client)) => Audience::Client(client),
                Callers::One(None) | Callers::Several => Audience::Unknown,
            },
        });
    }
}

/// The capabilities declared to every server (LIF-6): sampling only if the embedder supplies a
/// model.
pub(super) fn capabilities(has_model: bool) -> Json {
    let mut capabilities = serde_json::json!({
        "roots": {},
        "elicitation": {"form": {}, "url": {}},
        "extensions": {TASKS: {}},
    });
    if has_model {
        capabilities["sampling"] = serde_json::json!({});
    }
    Json::from(capabilities)
}

impl Handler for Inbound {
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        self.answer(None, method, params)
    }

    fn input(&self, key: &str, method: ByteString, params: Option<Json>) -> ResponseFuture {
        self.answer(Some(key), method, params)
    }

    fn prompts_user(&self, method: &str) -> bool {
        method == "elicitation/create" && self.shared.broker.is_staffed()
    }

    fn notification(&self, method: &str, params: Option<Json>) {
        self.notifications.record(method, params.as_ref());
        self.waiters.notify(method, params.as_ref());
        self.forward(method, params.as_ref());
        if let ("notifications/message", Some(params)) = (method, params) {
            self.recorder.message(&params);
        }
    }

    fn notification_waiters(&self) -> Option<&NotificationWaiters> {
        Some(&self.waiters)
    }

    fn invalid_message(&self, what: &str, frame: &[u8]) {
        self.recorder.nonsense(what, frame);
        // A late response is still a message.
        if what.starts_with("an answer to a request") {
            return;
        }
        let mut nonsense = self.nonsense.lock().unwrap_or_else(PoisonError::into_inner);
        nonsense.get_or_insert_with(|| {
            let text = String::from_utf8_lossy(&frame[..frame.len().min(4 * NONSENSE_KEPT)]);
            text.chars().take(NONSENSE_KEPT).collect()
        });
    }
}
