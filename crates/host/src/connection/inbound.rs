//! What a server says or asks without being asked.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_wire::client::NotificationWaiters;
use trunkline_wire::mcp::TASKS;
use trunkline_wire::peer::{Handler, ResponseFuture};
use trunkline_wire::{ByteString, Json, RpcError};

use super::elicited::checked;
use super::pending_notifications::PendingNotifications;
use super::sampling::{self, Sampling};
use crate::logs::Recorder;

/// How much of a server's nonsense is kept, in characters.
const NONSENSE_KEPT: usize = 200;

/// How long a person may take to answer. The time limits of calls do not run meanwhile, so this one ends the wait.
const ANSWER_LIMIT: Duration = Duration::from_mins(30);

/// Asks the user what a server wants to know.
pub trait Elicit: Send + Sync + 'static {
    /// Answers an `elicitation/create` request of `server` with an `ElicitResult`, both as MCP defines them. Defaults
    /// that are left out are filled in; an answer that does not fit the requested schema is not sent: the server gets
    /// "cancel", and its log says why. The time limit of a call does not run meanwhile, for half an hour at most. Where a call is refused
    /// until the user has visited a page, it is made again when this accepts: best when the user says that it is done. If the server
    /// says so first, the question is withdrawn.
    fn elicit(&self, server: &str, params: Json) -> Pin<Box<dyn Future<Output = Json> + Send>>;
}

/// Takes what a server says or asks without being asked.
pub(super) struct Inbound {
    server: Arc<str>,
    project_dir: Option<Arc<Path>>,
    elicit: Option<Arc<dyn Elicit>>,
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
        elicit: Option<Arc<dyn Elicit>>,
        notifications: Arc<PendingNotifications>,
        recorder: Recorder,
    ) -> Self {
        Self {
            server,
            project_dir: project_dir.map(Arc::from),
            elicit,
            sampling: None,
            notifications,
            waiters: NotificationWaiters::default(),
            nonsense: Mutex::default(),
            recorder,
        }
    }

    /// With the model that it may ask for messages.
    pub(super) fn with_sampling(mut self, sampling: Option<Arc<dyn Sampling>>) -> Self {
        self.sampling = sampling;
        self
    }

    /// The first thing it sent that was no message.
    pub(super) fn take_nonsense(&self) -> Option<String> {
        self.nonsense
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn roots(&self) -> Json {
        let root = self.project_dir.as_ref().map(|dir| {
            let name = dir.file_name().unwrap_or(dir.as_os_str());
            serde_json::json!({"uri": file_uri(dir), "name": name.to_string_lossy()})
        });
        Json::from(serde_json::json!({ "roots": Vec::from_iter(root) }))
    }
}

/// What we options every server (LIF-6): sampling only where the embedder supplies a model.
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
            "elicitation/create" => {
                let params = params.unwrap_or_else(Json::empty_object);
                let answer = self.elicit.as_ref();
                let answer = answer.map(|elicit| elicit.elicit(&self.server, params.clone()));
                let recorder = self.recorder.clone();
                Box::pin(async move {
                    let cancel = || Json::from(serde_json::json!({"action": "cancel"}));
                    // Nobody is there to ask (ELI-1).
                    let Some(answer) = answer else {
                        return Ok(cancel());
                    };
                    let Ok(answer) = tokio::time::timeout(ANSWER_LIMIT, answer).await else {
                        recorder.notice("nobody answered what the server asked");
                        return Ok(cancel());
                    };
                    // What does not fit is never sent: the server learns that nobody answered.
                    Ok(checked(&params, &answer).unwrap_or_else(|problem| {
                        recorder.notice(&format!(
                            "the answer to what the server asked was not sent: {problem}"
                        ));
                        cancel()
                    }))
                })
            }
            "sampling/createMessage" => {
                sampling::answer(self.sampling.as_ref(), &self.server, params)
            }
            _ => Box::pin(async move { Err(RpcError::method_not_found(&method)) }),
        }
    }

    fn prompts_user(&self, method: &str) -> bool {
        method == "elicitation/create" && self.elicit.is_some()
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
        // One that comes too late is no message to anybody, but a message.
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

/// `file://` and the path, with everything outside the unreserved characters of RFC 3986 percent-encoded.
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
