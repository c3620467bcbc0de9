//! Permission rules (TOOL-10). Pure functions on data.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trunkline_config::{PermissionRule, Permissions};

use super::pattern::{KnownServers, Match, ToolPattern};
use crate::catalog::PoolTool;

/// Rules for calls: `deny` wins over `ask`, `ask` over `allow`. A call that no rule matches needs
/// permission.
///
/// Rules serialize to the `permissions` object of Claude Code's settings, and back:
///
/// ```
/// use trunkline::permission::Rules;
/// let rules = Rules::default().allow("mcp__github__get_*").deny("mcp__files");
/// let json = serde_json::to_string(&rules).unwrap();
/// assert_eq!(json, r#"{"allow":["mcp__github__get_*"],"deny":["mcp__files"]}"#);
/// assert_eq!(serde_json::from_str::<Rules>(&json).unwrap(), rules);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Permissions);

/// The decision of the rules about one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'r> {
    /// The call is permitted: by a rule, or because it needs none.
    Allow(Option<&'r PermissionRule>),
    /// The call needs permission: by a rule, or because none matches.
    Ask(Option<&'r PermissionRule>),
    /// The call needs permission: the tool is destructive, and this rule does not name it.
    Destructive(&'r PermissionRule),
    /// The call is refused.
    Deny(&'r PermissionRule),
}

/// The source of rules that the embedding program adds.
const PROGRAM: &str = "the program";

impl Rules {
    /// Permits matching calls: `mcp__server`, `mcp__server__*`, `mcp__server__tool`, or the name of
    /// a host tool. Names may be the original ones; `*` matches anything. The server's name ends at
    /// the first `__`; quote a name that contains `__`: `mcp__"my__server"__tool`. A tool with
    /// `destructiveHint` still needs permission unless a rule names it.
    #[must_use]
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.0.allow.push(given(rule.into()));
        self
    }

    /// Requires permission for matching calls, even if they are allowed.
    #[must_use]
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.0.ask.push(given(rule.into()));
        self
    }

    /// Refuses matching calls, whatever other rules say. An ambiguous rule denies all its readings.
    #[must_use]
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.0.deny.push(given(rule.into()));
        self
    }

    /// Adds the rules of a configuration.
    #[must_use]
    pub fn and(mut self, others: &Permissions) -> Self {
        self.0.allow.extend_from_slice(&others.allow);
        self.0.ask.extend_from_slice(&others.ask);
        self.0.deny.extend_from_slice(&others.deny);
        self
    }

    /// Adds other rules.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.allow.extend(others.0.allow);
        self.0.ask.extend(others.0.ask);
        self.0.deny.extend(others.0.deny);
    }

    /// Decides about a server's tool. `deny` and `ask` match widely, `allow` narrowly; see
    /// [`ToolPattern`].
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
                Some(Match::Named) => return Verdict::Allow(Some(rule)),
                Some(Match::Wide) => wide = wide.or(Some(rule)),
                None => {}
            }
        }
        match wide {
            Some(rule) if tool.is_destructive() => Verdict::Destructive(rule),
            Some(rule) => Verdict::Allow(Some(rule)),
            None => Verdict::Ask(None),
        }
    }

    /// Decides about a host tool: permitted unless a rule says otherwise.
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
            Verdict::Allow(None)
        }
    }

    /// Returns the rule that denies a whole server.
    pub(crate) fn denial_of_server(&self, server: &str) -> Option<&PermissionRule> {
        let mut rules = self.0.deny.iter();
        rules.find(|rule| pattern(rule).forbids_server(server))
    }

    /// Returns the `ask` rule that matches a whole server.
    pub(crate) fn question_about(&self, server: &str) -> Option<&PermissionRule> {
        let mut rules = self.0.ask.iter();
        rules.find(|rule| pattern(rule).forbids_server(server))
    }

    /// Returns the rule that denies a tool.
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

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Permissions { allow, ask, deny } = &self.0;
        let lists = [("allow", allow), ("ask", ask), ("deny", deny)];
        let filled = lists.iter().filter(|(_, rules)| !rules.is_empty()).count();
        let mut object = serializer.serialize_struct("Rules", filled)?;
        for (name, rules) in lists {
            if rules.is_empty() {
                object.skip_field(name)?;
            } else {
                let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
                object.serialize_field(name, &texts)?;
            }
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Lists {
            allow: Vec<String>,
            ask: Vec<String>,
            deny: Vec<String>,
        }

        let Lists { allow, ask, deny } = Lists::deserialize(deserializer)?;
        let rules = |texts: Vec<String>| texts.into_iter().map(given).collect();
        Ok(Self(Permissions {
            allow: rules(allow),
            ask: rules(ask),
            deny: rules(deny),
        }))
    }
}

fn pattern(rule: &PermissionRule) -> ToolPattern {
    ToolPattern::of_rule(&rule.text)
}

fn given(text: String) -> PermissionRule {
    PermissionRule {
        text,
        source: PROGRAM.to_owned(),
        is_unreadable: false,
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
            Verdict::Allow(_) => "allow",
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
    fn a_destructive_tool_needs_permission_unless_a_rule_names_it() {
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
    fn host_tools_need_no_rule_but_obey_one() {
        let rules = Rules::default().deny("ReadMcpResource").ask("Other");
        assert_eq!(rules.about_own("ToolSearch"), Verdict::Allow(None));
        assert!(matches!(
            rules.about_own("ReadMcpResource"),
            Verdict::Deny(_)
        ));
        assert!(matches!(rules.about_own("Other"), Verdict::Ask(Some(_))));
    }
}
