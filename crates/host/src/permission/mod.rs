//! Who may call what (TOOL-10): rules, and somebody to ask where they do not decide.

mod denial;
mod guard;
pub(crate) mod pattern;
mod rules;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use trunkline_wire::Json;

pub(crate) use guard::{CallCheck, Guard};
pub use rules::Rules;
pub(crate) use rules::Verdict;

use crate::catalog::PoolTool;
use crate::pins::ToolChange;

/// Decides about calls that no rule decides: usually by asking the user.
pub trait Permit: Send + Sync + 'static {
    /// Whether this call may be made. To be asked no longer, the caller drops the future.
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>>;
}

/// A call that somebody has to agree to.
#[derive(Clone, Debug)]
pub struct PermissionQuestion {
    /// The tool, or the name of one of the host's own.
    pub tool: AskedTool,
    /// What it would be called with.
    pub arguments: Json,
    /// Why this is asked.
    pub reason: AskReason,
}

/// What a question is about.
#[derive(Clone, Debug)]
pub enum AskedTool {
    /// A server's tool.
    Server(Arc<PoolTool>),
    /// One of the host's own.
    Own(String),
}

impl AskedTool {
    /// The rule that names it and no other: under `allow`, it is no longer asked about.
    pub fn rule(&self) -> String {
        match self {
            Self::Server(tool) => pattern::rule_for(tool),
            Self::Own(name) => name.clone(),
        }
    }

    /// The name by which it is called.
    pub fn name(&self) -> &str {
        match self {
            Self::Server(tool) => &tool.name,
            Self::Own(name) => name,
        }
    }
}

/// Why a call is asked about.
#[derive(Clone, Debug)]
pub enum AskReason {
    /// No rule is about it.
    NoRule,
    /// A rule says so.
    Rule(String),
    /// The tool may destroy something, as its server says, and this rule allows it without naming it.
    Destructive(String),
    /// The tool is no longer what was agreed to before (TOOL-11).
    Changed(Arc<ToolChange>),
}

/// What the answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// This time.
    Once,
    /// This time, and until the host ends, as long as the tool stays what it is.
    Always,
    /// No, with what the model is told.
    No(String),
}

/// Agrees to every call: for programs that decide for themselves before they call. Rules that deny count all the same, and a
/// tool that is no longer what it was is refused.
///
/// ```
/// # use trunkline::{AllowAll, Host};
/// let builder = Host::builder().permit(AllowAll);
/// # drop(builder);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

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
            AskReason::NoRule | AskReason::Rule(_) | AskReason::Destructive(_) => {
                PermissionAnswer::Always
            }
        };
        Box::pin(std::future::ready(answer))
    }
}
