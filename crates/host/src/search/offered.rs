//! The view of a host's tools for a model (TOOL-7, TOOL-9, TOOL-10).

use super::ModelTools;
use crate::host::Host;
use crate::result::CallOutput;

impl Host {
    /// Returns the tools for a model according to
    /// [`Settings::tool_loading`](crate::Settings::tool_loading) and
    /// [`Settings::context_tokens`](crate::Settings::context_tokens). On an agent, returns the
    /// agent's tools.
    ///
    /// Tools that a rule denies are omitted and listed in [`ModelTools::denied`]; IDE tools that
    /// are not for models are omitted. Use this for everything a model sees: [`Host::pool`] holds
    /// all callable tools.
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

    /// Like [`Host::offered`], for a context of this many tokens.
    pub fn offered_within(&self, context_tokens: usize) -> ModelTools {
        let pool = self.pool();
        let is_denied = |name: &str| self.denial(name).is_some();
        pool.offered_to_model(self.settings().tool_loading, context_tokens, is_denied)
    }
}

impl ModelTools {
    /// Returns the names of the tools in a result of `ToolSearch`. Pass each to
    /// [`ModelTools::load`] before the next request to the model. Use this for that tool's results
    /// only: a server could name anything.
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
    /// let output = host.call(TOOL_SEARCH, query, CallOptions::new()).await?;
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
