//! An MCP client over a [`Peer`]: the same methods whichever era the server belongs to.

mod handshake;
mod lists;
mod meta;

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use futures_util::future::join_all;
use tokio::time::Instant;

pub use handshake::{ConnectError, ConnectOptions, PROBE_PATIENCE, connect};
pub use lists::{Listing, MAX_CURSOR_BYTES, MAX_PAGES};
use meta::RequestMeta;

use crate::json::{Json, ObjectWriter};
use crate::mcp::{CallResult, HeaderParameter, ResultKind, ServerIdentity, values};
use crate::peer::{Handler, Peer, Progress, RequestError, RequestOptions};
use crate::rpc_error::RpcError;
use crate::transport::Routing;
use crate::version::{Era, MODERN, known_version, newest_common};

/// How often a server may ask for input before it answers one request (CALL-3).
pub const MAX_INPUT_ROUNDS: usize = 10;

/// How many inputs a server may ask for at once (SEC-4).
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
    /// Answers what a server asks in the middle of a call, by request (legacy) or by MRTR (modern).
    handler: Arc<dyn Handler>,
}

/// The arguments of a tool call. A tree is written straight into the request, so that large ones are copied once less.
#[derive(Clone, Debug)]
pub enum Arguments {
    /// As text.
    Text(Json),
    /// As a tree.
    Tree(serde_json::Value),
}

impl Arguments {
    /// Whether they are an object, as they must be.
    pub fn is_object(&self) -> bool {
        match self {
            Self::Text(json) => json.is_object(),
            Self::Tree(value) => value.is_object(),
        }
    }

    /// The same as text.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Text(json) => json.clone(),
            Self::Tree(value) => value.clone().into(),
        }
    }

    /// The same as text.
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

/// How one tool call is to be made.
#[derive(Default)]
pub struct CallRequest<'a> {
    /// The tool's name as the server knows it.
    pub tool: &'a str,
    /// The arguments, an object.
    pub arguments: Option<&'a Arguments>,
    /// Members to add to `_meta`.
    pub meta: Option<&'a Json>,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// How long the server may send nothing at all.
    pub idle: Option<Duration>,
    /// The arguments that a transport repeats in headers.
    pub header_parameters: &'a [HeaderParameter],
    /// Called with each step of progress, in order.
    pub on_progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
}

/// Which changes a server is to tell of (modern: `subscriptions/listen`).
#[derive(Clone, Debug, Default)]
pub struct Subscription {
    /// When its tools change.
    pub tools: bool,
    /// When its resources change.
    pub resources: bool,
    /// When its prompts change.
    pub prompts: bool,
    /// When one of these resources changes.
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
        let version = known_version(&identity.protocol_version);
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

    /// The era the server belongs to.
    pub fn era(&self) -> Era {
        self.shared.era
    }

    /// Who the server says it is.
    pub fn identity(&self) -> &ServerIdentity {
        &self.shared.identity
    }

    /// The link underneath.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Calls a tool, answering whatever input the server asks for on the way.
    pub async fn call_tool(&self, mut call: CallRequest<'_>) -> Result<CallResult, RequestError> {
        let token = self.peer.progress_token();
        let mut inputs = None;
        let mut ignore = |_: Progress| {};
        for round in 0..=MAX_INPUT_ROUNDS {
            let mut params = ObjectWriter::with_capacity(512);
            params.string("name", call.tool);
            match call.arguments {
                Some(Arguments::Text(json)) => drop(params.raw("arguments", json)),
                Some(Arguments::Tree(value)) => drop(params.value("arguments", value)),
                None => {}
            }
            if let Some(Inputs { responses, state }) = inputs.take() {
                if let Some(responses) = responses {
                    params.raw("inputResponses", &responses);
                }
                if let Some(state) = state {
                    params.raw("requestState", &state);
                }
            }
            self.shared.meta.add_to(&mut params, Some(token), call.meta);
            let options = RequestOptions {
                routing: self.routing(call.tool, || {
                    let arguments = call.arguments?;
                    Some(values(call.header_parameters, arguments))
                }),
                deadline: call.deadline,
                idle: call.idle,
                // Without anyone to tell, progress only has to keep the idle limit from running out.
                progress_token: call.on_progress.is_some().then_some(token),
                cancellable: true,
            };
            let on_progress: &mut (dyn FnMut(Progress) + Send) = match &mut call.on_progress {
                Some(on_progress) => &mut **on_progress,
                None => &mut ignore,
            };
            let params = params.finish();
            let result = self.send("tools/call", params, options, on_progress).await;
            // An earlier round has reached the server, whatever became of this one.
            let result = result.map_err(|error| {
                if round > 0 {
                    error.after_sending()
                } else {
                    error
                }
            })?;
            let (kind, result) = CallResult::read(&result).map_err(RequestError::Malformed)?;
            match kind {
                ResultKind::Complete => return Ok(result),
                ResultKind::InputRequired { .. } if round == MAX_INPUT_ROUNDS => break,
                ResultKind::InputRequired { requests, state } => {
                    inputs = Some(self.answer_in_time(requests, state, call.deadline).await?);
                }
                ResultKind::Unknown(kind) => {
                    return Err(RequestError::Malformed(format!(
                        "unknown result type `{kind}`"
                    )));
                }
            }
        }
        Err(RequestError::Malformed(format!(
            "the server asked for input more than {MAX_INPUT_ROUNDS} times"
        )))
    }

