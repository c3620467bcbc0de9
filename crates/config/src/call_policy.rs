//! `callPolicy` of the managed settings (SEC-7): restrictions of calls on top of the permission
//! rules. The host evaluates it.
//!
//! A part that cannot be understood may have been a restriction. The whole policy is then unusable,
//! and the host refuses every call.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::diagnostic::Diagnostic;
use crate::document::{Document, ParseError};

/// The key in the managed settings.
pub(crate) const KEY: &str = "callPolicy";

/// The largest number of calls per minute that can be counted.
const MAX_CALLS: u32 = 100_000;

/// An organisation's restrictions of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallPolicy {
    /// The file that contains it.
    pub source: String,
    /// Why it is unusable; then every call is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What happens to calls of destructive tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<EffectRule>,
    /// What happens to calls of open-world tools beside servers that read private data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<EffectRule>,
    /// How often a tool may be called.
    pub limits: Vec<CallLimit>,
    /// Which arguments a tool may be called with.
    pub arguments: Vec<ArgumentRule>,
}

/// A rule about tools with a certain effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EffectRule {
    /// What happens to a call.
    pub decision: PolicyDecision,
    /// Rules for tools that count whatever their servers declare.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Rules for tools that do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unless: Vec<String>,
    /// Of `openWorld`: the servers that read private data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
}

/// What a policy does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyDecision {
    /// It needs the user's approval.
    Ask,
    /// It is refused.
    Deny,
}

/// A limit on the calls of each tool that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallLimit {
    /// The rule: `mcp__server__tool`, with `*` for anything.
    pub tool: String,
    /// The number of calls in any 60 seconds.
    pub per_minute: u32,
}

/// A restriction of one argument.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ArgumentRule {
    /// The rule: `mcp__server__tool`, with `*` for anything.
    pub tool: String,
    /// The name of the argument.
    pub argument: String,
    /// The JSON Schema that it must fit; a missing argument counts as `null`.
    pub schema: Value,
}

impl CallPolicy {
    /// A policy that refuses every call, because its file cannot be used.
    pub(crate) fn unusable(source: &str, problem: impl Into<String>) -> Self {
        Self {
            source: source.to_owned(),
            problem: Some(problem.into()),
            ..Self::default()
        }
    }

    /// Reads all values of the key, which add up.
    pub(crate) fn read<'a>(
        document: &Document<'a>,
        values: &[&'a RawValue],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mut policy = Self {
            source: document.source().to_owned(),
            ..Self::default()
        };
        for raw in values {
            if let Err(problem) = policy.add(document, raw) {
                let message = format!(
                    "\"{KEY}\": {}; until that is fixed, no tool can be called",
                    problem.message
                );
                policy.problem.get_or_insert(problem.message);
                diagnostics.push(document.problem(problem.offset, message));
            }
        }
        Some(policy)
    }

    fn add<'a>(&mut self, document: &Document<'a>, raw: &'a RawValue) -> Result<(), ParseError> {
        for (key, raw) in document.members(raw)?.iter() {
            match key {
                "destructive" if self.destructive.is_none() => {
                    self.destructive = Some(EffectRule::read(document, raw, &["also", "unless"])?);
                }
                "openWorld" if self.open_world.is_none() => {
                    let rule = EffectRule::read(document, raw, &["also", "unless", "beside"])?;
                    if rule.beside.is_empty() {
                        let message = "\"openWorld\" needs \"beside\", a list of servers that \
                                       read private data";
                        return Err(problem(document, raw, message));
                    }
                    self.open_world = Some(rule);
                }
                "callsPerMinute" => self.add_limits(document, raw)?,
                "arguments" => self.add_arguments(document, raw)?,
                "destructive" | "openWorld" => {
                    return Err(problem(document, raw, format!("\"{key}\" is repeated")));
                }
                _ => {
                    let message = format!(
                        "unknown key \"{key}\"; write \"destructive\", \"openWorld\", \
                         \"callsPerMinute\" or \"arguments\""
                    );
                    return Err(problem(document, raw, message));
                }
            }
        }
        Ok(())
    }

    fn add_limits<'a>(
        &mut self,
        document: &Document<'a>,
        raw: &'a RawValue,
    ) -> Result<(), ParseError> {
        for (tool, raw) in document.members(raw)?.iter() {
            let limit = document
                .decode(raw)
                .ok()
                .filter(|calls| *calls <= MAX_CALLS);
            let per_minute = limit.ok_or_else(|| {
                let message = format!("expected a number of calls up to {MAX_CALLS}");
                problem(document, raw, message)
            })?;
            self.limits.push(CallLimit {
                tool: checked(document, raw, tool)?,
                per_minute,
            });
        }
        Ok(())
    }

    fn add_arguments<'a>(
        &mut self,
        document: &Document<'a>,
        raw: &'a RawValue,
    ) -> Result<(), ParseError> {
        for (tool, raw) in document.members(raw)?.iter() {
            let tool = checked(document, raw, tool)?;
            for (argument, raw) in document.members(raw)?.iter() {
                let schema: Value = document.decode(raw)?;
                if !schema.is_object() && !schema.is_boolean() {
                    return Err(problem(document, raw, "expected a JSON Schema"));
                }
                self.arguments.push(ArgumentRule {
                    tool: tool.clone(),
                    argument: argument.to_owned(),
                    schema,
                });
            }
        }
        Ok(())
    }
}

