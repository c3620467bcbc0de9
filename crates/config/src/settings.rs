//! The settings that concern servers, and which files they count from (CFG-6, CFG-7).

use serde_json::value::RawValue;

use crate::call_policy::{self, CallPolicy};
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
    /// `callPolicy`
    pub(crate) call_policy: Option<CallPolicy>,
}

/// The rule for every tool of every server.
pub(crate) const EVERYTHING: &str = "mcp__*";

impl PermissionLists {
    /// Denies everything, because the rules are unreadable.
    pub(crate) fn deny_all() -> Self {
        Self {
            deny: vec![EVERYTHING.to_owned()],
            is_unreadable: true,
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
    /// Whether [`EVERYTHING`] is denied because the rules are unreadable.
    pub(crate) is_unreadable: bool,
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
            call_policy: None,
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
            settings.allow = reader.rules("allowedMcpServers", ListKind::Allow);
        }
        if origin.may_deny() {
            settings.deny = reader
                .rules("deniedMcpServers", ListKind::Deny)
                .unwrap_or_default();
        }
        if origin == Origin::Managed {
            // Any other value than true or false was still meant to have an effect.
            settings.managed_only = reader.restrictive_flag("allowManagedMcpServersOnly");
            settings.managed_rules_only =
                reader.restrictive_flag("allowManagedPermissionRulesOnly");
            let policies = reader.restrictive(call_policy::KEY);
            settings.call_policy = CallPolicy::read(document, &policies, reader.diagnostics);
        } else {
            reader.ignored(call_policy::KEY);
        }
        settings.permissions = reader.permissions();
        settings.hooks.managed_only =
            origin == Origin::Managed && reader.restrictive_flag("allowManagedHooksOnly");
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

/// What a list of rules does.
#[derive(Clone, Copy, PartialEq)]
enum ListKind {
    /// A malformed rule allows nothing, and still restricts.
    Allow,
    /// A malformed rule denies what can be guessed: better too much than too little.
    Deny,
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
        let Some(raw) = self.members.get(key) else {
            return false;
        };
        self.document.decode(raw).unwrap_or_else(|problem| {
            self.report_problem(key, &problem);
            false
        })
    }

    /// A flag that restricts: it is set unless every member of that name says `false`.
    fn restrictive_flag(&mut self, key: &str) -> bool {
        let mut is_set = false;
        for raw in self.restrictive(key) {
            is_set |= self.document.decode(raw).unwrap_or_else(|problem| {
                self.report_problem(key, &problem);
                true
            });
        }
        is_set
    }

    /// The values of all members of that name, in any case. Another spelling of it is reported.
    fn restrictive(&mut self, key: &str) -> Vec<&'a RawValue> {
        let members = self.members.get_all(key);
        for (name, raw) in &members {
            if *name != key {
                let problem = ParseError {
                    offset: self.document.offset(raw),
                    message: format!("write \"{key}\""),
                };
                self.report_problem(name, &problem);
            }
        }
        members.into_iter().map(|(_, raw)| raw).collect()
    }

    /// Warns of a key that counts only in the managed settings.
    fn ignored(&mut self, key: &str) {
        for (_, raw) in self.members.get_all(key) {
            let message = format!("\"{key}\" counts only in the managed settings");
            let offset = self.document.offset(raw);
            self.diagnostics
                .push(self.document.warning(offset, message));
        }
    }

    /// The names in a list. An element that is not text is reported and skipped.
    fn names(&mut self, key: &str) -> Vec<String> {
        let raw = self.members.get(key);
        raw.map(|raw| self.names_in(key, raw)).unwrap_or_default()
    }

    fn names_in(&mut self, key: &str, raw: &'a RawValue) -> Vec<String> {
        let mut names = Vec::new();
        for raw in self.elements(key, raw).unwrap_or_default() {
            match self.document.decode(raw) {
                Ok(name) => names.push(name),
                Err(problem) => self.report_problem(key, &problem),
            }
        }
        names
    }

    /// The names in all lists of that name, which reject, and whether part of them is unreadable. A
    /// bare text counts as a name, but the list is unreadable.
    fn rejected_names(&mut self, key: &str) -> (Vec<String>, bool) {
        let lists = self.restrictive(key);
        let told = self.diagnostics.len();
        let mut names = Vec::new();
        for raw in lists {
            names.extend(self.names_in(key, raw));
            names.extend(self.document.decode::<String>(raw).ok());
        }
        (names, self.diagnostics.len() > told)
    }

