//! The organisation's policy for calls (SEC-7). The evaluator is a pure function of the policy, the
//! call, and the host's servers and recent calls.
//!
//! Policy only restricts: a call that passes it still needs permission. Rules that restrict match
//! widely, exceptions match narrowly; see [`ToolPattern`].

mod arguments;
mod enforce;
mod rates;
mod verdict;

use std::sync::Arc;

use trunkline_config::{CallPolicy, EffectRule, PermissionRule, PolicyDecision};
use trunkline_wire::client::Arguments;

pub(crate) use enforce::HostPolicy;
use rates::Rates;
pub use verdict::{CallVerdict, Decision, VerdictReason};

use super::pattern::{KnownServers, ToolPattern};
use crate::catalog::PoolTool;
use arguments::ArgumentChecks;

/// The key of the policy in the managed settings.
const KEY: &str = "callPolicy";

/// A policy, ready to be evaluated.
pub(crate) struct CompiledPolicy {
    policy: Arc<CallPolicy>,
    destructive: Option<CompiledEffect>,
    open_world: Option<CompiledEffect>,
    /// The servers that read private data.
    private: Vec<ToolPattern>,
    /// In the order of the policy's.
    limits: Vec<ToolPattern>,
    arguments: ArgumentChecks,
}

/// A rule about tools with a certain effect.
struct CompiledEffect {
    decision: PolicyDecision,
    also: Vec<ToolPattern>,
    unless: Vec<ToolPattern>,
}

/// The tool of a call.
#[derive(Clone, Copy)]
pub(crate) enum PolicyTool<'a> {
    /// A server's tool.
    Server(&'a PoolTool),
    /// The host's tool that starts a sign-in at a server.
    SignIn(&'a PoolTool),
    /// A tool of the host.
    Own(&'a str),
}

/// The facts about the host that a policy depends on.
pub(crate) struct Surroundings<'a, K: ?Sized> {
    /// The names of all servers that run.
    pub(crate) running: &'a dyn Fn() -> Vec<String>,
    /// The calls of this tool in the last minute.
    pub(crate) recent_calls: &'a dyn Fn() -> usize,
    pub(crate) known: &'a K,
}

/// A restriction that applies to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restriction {
    pub(crate) decision: PolicyDecision,
    /// The part of the policy, and its file.
    pub(crate) rule: PermissionRule,
    /// Why it applies.
    pub(crate) reason: String,
}

impl CompiledPolicy {
    pub(crate) fn new(policy: Arc<CallPolicy>) -> Self {
        let effect = |rule: &EffectRule| CompiledEffect {
            decision: rule.decision,
            also: patterns(&rule.also),
            unless: patterns(&rule.unless),
        };
        let beside = policy.open_world.iter().flat_map(|rule| &rule.beside);
        Self {
            destructive: policy.destructive.as_ref().map(effect),
            open_world: policy.open_world.as_ref().map(effect),
            private: beside.map(|server| server_pattern(server)).collect(),
            limits: policy
                .limits
                .iter()
                .map(|limit| ToolPattern::of_rule(&limit.tool))
                .collect(),
            arguments: ArgumentChecks::new(&policy.arguments),
            policy,
        }
    }

    pub(crate) fn policy(&self) -> &Arc<CallPolicy> {
        &self.policy
    }

    /// Returns the restrictions that apply to a call, the strictest first. Without arguments, only
    /// those that apply whatever the arguments are.
    pub(crate) fn restrictions<K: KnownServers + ?Sized>(
        &self,
        tool: PolicyTool<'_>,
        arguments: Option<&Arguments>,
        around: &Surroundings<'_, K>,
    ) -> Vec<Restriction> {
        if let Some(problem) = &self.policy.problem {
            let reason = format!("the policy cannot be used: {problem}");
            return vec![self.restriction(PolicyDecision::Deny, "", reason)];
        }
        let mut found = Vec::new();
        found.extend(self.about_open_world(tool, around));
        if let Some(arguments) = arguments {
            found.extend(self.about_arguments(tool, arguments));
            found.extend(self.about_rate(tool, around));
        }
        found.extend(self.about_destructive(tool, around));
        // Stable: among equals, the order above.
        found.sort_by_key(|restriction| std::cmp::Reverse(restriction.decision));
        found
    }

    /// Returns the smallest limit on the calls of a tool.
    pub(crate) fn limit(&self, tool: PolicyTool<'_>) -> Option<u32> {
        let limits = self.limits_of(tool);
        limits.map(|limit| limit.per_minute).min()
    }

    fn limits_of(
        &self,
        tool: PolicyTool<'_>,
    ) -> impl Iterator<Item = &trunkline_config::CallLimit> {
        let limits = self.limits.iter().zip(&self.policy.limits);
        limits.filter_map(move |(pattern, limit)| tool.matches(pattern).then_some(limit))
    }

    fn about_destructive<K: KnownServers + ?Sized>(
        &self,
        tool: PolicyTool<'_>,
        around: &Surroundings<'_, K>,
    ) -> Option<Restriction> {
        let rule = self.destructive.as_ref()?;
        let reason = rule.counts(tool, || tool.is_destructive(), around.known)?;
        let reason = match reason {
            Counts::Named => "the policy names it as destructive",
            Counts::Declared => "it may destroy data",
        };
        Some(self.restriction(rule.decision, ".destructive", reason.to_owned()))
    }

