//! The settings that concern servers, and which files they count from (CFG-6, CFG-7).

use serde_json::value::RawValue;

use crate::diagnostic::Diagnostic;
use crate::document::{Document, Members, ParseError};
use crate::hooks::{self, FileHooks};
use crate::policy::Rule;

/// The owner of a settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Managed by the organisation.
    Managed,
    /// The user's, for every project.
    User,
    /// The user's, for this project, stored outside of it.
    Local,
    /// The user's, but relocated to where the repository controls them: they can forbid, never
    /// permit.
    Relocated,
    /// In the project: they can forbid, never permit.
    Project,
}

impl Origin {
    /// Whether approvals in such a file count. A repository cannot approve itself.
    pub(crate) fn may_approve(self) -> bool {
        !matches!(self, Self::Relocated | Self::Project)
    }

    /// Whether allow lists in such a file count.
    fn may_allow(self) -> bool {
        matches!(self, Self::Managed | Self::User)
    }

    /// Whether deny lists in such a file count.
    fn may_deny(self) -> bool {
        matches!(self, Self::Managed | Self::User | Self::Relocated)
    }
}

/// The settings of one file.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) origin: Origin,
    pub(crate) source: String,
    /// `enableAllProjectMcpServers`
    pub(crate) enable_all: bool,
    /// `enabledMcpjsonServers`
    pub(crate) enabled: Vec<String>,
    /// `disabledMcpjsonServers`
    pub(crate) disabled: Vec<String>,
    /// Part of `disabledMcpjsonServers` is unreadable, so it may name any server.
    pub(crate) disabled_unreadable: bool,
    /// `allowedMcpServers`
    pub(crate) allow: Option<Vec<Rule>>,
    /// `deniedMcpServers`
    pub(crate) deny: Vec<Rule>,
    /// `allowManagedMcpServersOnly`
    pub(crate) managed_only: bool,
    /// `enabledPlugins`, in order.
    pub(crate) plugins: Vec<(String, bool)>,
    /// `permissions`
    pub(crate) permissions: PermissionLists,
    /// `allowManagedPermissionRulesOnly`
    pub(crate) managed_rules_only: bool,
    /// `hooks`
    pub(crate) hooks: FileHooks,
}

/// The rule for every tool of every server.
const EVERYTHING: &str = "mcp__*";

impl PermissionLists {
    /// Denies everything, because the rules are unreadable.
    pub(crate) fn deny_all() -> Self {
        Self {
            deny: vec![EVERYTHING.to_owned()],
            ..Self::default()
        }
    }
}

/// The lists under `permissions`.
#[derive(Debug, Default)]
pub(crate) struct PermissionLists {
    pub(crate) allow: Vec<String>,
    pub(crate) ask: Vec<String>,
    pub(crate) deny: Vec<String>,
}

impl Settings {
    /// Empty settings.
    pub(crate) fn empty(origin: Origin, source: &str) -> Self {
        Self {
            origin,
            source: source.to_owned(),
            enable_all: false,
            enabled: Vec::new(),
            disabled: Vec::new(),
            disabled_unreadable: false,
            allow: None,
            deny: Vec::new(),
            managed_only: false,
            plugins: Vec::new(),
            permissions: PermissionLists::default(),
            managed_rules_only: false,
            hooks: FileHooks::default(),
        }
    }