    /// Asks to be told of changes; the future ends when the server ends the subscription. Notifications arrive at the
    /// handler. Only modern servers know this.
    pub async fn listen(&self, subscription: &Subscription) -> Result<(), RequestError> {
        let mut filter = ObjectWriter::new();
        for (member, wanted) in [
            ("toolsListChanged", subscription.tools),
            ("resourcesListChanged", subscription.resources),
            ("promptsListChanged", subscription.prompts),
        ] {
            if wanted {
                filter.raw(member, &Json::trusted(ByteString::from_static("true")));
            }
        }
        if !subscription.uris.is_empty() {
            let uris = Json::of(&subscription.uris)
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
                routing: self.unnamed(),
                ..RequestOptions::default()
            },
            &mut |_| {},
        )
        .await
        .map(drop)
    }

    /// The routing of a request that names nothing.
    fn unnamed(&self) -> Routing {
        Routing {
            version: self.shared.version,
            ..Routing::default()
        }
    }

    /// What a transport may want to know of a request for the thing called `name`.
    fn routing(
        &self,
        name: &str,
        parameters: impl FnOnce() -> Option<Vec<(ByteString, String)>>,
    ) -> Routing {
        let routed = self.peer.is_routed() && self.shared.era == Era::Modern;
        Routing {
            version: self.shared.version,
            name: routed.then(|| ByteString::from(name)),
            parameters: routed.then(parameters).flatten().unwrap_or_default(),
        }
    }

    /// Sends a request with the members of `params` beside the metadata of this connection.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        mut params: ObjectWriter,
        deadline: Option<Instant>,
    ) -> Result<Json, RequestError> {
        self.shared.meta.add_to(&mut params, None, None);
        let options = RequestOptions {
            deadline,
            routing: self.unnamed(),
            ..RequestOptions::default()
        };
        self.send(method, params.finish(), options, &mut |_| {})
            .await
    }

    /// Sends, and once more if the server turned down the version although it names one that we speak.
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

    /// Answers what the server asks for, but not past the call's deadline: a user may never answer.
    async fn answer_in_time(
        &self,
        requests: Vec<(String, Json)>,
        state: Option<Json>,
        deadline: Option<Instant>,
    ) -> Result<Inputs, RequestError> {
        let since = Instant::now();
        let answers = self.answer_inputs(requests, state);
        match deadline {
            None => answers.await,
            Some(deadline) => {
                let in_time = tokio::time::timeout_at(deadline, answers).await;
                in_time.map_err(|_| RequestError::Timeout {
                    after: since.elapsed(),
                    sent: true,
                })?
            }
        }
    }

    async fn answer_inputs(
        &self,
        requests: Vec<(String, Json)>,
        state: Option<Json>,
    ) -> Result<Inputs, RequestError> {
        if requests.len() > MAX_INPUTS {
            return Err(RequestError::Malformed(format!(
                "the server asks for {} inputs at once",
                requests.len()
            )));
        }
        if requests.is_empty() {
            return Ok(Inputs {
                responses: None,
                state,
            });
        }
        let answers = requests.iter().map(|(key, request)| async move {
            let method = request.get("method").and_then(|method| method.as_string());
            let method = method
                .ok_or_else(|| RequestError::Malformed(format!("input `{key}` has no method")))?;
            let answer = self
                .shared
                .handler
                .request(method.clone(), request.get("params"))
                .await;
            answer.map_err(|error| {
                RequestError::Malformed(format!(
                    "the server needs `{method}`, which is not available: {error}"
                ))
            })
        });
        let mut responses = ObjectWriter::new();
        for ((key, _), answer) in requests.iter().zip(join_all(answers).await) {
            responses.raw(key, &answer?);
        }
        Ok(Inputs {
            responses: Some(responses.finish()),
            state,
        })
    }
}

/// What goes along with the next round of a request.
struct Inputs {
    responses: Option<Json>,
    state: Option<Json>,
}

/// The modern version that we share with a server that refused another, from its error.
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
