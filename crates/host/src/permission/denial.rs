//! Denied tools, known before anybody calls them (TOOL-10).

use super::Verdict;
use super::policy::PolicyTool;
use crate::call::CallError;
use crate::host::Host;

impl Host {
    /// Returns the error that [`Host::call`] would return if a rule denies the tool `name`, or the
    /// call policy does whatever the arguments: for lists of tools, and for models.
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
            let denied = guard.first_above(|rules| match rules.about_own(name) {
                Verdict::Deny(rule) => Some(CallError::denied(name, rule)),
                _ => None,
            });
            return denied.or_else(|| self.policy_denial(PolicyTool::Own(name), None));
        }
        let tool = pool.get(name)?;
        let by_policy = || self.policy_denial(PolicyTool::Server(tool), None);
        guard.denied(tool).or_else(by_policy)
    }
}
