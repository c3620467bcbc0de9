//! The tools of a host as a model sees them (TOOL-7, TOOL-9, TOOL-10): loaded, deferred, denied.

use super::ModelTools;
use crate::host::Host;
use crate::result::CallOutput;

impl Host {
    /// The tools to show to a model with a context of `budget` tokens; `None` is
    /// [`Settings::context_tokens`](crate::Settings::context_tokens). Loads and defers tools as
    /// [`Settings::tool_loading`](crate::Settings::tool_loading) says. An agent's view has the
    /// agent's tools.
    ///
    /// Leaves out tools that a rule denies, named in [`ModelTools::denied`], and tools of an IDE
    /// that are not for models. [`Host::pool`] has all tools that can be called.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use trunkline::tool::{Format, LoadMode, TOOL_SEARCH};
    /// use trunkline::{Builtin, Host, Settings};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock")
    ///     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
    /// let settings = Settings::default().tool_loading(LoadMode::Search);
    /// let host = Host::builder().settings(settings).builtin(clock).start();
    /// host.ready().await;
    ///
    /// let mut tools = host.tools_for_model(128_000);
    /// assert_eq!(tools.own[0].name, TOOL_SEARCH);
    /// assert!(tools.loaded.is_empty());
    /// tools.load("mcp__clock__now");
    /// assert_eq!(tools.export_value(Format::Anthropic)[1]["description"], "Tells the time");
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn tools_for_model(&self, budget: impl Into<Option<usize>>) -> ModelTools {
        let budget = budget.into();
        let settings = self.settings();
        let context_tokens = budget.unwrap_or(settings.context_tokens);
        let is_denied = |name: &str| self.denial(name).is_some();
        self.pool()
            .offered_to_model(settings.tool_loading, context_tokens, is_denied)
    }
}

impl ModelTools {
    /// The names of the tools that a call of `ToolSearch` found. Only for the result of that tool:
    /// a server could name anything.
    pub fn found(output: &CallOutput) -> Vec<String> {
        let mut names = Vec::new();
        let tools = output.structured_content.as_ref();
        if let Some(tools) = tools.and_then(|found| found.get("tools")) {
            tools.elements(|tool| names.extend(tool.field::<String>("name")));
        }
        names
    }

    /// Loads the tools that a call of `ToolSearch` found, and returns the names of those that were
    /// deferred until now. Only for the result of that tool.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use trunkline::permission::AllowAll;
    /// use trunkline::tool::{LoadMode, TOOL_SEARCH};
    /// use trunkline::{Builtin, CallOptions, Host, Settings};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock")
    ///     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
    /// let settings = Settings::default().tool_loading(LoadMode::Search);
    /// let host = Host::builder().settings(settings).builtin(clock).permit(AllowAll).start();
    /// host.ready().await;
    ///
    /// let mut tools = host.tools_for_model(None);
    /// let query = serde_json::json!({"query": "what time is it"});
    /// let output = host.call(TOOL_SEARCH, query, CallOptions::new()).await?;
    /// assert_eq!(tools.load_found(&output), ["mcp__clock__now"]);
    /// # host.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn load_found(&mut self, output: &CallOutput) -> Vec<String> {
        let mut names = Self::found(output);
        names.retain(|name| self.load(name));
        names
    }
}
