//! What the rules say about a tool (TOOL-10). A pure function on data.

use trunkline_config::{Glob, PermissionRule, Permissions, normalize_name};

use crate::catalog::PoolTool;

/// Rules for calls: deny wins over ask, ask over allow, and what no rule is about is asked about.
///
/// ```
/// use trunkline::Rules;
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
    /// It may not be called.
    Deny(&'r PermissionRule),
}

/// Where rules come from that the embedding program gave.
const PROGRAM: &str = "the program";

impl Rules {
    /// May be called without asking: `mcp__server`, `mcp__server__*`, `mcp__server__tool`, or the name of a tool of the host's own; the names may
    /// be the original ones, and `*` stands for anything.
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

    /// May not be called, whatever else is said.
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

    /// What they say about a server's tool.
    pub(crate) fn about(&self, tool: &PoolTool) -> Verdict<'_> {
        let names = Names::of(tool);
        self.verdict(|rule| names.match_rule(rule))
    }

    /// What they say about one of the host's own tools, which harm nobody by themselves: only a rule stops them.
    pub(crate) fn about_own(&self, name: &str) -> Verdict<'_> {
        match self.verdict(|rule| Glob::new(rule).matches(name)) {
            Verdict::Ask(None) => Verdict::Allow,
            verdict => verdict,
        }
    }

    /// The rule that denies everything of a server, if one does.
    pub(crate) fn denial_of_server(&self, server: &str) -> Option<&PermissionRule> {
        self.0.deny.iter().find(|rule| is_about(rule, server))
    }

    /// The rule by which everything of a server is asked about, if there is one.
    pub(crate) fn question_about(&self, server: &str) -> Option<&PermissionRule> {
        self.0.ask.iter().find(|rule| is_about(rule, server))
    }

    /// The rule that denies, if one does.
    pub(crate) fn denial(&self, tool: &PoolTool) -> Option<&PermissionRule> {
        match self.about(tool) {
            Verdict::Deny(rule) => Some(rule),
            _ => None,
        }
    }

    fn verdict(&self, matches: impl Fn(&str) -> bool) -> Verdict<'_> {
        let among = |rules: &'_ [PermissionRule]| rules.iter().position(|rule| matches(&rule.text));
        let Permissions { allow, ask, deny } = &self.0;
        if let Some(at) = among(deny) {
            Verdict::Deny(&deny[at])
        } else if let Some(at) = among(ask) {
            Verdict::Ask(Some(&ask[at]))
        } else if among(allow).is_some() {
            Verdict::Allow
        } else {
            Verdict::Ask(None)
        }
    }
}

impl From<&Permissions> for Rules {
    fn from(permissions: &Permissions) -> Self {
        Self(permissions.clone())
    }
}

/// Whether a rule is about a server as a whole.
fn is_about(rule: &PermissionRule, server: &str) -> bool {
    let names = [server.to_owned(), normalize_name(server)].map(|name| format!("mcp__{name}"));
    let texts = [
        rule.text.as_str(),
        rule.text.strip_suffix("__*").unwrap_or_default(),
    ];
    let matches = |text: &&str| names.iter().any(|name| Glob::new(*text).matches(name));
    texts.iter().any(matches)
}

fn given(text: String) -> PermissionRule {
    PermissionRule {
        text,
        source: PROGRAM.to_owned(),
    }
}

/// Everything that a rule may call a tool.
struct Names {
    /// The server alone: as it is configured, and normalised.
    servers: [String; 2],
    /// The tool: as the model calls it, and with both names as they are, or normalised but not shortened.
    tools: [String; 3],
}

impl Names {
    fn of(tool: &PoolTool) -> Self {
        let (server, name) = (&*tool.server, &*tool.tool.name);
        let plain = normalize_name(server);
        Self {
            tools: [
                tool.name.clone(),
                format!("mcp__{server}__{name}"),
                format!("mcp__{plain}__{}", normalize_name(name)),
            ],
            servers: [format!("mcp__{server}"), format!("mcp__{plain}")],
        }
    }

    fn match_rule(&self, rule: &str) -> bool {
        let rule = Glob::new(rule);
        let mut all = self.tools.iter().chain(&self.servers);
        all.any(|name| rule.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::testing::tool;

    fn verdict(rules: &Rules, server: &str, name: &str) -> &'static str {
        match rules.about(&tool(server, name)) {
            Verdict::Allow => "allow",
            Verdict::Ask(None) => "ask",
            Verdict::Ask(Some(_)) => "ask by rule",
            Verdict::Deny(_) => "deny",
        }
    }

    #[test]
    fn a_rule_is_about_a_server_or_a_tool_under_any_of_its_names() {
        for (rule, server, name, matches) in [
            ("mcp__github", "github", "get", true),
            ("mcp__github", "git", "get", false),
            ("mcp__git", "github", "get", false),
            ("mcp__github__*", "github", "get", true),
            ("mcp__github__get", "github", "get", true),
            ("mcp__github__get", "github", "get_all", false),
            ("mcp__github__get_*", "github", "get_all", true),
            ("mcp__my_server__a_b", "my server", "a.b", true),
            ("mcp__my server__a.b", "my server", "a.b", true),
            ("mcp__my server", "my server", "a.b", true),
            ("mcp__claude_ai_Slack", "claude.ai Slack", "post", true),
            ("mcp__*", "anything", "at all", true),
            ("Bash(ls)", "Bash", "ls", false),
            ("github", "github", "get", false),
        ] {
            let rules = Rules::default().allow(rule);
            let found = verdict(&rules, server, name) == "allow";
            assert_eq!(found, matches, "{rule} {server} {name}");
        }
        let long = "x".repeat(80);
        let rules = Rules::default().deny(format!("mcp__s__{long}"));
        assert_eq!(verdict(&rules, "s", &long), "deny");
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
    fn a_server_is_denied_as_a_whole_or_not_at_all() {
        for (rule, denied) in [
            ("mcp__a b", true),
            ("mcp__a_b", true),
            ("mcp__a_b__*", true),
            ("mcp__*", true),
            ("mcp__a_b__get", false),
            ("mcp__a", false),
            ("a_b", false),
        ] {
            let rules = Rules::default().deny(rule);
            assert_eq!(rules.denial_of_server("a b").is_some(), denied, "{rule}");
        }
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
