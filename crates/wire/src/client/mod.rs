//! An MCP client over a [`Peer`], with the same methods for both eras.

mod context;
mod handshake;
mod input_required;
mod lists;
mod meta;
mod notification_waiters;
mod tasks;
mod url_elicitation;

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use tokio::time::Instant;

pub use context::FetchOptions;
pub use handshake::{ConnectError, ConnectOptions, PROBE_TIMEOUT, ReadCheck, connect};
use input_required::{MultiRoundRequest, MultiRoundResult};
pub use lists::{
    CatalogBudget, Listing, MAX_CATALOG_BYTES, MAX_CURSOR_BYTES, MAX_LIST_BYTES, MAX_PAGES,
};
pub use meta::LOG_LEVEL;
use meta::RequestMeta;
pub use notification_waiters::NotificationWaiters;
pub use url_elicitation::MAX_URL_ELICITATIONS;

use crate::json::{Json, ObjectWriter};
use crate::mcp::{CallToolResult, HeaderParameter, ServerIdentity, header_values};
use crate::peer::{Handler, Peer, Progress, RequestError, RequestOptions};
use crate::rpc_error::RpcError;
use crate::transport::Routing;
use crate::version::{Era, MODERN, newest_common, supported_version};

/// The maximum number of input rounds for one request (CALL-3).
pub const MAX_INPUT_ROUNDS: usize = 10;

/// The maximum number of input requests in one round (SEC-4).
pub const MAX_INPUTS: usize = 64;

/// A connected MCP client. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    peer: Peer,
    shared: Arc<Shared>,
}

struct Shared {
    era: Era,
    version: Option<&'static str>,
    identity: ServerIdentity,
    meta: RequestMeta,
    /// Answers requests for input, sent as requests (legacy) or in results (modern).
    handler: Arc<dyn Handler>,
}

/// The arguments of a tool call. A tree is written straight into the request, which saves a copy of
/// large arguments.
#[derive(Clone, Debug)]
pub enum Arguments {
    /// JSON text.
    Text(Json),
    /// A tree.
    Tree(serde_json::Value),
}

impl Arguments {
    /// Returns true for an object, the only valid form.
    pub fn is_object(&self) -> bool {
        match self {
            Self::Text(json) => json.is_object(),
            Self::Tree(value) => value.is_object(),
        }
    }

    /// Returns the JSON text.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Text(json) => json.clone(),
            Self::Tree(value) => value.clone().into(),
        }
    }

    /// Converts into JSON text.
    pub fn into_json(self) -> Json {
        match self {
            Self::Text(json) => json,
            Self::Tree(value) => value.into(),
        }
    }
}

impl From<Json> for Arguments {
    fn from(json: Json) -> Self {
        Self::Text(json)
    }
}

impl From<serde_json::Value> for Arguments {
    fn from(value: serde_json::Value) -> Self {
        Self::Tree(value)
    }
}

/// A tool call.
#[derive(Default)]
pub struct CallRequest<'a> {
    /// The name of the tool on the server.
    pub tool: &'a str,
    /// The arguments, which must be an object.
    pub arguments: Option<&'a Arguments>,
    /// Additional members of `_meta`.
    pub meta: Option<&'a Json>,
    /// The deadline.
    pub deadline: Option<Instant>,
    /// The idle timeout.
    pub idle: Option<Duration>,
    /// The arguments that a transport also sends as headers.
    pub header_parameters: &'a [HeaderParameter],
    /// Whether the tool runs only as a task, on servers with tasks (2025-11-25).
    pub needs_task: bool,
    /// Receives the task id if the call becomes a task. If it already holds one, no call is made
    /// and that task is resumed, possibly on another connection.
    pub task: Option<&'a mut Option<ByteString>>,
    /// Called with each progress update, in order.
    pub on_progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
    /// Whether the caller handles error -32042 itself, instead of this client.
    pub forward_url_elicitation: bool,
}

/// The changes to subscribe to (modern: `subscriptions/listen`).
#[derive(Clone, Debug, Default)]
pub struct Subscription {
    /// The list of tools.
    pub tools: bool,
    /// The list of resources.
    pub resources: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// These resources.
    pub uris: Vec<String>,
}

impl Client {
    fn new(
        peer: Peer,
        era: Era,
        identity: ServerIdentity,
        meta: RequestMeta,
        handler: Arc<dyn Handler>,
    ) -> Self {
        let version = supported_version(&identity.protocol_version);
        Self {
            peer,
            shared: Arc::new(Shared {
                era,
                version,
                identity,
                meta,
                handler,
            }),
        }
    }

    /// Returns the era of the server.
    pub fn era(&self) -> Era {
        self.shared.era
    }

    /// Returns the identity of the server.
    pub fn identity(&self) -> &ServerIdentity {
        &self.shared.identity
    }

