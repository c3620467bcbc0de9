//! Forwards permission questions to the embedding program (TOOL-10).

use std::future::{Future, ready};
use std::pin::Pin;

use serde::Serialize;
use serde_json::Value;
use trunkline::Json;
use trunkline::permission::{AskReason, AskedTool, PermissionAnswer, PermissionQuestion, Permit};
use trunkline::text::shown;
use trunkline::transport::sdk::SdkBridge;

/// Asks the embedding program, if it takes questions.
pub(super) struct BridgePermit {
    pub(super) bridge: SdkBridge,
    pub(super) can_be_asked: bool,
}

impl Permit for BridgePermit {
    fn permit(
        &self,
        question: PermissionQuestion,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send>> {
        if !self.can_be_asked {
            return Box::pin(ready(PermissionAnswer::No(unasked(&question))));
        }
        let bridge = self.bridge.clone();
        Box::pin(async move {
            let Ok(request) = Json::encode(&Question::of(&question)) else {
                return PermissionAnswer::No("the question cannot be encoded".to_owned());
            };
            match bridge.request(&request).await {
                Ok(answer) => read(&answer, &question.arguments),
                Err(failure) => {
                    let why = failure.to_string();
                    let why = shown(&why).0;
                    PermissionAnswer::No(format!("the embedding program did not agree: {why}"))
                }
            }
        })
    }
}

/// The `can_use_tool` request.
#[derive(Serialize)]
struct Question<'a> {
    subtype: &'static str,
    tool_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_name: Option<&'a str>,
    input: &'a Json,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

impl<'a> Question<'a> {
    fn of(question: &'a PermissionQuestion) -> Self {
        let (reason, rule, change) = match &question.reason {
            AskReason::NoRule => ("no_rule", None, None),
            AskReason::Rule(rule) => ("rule", Some(rule.as_str()), None),
            AskReason::Destructive(rule) => ("destructive", Some(rule.as_str()), None),
            AskReason::Hook(reason) => ("hook", Some(reason.as_str()), None),
            AskReason::Policy { rule, .. } => ("policy", Some(rule.text.as_str()), None),
            AskReason::Changed(change) => ("changed", None, Some(change.diff())),
            _ => ("other", None, None),
        };
        Self {
            subtype: "can_use_tool",
            tool_name: question.tool.name(),
            server_name: match &question.tool {
                AskedTool::Server(tool) => Some(&tool.server),
                _ => None,
            },
            input: &question.arguments,
            reason,
            rule,
            change,
        }
    }
}

/// Returns why a call is refused without a question, and how to allow it.
fn unasked(question: &PermissionQuestion) -> String {
    let name = question.tool.rule();
    match &question.reason {
        AskReason::Rule(rule) => format!(
            "the rule \"{rule}\" asks about it, and the embedding program takes no questions (\"canUseTool\")"
        ),
        AskReason::Policy { rule, reason } => format!(
            "{reason}, {} of {} requires approval, and the embedding program takes no questions (\"canUseTool\")",
            rule.text, rule.source
        ),
        AskReason::Destructive(rule) => format!(
            "it is marked destructive, the rule \"{rule}\" does not name it, and the embedding program takes no questions \
             (\"canUseTool\"); \"{name}\" under \"permissions\", \"allow\" of ~/.claude/settings.json allows it"
        ),
        _ => format!(
            "no rule allows it, and the embedding program takes no questions (\"canUseTool\"); \"{name}\" under \"permissions\", \"allow\" of \
             ~/.claude/settings.json allows it"
        ),
    }
}

/// Returns whether two values are equal in a language with one number type.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.as_f64().is_some() && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let found = |(name, value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(found)
        }
        (one, other) => one == other,
    }
}

/// Interprets an answer. Anything but a clear yes is a no.
fn read(answer: &Json, arguments: &Json) -> PermissionAnswer {
    let no = |why: &str| PermissionAnswer::No(why.to_owned());
    match answer.field::<String>("behavior").as_deref() {
        Some("allow") => {}
        Some("deny") => {
            let message = answer.field::<String>("message");
            let message = message.map(|message| shown(&message).0.into_owned());
            return no(&message.unwrap_or_else(|| "the embedding program said no".to_owned()));
        }
        _ => return no("the embedding program said neither \"allow\" nor \"deny\""),
    }
    // Different arguments are not an agreement to this call.
    let is_same = |other: &Json| match (other.to_value(), arguments.to_value()) {
        (Ok(other), Ok(ours)) => same(&other, &ours),
        _ => false,
    };
    if answer
        .get("updatedInput")
        .is_some_and(|other| !is_same(&other))
    {
        return no("the embedding program wants other arguments, which it must call with itself");
    }
    if answer.field::<bool>("always") == Some(true) {
        PermissionAnswer::Always
    } else {
        PermissionAnswer::Once
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        use PermissionAnswer::{Always, No, Once};

        let arguments = Json::from(json!({"a": 1}));
        let no = |why: &str| No(why.to_owned());
        let unclear = || no("the embedding program said neither \"allow\" nor \"deny\"");
        for (answer, expected) in [
            (json!({"behavior": "allow"}), Once),
            (json!({"behavior": "allow", "always": true}), Always),
            (json!({"behavior": "allow", "always": "yes"}), Once),
            (json!({"behavior": "allow", "updatedInput": {"a": 1}}), Once),
            // JavaScript cannot tell them apart.
            (
                json!({"behavior": "allow", "updatedInput": {"a": 1.0}}),
                Once,
            ),
            (
                json!({"behavior": "allow", "updatedInput": {"a": 2}}),
                no("the embedding program wants other arguments, which it must call with itself"),
            ),
            (
                json!({"behavior": "deny", "message": "not\u{200b} today"}),
                no("not today"),
            ),
            (
                json!({"behavior": "deny"}),
                no("the embedding program said no"),
            ),
            (json!({"behavior": "ask"}), unclear()),
            (json!({}), unclear()),
            (json!(true), unclear()),
        ] {
            assert_eq!(read(&Json::from(&answer), &arguments), expected, "{answer}");
        }
        let half = r#"{"behavior":"allow","updatedInput":{"a":"\ud800"}}"#;
        let half = read(&Json::parse(half).unwrap(), &arguments);
        assert!(matches!(half, No(_)), "{half:?}");
    }
}
