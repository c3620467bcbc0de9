//! Permits what the user typed. Only a tool that has changed since its first call needs a prompt.

use std::future::{Future, ready};
use std::pin::Pin;

use trunkline::permission::{AskReason, PermissionAnswer, PermissionQuestion, Permit};

use crate::output;

/// Permits calls that the user typed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TypedCalls {
    /// Whether changed tools are accepted without a prompt.
    pub(crate) accept_changes: bool,
}

impl Permit for TypedCalls {
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>> {
        let change = match question.reason {
            AskReason::Changed(change) if !self.accept_changes => change,
            AskReason::Hook(reason) => {
                return Box::pin(ask_because(format!(
                    "a hook wants you to be asked: {reason}"
                )));
            }
            AskReason::Policy { rule, reason } => {
                let (rule, file) = (rule.text, rule.source);
                let why = format!("{reason}, and {rule} of {file} requires your approval");
                return Box::pin(ask_because(why));
            }
            _ => return Box::pin(ready(PermissionAnswer::Always)),
        };
        if !output::can_ask() {
            let reason = "the change has not been accepted";
            return Box::pin(ready(PermissionAnswer::No(reason.to_owned())));
        }
        Box::pin(async move {
            let asking = tokio::task::spawn_blocking(move || {
                output::warning(&change.to_string());
                output::block(&change.diff());
                output::ask("accept the change and call it?")
            });
            match asking.await {
                Ok(true) => PermissionAnswer::Always,
                _ => PermissionAnswer::No("you declined".to_owned()),
            }
        })
    }
}

/// Asks the user about one call, for a reason that no answer settles for good.
async fn ask_because(why: String) -> PermissionAnswer {
    if !output::can_ask() {
        return PermissionAnswer::No(why);
    }
    let asking = tokio::task::spawn_blocking(move || {
        output::warning(&why);
        output::ask("call the tool?")
    });
    match asking.await {
        Ok(true) => PermissionAnswer::Once,
        _ => PermissionAnswer::No("you declined".to_owned()),
    }
}
