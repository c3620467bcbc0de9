//! The decision about a call before it is made, for `trunkline policy test` and for programs.

use serde::Serialize;
use trunkline_config::{PermissionRule, PolicyDecision};
use trunkline_wire::client::Arguments;

use super::{PolicyTool, Restriction};
use crate::call::CallError;
use crate::host::Host;
use crate::permission::Verdict;

/// The decision about a call, by policy and permission rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallVerdict {
    /// The decision.
    pub decision: Decision,
    /// The rules that led to it, the decisive one first.
    pub reasons: Vec<VerdictReason>,
}

/// A rule that applies to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerdictReason {
    /// The decision of this rule alone.
    pub decision: Decision,
    /// The rule; for a part of the call policy, its path.
    pub rule: String,
    /// The file that contains it.
    pub source: String,
    /// Why it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Decision {
    /// It runs.
    Allow,
    /// It needs permission.
    Ask,
    /// It is refused.
    Deny,
}

impl From<PolicyDecision> for Decision {
    fn from(decision: PolicyDecision) -> Self {
        match decision {
            PolicyDecision::Ask => Self::Ask,
            PolicyDecision::Deny => Self::Deny,
        }
    }
}

impl VerdictReason {
    fn of(decision: Decision, rule: &PermissionRule, reason: Option<&str>) -> Self {
        Self {
            decision,
            rule: rule.text.clone(),
            source: rule.source.clone(),
            reason: reason.map(str::to_owned),
        }
    }
}

impl From<Restriction> for VerdictReason {
    fn from(restriction: Restriction) -> Self {
        let Restriction {
            decision,
            rule,
            reason,
        } = restriction;
        Self::of(decision.into(), &rule, Some(&reason))
    }
}

impl Host {
    /// Decides about a call by policy and permission rules, without making it. Hooks, pins and the
    /// tool's own schema are not consulted, and the call does not count towards a limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), trunkline::CallError> {
    /// use trunkline::permission::{Decision, Rules};
    /// use trunkline::{Builtin, Host};
    ///
    /// let schema = serde_json::json!({"type": "object"});
    /// let clock = Builtin::new("clock")
    ///     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) });
    /// let rules = Rules::default().deny("mcp__clock");
    /// let host = Host::builder().builtin(clock).rules(rules).start();
    /// host.ready().await;
    /// let verdict = host.judge_call("mcp__clock__now", serde_json::json!({}))?;
    /// assert_eq!(verdict.decision, Decision::Deny);
    /// assert_eq!(verdict.reasons[0].rule, "mcp__clock");
    /// # host.shutdown().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// No tool has this name.
    pub fn judge_call(
        &self,
        name: &str,
        arguments: impl Into<Arguments>,
    ) -> Result<CallVerdict, CallError> {
        let pool = self.pool();
        let arguments = arguments.into();
        let server_tool;
        let tool = if let Some(own) = pool.own_tool(name) {
            PolicyTool::Own(&own.name)
        } else {
            server_tool = self.find_tool(name)?;
            PolicyTool::of(&server_tool)
        };
        let restrictions = self.restrictions(tool, Some(&arguments));
        let mut reasons: Vec<_> = restrictions.into_iter().map(VerdictReason::from).collect();
        let mut decision = Decision::Allow;
        let by_rules = self.guard().verdict(tool, self, |verdict| match verdict {
            Verdict::Deny(rule) => (
                Decision::Deny,
                Some(VerdictReason::of(Decision::Deny, rule, None)),
            ),
            Verdict::Ask(Some(rule)) => (
                Decision::Ask,
                Some(VerdictReason::of(Decision::Ask, rule, None)),
            ),
            Verdict::Destructive(rule) => {
                let why = "the tool is destructive, and the rule does not name it";
                (
                    Decision::Ask,
                    Some(VerdictReason::of(Decision::Ask, rule, Some(why))),
                )
            }
            Verdict::Ask(None) => (Decision::Ask, None),
            Verdict::Allow(rule) => {
                let rule = rule.map(|rule| VerdictReason::of(Decision::Allow, rule, None));
                (Decision::Allow, rule)
            }
        });
        decision = decision.max(by_rules.0);
        reasons.extend(by_rules.1);
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.decision));
        if let Some(first) = reasons.first() {
            decision = decision.max(first.decision);
        }
        Ok(CallVerdict { decision, reasons })
    }
}