    /// Reads the keys that count from such a file.
    pub(crate) fn read(
        document: &Document,
        members: &Members,
        origin: Origin,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut reader = SettingsReader::new(document, members, diagnostics);
        let mut settings = Self::empty(origin, document.source());
        (settings.disabled, settings.disabled_unreadable) =
            reader.rejected_names("disabledMcpjsonServers");
        if origin.may_approve() {
            settings.enable_all = reader.flag("enableAllProjectMcpServers");
            settings.enabled = reader.names("enabledMcpjsonServers");
        }
        if origin.may_allow() {
            settings.allow = reader.rules("allowedMcpServers", Leniency::Strict);
        }
        if origin.may_deny() {
            settings.deny = reader
                .rules("deniedMcpServers", Leniency::Lenient)
                .unwrap_or_default();
        }
        if origin == Origin::Managed {
            // Any other value than true or false was still meant to have an effect.
            settings.managed_only = reader.flag_or("allowManagedMcpServersOnly", true);
            settings.managed_rules_only = reader.flag_or("allowManagedPermissionRulesOnly", true);
        }
        settings.permissions = reader.permissions();
        settings.hooks.managed_only =
            origin == Origin::Managed && reader.flag_or("allowManagedHooksOnly", true);
        if origin.may_approve() {
            settings.hooks.disable_all = reader.flag("disableAllHooks");
        }
        if let Some(raw) = members.get("hooks") {
            settings.hooks.hooks = hooks::read(document, raw, origin, diagnostics);
        }
        let mut reader = SettingsReader::new(document, members, diagnostics);
        if origin != Origin::Local {
            settings.plugins = reader.plugins();
            if !origin.may_approve() {
                settings.plugins.retain(|(_, enabled)| !enabled);
            }
        }
        settings
    }
}

/// The names in the list `key`. An element that is no name is reported and skipped.
pub(crate) fn names(
    document: &Document,
    members: &Members,
    key: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    SettingsReader::new(document, members, diagnostics).names(key)
}

/// Returns the names in `disabledMcpServers`, and whether it is not a list: then it may name any
/// server.
pub(crate) fn disabled_names(
    document: &Document,
    members: &Members,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<String>, bool) {
    let key = "disabledMcpServers";
    let names = names(document, members, key, diagnostics);
    let bad = members.get(key).filter(|raw| !raw.get().starts_with('['));
    if let Some(raw) = bad {
        let message = format!(
            "\"{key}\" is not a list, so every server is disabled in this project; \
             write a list of names"
        );
        diagnostics.push(document.problem(document.offset(raw), message));
    }
    (names, bad.is_some())
}

/// How to treat a malformed rule.
#[derive(Clone, Copy, PartialEq)]
enum Leniency {
    /// Skip it: it could allow more than intended.
    Strict,
    /// Guess its meaning: better deny too much than too little.
    Lenient,
}

struct SettingsReader<'r, 'a> {
    document: &'r Document<'a>,
    members: &'r Members<'a>,
    diagnostics: &'r mut Vec<Diagnostic>,
}

impl<'r, 'a> SettingsReader<'r, 'a> {
    fn new(
        document: &'r Document<'a>,
        members: &'r Members<'a>,
        diagnostics: &'r mut Vec<Diagnostic>,
    ) -> Self {
        Self {
            document,
            members,
            diagnostics,
        }
    }

    fn report_problem(&mut self, key: &str, problem: &ParseError) {
        let message = format!("\"{key}\": {}", problem.message);
        let diagnostic = self.document.problem(problem.offset, message);
        self.diagnostics.push(diagnostic);
    }

    fn flag(&mut self, key: &str) -> bool {
        self.flag_or(key, false)
    }

    /// A flag, with its value if it is neither true nor false.
    fn flag_or(&mut self, key: &str, otherwise: bool) -> bool {
        let Some(raw) = self.members.get(key) else {
            return false;
        };
        self.document.decode(raw).unwrap_or_else(|problem| {
            self.report_problem(key, &problem);
            otherwise
        })
    }

    /// The names in a list. An element that is not text is reported and skipped.
    fn names(&mut self, key: &str) -> Vec<String> {
        let mut names = Vec::new();
        for raw in self.elements(key).unwrap_or_default() {
            match self.document.decode(raw) {
                Ok(name) => names.push(name),
                Err(problem) => self.report_problem(key, &problem),
            }
        }
        names
    }

    /// The names in a list that rejects, and whether part of it is unreadable. A bare text counts
    /// as a name, but the list is unreadable.
    fn rejected_names(&mut self, key: &str) -> (Vec<String>, bool) {
        let told = self.diagnostics.len();
        let mut names = self.names(key);
        let unreadable = self.diagnostics.len() > told;
        let raw = self.members.get(key);
        names.extend(raw.and_then(|raw| self.document.decode::<String>(raw).ok()));
        (names, unreadable)
    }