impl EffectRule {
    /// Reads a decision, or an object with one and with these lists.
    fn read<'a>(
        document: &Document<'a>,
        raw: &'a RawValue,
        lists: &[&str],
    ) -> Result<Self, ParseError> {
        let mut rule = Self {
            decision: PolicyDecision::Deny,
            also: Vec::new(),
            unless: Vec::new(),
            beside: Vec::new(),
        };
        if !raw.get().starts_with('{') {
            rule.decision = decision(document, raw)?;
            return Ok(rule);
        }
        let mut decided = false;
        for (key, raw) in document.members(raw)?.iter() {
            let list = match key {
                "decision" if !decided => {
                    rule.decision = decision(document, raw)?;
                    decided = true;
                    continue;
                }
                "also" if lists.contains(&key) => &mut rule.also,
                "unless" if lists.contains(&key) => &mut rule.unless,
                "beside" if lists.contains(&key) => &mut rule.beside,
                _ => {
                    let known = lists.join("\", \"");
                    let message = format!(
                        "unknown or repeated key \"{key}\"; write \"decision\", \"{known}\""
                    );
                    return Err(problem(document, raw, message));
                }
            };
            for text in document.decode::<Vec<String>>(raw)? {
                list.push(checked(document, raw, &text)?);
            }
        }
        if !decided {
            return Err(problem(
                document,
                raw,
                "\"decision\" is missing; write \"ask\" or \"deny\"",
            ));
        }
        Ok(rule)
    }
}

fn decision<'a>(document: &Document<'a>, raw: &'a RawValue) -> Result<PolicyDecision, ParseError> {
    match document.decode::<String>(raw).as_deref() {
        Ok("ask") => Ok(PolicyDecision::Ask),
        Ok("deny") => Ok(PolicyDecision::Deny),
        _ => Err(problem(document, raw, "expected \"ask\" or \"deny\"")),
    }
}

/// Checks a rule for tools or a server's name, which must not be empty.
fn checked(document: &Document, raw: &RawValue, text: &str) -> Result<String, ParseError> {
    match text.trim() {
        "" => Err(problem(document, raw, "an empty rule matches nothing")),
        text => Ok(text.to_owned()),
    }
}

fn problem(document: &Document, raw: &RawValue, message: impl Into<String>) -> ParseError {
    ParseError {
        offset: document.offset(raw),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (CallPolicy, Vec<String>) {
        let document = Document::new("f", text);
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        let mut diagnostics = Vec::new();
        let policy = CallPolicy::read(&document, &[raw], &mut diagnostics).unwrap();
        let told = diagnostics.iter().map(ToString::to_string).collect();
        (policy, told)
    }

    #[test]
    fn a_policy_is_read_whole() {
        let (policy, problems) = read(
            r#"{"destructive": "ask",
                "openWorld": {"decision": "deny", "beside": ["crm"], "unless": ["mcp__crm"], "also": ["mcp__web"]},
                "callsPerMinute": {"mcp__web__*": 3},
                "arguments": {"mcp__git__push": {"remote": {"enum": ["origin"]}, "force": false}}}"#,
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(policy.problem, None);
        assert_eq!(policy.destructive.unwrap().decision, PolicyDecision::Ask);
        let open_world = policy.open_world.unwrap();
        assert_eq!(open_world.decision, PolicyDecision::Deny);
        assert_eq!(open_world.beside, ["crm"]);
        assert_eq!(policy.limits[0].per_minute, 3);
        assert_eq!(policy.arguments.len(), 2);
    }

    #[test]
    fn a_part_that_is_not_understood_makes_the_policy_unusable() {
        for (text, expected) in [
            ("7", "expected an object, found a number"),
            (r#"{"destuctive": "ask"}"#, "unknown key \"destuctive\""),
            (r#"{"destructive": "aks"}"#, "expected \"ask\" or \"deny\""),
            (
                r#"{"destructive": "ask", "destructive": "deny"}"#,
                "repeated",
            ),
            (
                r#"{"destructive": {"unless": ["a"]}}"#,
                "\"decision\" is missing",
            ),
            (
                r#"{"destructive": {"decision": "ask", "beside": ["a"]}}"#,
                "unknown or repeated",
            ),
            (r#"{"openWorld": "deny"}"#, "needs \"beside\""),
            (
                r#"{"openWorld": {"decision": "deny", "beside": "crm"}}"#,
                "expected a sequence",
            ),
            (
                r#"{"callsPerMinute": {"a": -1}}"#,
                "expected a number of calls",
            ),
            (
                r#"{"callsPerMinute": {"a": "3"}}"#,
                "expected a number of calls",
            ),
            (r#"{"callsPerMinute": {" ": 3}}"#, "an empty rule"),
            (
                r#"{"arguments": {"a": {"b": "origin"}}}"#,
                "expected a JSON Schema",
            ),
            (r#"{"arguments": {"a": ["b"]}}"#, "expected an object"),
        ] {
            let (policy, problems) = read(text);
            assert!(policy.problem.is_some(), "{text}");
            assert!(problems[0].contains(expected), "{text}: {problems:?}");
        }
    }
}
