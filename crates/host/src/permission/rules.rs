//! What the rules say about a tool (TOOL-10). A pure function on data.

use trunkline_config::{PermissionRule, Permissions};

use super::pattern::{KnownServers, Match, ToolPattern};
use crate::catalog::PoolTool;

/// Rules for calls: deny wins over ask, ask over allow, and what no rule is about is asked about.
///
/// ```
/// use trunkline::permission::Rules;
/// let rules = Rules::default().allow("mcp__github__get_*").deny("mcp__files");
/// # let _ = rules;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Permissions);

/// What the rules come to for one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'r> {
    /// It may be called.
    Allow,
    /// Somebody must agree; because of a rule, or because there is none.
    Ask(Option<&'r PermissionRule>),
    /// Somebody must agree: the tool may destroy something, and this rule allows it without naming it.
    Destructive(&'r PermissionRule),
    /// It may not be called.
    Deny(&'r PermissionRule),
}

/// Where rules come from that the embedding program gave.
const PROGRAM: &str = "the program";

impl Rules {
    /// May be called without asking: `mcp__server`, `mcp__server__*`, `mcp__server__tool`, or the name of a tool of the
    /// host's own; the names may be the original ones, and `*` stands for anything. The server's name ends at the first
    /// `__`; one that holds `__` is quoted: `mcp__"my__server"__tool`. A tool with `destructiveHint` is asked about
    /// unless a rule names it.
    #[must_use]
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.0.allow.push(given(rule.into()));
        self
    }

    /// Must be asked about, even if it is allowed.
    #[must_use]
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.0.ask.push(given(rule.into()));
        self
    }

    /// May not be called, whatever else is said. A text that can be read in several ways denies all that it may mean.
    #[must_use]
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.0.deny.push(given(rule.into()));
        self
    }

    /// These and others.
    #[must_use]
    pub fn and(mut self, others: &Permissions) -> Self {
        self.0.allow.extend_from_slice(&others.allow);
        self.0.ask.extend_from_slice(&others.ask);
        self.0.deny.extend_from_slice(&others.deny);
        self
    }

    /// Adds others.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.allow.extend(others.0.allow);
        self.0.ask.extend(others.0.ask);
        self.0.deny.extend(others.0.deny);
    }

    /// What they say about a server's tool. What forbids is read widely, what permits narrowly; see [`ToolPattern`].
    pub(crate) fn about(
        &self,
        tool: &PoolTool,
        known: &(impl KnownServers + ?Sized),
    ) -> Verdict<'_> {
        let Permissions { allow, ask, .. } = &self.0;
        if let Some(rule) = self.denial(tool) {
            return Verdict::Deny(rule);
        }
        if let Some(rule) = ask.iter().find(|rule| pattern(rule).forbids(tool)) {
            return Verdict::Ask(Some(rule));
        }
        let mut wide = None;
        for rule in allow {
            match pattern(rule).permits(tool, known) {
                Some(Match::Named) => return Verdict::Allow,
                Some(Match::Wide) => wide = wide.or(Some(rule)),
                None => {}
            }
        }
        match wide {
            Some(rule) if tool.is_destructive() => Verdict::Destructive(rule),
            Some(_) => Verdict::Allow,
            None => Verdict::Ask(None),
        }
    }

    /// What they say about one of the host's own tools, which harm nobody by themselves: only a rule stops them.
    pub(crate) fn about_own(&self, name: &str) -> Verdict<'_> {
        let Permissions { ask, deny, .. } = &self.0;
        let find = |rules: &'_ [PermissionRule]| {
            let mut rules = rules.iter();
            rules.position(|rule| pattern(rule).matches_host_tool(name))
        };
        if let Some(at) = find(deny) {
            Verdict::Deny(&deny[at])
        } else if let Some(at) = find(ask) {
            Verdict::Ask(Some(&ask[at]))
        } else {
            Verdict::Allow
        }
    }

    /// The rule that denies everything of a server, if one does.
    pub(crate) fn denial_of_server(&self, server: &str) -> Option<&PermissionRule> {
        let mut rules = self.0.deny.iter();
        rules.find(|rule| pattern(rule).forbids_server(server))
    }

    /// The rule by which everything of a server is asked about, if there is one.
    pub(crate) fn question_about(&self, server: &str) -> Option<&PermissionRule> {
        let mut rules = self.0.ask.iter();
        rules.find(|rule| pattern(rule).forbids_server(server))
    }

    /// The rule that denies, if one does.
    pub(crate) fn denial(&self, tool: &PoolTool) -> Option<&PermissionRule> {
        let mut rules = self.0.deny.iter();
        rules.find(|rule| pattern(rule).forbids(tool))
    }
}

