//! Tools of the host itself, which precede those of servers in the pool (TOOL-8): the search, the
//! readers of resources, and those that the embedding program adds.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use trunkline_wire::Json;
use trunkline_wire::client::Arguments;
use trunkline_wire::mcp::ToolHints;
use trunkline_wire::peer::Progress;

use crate::call::Checks;
use crate::host::Host;
use crate::result::CallOutput;
use crate::tool_output::{ToolError, ToolOutput, parse_arguments};

type Work = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// A tool of the host itself, called by a name without a server's prefix.
#[derive(Clone)]
pub struct HostTool {
    /// Its name in the pool.
    pub name: String,
    /// The description that a model sees.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Json,
    /// Its effects, as MCP's annotations describe them.
    pub hints: ToolHints,
    /// Whether every agent sees it, whatever its scope: it works on what the agent sees.
    pub(crate) serves_every_agent: bool,
    checks: Arc<Checks>,
    work: Arc<dyn Fn(HostCall) -> Work + Send + Sync>,
}

/// One call of a [`HostTool`].
#[non_exhaustive]
pub struct HostCall {
    /// The host that is called; for an agent, its view.
    pub host: Host,
    /// The arguments, an object.
    pub arguments: Json,
    /// Receives progress, if the caller asked for it.
    pub on_progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl HostCall {
    /// Reads the arguments into a type.
    ///
    /// # Errors
    ///
    /// The arguments do not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        parse_arguments(&self.arguments)
    }
}

impl HostTool {
    /// A tool. An error is reported to the model as the tool's result.
    ///
    /// ```
    /// use trunkline::tool::HostTool;
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let count = HostTool::new("count_servers", "Counts servers", schema, |call| async move {
    ///     Ok(call.host.servers().len().to_string().into())
    /// });
    /// # drop(count);
    /// ```
    pub fn new<F, W>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: serde_json::Value,
        work: F,
    ) -> Self
    where
        F: Fn(HostCall) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
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

    /// Sets its annotations.
    #[must_use]
    pub fn hints(mut self, hints: ToolHints) -> Self {
        self.hints = hints;
        self
    }

    /// Shows it to every agent, whatever its scope.
    pub(crate) fn for_every_agent(mut self) -> Self {
        self.serves_every_agent = true;
        self
    }

    /// The mistakes in `arguments`.
    pub(crate) fn problems(&self, arguments: &Arguments) -> Vec<String> {
        self.checks.arguments(&self.input_schema, arguments)
    }

    pub(crate) async fn call(&self, call: HostCall) -> CallOutput {
        let output = (self.work)(call).await.unwrap_or_else(ToolOutput::from);
        output.into_output()
    }
}

impl fmt::Debug for HostTool {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("HostTool")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
