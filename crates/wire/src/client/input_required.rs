//! Multi-round requests (MRTR): provides the input that a server asks for and repeats the request
//! until there is a result (CALL-3).

use std::time::Duration;

use bytestring::ByteString;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{Client, MAX_INPUT_ROUNDS, MAX_INPUTS};
use crate::json::{Json, ObjectWriter};
use crate::mcp::ResultKind;
use crate::offload::offload;
use crate::peer::{Progress, RequestError, RequestOptions};
use crate::rpc_error::RpcError;

/// The `resultType` of a task.
const TASK: &str = "task";

/// A request that can be repeated.
pub(super) struct MultiRoundRequest<'a> {
    pub(super) method: &'static str,
    /// The `name` or `uri` in its params.
    pub(super) name: &'a str,
    /// Writes its params.
    pub(super) write: &'a (dyn Fn(&mut ObjectWriter) + Sync),
    /// The arguments to send as headers.
    pub(super) parameters: &'a (dyn Fn() -> Option<Vec<(ByteString, String)>> + Sync),
    pub(super) meta: Option<&'a Json>,
    /// The progress token.
    pub(super) token: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) idle: Option<Duration>,
    /// Whether error -32042 is returned instead of handled.
    pub(super) forward_url_elicitation: bool,
    pub(super) on_progress: Option<&'a mut (dyn FnMut(Progress) + Send)>,
}

/// The final result of a multi-round request.
pub(super) enum MultiRoundResult<T> {
    Complete(T),
    /// The call became a task; the raw result.
    Task(Json),
}

/// The input for the next round.
#[derive(Clone)]
struct Inputs {
    responses: Option<Json>,
    state: Option<Json>,
}

impl Client {
    /// Repeats the request until there is a result, which `read` parses.
    pub(super) async fn send_multi_round<T: Send + 'static>(
        &self,
        mut request: MultiRoundRequest<'_>,
        read: fn(&Json) -> Result<(ResultKind, T), String>,
    ) -> Result<MultiRoundResult<T>, RequestError> {
        let mut inputs = None;
        let (mut rounds, mut visits) = (0, 0);
        loop {
            let result = match self.send_round(&mut request, inputs.as_ref()).await {
                Err(RequestError::Rpc(error))
                    if error.code == RpcError::URL_ELICITATION_REQUIRED
                        && !request.forward_url_elicitation =>
                {
                    self.open_required_urls(error, visits, &mut request.deadline)
                        .await?;
                    visits += 1;
                    continue;
                }
                // An earlier round has reached the server.
                Err(error) if rounds > 0 => return Err(error.after_sending()),
                Err(error) => return Err(error),
                Ok(result) => result,
            };
            let raw = result.clone();
            let parsed = offload(raw.as_str().len(), move || read(&raw)).await;
            let (kind, complete) = parsed
                .unwrap_or_else(|error| Err(error.to_string()))
                .map_err(RequestError::Malformed)?;
            match kind {
                ResultKind::Complete => return Ok(MultiRoundResult::Complete(complete)),
                ResultKind::InputRequired { .. } if rounds == MAX_INPUT_ROUNDS => {
                    return Err(RequestError::Malformed(format!(
                        "the server asked for input more than {MAX_INPUT_ROUNDS} times"
                    )));
                }
                ResultKind::InputRequired { requests, state } => {
                    let responses = self
                        .answer_before_deadline(&requests, &mut request.deadline)
                        .await?;
                    inputs = Some(Inputs { responses, state });
                    rounds += 1;
                }
                ResultKind::Unknown(kind) if kind == TASK => {
                    return Ok(MultiRoundResult::Task(result));
                }
                ResultKind::Unknown(kind) => {
                    return Err(RequestError::Malformed(format!(
                        "unknown result type `{kind}`"
                    )));
                }
            }
        }
    }

    async fn send_round(
        &self,
        request: &mut MultiRoundRequest<'_>,
        inputs: Option<&Inputs>,
    ) -> Result<Json, RequestError> {
        let mut params = ObjectWriter::with_capacity(512);
        (request.write)(&mut params);
        if let Some(Inputs { responses, state }) = inputs {
            if let Some(responses) = responses {
                params.raw("inputResponses", responses);
            }
            if let Some(state) = state {
                params.raw("requestState", state);
            }
        }
        self.shared
            .meta
            .add_to(&mut params, Some(request.token), request.meta);
        let options = RequestOptions {
            routing: self.routing(request.name, request.parameters),
            deadline: request.deadline,
            idle: request.idle,
            // Without a listener, progress only resets the idle timeout.
            progress_token: request.on_progress.is_some().then_some(request.token),
            cancellable: true,
        };
        let mut ignore = |_: Progress| {};
        let on_progress: &mut (dyn FnMut(Progress) + Send) = match &mut request.on_progress {
            Some(on_progress) => &mut **on_progress,
            None => &mut ignore,
        };
        self.send(request.method, params.finish(), options, on_progress)
            .await
    }

    /// Answers the input requests before the deadline, which is extended while the user is
    /// prompted.
    pub(super) async fn answer_before_deadline(
        &self,
        requests: &[(String, Json)],
        deadline: &mut Option<Instant>,
    ) -> Result<Option<Json>, RequestError> {
        let methods = requests
            .iter()
            .filter_map(|(_, request)| request.get("method"));
        let mut methods = methods.filter_map(|method| method.as_string());
        let asks = methods.any(|method| self.shared.handler.prompts_user(&method));
        with_deadline(asks, deadline, self.answer_inputs(requests)).await?
    }

    /// Returns the responses as an object, or `None` if there are no requests.
    async fn answer_inputs(
        &self,
        requests: &[(String, Json)],
    ) -> Result<Option<Json>, RequestError> {
        if requests.len() > MAX_INPUTS {
            return Err(RequestError::Malformed(format!(
                "the server requested more than {MAX_INPUTS} inputs at once"
            )));
        }
        if requests.is_empty() {
            return Ok(None);
        }
        let answers = requests.iter().map(|(key, request)| async move {
            let method = request.get("method").and_then(|method| method.as_string());
            let method = method
                .ok_or_else(|| RequestError::Malformed(format!("input `{key}` has no method")))?;
            let answer = self
                .shared
                .handler
                .input(key, method.clone(), request.get("params"))
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
        Ok(Some(responses.finish()))
    }
}

/// Waits for `answer` until the deadline. If the user is prompted, extends the deadline instead.
pub(super) async fn with_deadline<T>(
    prompts_user: bool,
    deadline: &mut Option<Instant>,
    answer: impl Future<Output = T>,
) -> Result<T, RequestError> {
    let since = Instant::now();
    match deadline {
        None => Ok(answer.await),
        Some(deadline) if prompts_user => {
            let answer = answer.await;
            *deadline = deadline.checked_add(since.elapsed()).unwrap_or(*deadline);
            Ok(answer)
        }
        Some(deadline) => {
            let in_time = tokio::time::timeout_at(*deadline, answer).await;
            in_time.map_err(|_| RequestError::Timeout {
                after: since.elapsed(),
                sent: true,
            })
        }
    }
}