    fn about_open_world<K: KnownServers + ?Sized>(
        &self,
        tool: PolicyTool<'_>,
        around: &Surroundings<'_, K>,
    ) -> Option<Restriction> {
        let rule = self.open_world.as_ref()?;
        let counts = rule.counts(tool, || tool.is_open_world(), around.known)?;
        let running = (around.running)();
        let own = tool.server();
        // A server is not beside itself, unless the policy names its tool.
        let is_private = |server: &&String| {
            (own != Some(server.as_str()) || matches!(counts, Counts::Named))
                && self.private.iter().any(|rule| rule.reaches_server(server))
        };
        let private = running.iter().find(is_private)?;
        let reason =
            format!("it reaches the open world, beside \"{private}\", which reads private data");
        Some(self.restriction(rule.decision, ".openWorld", reason))
    }

    fn about_arguments(&self, tool: PolicyTool<'_>, arguments: &Arguments) -> Option<Restriction> {
        let (rule, reason) = self
            .arguments
            .first_problem(|pattern| tool.matches(pattern), arguments)?;
        let part = format!(".arguments[{:?}].{}", rule.tool, rule.argument);
        Some(self.restriction(PolicyDecision::Deny, &part, reason))
    }

    fn about_rate<K: KnownServers + ?Sized>(
        &self,
        tool: PolicyTool<'_>,
        around: &Surroundings<'_, K>,
    ) -> Option<Restriction> {
        let limit = self.limits_of(tool).min_by_key(|limit| limit.per_minute)?;
        let allowed = limit.per_minute;
        let reason = match allowed {
            0 => "no calls are allowed".to_owned(),
            _ if (around.recent_calls)() < allowed as usize => return None,
            1 => "only 1 call per minute is allowed; wait and call it again".to_owned(),
            _ => format!("only {allowed} calls per minute are allowed; wait and call it again"),
        };
        let part = format!(".callsPerMinute[{:?}]", limit.tool);
        Some(self.restriction(PolicyDecision::Deny, &part, reason))
    }

    fn restriction(&self, decision: PolicyDecision, part: &str, reason: String) -> Restriction {
        Restriction {
            decision,
            rule: PermissionRule {
                text: format!("{KEY}{part}"),
                source: self.policy.source.clone(),
                is_unreadable: false,
            },
            reason,
        }
    }
}

/// Why a tool counts for an [`EffectRule`].
enum Counts {
    /// The rule names it.
    Named,
    /// Its server says so, or does not deny it.
    Declared,
}

impl CompiledEffect {
    fn counts<K: KnownServers + ?Sized>(
        &self,
        tool: PolicyTool<'_>,
        declared: impl FnOnce() -> bool,
        known: &K,
    ) -> Option<Counts> {
        if self.also.iter().any(|pattern| tool.matches(pattern)) {
            return Some(Counts::Named);
        }
        let PolicyTool::Server(server_tool) = tool else {
            return None;
        };
        let is_excepted = |pattern: &ToolPattern| pattern.permits(server_tool, known).is_some();
        (declared() && !self.unless.iter().any(is_excepted)).then_some(Counts::Declared)
    }
}

impl<'a> PolicyTool<'a> {
    /// The tool of a server, or the host's that starts a sign-in there.
    pub(crate) fn of(tool: &'a PoolTool) -> Self {
        if tool.signs_in {
            Self::SignIn(tool)
        } else {
            Self::Server(tool)
        }
    }

    fn server(self) -> Option<&'a str> {
        match self {
            Self::Server(tool) | Self::SignIn(tool) => Some(&tool.server),
            Self::Own(_) => None,
        }
    }

    /// Returns the tool's name in the pool.
    pub(crate) fn name(self) -> &'a str {
        match self {
            Self::Server(tool) | Self::SignIn(tool) => &tool.name,
            Self::Own(name) => name,
        }
    }

    /// True if a rule that restricts matches it.
    fn matches(self, pattern: &ToolPattern) -> bool {
        match self {
            Self::Server(tool) | Self::SignIn(tool) => pattern.forbids(tool),
            Self::Own(name) => pattern.matches_host_tool(name),
        }
    }

    /// True if the server marks the tool destructive, or does not say (as MCP defines it).
    fn is_destructive(self) -> bool {
        !self.declares("readOnlyHint", "true") && !self.declares("destructiveHint", "false")
    }

    /// True if the server says that the tool reaches the open world, or does not say.
    fn is_open_world(self) -> bool {
        !self.declares("openWorldHint", "false")
    }

    /// True if the tool's annotations contain this value, and no other for the same hint.
    fn declares(self, hint: &str, value: &str) -> bool {
        let Self::Server(tool) = self else {
            return false;
        };
        let (mut found, mut others) = (false, false);
        tool.tool.raw.members(|name, annotations| {
            if name == "annotations" {
                annotations.members(|name, declared| {
                    if name == hint {
                        found |= declared.as_str() == value;
                        others |= declared.as_str() != value;
                    }
                });
            }
        });
        found && !others
    }
}

fn patterns(texts: &[String]) -> Vec<ToolPattern> {
    texts
        .iter()
        .map(|text| ToolPattern::of_rule(text))
        .collect()
}

/// Parses a server's name, with or without the prefix of a rule.
fn server_pattern(text: &str) -> ToolPattern {
    match text.strip_prefix("mcp__") {
        Some(_) => ToolPattern::of_rule(text),
        None => ToolPattern::of_rule(&format!("mcp__{text}")),
    }
}

#[cfg(test)]
mod tests;
