//! Reads the verdict of a hook from its exit code and output. Pure functions.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | success: a JSON object on stdout counts, other text is ignored |
//! | 2 | blocks; stderr is the reason |
//! | other | the hook failed: a warning, and the work goes on |

use serde_json::{Map, Value};
use trunkline_config::HookEvent;

use super::process::Ended;
use crate::elicit::ElicitAnswer;
use crate::sanitize::shown;

/// The exit code that blocks.
const BLOCKS: i32 = 2;

/// The length of a failed hook's stderr in a message, in characters.
const MAX_STDERR: usize = 300;

/// The verdict of one hook.
#[derive(Debug)]
pub(super) enum Verdict {
    Output(Box<HookOutput>),
    /// It blocks, for this reason.
    Blocked(String),
    /// It failed. The problem is the end of a sentence about the hook.
    Failed(String),
}

/// The output of a hook that succeeded.
#[derive(Debug, Default)]
pub(super) struct HookOutput {
    /// The reason to block.
    pub(super) block: Option<String>,
    /// The reason to ask the user.
    pub(super) ask: Option<String>,
    /// Other arguments for the tool.
    pub(super) arguments: Option<Map<String, Value>>,
    /// A note about the result for the model.
    pub(super) context: Option<String>,
    /// The answer to an elicitation.
    pub(super) answer: Option<ElicitAnswer>,
    /// A message for the user.
    pub(super) message: Option<String>,
}

/// Reads the verdict of a hook.
pub(super) fn read(event: HookEvent, ended: &Ended) -> Verdict {
    match ended {
        Ended::Exited {
            code: Some(0),
            stdout,
            ..
        } => match stdout.as_deref().map(|stdout| output(event, stdout)) {
            Some(Ok(output)) => Verdict::Output(Box::new(output)),
            Some(Err(problem)) => Verdict::Failed(problem),
            None => Verdict::Failed("printed more than 1 MiB".to_owned()),
        },
        Ended::Exited {
            code: Some(BLOCKS),
            stderr,
            ..
        } => {
            let reason = String::from_utf8_lossy(stderr);
            Verdict::Blocked(reason_or_default(Some(&reason)))
        }
        Ended::Exited { code, stderr, .. } => {
            let how = match code {
                Some(code) => format!("failed with exit code {code}"),
                None => "was ended by a signal".to_owned(),
            };
            let text = String::from_utf8_lossy(stderr);
            let text: String = shown(text.trim()).0.chars().take(MAX_STDERR).collect();
            match &*text {
                "" => Verdict::Failed(how),
                text => Verdict::Failed(format!("{how}: {text}")),
            }
        }
        Ended::TimedOut(limit) => {
            Verdict::Failed(format!("did not end within {} s", limit.as_secs_f64()))
        }
        Ended::NotStarted(error) => Verdict::Failed(format!("could not be run: {error}")),
    }
}

fn reason_or_default(reason: Option<&str>) -> String {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    match reason {
        Some(reason) => shown(reason).0.into_owned(),
        None => "a hook blocks it".to_owned(),
    }
}

fn output(event: HookEvent, stdout: &[u8]) -> Result<HookOutput, String> {
    let text = stdout.trim_ascii();
    if !text.starts_with(b"{") {
        return Ok(HookOutput::default());
    }
    let printed: Map<String, Value> = serde_json::from_slice(text)
        .map_err(|error| format!("printed JSON that cannot be read: {error}"))?;
    let text = |member: &str| printed.get(member).and_then(Value::as_str);
    let mut output = HookOutput {
        message: text("systemMessage").map(|message| shown(message).0.into_owned()),
        ..HookOutput::default()
    };
    if printed.get("continue") == Some(&Value::Bool(false)) {
        output.block = Some(reason_or_default(text("stopReason")));
    }
    if matches!(text("decision"), Some("block" | "deny")) {
        output.block = Some(reason_or_default(text("reason")));
    }
    let read = match printed.get("hookSpecificOutput") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(specific)) => read_specific(event, specific, &mut output),
        Some(_) => Err("printed a \"hookSpecificOutput\" that is no object".to_owned()),
    };
    match read {
        // A mistake elsewhere does not undo a decision against the call.
        Err(problem) if output.block.is_none() && output.ask.is_none() => Err(problem),
        _ => Ok(output),
    }
}

