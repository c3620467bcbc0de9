//! The hooks that answer an elicitation, and those that see the user's answer.

use serde_json::Value;
use trunkline_config::HookEvent;
use trunkline_wire::Json;

use super::Hooks;
use super::input::HookInput;
use crate::elicit::{ElicitAnswer, Elicitation};

/// What the hooks of an elicitation said.
#[derive(Debug, Default)]
pub(crate) struct HookAnswer {
    /// The answer, to be validated.
    pub(crate) answer: Option<ElicitAnswer>,
    pub(crate) warnings: Vec<String>,
}

impl Hooks {
    /// Runs the hooks that may answer a server's request.
    pub(crate) async fn elicitation(&self, elicitation: &Elicitation) -> HookAnswer {
        let params = &elicitation.raw;
        let mut more = HookInput::default();
        more.insert("message", Value::from(&*elicitation.message));
        for (member, name) in [("url", "url"), ("requestedSchema", "requested_schema")] {
            if let Some(value) = params.get(member) {
                more.insert(name, value);
            }
        }
        self.answer(HookEvent::Elicitation, elicitation, &more)
            .await
    }

    /// Runs the hooks that see the answer, an `ElicitResult`, and may change it.
    pub(crate) async fn elicitation_result(
        &self,
        elicitation: &Elicitation,
        result: &Json,
    ) -> HookAnswer {
        let mut more = HookInput::default();
        result.members(|name, value| more.insert(name, value));
        self.answer(HookEvent::ElicitationResult, elicitation, &more)
            .await
    }

    async fn answer(
        &self,
        event: HookEvent,
        elicitation: &Elicitation,
        members: &HookInput,
    ) -> HookAnswer {
        let hooks = self.matching(event, &[&elicitation.server]);
        if hooks.is_empty() {
            return HookAnswer::default();
        }
        let params = &elicitation.raw;
        let outcome = self
            .run_all(&hooks, |_| {
                let mut input = self.common_input(event);
                let mode = params.field::<String>("mode").unwrap_or("form".to_owned());
                let id = params.field::<String>("elicitationId");
                let known = [
                    ("mcp_server_name", Some(elicitation.server.to_string())),
                    ("mode", Some(mode)),
                    ("elicitation_id", id),
                    ("tool_name", elicitation.call.clone()),
                    ("client", elicitation.client.as_deref().map(str::to_owned)),
                ];
                for (name, value) in known {
                    if let Some(value) = value {
                        input.insert(name, Value::from(value));
                    }
                }
                input.extend(members);
                input
            })
            .await;
        let mut answer = HookAnswer {
            warnings: outcome.warnings,
            ..HookAnswer::default()
        };
        if let Some(reason) = outcome.blocked {
            let server = &elicitation.server;
            let warning = format!("a hook declined what \"{server}\" asked: {reason}");
            answer.warnings.push(warning);
            answer.answer = Some(ElicitAnswer::Decline);
            return answer;
        }
        // Of several answers, the first counts for the request and the last for the result.
        let mut answers = outcome
            .outputs
            .into_iter()
            .filter_map(|output| output.answer);
        answer.answer = match event {
            HookEvent::Elicitation => answers.next(),
            _ => answers.last(),
        };
        answer
    }
}