    /// The elements of a list; `None` if the key is missing. Any other value counts as an empty
    /// list.
    fn elements(&mut self, key: &str) -> Option<Vec<&'a RawValue>> {
        let raw = self.members.get(key)?;
        Some(self.document.decode(raw).unwrap_or_else(|mut problem| {
            "expected a list".clone_into(&mut problem.message);
            self.report_problem(key, &problem);
            Vec::new()
        }))
    }

    /// The lists under `permissions`.
    fn permissions(&mut self) -> PermissionLists {
        let key = "permissions";
        let Some(raw) = self.members.get(key) else {
            return PermissionLists::default();
        };
        let members = match self.document.members(raw) {
            Ok(members) => members,
            Err(problem) => {
                self.report_problem(key, &problem);
                return PermissionLists::deny_all();
            }
        };
        let mut inner = SettingsReader::new(self.document, &members, self.diagnostics);
        PermissionLists {
            allow: inner.names("allow"),
            ask: inner.restrictive_rules("ask"),
            deny: inner.restrictive_rules("deny"),
        }
    }

    /// A list of rules that forbid. A bare rule counts; if the list is unreadable, everything is
    /// forbidden.
    fn restrictive_rules(&mut self, key: &str) -> Vec<String> {
        let Some(raw) = self.members.get(key) else {
            return Vec::new();
        };
        let names = self.names(key);
        if raw.get().starts_with('[') {
            return names;
        }
        let lone = self
            .document
            .decode(raw)
            .unwrap_or_else(|_| EVERYTHING.to_owned());
        vec![lone]
    }

    fn rules(&mut self, key: &str, leniency: Leniency) -> Option<Vec<Rule>> {
        let mut rules = Vec::new();
        let elements = match self.elements(key)? {
            // A bare rule.
            none if none.is_empty() && leniency == Leniency::Lenient => {
                let lone = self
                    .members
                    .get(key)
                    .filter(|raw| !raw.get().starts_with('['));
                lone.into_iter().collect()
            }
            elements => elements,
        };
        for raw in elements {
            let (found, complete) = self.rule(raw);
            if !complete {
                let message = "write {\"serverName\": …}, {\"serverCommand\": […]} or {\"serverUrl\": …}, one in each element";
                let problem = ParseError {
                    offset: self.document.offset(raw),
                    message: message.to_owned(),
                };
                self.report_problem(key, &problem);
            }
            if complete || leniency == Leniency::Lenient {
                rules.extend(found);
            }
        }
        Some(rules)
    }

    /// The rules in one element, and whether it consists of exactly one.
    fn rule(&self, raw: &'a RawValue) -> (Vec<Rule>, bool) {
        if let Ok(name) = self.document.decode(raw) {
            return (vec![Rule::Name(name)], false);
        }
        let Ok(members) = self.document.members(raw) else {
            return (Vec::new(), false);
        };
        let mut rules = Vec::new();
        for (key, value) in members.iter() {
            match key {
                "serverName" => rules.extend(self.document.decode(value).ok().map(Rule::Name)),
                "serverCommand" => {
                    let argv: Option<Vec<String>> = self.document.decode(value).ok();
                    rules.extend(argv.filter(|argv| !argv.is_empty()).map(Rule::Command));
                    // A text instead of a list: one word, or several.
                    if let Ok(line) = self.document.decode::<String>(value) {
                        let words = line.split_whitespace().map(str::to_owned).collect();
                        rules.extend([Rule::Command(vec![line]), Rule::Command(words)]);
                    }
                }
                "serverUrl" => {
                    let pattern: Option<String> = self.document.decode(value).ok();
                    rules.extend(pattern.map(|pattern| Rule::url(&pattern)));
                }
                _ => {}
            }
        }
        let complete = rules.len() == 1 && members.len() == 1;
        (rules, complete)
    }

    /// `enabledPlugins`: an object of flags, or a list of enabled plugins.
    fn plugins(&mut self) -> Vec<(String, bool)> {
        let key = "enabledPlugins";
        let Some(raw) = self.members.get(key) else {
            return Vec::new();
        };
        if let Ok(names) = self.document.decode::<Vec<String>>(raw) {
            return names.into_iter().map(|name| (name, true)).collect();
        }
        let members = match self.document.members(raw) {
            Ok(members) => members,
            Err(problem) => {
                self.report_problem(key, &problem);
                return Vec::new();
            }
        };
        // A list of versions instead of a flag also enables.
        let enabled = |value: &RawValue| !matches!(value.get(), "false" | "null");
        members
            .iter()
            .map(|(name, value)| (name.to_owned(), enabled(value)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, origin: Origin) -> (Settings, Vec<String>) {
        let document = Document::new("f", text);
        let members = document.root().ok().unwrap();
        let mut diagnostics = Vec::new();
        let settings = Settings::read(&document, &members, origin, &mut diagnostics);
        (
            settings,
            diagnostics.iter().map(ToString::to_string).collect(),
        )
    }

    const ALL_KEYS: &str = r#"{"enableAllProjectMcpServers": true, "enabledMcpjsonServers": ["a"],
        "disabledMcpjsonServers": ["b"], "allowedMcpServers": [{"serverName": "c"}], "deniedMcpServers": [{"serverUrl": "d"}],
        "allowManagedMcpServersOnly": true, "enabledPlugins": {"on@m": true, "off@m": false}}"#;

    #[test]
    fn which_keys_count_depends_on_the_file() {
        let count = |origin| {
            let (settings, problems) = read(ALL_KEYS, origin);
            assert!(problems.is_empty(), "{problems:?}");
            assert_eq!(settings.disabled, ["b"]);
            (
                settings.enable_all && settings.enabled == ["a"],
                settings.allow.is_some() && settings.deny.len() == 1,
                settings.managed_only,
                settings.plugins.iter().filter(|(_, on)| *on).count(),
            )
        };
        assert_eq!(count(Origin::Managed), (true, true, true, 1));
        assert_eq!(count(Origin::User), (true, true, false, 1));
        assert_eq!(count(Origin::Local), (true, false, false, 0));
        assert_eq!(count(Origin::Project), (false, false, false, 0));
        assert_eq!(
            read(ALL_KEYS, Origin::Project).0.plugins,
            [("off@m".to_owned(), false)]
        );
    }

    #[test]
    fn a_mistake_costs_its_element_and_errs_on_the_side_of_denying() {
        let text = r#"{"allowedMcpServers": [{"serverName": "ok"}, "bare", {"serverNmae": "x"}, {"serverName": "a", "serverUrl": "b"}],
            "deniedMcpServers": ["bare", {"serverName": "a", "serverUrl": "b"}, 5, {"serverCommand": []}],
            "enabledMcpjsonServers": ["x", 5], "disabledMcpjsonServers": "x"}"#;
        let (settings, problems) = read(text, Origin::User);
        assert_eq!(settings.allow.unwrap(), [Rule::Name("ok".to_owned())]);
        assert_eq!(settings.deny.len(), 3);
        assert_eq!(settings.enabled, ["x"]);
        assert_eq!(problems.len(), 3 + 4 + 1 + 1, "{problems:#?}");
        assert!(
            problems
                .iter()
                .any(|problem| problem.starts_with("f:1:46: \"allowedMcpServers\": write {")),
            "{problems:#?}"
        );
    }

    #[test]
    fn what_may_be_forbidden_is() {
        for (text, deny) in [
            (r#"{"permissions": {"deny": ["a", 5]}}"#, &["a"][..]),
            (r#"{"permissions": {"deny": "a"}}"#, &["a"]),
            (r#"{"permissions": {"deny": {"a": 1}}}"#, &["mcp__*"]),
            (r#"{"permissions": ["a"]}"#, &["mcp__*"]),
            (r#"{"permissions": {}}"#, &[]),
        ] {
            assert_eq!(read(text, Origin::User).0.permissions.deny, deny, "{text}");
        }
    }

    #[test]
    fn an_allow_list_that_is_no_list_allows_nothing() {
        let (settings, problems) = read(r#"{"allowedMcpServers": "all"}"#, Origin::Managed);
        assert_eq!(settings.allow, Some(Vec::new()));
        assert_eq!(problems.len(), 1);
    }
}
