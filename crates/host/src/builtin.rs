//! Servers implemented in the embedding program, reached over a linked pair.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use trunkline_transport::LinkedEnd;
use trunkline_wire::peer::{Handler, Notifier, ResponseFuture};
use trunkline_wire::version::MODERN;
use trunkline_wire::{ByteString, Json, ObjectWriter, Peer, RpcError};

use crate::tool_output::{ToolError, ToolOutput, parse_arguments};

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

type Work = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// A server implemented in this program.
///
/// ```
/// use serde::Deserialize;
/// use serde_json::json;
/// use trunkline::Builtin;
///
/// #[derive(Deserialize)]
/// struct Wait {
///     seconds: f64,
/// }
///
/// let schema = json!({"type": "object", "properties": {"seconds": {"type": "number"}}});
/// let timer = Builtin::new("timer").tool("wait", "Waits", &schema, |call| async move {
///     let Wait { seconds } = call.parse()?;
///     call.progress(0.5, Some(1.0), "half-way").await;
///     Ok(format!("waited for {seconds} s").into())
/// });
/// # drop(timer);
/// ```
#[derive(Clone)]
pub struct Builtin {
    name: String,
    /// Tells servers of the same name apart; changes with every change to the server.
    id: u64,
    instructions: Option<String>,
    tools: Vec<BuiltinTool>,
}

#[derive(Clone)]
struct BuiltinTool {
    definition: serde_json::Value,
    work: Arc<dyn Fn(BuiltinCall) -> Work + Send + Sync>,
}

/// One call of a built-in server's tool.
#[non_exhaustive]
pub struct BuiltinCall {
    /// The arguments, an object.
    pub arguments: Json,
    progress_token: Option<Json>,
    notifier: Option<Notifier>,
}

impl BuiltinCall {
    /// Reads the arguments into a type.
    ///
    /// # Errors
    ///
    /// The arguments do not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        parse_arguments(&self.arguments)
    }

    /// A string argument.
    pub fn text(&self, name: &str) -> Option<String> {
        self.arguments.field(name)
    }

    /// A number argument.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.arguments.field(name)
    }

    /// Reports progress to the caller, if it asked for progress.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        if let (Some(token), Some(notifier)) = (&self.progress_token, &self.notifier) {
            let mut params = ObjectWriter::new();
            params.raw("progressToken", token);
            params.value("progress", &progress.into());
            if let Some(total) = total {
                params.value("total", &total.into());
            }
            params.string("message", message);
            // The caller may be gone; the work continues regardless.
            let _ = notifier
                .notify("notifications/progress", Some(params.finish()))
                .await;
        }
    }
}

impl Builtin {
    /// A server without tools.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            id: next_id(),
            instructions: None,
            tools: Vec::new(),
        }
    }

    /// Sets the instructions that tell a model how to use this server.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self.id = next_id();
        self
    }

    /// Adds a tool. An error is reported to the model as the tool's result.
    #[must_use]
    pub fn tool<F, W>(
        self,
        name: &str,
        description: &str,
        input_schema: &serde_json::Value,
        work: F,
    ) -> Self
    where
        F: Fn(BuiltinCall) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let definition = serde_json::json!({
            "name": name,
            "description": description,
            "inputSchema": input_schema,
        });
        self.tool_as(definition, work)
    }

    /// Adds a tool with a complete MCP definition: annotations, an output schema, `_meta`.
    #[must_use]
    pub fn tool_as<F, W>(mut self, definition: serde_json::Value, work: F) -> Self
    where
        F: Fn(BuiltinCall) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        self.tools.push(BuiltinTool {
            definition,
            work: Arc::new(move |call| Box::pin(work(call))),
        });
        self.id = next_id();
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Serves one connection.
    pub(crate) fn serve(self: &Arc<Self>, transport: LinkedEnd) {
        let handler = Arc::new(Serving {
            server: Arc::clone(self),
            notifier: OnceLock::new(),
        });
        let peer = Peer::start(transport, handler.clone());
        let _ = handler.notifier.set(peer.notifier());
        tokio::spawn(async move {
            peer.closed().await;
        });
    }
}

fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Builtin")
            .field("name", &self.name)
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

struct Serving {
    server: Arc<Builtin>,
    notifier: OnceLock<Notifier>,
}

impl Handler for Serving {
    /// Unlimited: both ends are ours.
    fn max_concurrent_requests(&self) -> usize {
        tokio::sync::Semaphore::MAX_PERMITS
    }

    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        let answer = match &*method {
            "server/discover" => Ok(self.discover()),
            "tools/list" => {
                let tools: Vec<_> = self
                    .server
                    .tools
                    .iter()
                    .map(|tool| &tool.definition)
                    .collect();
                Ok(serde_json::json!({"resultType": "complete", "tools": tools}))
            }
            "tools/call" => return self.call(&params.unwrap_or_else(Json::empty_object)),
            _ => Err(RpcError::method_not_found(&method)),
        };
        Box::pin(async move { answer.map(Json::from) })
    }
}

impl Serving {
    fn discover(&self) -> serde_json::Value {
        serde_json::json!({
            "resultType": "complete",
            "supportedVersions": MODERN,
            "capabilities": {"tools": {}},
            "instructions": self.server.instructions,
            "_meta": {"io.modelcontextprotocol/serverInfo": {
                "name": self.server.name,
                "version": env!("CARGO_PKG_VERSION"),
            }},
        })
    }

    fn call(&self, params: &Json) -> ResponseFuture {
        let name: Option<String> = params.field("name");
        let tool = self
            .server
            .tools
            .iter()
            .find(|tool| tool.definition["name"].as_str() == name.as_deref())
            .cloned();
        let call = BuiltinCall {
            arguments: params.get("arguments").unwrap_or_else(Json::empty_object),
            progress_token: params
                .get("_meta")
                .and_then(|meta| meta.get("progressToken")),
            notifier: self.notifier.get().cloned(),
        };
        Box::pin(async move {
            let Some(tool) = tool else {
                let message = format!("unknown tool: {}", name.unwrap_or_default());
                return Err(RpcError::new(RpcError::INVALID_PARAMS, message));
            };
            let output = (tool.work)(call).await.unwrap_or_else(ToolOutput::from);
            Ok(output.to_json())
        })
    }
}
