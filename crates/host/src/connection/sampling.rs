//! Sampling: servers request a message from the embedder's model (LIF-6).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use trunkline_wire::offload::offload;
use trunkline_wire::peer::ResponseFuture;
use trunkline_wire::{Json, RpcError};

use crate::closure::impl_for_closures;
use crate::sanitize::{Removed, one_line, strip_hidden_json};

/// The time for one message. The call that waits for it may end earlier.
const SAMPLING_TIMEOUT: Duration = Duration::from_mins(5);

/// The embedder's model, for `sampling/createMessage` requests.
///
/// Closures that take a [`SamplingRequest`] implement it; see
/// [`HostBuilder::sampling`](crate::HostBuilder::sampling).
pub trait Sampling: Send + Sync + 'static {
    /// Returns a message of the model: an MCP `CreateMessageResult` with `role`, `content` and
    /// `model`. The server receives the error. Dropped when the server cancels the request, and
    /// after five minutes.
    fn create_message(
        &self,
        request: SamplingRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Json, String>> + Send>>;
}

impl_for_closures!(Sampling, create_message(SamplingRequest) -> Result<Json, String>);

/// A server's request for a message.
#[derive(Clone)]
#[non_exhaustive]
pub struct SamplingRequest {
    /// The server, by its name as configured.
    pub server: Arc<str>,
    /// The client of the calls that it may belong to:
    /// [`CallOptions::client`](crate::CallOptions::client).
    pub client: Option<Arc<str>>,
    /// The key under which the server asked, if the call is repeated with the answer (MRTR).
    pub input_key: Option<String>,
    /// The params of `sampling/createMessage`: `messages`, `systemPrompt`, `maxTokens`, …;
    /// untrusted text, without hidden characters.
    pub params: Json,
}

impl fmt::Debug for SamplingRequest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("SamplingRequest")
            .field("server", &self.server)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// Answers a server's request.
pub(super) fn answer(
    sampling: Option<&Arc<dyn Sampling>>,
    server: &Arc<str>,
    client: Option<Arc<str>>,
    input_key: Option<String>,
    params: Option<Json>,
) -> ResponseFuture {
    let Some(sampling) = sampling else {
        let error = RpcError::method_not_found("sampling/createMessage");
        return Box::pin(async move { Err(error) });
    };
    let (sampling, server) = (Arc::clone(sampling), Arc::clone(server));
    Box::pin(async move {
        let failed = |text: &str| Err(RpcError::new(RpcError::INTERNAL_ERROR, text.to_owned()));
        let bytes = params.as_ref().map_or(0, |params| params.as_str().len());
        let params = match offload(bytes, || checked(params)).await {
            Ok(params) => params?,
            Err(error) => return failed(&error.to_string()),
        };
        let message = sampling.create_message(SamplingRequest {
            server,
            client,
            input_key,
            params,
        });
        match tokio::time::timeout(SAMPLING_TIMEOUT, message).await {
            Err(_) => failed("the model did not answer in time"),
            Ok(Err(error)) => failed(&one_line(&error).0),
            Ok(Ok(message)) if !is_message(&message) => failed("the model gave no message"),
            Ok(Ok(message)) => Ok(message),
        }
    })
}

/// Validates the params and removes hidden characters.
fn checked(params: Option<Json>) -> Result<Json, RpcError> {
    let refuse = |text: &str| Err(RpcError::new(RpcError::INVALID_PARAMS, text.to_owned()));
    let Some(params) = params.filter(Json::is_object) else {
        return refuse("sampling/createMessage needs params");
    };
    let messages = params.get("messages");
    if !messages.is_some_and(|list| list.elements(|_| {})) {
        return refuse("sampling/createMessage needs a list of messages");
    }
    // `sampling.tools` is not declared: a server's request never calls tools.
    if params.get("tools").is_some_and(|tools| !tools.is_null()) {
        return refuse("this client does not support tools in sampling");
    }
    Ok(strip_hidden_json(&params, &mut Removed::default()))
}

/// True if it has the members that every message must have.
fn is_message(message: &Json) -> bool {
    let text = |name: &str| message.field::<String>(name).is_some();
    text("role") && text("model") && message.get("content").is_some_and(|it| !it.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model() -> Arc<dyn Sampling> {
        Arc::new(|request: SamplingRequest| async move {
            let asked = request.params.get("messages").unwrap();
            match asked.as_str() {
                "[]" => Err("no\n\u{200b}credit".to_owned()),
                "[0]" => Ok(json!({"role": "assistant"}).into()),
                "[1]" => std::future::pending().await,
                asked => Ok(
                    json!({"role": "assistant", "model": "m", "content": {"type": "text",
                    "text": format!("{}: {asked}", request.server)}})
                    .into(),
                ),
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_has_an_answer() {
        for (params, expected) in [
            (json!({"messages": ["hi\u{200b}"]}), Ok(r#"s: ["hi"]"#)),
            (json!({"messages": []}), Err((-32603, "no credit"))),
            (
                json!({"messages": [0]}),
                Err((-32603, "the model gave no message")),
            ),
            (
                json!({"messages": [1]}),
                Err((-32603, "the model did not answer in time")),
            ),
            (
                json!({}),
                Err((-32602, "sampling/createMessage needs a list of messages")),
            ),
            (
                json!([]),
                Err((-32602, "sampling/createMessage needs params")),
            ),
            (
                json!({"messages": [], "tools": []}),
                Err((-32602, "this client does not support tools in sampling")),
            ),
        ] {
            let said = answer(
                Some(&model()),
                &"s".into(),
                None,
                None,
                Some(params.clone().into()),
            )
            .await;
            let said = match &said {
                Ok(message) => Ok(message
                    .get("content")
                    .unwrap()
                    .field::<String>("text")
                    .unwrap()),
                Err(error) => Err((error.code, &*error.message)),
            };
            let said = said.as_ref().map(String::as_str).map_err(|error| *error);
            assert_eq!(said, expected, "{params}");
        }
        let none = answer(
            None,
            &"s".into(),
            None,
            None,
            Some(json!({"messages": []}).into()),
        )
        .await;
        assert_eq!(none.unwrap_err().code, -32601);
    }
}
