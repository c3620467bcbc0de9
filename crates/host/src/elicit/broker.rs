//! Answers the elicitations of servers: hooks first, then the embedding program's callbacks, of
//! which a queue for a user interface may be the last (ELI-1). Nobody's answer is "cancel".

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use trunkline_config::HookEvent;
use trunkline_wire::Json;
use trunkline_wire::offload::offload;

use super::{Elicit, ElicitAnswer, Elicitation, to_result};
use crate::hooks::Hooks;

/// The time for an answer to an elicitation. The time limits of calls are suspended meanwhile.
const ANSWER_LIMIT: Duration = Duration::from_mins(30);

/// Everybody who may answer elicitations.
pub(crate) struct Broker {
    hooks: Arc<Hooks>,
    /// Asked in order.
    callbacks: Vec<Arc<dyn Elicit>>,
}

impl Broker {
    pub(crate) fn new(hooks: Arc<Hooks>, callbacks: Vec<Arc<dyn Elicit>>) -> Self {
        Self { hooks, callbacks }
    }

    /// Returns whether anybody may answer.
    pub(crate) fn is_staffed(&self) -> bool {
        !self.callbacks.is_empty() || self.hooks.has(HookEvent::Elicitation)
    }

    /// Returns the `ElicitResult` for a request. `warn` is called with the problems.
    pub(crate) async fn answer(&self, elicitation: Elicitation, warn: impl Fn(&str)) -> Json {
        if let Some(result) = self.answer_of_hooks(&elicitation, &warn).await {
            return result;
        }
        if self.callbacks.is_empty() {
            return cancel();
        }
        let asking = tokio::time::timeout(ANSWER_LIMIT, self.ask(&elicitation));
        let Ok(answer) = asking.await else {
            warn("nobody answered what the server asked");
            return cancel();
        };
        let result = match checked(&elicitation, answer).await {
            Ok(result) => result,
            Err(problem) => {
                warn(&not_sent(&problem));
                return cancel();
            }
        };
        self.reviewed(&elicitation, result, &warn).await
    }

    /// Returns the answer of the hooks, if they have a valid one.
    async fn answer_of_hooks(
        &self,
        elicitation: &Elicitation,
        warn: &impl Fn(&str),
    ) -> Option<Json> {
        if !self.hooks.has(HookEvent::Elicitation) {
            return None;
        }
        let said = self.hooks.elicitation(elicitation).await;
        said.warnings.iter().for_each(|warning| warn(warning));
        match checked(elicitation, said.answer?).await {
            Ok(result) => Some(result),
            Err(problem) => {
                warn(&format!("the answer of a hook was not sent: {problem}"));
                None
            }
        }
    }

    /// Asks the callbacks until one does not pass.
    async fn ask(&self, elicitation: &Elicitation) -> ElicitAnswer {
        for callback in &self.callbacks {
            match callback.elicit(elicitation.clone()).await {
                ElicitAnswer::Pass => {}
                answer => return answer,
            }
        }
        ElicitAnswer::Cancel
    }

    /// Shows the user's answer to the hooks, which may change it. An invalid change is a refusal:
    /// the hook did not want the answer sent as it was.
    async fn reviewed(
        &self,
        elicitation: &Elicitation,
        result: Json,
        warn: &impl Fn(&str),
    ) -> Json {
        if !self.hooks.has(HookEvent::ElicitationResult) {
            return result;
        }
        let said = self.hooks.elicitation_result(elicitation, &result).await;
        said.warnings.iter().for_each(|warning| warn(warning));
        let Some(changed) = said.answer else {
            return result;
        };
        checked(elicitation, changed)
            .await
            .unwrap_or_else(|problem| {
                warn(&not_sent(&problem));
                cancel()
            })
    }
}

fn not_sent(problem: &str) -> String {
    format!("the answer to what the server asked was not sent: {problem}")
}

/// Validates an answer, off the runtime's threads if the request is long.
async fn checked(elicitation: &Elicitation, answer: ElicitAnswer) -> Result<Json, String> {
    let params = elicitation.raw.clone();
    let bytes = params.as_str().len();
    let result = offload(bytes, move || to_result(&params, answer)).await;
    result.unwrap_or_else(|error| Err(error.to_string()))
}

pub(crate) fn cancel() -> Json {
    Json::from(json!({"action": "cancel"}))
}
