//! Denied tools, known before anybody calls them (TOOL-10).

use super::Verdict;
use crate::call::CallError;
use crate::host::Host;

impl Host {
    /// Returns the error that [`Host::call`] would return if a rule denies the tool `name`: for
    /// lists of tools, and for models.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use trunkline::permission::Rules;
    /// use trunkline::{Builtin, Host};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock")
    ///     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
    /// let rules = Rules::default().deny("mcp__clock");
    /// let host = Host::builder().builtin(clock).rules(rules).start();
    /// host.ready().await;
    /// assert!(host.denial("mcp__clock__now").is_some());
    /// # host.shutdown().await;
    /// # }
    /// ```
    pub fn denial(&self, name: &str) -> Option<CallError> {
        let (pool, guard) = (self.pool(), self.guard());
        if pool.own_tool(name).is_some() {
            return guard.first_above(|rules| match rules.about_own(name) {
                Verdict::Deny(rule) => Some(CallError::denied(name, rule)),
                _ => None,
            });
        }
        guard.denied(pool.get(name)?)
    }
}