impl From<&Permissions> for Rules {
    fn from(permissions: &Permissions) -> Self {
        Self(permissions.clone())
    }
}

fn pattern(rule: &PermissionRule) -> ToolPattern {
    ToolPattern::of_rule(&rule.text)
}

fn given(text: String) -> PermissionRule {
    PermissionRule {
        text,
        source: PROGRAM.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::testing::{tool, tool_of};

    fn verdict(rules: &Rules, server: &str, name: &str) -> &'static str {
        verdict_of(rules, &tool(server, name))
    }

    fn verdict_of(rules: &Rules, tool: &PoolTool) -> &'static str {
        let known: &[&str] = &[];
        match rules.about(tool, known) {
            Verdict::Allow => "allow",
            Verdict::Destructive(_) => "ask: destructive",
            Verdict::Ask(None) => "ask",
            Verdict::Ask(Some(_)) => "ask by rule",
            Verdict::Deny(_) => "deny",
        }
    }

    #[test]
    fn deny_wins_over_ask_and_ask_over_allow() {
        let rules = Rules::default().allow("mcp__s");
        assert_eq!(verdict(&rules, "s", "t"), "allow");
        assert_eq!(verdict(&rules, "other", "t"), "ask");
        let rules = rules.ask("mcp__s__t");
        assert_eq!(verdict(&rules, "s", "t"), "ask by rule");
        assert_eq!(verdict(&rules, "s", "u"), "allow");
        let rules = rules.deny("mcp__s__*");
        assert_eq!(verdict(&rules, "s", "t"), "deny");
        assert_eq!(verdict(&rules, "s", "u"), "deny");
    }

    #[test]
    fn a_tool_that_may_destroy_is_asked_about_unless_a_rule_names_it() {
        let destructive = tool_of(
            "s",
            &serde_json::json!({"name": "drop", "annotations": {"destructiveHint": true}}),
        );
        for (rule, expected) in [
            ("mcp__s__drop", "allow"),
            ("mcp__\"s\"__drop", "allow"),
            ("mcp__s", "ask: destructive"),
            ("mcp__s__*", "ask: destructive"),
            ("mcp__s__dr*", "ask: destructive"),
            ("mcp__*__drop", "ask: destructive"),
            ("mcp__*", "ask: destructive"),
            ("mcp__other", "ask"),
        ] {
            let rules = Rules::default().allow(rule);
            assert_eq!(verdict_of(&rules, &destructive), expected, "{rule}");
        }
        let both = Rules::default().allow("mcp__s").allow("mcp__s__drop");
        assert_eq!(verdict_of(&both, &destructive), "allow");
        let asked = both.ask("mcp__s__drop");
        assert_eq!(verdict_of(&asked, &destructive), "ask by rule");
    }

    #[test]
    fn the_hosts_own_tools_need_no_rule_but_obey_one() {
        let rules = Rules::default().deny("ReadMcpResource").ask("Other");
        assert_eq!(rules.about_own("ToolSearch"), Verdict::Allow);
        assert!(matches!(
            rules.about_own("ReadMcpResource"),
            Verdict::Deny(_)
        ));
        assert!(matches!(rules.about_own("Other"), Verdict::Ask(Some(_))));
    }
}
