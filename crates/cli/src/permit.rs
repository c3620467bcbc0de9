//! Who agrees to calls. Whoever types a command wants what it says; only a tool that is no longer what it was is asked about.

use std::future::{Future, ready};
use std::pin::Pin;

use trunkline::permission::{AskReason, PermissionAnswer, PermissionQuestion, Permit};

use crate::output;

/// The person at the terminal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Typed {
    /// A tool that has changed is fine.
    pub(crate) accept_changes: bool,
}

impl Permit for Typed {
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>> {
        let change = match question.reason {
            AskReason::Changed(change) if !self.accept_changes => change,
            _ => return Box::pin(ready(PermissionAnswer::Always)),
        };
        if !output::can_ask() {
            let reason = "nobody has agreed to what it is now";
            return Box::pin(ready(PermissionAnswer::No(reason.to_owned())));
        }
        Box::pin(async move {
            let asking = tokio::task::spawn_blocking(move || {
                output::warning(&change.to_string());
                output::block(&change.diff());
                output::ask("call it as it is now?")
            });
            match asking.await {
                Ok(true) => PermissionAnswer::Always,
                _ => PermissionAnswer::No("you said no".to_owned()),
            }
        })
    }
}
