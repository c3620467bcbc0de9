//! The one view of a host's tools for a model (TOOL-7, TOOL-9, TOOL-10): which are shown, which are found by searching.

use super::ModelTools;
use crate::host::Host;
use crate::result::CallOutput;

impl Host {
    /// The tools to show to a model, as [`Settings::tool_loading`](crate::Settings::tool_loading) says, for a context of
    /// [`Settings::context_tokens`](crate::Settings::context_tokens). An agent's view has the agent's tools.
    ///
    /// Tools that a rule denies are left out and named in [`ModelTools::denied`]; tools of an IDE that are not for models are
    /// left out. Use this for everything that a model is shown: [`Host::pool`] has all tools that can be called.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use trunkline::tool::{Format, LoadMode, TOOL_SEARCH};
    /// use trunkline::{Builtin, Host, Settings};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock").tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
    /// let settings = Settings { tool_loading: LoadMode::Search, ..Settings::default() };
    /// let host = Host::builder().settings(settings).builtin(clock).start();
    /// host.ready().await;
    ///
    /// let mut tools = host.offered();
    /// assert_eq!(tools.own[0].name, TOOL_SEARCH);
    /// assert!(tools.loaded.is_empty());
    /// tools.load("mcp__clock__now");
    /// assert!(tools.export(Format::Anthropic).contains("Tells the time"));
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn offered(&self) -> ModelTools {
        self.offered_within(self.settings().context_tokens)
    }

    /// As [`Host::offered`], for a model with a context of this many tokens.
    pub fn offered_within(&self, context_tokens: usize) -> ModelTools {
        let pool = self.pool();
        let is_denied = |name: &str| self.denial(name).is_some();
        pool.offered_to_model(self.settings().tool_loading, context_tokens, is_denied)
    }
}

impl ModelTools {
    /// The names of the tools that a call of `ToolSearch` found. Pass each to [`ModelTools::load`] in the following requests to
    /// the model. Only for the result of that tool: a server could name anything.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use trunkline::permission::AllowAll;
    /// use trunkline::tool::{ModelTools, TOOL_SEARCH};
    /// use trunkline::{Builtin, CallOptions, Host};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock").tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
    /// let host = Host::builder().builtin(clock).permit(AllowAll).start();
    /// host.ready().await;
    /// let query = serde_json::json!({"query": "what time is it"});
    /// let output = host.call(TOOL_SEARCH, query, CallOptions::default()).await?;
    /// assert_eq!(ModelTools::found(&output), ["mcp__clock__now"]);
    /// # host.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn found(output: &CallOutput) -> Vec<String> {
        let mut names = Vec::new();
        let tools = output.structured_content.as_ref();
        if let Some(tools) = tools.and_then(|found| found.get("tools")) {
            tools.elements(|tool| names.extend(tool.field::<String>("name")));
        }
        names
    }
}