    /// Edits the identity of the server, which is possible until the client is shared.
    #[must_use]
    pub fn with_identity(mut self, edit: impl FnOnce(&mut ServerIdentity)) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            edit(&mut shared.identity);
        }
        self
    }

    /// Returns the peer.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Calls a tool, provides the input that the server asks for, and polls the task if the call
    /// becomes one.
    pub async fn call_tool(
        &self,
        mut call: CallRequest<'_>,
    ) -> Result<CallToolResult, RequestError> {
        let resumes_task = call.task.as_deref().is_some_and(Option::is_some);
        if resumes_task || self.requires_task(&call) {
            // Boxed, because the future is large and rarely needed.
            return Box::pin(self.call_as_task(call)).await;
        }
        let target = call.target();
        let request = MultiRoundRequest {
            method: "tools/call",
            name: target.tool,
            write: &|params| target.write(params),
            parameters: &|| target.parameters(),
            meta: target.meta,
            token: self.peer.progress_token(),
            deadline: target.deadline,
            idle: target.idle,
            forward_url_elicitation: target.forward_url_elicitation,
            on_progress: match &mut call.on_progress {
                Some(on_progress) => Some(&mut **on_progress),
                None => None,
            },
        };
        match self
            .send_multi_round(request, CallToolResult::from_json)
            .await?
        {
            MultiRoundResult::Complete(result) => Ok(result),
            MultiRoundResult::Task(result) => Box::pin(self.finish_task(result, call)).await,
        }
    }

    /// Subscribes to changes on a modern server, until the server ends the subscription. The
    /// notifications go to the handler.
    pub async fn listen(&self, subscription: &Subscription) -> Result<(), RequestError> {
        let mut filter = ObjectWriter::new();
        for (member, wanted) in [
            ("toolsListChanged", subscription.tools),
            ("resourcesListChanged", subscription.resources),
            ("promptsListChanged", subscription.prompts),
        ] {
            if wanted {
                filter.raw(member, &Json::from_checked(ByteString::from_static("true")));
            }
        }
        if !subscription.uris.is_empty() {
            let uris = Json::encode(&subscription.uris)
                .map_err(|error| RequestError::Malformed(error.to_string()))?;
            filter.raw("resourceSubscriptions", &uris);
        }
        let mut params = ObjectWriter::new();
        params.raw("notifications", &filter.finish());
        self.shared.meta.add_to(&mut params, None, None);
        self.send(
            "subscriptions/listen",
            params.finish(),
            RequestOptions {
                routing: self.routing_without_name(),
                ..RequestOptions::default()
            },
            &mut |_| {},
        )
        .await
        .map(drop)
    }

    /// Returns the routing of a request without a name.
    fn routing_without_name(&self) -> Routing {
        Routing {
            version: self.shared.version,
            ..Routing::default()
        }
    }

    /// Returns the routing of a request for `name`.
    fn routing(
        &self,
        name: &str,
        parameters: &dyn Fn() -> Option<Vec<(ByteString, String)>>,
    ) -> Routing {
        let routed = self.peer.uses_routing() && self.shared.era == Era::Modern;
        Routing {
            version: self.shared.version,
            name: routed.then(|| ByteString::from(name)),
            parameters: routed.then(parameters).flatten().unwrap_or_default(),
        }
    }

    /// Sends a request with `params` and the metadata of this connection.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        mut params: ObjectWriter,
        deadline: Option<Instant>,
    ) -> Result<Json, RequestError> {
        self.shared.meta.add_to(&mut params, None, None);
        let options = RequestOptions {
            deadline,
            routing: self.routing_without_name(),
            ..RequestOptions::default()
        };
        self.send(method, params.finish(), options, &mut |_| {})
            .await
    }

    /// Sends a request, and repeats it once if the server rejects the protocol version but lists
    /// one that we support.
    async fn send(
        &self,
        method: &'static str,
        params: Json,
        options: RequestOptions,
        on_progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Json, RequestError> {
        if self.shared.era == Era::Legacy {
            return self
                .peer
                .request_with_progress(method, params, options, on_progress)
                .await;
        }
        let again = options.clone();
        let outcome = self
            .peer
            .request_with_progress(method, params.clone(), options, &mut *on_progress)
            .await;
        match outcome {
            Err(RequestError::Rpc(error)) if common_version(&error).is_some() => {
                self.peer
                    .request_with_progress(method, params, again, on_progress)
                    .await
            }
            outcome => outcome,
        }
    }
}

/// The parts of a [`CallRequest`] that go into the request.
#[derive(Clone, Copy)]
struct CallParams<'a> {
    tool: &'a str,
    arguments: Option<&'a Arguments>,
    header_parameters: &'a [HeaderParameter],
    meta: Option<&'a Json>,
    deadline: Option<Instant>,
    idle: Option<Duration>,
    forward_url_elicitation: bool,
}

impl<'a> CallRequest<'a> {
    fn target(&self) -> CallParams<'a> {
        CallParams {
            tool: self.tool,
            arguments: self.arguments,
            header_parameters: self.header_parameters,
            meta: self.meta,
            deadline: self.deadline,
            idle: self.idle,
            forward_url_elicitation: self.forward_url_elicitation,
        }
    }
}

impl CallParams<'_> {
    /// Writes the params of `tools/call`.
    fn write(&self, params: &mut ObjectWriter) {
        params.string("name", self.tool);
        match self.arguments {
            Some(Arguments::Text(json)) => drop(params.raw("arguments", json)),
            Some(Arguments::Tree(value)) => drop(params.value("arguments", value)),
            None => {}
        }
    }

    /// Returns the arguments to send as headers.
    fn parameters(&self) -> Option<Vec<(ByteString, String)>> {
        Some(header_values(self.header_parameters, self.arguments?))
    }
}

/// Returns the modern version in common with a server that rejected another one.
fn common_version(error: &RpcError) -> Option<&'static str> {
    if error.code != RpcError::UNSUPPORTED_VERSION {
        return None;
    }
    newest_common(MODERN, &supported_versions(error))
}

fn supported_versions(error: &RpcError) -> Vec<String> {
    let supported = error.data.as_ref().and_then(|data| data.field("supported"));
    supported.unwrap_or_default()
}
