//! Servers that live in the embedding program, reached over a linked pair.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use trunkline_transport::LinkedEnd;
use trunkline_wire::peer::{Handler, Notifier, ResponseFuture};
use trunkline_wire::version::MODERN;
use trunkline_wire::{ByteString, Json, ObjectWriter, Peer, RpcError};

type Work = Pin<Box<dyn Future<Output = Result<BuiltinOutput, String>> + Send>>;

/// A server written in Rust, in this process. See the crate's example.
#[derive(Clone)]
pub struct Builtin {
    name: String,
    instructions: Option<String>,
    tools: Vec<BuiltinTool>,
}

#[derive(Clone)]
struct BuiltinTool {
    definition: serde_json::Value,
    work: Arc<dyn Fn(BuiltinCall) -> Work + Send + Sync>,
}

/// One call of a builtin's tool.
pub struct BuiltinCall {
    /// The arguments, an object.
    pub arguments: Json,
    progress_token: Option<Json>,
    notifier: Option<Notifier>,
}

/// What a builtin's tool gives back.
pub struct BuiltinOutput(serde_json::Value);

impl From<String> for BuiltinOutput {
    fn from(text: String) -> Self {
        Self(serde_json::json!({"content": [{"type": "text", "text": text}]}))
    }
}

impl From<&str> for BuiltinOutput {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl BuiltinOutput {
    /// A structured result, with its JSON text beside it for those who read only that.
    pub fn structured(value: &serde_json::Value) -> Self {
        let text = value.to_string();
        Self(
            serde_json::json!({"content": [{"type": "text", "text": text}], "structuredContent": value}),
        )
    }
}

impl BuiltinCall {
    /// A string argument.
    pub fn text(&self, name: &str) -> Option<String> {
        self.arguments.field(name)
    }

    /// A number argument.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.arguments.field(name)
    }

    /// Tells the caller how far the work has come.
    pub async fn progress(&self, progress: u32, total: u32, message: &str) {
        if let (Some(token), Some(notifier)) = (&self.progress_token, &self.notifier) {
            let mut params = ObjectWriter::new();
            params.raw("progressToken", token);
            params
                .integer("progress", progress.into())
                .integer("total", total.into());
            params.string("message", message);
            // The caller may be gone; the work goes on regardless.
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
            instructions: None,
            tools: Vec::new(),
        }
    }

    /// Tells a model how to use this server.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Adds a tool. An `Err` is the tool's own failure, told to the caller as its result.
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
        W: Future<Output = Result<BuiltinOutput, String>> + Send + 'static,
    {
        let definition = serde_json::json!({"name": name, "description": description, "inputSchema": input_schema});
        self.tool_as(definition, work)
    }

    /// Adds a tool with a whole MCP definition: annotations, an output schema, `_meta`.
    #[must_use]
    pub fn tool_as<F, W>(mut self, definition: serde_json::Value, work: F) -> Self
    where
        F: Fn(BuiltinCall) -> W + Send + Sync + 'static,
        W: Future<Output = Result<BuiltinOutput, String>> + Send + 'static,
    {
        self.tools.push(BuiltinTool {
            definition,
            work: Arc::new(move |call| Box::pin(work(call))),
        });
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
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
    /// As many as the host asks for: both ends are ours.
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
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": self.server.name, "version": env!("CARGO_PKG_VERSION")}},
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
            let mut result = match (tool.work)(call).await {
                Ok(BuiltinOutput(result)) => result,
                Err(message) => {
                    serde_json::json!({"content": [{"type": "text", "text": message}], "isError": true})
                }
            };
            result["resultType"] = "complete".into();
            Ok(Json::from(result))
        })
    }
}