    /// The elements of a list; `None` if it is none, which is reported.
    fn elements(&mut self, key: &str, raw: &'a RawValue) -> Option<Vec<&'a RawValue>> {
        match self.document.decode(raw) {
            Ok(elements) => Some(elements),
            Err(mut problem) => {
                "expected a list".clone_into(&mut problem.message);
                self.report_problem(key, &problem);
                None
            }
        }
    }

    /// The lists under `permissions`. Of repeated ones all forbid, and the last allows.
    fn permissions(&mut self) -> PermissionLists {
        let key = "permissions";
        let mut lists = PermissionLists::default();
        let last = self.members.get(key).map(|raw| self.document.offset(raw));
        for raw in self.restrictive(key) {
            let members = match self.document.members(raw) {
                Ok(members) => members,
                Err(problem) => {
                    self.report_problem(key, &problem);
                    return PermissionLists::deny_all();
                }
            };
            let mut inner = SettingsReader::new(self.document, &members, self.diagnostics);
            for (key, rules) in [("ask", &mut lists.ask), ("deny", &mut lists.deny)] {
                let (found, is_unreadable) = inner.restrictive_rules(key);
                rules.extend(found);
                lists.is_unreadable |= is_unreadable;
            }
            if last == Some(self.document.offset(raw)) {
                let mut inner = SettingsReader::new(self.document, &members, self.diagnostics);
                lists.allow = inner.names("allow");
            }
        }
        lists
    }

    /// All lists of rules of that name, which forbid. A bare rule counts; if a list is unreadable,
    /// everything is forbidden, and the flag is set.
    fn restrictive_rules(&mut self, key: &str) -> (Vec<String>, bool) {
        let mut rules = Vec::new();
        let mut is_unreadable = false;
        for raw in self.restrictive(key) {
            rules.extend(self.names_in(key, raw));
            if !raw.get().starts_with('[') {
                let lone = self.document.decode(raw);
                is_unreadable |= lone.is_err();
                rules.push(lone.unwrap_or_else(|_| EVERYTHING.to_owned()));
            }
        }
        (rules, is_unreadable)
    }

    /// The rules of all lists of that name; `None` if there is none.
    fn rules(&mut self, key: &str, kind: ListKind) -> Option<Vec<Rule>> {
        // Of repeated lists the last allows, as for other readers; all of them restrict and deny.
        let last = self.members.get(key).map(|raw| self.document.offset(raw));
        let lists = self.restrictive(key);
        if lists.is_empty() {
            return None;
        }
        let mut rules = Vec::new();
        for list in lists {
            let elements = self.elements(key, list);
            let is_list = elements.is_some();
            // A bare rule.
            for raw in elements.unwrap_or_else(|| vec![list]) {
                let read = Rule::read(self.document, raw);
                if is_list && !read.is_complete {
                    let message = "write {\"serverName\": …}, {\"serverCommand\": […]} or {\"serverUrl\": …}, one in each element";
                    let problem = ParseError {
                        offset: self.document.offset(raw),
                        message: message.to_owned(),
                    };
                    self.report_problem(key, &problem);
                }
                let counts = is_list && last == Some(self.document.offset(list));
                match kind {
                    ListKind::Deny => rules.extend(read.guesses),
                    ListKind::Allow if counts => rules.extend(read.allows),
                    ListKind::Allow => {
                        let restrictions = read.allows.into_iter().filter_map(Rule::restriction);
                        rules.extend(restrictions);
                    }
                }
            }
        }
        Some(rules)
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
        let restricts = |commands| Rule::Malformed {
            commands,
            urls: true,
        };
        assert_eq!(
            settings.allow.unwrap(),
            [
                Rule::Name("ok".to_owned()),
                restricts(true),
                restricts(false)
            ]
        );
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
    fn repeated_and_misspelt_lists_lose_no_restriction() {
        for (text, allow, deny) in [
            (
                r#"{"deniedMcpServers": [{"serverName": "a"}], "deniedMcpServers": [{"serverName": "b"}]}"#,
                None,
                2,
            ),
            (r#"{"deniedMCPServers": [{"serverName": "a"}]}"#, None, 1),
            (r#"{"deniedMcpServers": {"serverCommand": "x"}}"#, None, 2),
            // The last list allows, as for other readers; all of them restrict.
            (
                r#"{"allowedMcpServers": [{"serverName": "a"}, {"serverUrl": "b"}], "allowedMcpServers": [{"serverName": "c"}]}"#,
                Some("a malformed rule, {\"serverName\":\"c\"}"),
                0,
            ),
            (
                r#"{"allowedMcpservers": [{"serverName": "a"}]}"#,
                Some(""),
                0,
            ),
            (
                r#"{"allowedMcpServers": {"serverCommand": ["x"]}}"#,
                Some("a malformed rule"),
                0,
            ),
        ] {
            let (settings, _) = read(text, Origin::Managed);
            let shown = settings.allow.map(|rules| {
                let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
                rules.join(", ")
            });
            assert_eq!(shown.as_deref(), allow, "{text}");
            assert_eq!(settings.deny.len(), deny, "{text}");
        }
        let twice = r#"{"allowManagedMcpServersOnly": true, "allowManagedMcpServersOnly": false,
            "disabledMcpjsonServers": ["a"], "disabledMcpjsonServers": ["b"],
            "permissions": {"deny": ["c"], "deny": ["d"]}, "permissions": {"allow": ["e"]}}"#;
        let (settings, problems) = read(twice, Origin::Managed);
        assert!(settings.managed_only && problems.is_empty(), "{problems:?}");
        assert_eq!(settings.disabled, ["a", "b"]);
        assert_eq!(settings.permissions.deny, ["c", "d"]);
        assert_eq!(settings.permissions.allow, ["e"]);
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
