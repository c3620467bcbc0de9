//! Permissions for calls (TOOL-10): rules, and a decision by the embedder where no rule applies.
//!
//! ```
//! use trunkline::permission::{PermissionAnswer, PermissionQuestion, Rules};
//! use trunkline::{Builtin, CallOptions, Host};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # let schema = serde_json::json!({"type": "object"});
//! # let clock = Builtin::new("clock")
//! #     .tool("now", "Tells the time", &schema, |_| async { Ok("noon".into()) })
//! #     .tool("set", "Sets the time", &schema, |_| async { Ok("done".into()) });
//! let host = Host::builder()
//!     .builtin(clock)
//!     .rules(Rules::default().allow("mcp__clock__now"))
//!     .permit(async |question: PermissionQuestion| {
//!         // A real program asks the user here.
//!         PermissionAnswer::No(format!("{} is not allowed today", question.tool.name()))
//!     })
//!     .start();
//! host.ready().await;
//! let arguments = serde_json::json!({});
//! assert!(host.call("mcp__clock__now", arguments.clone(), CallOptions::new()).await.is_ok());
//! let error = host.call("mcp__clock__set", arguments, CallOptions::new()).await.unwrap_err();
//! assert!(error.is_refused());
//! # host.shutdown().await;
//! # }
//! ```

mod denial;
mod guard;
pub(crate) mod pattern;
pub(crate) mod policy;
mod rules;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use trunkline_wire::Json;

pub(crate) use guard::{CallCheck, Guard};
pub use policy::{CallVerdict, Decision, VerdictReason};
pub use rules::Rules;
pub(crate) use rules::Verdict;
pub use trunkline_config::PermissionRule;

use crate::catalog::PoolTool;
use crate::closure::impl_for_closures;
use crate::pins::ToolChange;

/// Decides about calls to which no rule applies, usually by asking the user.
///
/// Async closures that take a [`PermissionQuestion`] implement it; see
/// [`HostBuilder::permit`](crate::HostBuilder::permit). One that uses captured values clones them
/// into its future: `move |question| { let user = user.clone(); async move { … } }`.
pub trait Permit: Send + Sync + 'static {
    /// Decides about a call. The future is dropped when the call is cancelled.
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>>;
}

/// A call that needs a decision.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PermissionQuestion {
    /// The tool.
    pub tool: AskedTool,
    /// The arguments of the call.
    pub arguments: Json,
    /// The reason for the question.
    pub reason: AskReason,
}

impl PermissionQuestion {
    /// Returns the `allow` rule that makes [`PermissionAnswer::Always`] permanent: store it in a
    /// settings file, or add it to [`Rules`] on the next start.
    ///
    /// `None` if no such rule helps: an `ask` rule wins over it, and a changed tool is asked about
    /// whatever the rules say.
    pub fn always_rule(&self) -> Option<String> {
        match self.reason {
            AskReason::NoRule | AskReason::Destructive(_) => Some(self.tool.rule()),
            AskReason::Rule(_)
            | AskReason::Hook(_)
            | AskReason::Policy { .. }
            | AskReason::Changed(_) => None,
        }
    }
}

/// The tool of a [`PermissionQuestion`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AskedTool {
    /// A server's tool.
    Server(Arc<PoolTool>),
    /// A tool of the host, by name.
    Own(String),
}

impl AskedTool {
    /// Returns the rule that matches exactly this tool.
    pub fn rule(&self) -> String {
        match self {
            Self::Server(tool) => pattern::rule_for(tool),
            Self::Own(name) => name.clone(),
        }
    }

    /// Returns the tool's name in the pool.
    pub fn name(&self) -> &str {
        match self {
            Self::Server(tool) => &tool.name,
            Self::Own(name) => name,
        }
    }
}

/// The reason for a [`PermissionQuestion`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AskReason {
    /// No rule matches the tool.
    NoRule,
    /// This `ask` rule matches the tool.
    Rule(String),
    /// The server marks the tool as destructive, and this rule allows it without naming it.
    Destructive(String),
    /// A hook asks for it, for this reason (ELI-4).
    Hook(String),
    /// The organisation's call policy requires approval of every such call (SEC-7).
    Policy {
        /// The part of the policy, and its file.
        rule: PermissionRule,
        /// Why it applies.
        reason: String,
    },
    /// The tool has changed since it was first permitted (TOOL-11).
    Changed(Arc<ToolChange>),
}

impl AskReason {
    pub(crate) fn of_policy(restriction: &policy::Restriction) -> Self {
        Self::Policy {
            rule: restriction.rule.clone(),
            reason: restriction.reason.clone(),
        }
    }
}

/// The answer to a [`PermissionQuestion`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionAnswer {
    /// Permits this call.
    Once,
    /// Permits this call and later ones, until the host ends or the tool changes. To keep the
    /// answer, store [`PermissionQuestion::always_rule`].
    Always,
    /// Refuses the call, with a reason for the model.
    No(String),
}

/// Permits every call: for programs that decide before they call. `deny` rules still apply; calls
/// of changed tools, and those that a hook or the call policy wants the user to be asked about, are
/// refused.
///
/// ```
/// # use trunkline::{Host, permission::AllowAll};
/// let builder = Host::builder().permit(AllowAll);
/// # drop(builder);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl_for_closures!(Permit, permit(PermissionQuestion) -> PermissionAnswer);

impl Permit for AllowAll {
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>> {
        let answer = match question.reason {
            AskReason::Changed(_) => {
                let reason = "the tool has changed since it was first called";
                PermissionAnswer::No(reason.to_owned())
            }
            AskReason::Hook(reason) => {
                PermissionAnswer::No(format!("a hook wants the user to be asked: {reason}"))
            }
            AskReason::Policy { rule, reason } => PermissionAnswer::No(format!(
                "{reason}, and {} of {} requires the user's approval",
                rule.text, rule.source
            )),
            AskReason::NoRule | AskReason::Rule(_) | AskReason::Destructive(_) => {
                PermissionAnswer::Always
            }
        };
        Box::pin(std::future::ready(answer))
    }
}