/// Reads the part of the output that belongs to an event.
fn read_specific(
    event: HookEvent,
    specific: &Map<String, Value>,
    output: &mut HookOutput,
) -> Result<(), String> {
    let text = |member: &str| specific.get(member).and_then(Value::as_str);
    if let Some(name) = text("hookEventName").filter(|name| *name != event.name()) {
        let name = shown(name).0;
        return Err(format!("printed the output of another event, \"{name}\""));
    }
    match event {
        HookEvent::PreToolUse => {
            let reason = || reason_or_default(text("permissionDecisionReason"));
            match text("permissionDecision") {
                None | Some("allow") => {}
                Some("deny") => output.block = Some(reason()),
                Some("ask" | "defer") => output.ask = Some(reason()),
                Some(_) => return Err("printed an unknown \"permissionDecision\"".to_owned()),
            }
            match specific.get("updatedInput") {
                None | Some(Value::Null) => {}
                Some(Value::Object(arguments)) => output.arguments = Some(arguments.clone()),
                Some(_) => return Err("printed an \"updatedInput\" that is no object".to_owned()),
            }
        }
        HookEvent::PostToolUse => {
            let context = text("additionalContext").filter(|text| !text.trim().is_empty());
            output.context = context.map(|context| shown(context).0.into_owned());
        }
        HookEvent::Elicitation | HookEvent::ElicitationResult => {
            let content = || match specific.get("content") {
                None | Some(Value::Null) => Ok(Map::new()),
                Some(Value::Object(content)) => Ok(content.clone()),
                Some(_) => Err("printed a \"content\" that is no object".to_owned()),
            };
            output.answer = match text("action") {
                None => None,
                Some("accept") => Some(ElicitAnswer::Accept(content()?)),
                Some("decline") => Some(ElicitAnswer::Decline),
                Some("cancel") => Some(ElicitAnswer::Cancel),
                Some(_) => return Err("printed an unknown \"action\"".to_owned()),
            };
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use HookEvent::{Elicitation, PostToolUse, PreToolUse};

    use super::*;

    fn exited(code: i32, stdout: &str, stderr: &str) -> Ended {
        Ended::Exited {
            code: Some(code),
            stdout: Some(stdout.into()),
            stderr: stderr.into(),
        }
    }

    fn too_long(code: i32) -> Ended {
        Ended::Exited {
            code: Some(code),
            stdout: None,
            stderr: b"no".into(),
        }
    }

    /// The verdict in one line.
    fn verdict(event: HookEvent, ended: &Ended) -> String {
        match read(event, ended) {
            Verdict::Blocked(reason) => format!("blocked: {reason}"),
            Verdict::Failed(problem) => format!("failed: {problem}"),
            Verdict::Output(output) => {
                let HookOutput {
                    block,
                    ask,
                    arguments,
                    context,
                    answer,
                    message,
                } = *output;
                let answer = answer.map(|answer| match answer {
                    ElicitAnswer::Accept(content) => {
                        format!("accept {}", Value::Object(content))
                    }
                    other => format!("{other:?}").to_lowercase(),
                });
                let parts = [
                    ("block", block),
                    ("ask", ask),
                    (
                        "arguments",
                        arguments.map(|it| Value::Object(it).to_string()),
                    ),
                    ("context", context),
                    ("answer", answer),
                    ("message", message),
                ];
                let parts = parts
                    .into_iter()
                    .filter_map(|(name, value)| value.map(|value| format!("{name}: {value}")));
                parts.collect::<Vec<_>>().join(", ")
            }
        }
    }

    #[test]
    fn the_exit_code_decides() {
        for (ended, expected) in [
            (exited(0, "", "ignored"), ""),
            (exited(0, "plain text", ""), ""),
            (exited(0, r#"{"unknown": 1}"#, ""), ""),
            (
                exited(2, r#"{"ignored": 1}"#, " no rm \n"),
                "blocked: no rm",
            ),
            (exited(2, "", ""), "blocked: a hook blocks it"),
            (exited(1, "", ""), "failed: failed with exit code 1"),
            (
                exited(127, "", "sh: x: not found\n"),
                "failed: failed with exit code 127: sh: x: not found",
            ),
            (
                exited(1, "", "a\u{1b}[31mb"),
                "failed: failed with exit code 1: ab",
            ),
            (
                Ended::Exited {
                    code: None,
                    stdout: Some(Vec::new()),
                    stderr: Vec::new(),
                },
                "failed: was ended by a signal",
            ),
            (
                Ended::TimedOut(Duration::from_secs(3)),
                "failed: did not end within 3 s",
            ),
            (too_long(0), "failed: printed more than 1 MiB"),
            (too_long(2), "blocked: no"),
        ] {
            assert_eq!(verdict(PreToolUse, &ended), expected, "{ended:?}");
        }
    }

    fn specific(event: &str, rest: &str) -> String {
        format!(r#"{{"hookSpecificOutput": {{"hookEventName": "{event}", {rest}}}}}"#)
    }

    #[test]
    fn the_output_decides() {
        for (event, stdout, expected) in [
            (
                PreToolUse,
                r#"{"decision": "block", "reason": "no"}"#.to_owned(),
                "block: no",
            ),
            (PreToolUse, r#"{"decision": "approve"}"#.to_owned(), ""),
            (
                PreToolUse,
                r#"{"continue": false}"#.to_owned(),
                "block: a hook blocks it",
            ),
            (
                PreToolUse,
                r#"{"systemMessage": "hi\u0007"}"#.to_owned(),
                "message: hi",
            ),
            (
                PreToolUse,
                specific(
                    "PreToolUse",
                    r#""permissionDecision": "deny", "permissionDecisionReason": "r""#,
                ),
                "block: r",
            ),
            (
                PreToolUse,
                specific("PreToolUse", r#""permissionDecision": "allow""#),
                "",
            ),
            (
                PreToolUse,
                specific(
                    "PreToolUse",
                    r#""permissionDecision": "ask", "permissionDecisionReason": "r""#,
                ),
                "ask: r",
            ),
            (
                PreToolUse,
                specific("PreToolUse", r#""updatedInput": {"a": 1}"#),
                r#"arguments: {"a":1}"#,
            ),
            (
                PreToolUse,
                specific("PreToolUse", r#""updatedInput": [1]"#),
                "failed: printed an \"updatedInput\" that is no object",
            ),
            (
                PreToolUse,
                specific("PreToolUse", r#""permissionDecision": "maybe""#),
                "failed: printed an unknown \"permissionDecision\"",
            ),
            (
                PreToolUse,
                specific("Elicitation", r#""action": "accept""#),
                "failed: printed the output of another event, \"Elicitation\"",
            ),
        ] {
            let found = verdict(event, &exited(0, &stdout, ""));
            assert_eq!(found, expected, "{stdout}");
        }
        let garbage = verdict(PreToolUse, &exited(0, "{oops", ""));
        assert!(
            garbage.starts_with("failed: printed JSON that cannot be read"),
            "{garbage}"
        );
    }

    #[test]
    fn a_mistake_does_not_undo_a_decision() {
        for (stdout, expected) in [
            (
                r#"{"decision": "block", "reason": "no", "hookSpecificOutput": 5}"#.to_owned(),
                "block: no",
            ),
            (
                r#"{"continue": false, "hookSpecificOutput": {"hookEventName": "Stop"}}"#
                    .to_owned(),
                "block: a hook blocks it",
            ),
            (
                specific(
                    "PreToolUse",
                    r#""permissionDecision": "deny", "updatedInput": [1]"#,
                ),
                "block: a hook blocks it",
            ),
            (
                specific(
                    "PreToolUse",
                    r#""permissionDecision": "ask", "updatedInput": [1]"#,
                ),
                "ask: a hook blocks it",
            ),
        ] {
            let found = verdict(PreToolUse, &exited(0, &stdout, ""));
            assert_eq!(found, expected, "{stdout}");
        }
    }

    #[test]
    fn the_output_has_notes_and_answers() {
        for (event, stdout, expected) in [
            (
                PostToolUse,
                specific("PostToolUse", r#""additionalContext": "note""#),
                "context: note",
            ),
            (
                Elicitation,
                specific("Elicitation", r#""action": "accept", "content": {"a": 1}"#),
                r#"answer: accept {"a":1}"#,
            ),
            (
                Elicitation,
                specific("Elicitation", r#""action": "decline""#),
                "answer: decline",
            ),
            (
                Elicitation,
                specific("Elicitation", r#""action": "cancel""#),
                "answer: cancel",
            ),
            (
                Elicitation,
                specific("Elicitation", r#""action": "yes""#),
                "failed: printed an unknown \"action\"",
            ),
            (
                Elicitation,
                specific("Elicitation", r#""action": "accept", "content": 5"#),
                "failed: printed a \"content\" that is no object",
            ),
        ] {
            assert_eq!(
                verdict(event, &exited(0, &stdout, "")),
                expected,
                "{stdout}"
            );
        }
    }
}
