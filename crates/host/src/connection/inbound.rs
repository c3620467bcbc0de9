//! Handles the requests and notifications of a server.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use trunkline_wire::client::NotificationWaiters;
use trunkline_wire::mcp::TASKS;
use trunkline_wire::offload::offload;
use trunkline_wire::peer::{Handler, ResponseFuture};
use trunkline_wire::{ByteString, Json, RpcError};

use super::pending_notifications::PendingNotifications;
use super::sampling::{self, Sampling};
use crate::elicit::{Broker, Elicitation, InFlight, cancel};
use crate::logs::Recorder;

/// The length of the first invalid message that is kept, in characters.
const NONSENSE_KEPT: usize = 200;

/// The handler of a connection's inbound messages.
pub(super) struct Inbound {
    server: Arc<str>,
    project_dir: Option<Arc<Path>>,
    broker: Arc<Broker>,
    in_flight: Arc<InFlight>,
    sampling: Option<Arc<dyn Sampling>>,
    notifications: Arc<PendingNotifications>,
    waiters: NotificationWaiters,
    nonsense: Mutex<Option<String>>,
    recorder: Recorder,
}

impl Inbound {
    pub(super) fn new(
        server: Arc<str>,
        project_dir: Option<&Path>,
        broker: Arc<Broker>,
        in_flight: Arc<InFlight>,
        notifications: Arc<PendingNotifications>,
        recorder: Recorder,
    ) -> Self {
        Self {
            server,
            project_dir: project_dir.map(Arc::from),
            broker,
            in_flight,
            sampling: None,
            notifications,
            waiters: NotificationWaiters::default(),
            nonsense: Mutex::default(),
            recorder,
        }
    }

    /// Adds the model for sampling requests.
    pub(super) fn with_sampling(mut self, sampling: Option<Arc<dyn Sampling>>) -> Self {
        self.sampling = sampling;
        self
    }

    /// Takes the first output that was not a message.
    pub(super) fn take_nonsense(&self) -> Option<String> {
        self.nonsense
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Asks hooks and the user (ELI-1).
    fn elicit(&self, params: Json) -> ResponseFuture {
        if !self.broker.is_staffed() {
            return Box::pin(async move { Ok(cancel()) });
        }
        let (broker, recorder) = (Arc::clone(&self.broker), self.recorder.clone());
        let (server, asking) = (Arc::clone(&self.server), self.in_flight.asking());
        Box::pin(async move {
            let bytes = params.as_str().len();
            let elicitation = move || {
                let elicitation = Elicitation::new(&server, &asking, params);
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

    fn roots(&self) -> Json {
        let root = self.project_dir.as_ref().map(|dir| {
            let name = dir.file_name().unwrap_or(dir.as_os_str());
            serde_json::json!({"uri": file_uri(dir), "name": name.to_string_lossy()})
        });
        Json::from(serde_json::json!({ "roots": Vec::from_iter(root) }))
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
        match &*method {
            "roots/list" => {
                let roots = self.roots();
                Box::pin(async move { Ok(roots) })
            }
            "elicitation/create" => self.elicit(params.unwrap_or_else(Json::empty_object)),
            "sampling/createMessage" => {
                sampling::answer(self.sampling.as_ref(), &self.server, params)
            }
            _ => Box::pin(async move { Err(RpcError::method_not_found(&method)) }),
        }
    }

    fn prompts_user(&self, method: &str) -> bool {
        method == "elicitation/create" && self.broker.is_staffed()
    }

    fn notification(&self, method: &str, params: Option<Json>) {
        self.notifications.record(method, params.as_ref());
        self.waiters.notify(method, params.as_ref());
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

/// Returns a `file://` URI; all but the unreserved characters of RFC 3986 are percent-encoded.
fn file_uri(path: &Path) -> String {
    use std::fmt::Write as _;

    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_file_uri() {
        assert_eq!(file_uri(Path::new("/a b/é.x")), "file:///a%20b/%C3%A9.x");
    }
}
