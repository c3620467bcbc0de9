//! Permissions for calls of clients (TOOL-10).

use std::future::{Future, ready};
use std::pin::Pin;

use trunkline::permission::{AskReason, PermissionAnswer, PermissionQuestion, Permit};

/// Leaves calls without a rule to the client, which asks its own user. What the user wants to be
/// asked about here is refused, because there is nobody to ask.
pub(super) struct ClientCalls;

impl Permit for ClientCalls {
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>> {
        let answer = match question.reason {
            AskReason::Rule(rule) => PermissionAnswer::No(format!(
                "the rule \"{rule}\" of your settings wants you to be asked, which a gateway cannot"
            )),
            AskReason::Changed(change) => {
                PermissionAnswer::No(format!("{change}; accept the change with `trunkline call`"))
            }
            AskReason::Hook(reason) => {
                PermissionAnswer::No(format!("a hook wants you to be asked: {reason}"))
            }
            _ => PermissionAnswer::Once,
        };
        Box::pin(ready(answer))
    }
}
