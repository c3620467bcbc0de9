//! Tools of the host's own, which stand in the pool before those of servers (TOOL-8): the search, the readers of resources, and what
//! the embedding program adds.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use trunkline_wire::Json;
use trunkline_wire::client::Arguments;
use trunkline_wire::mcp::ToolHints;
use trunkline_wire::peer::Progress;

use crate::call::Checks;
use crate::host::Host;
use crate::result::CallOutput;

type Work = Pin<Box<dyn Future<Output = Result<CallOutput, String>> + Send>>;

/// A tool that needs no server.
#[derive(Clone)]
pub struct HostTool {
    /// The name by which it is called.
    pub name: String,
    /// What a model is told about it.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Json,
    /// What it does to the world.
    pub hints: ToolHints,
    /// Whether it works on what its caller sees, and so belongs to every agent whatever its scope.
    pub(crate) serves_every_agent: bool,
    checks: Arc<Checks>,
    work: Arc<dyn Fn(HostCall) -> Work + Send + Sync>,
}

/// One call of a host's own tool.
pub struct HostCall {
    /// The host that is called: for an agent, its own view.
    pub host: Host,
    /// The arguments, an object.
    pub arguments: Json,
    /// To be called with each step of progress, if somebody wants to hear of it.
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl HostTool {
    /// A tool. An `Err` is its own failure, told to the caller as its result.
    pub fn new<F, W>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: serde_json::Value,
        work: F,
    ) -> Self
    where
        F: Fn(HostCall) -> W + Send + Sync + 'static,
        W: Future<Output = Result<CallOutput, String>> + Send + 'static,
    {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema: input_schema.into(),
            hints: ToolHints::default(),
            serves_every_agent: false,
            checks: Arc::default(),
            work: Arc::new(move |call| Box::pin(work(call))),
        }
    }

    /// Says what it does to the world.
    #[must_use]
    pub fn hints(mut self, hints: ToolHints) -> Self {
        self.hints = hints;
        self
    }

    /// Makes it a tool of every agent, whatever its scope.
    pub(crate) fn for_every_agent(mut self) -> Self {
        self.serves_every_agent = true;
        self
    }

    /// What is wrong with arguments, one mistake each.
    pub(crate) fn problems(&self, arguments: &Arguments) -> Vec<String> {
        self.checks.arguments(&self.input_schema, arguments)
    }

    pub(crate) async fn call(&self, call: HostCall) -> CallOutput {
        (self.work)(call).await.unwrap_or_else(CallOutput::failure)
    }
}

impl fmt::Debug for HostTool {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("HostTool")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
