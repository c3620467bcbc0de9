//! The tool permissions in settings files: `permissions.allow`, `ask` and `deny` (TOOL-10). The
//! host interprets the rules.

use crate::settings::{EVERYTHING, Origin, Settings};

/// The rules of all settings files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Tools that may be called without asking.
    pub allow: Vec<PermissionRule>,
    /// Tools that require asking, even if they are allowed.
    pub ask: Vec<PermissionRule>,
    /// Tools that may not be called.
    pub deny: Vec<PermissionRule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRule {
    /// The rule: `mcp__server`, `mcp__server__*`, `mcp__server__tool`, or the name of a tool
    /// without a server.
    pub text: String,
    /// The file that contains it.
    pub source: String,
    /// Whether it stands for rules of that file that cannot be read, and therefore denies
    /// everything.
    pub is_unreadable: bool,
}

impl PermissionRule {
    /// Says how the rule denies something, as the end of a sentence.
    pub fn denial(&self) -> String {
        let Self { text, source, .. } = self;
        if self.is_unreadable {
            format!("{source} may have rules that deny it, but cannot be read")
        } else {
            format!("the rule \"{text}\" of {source} denies it")
        }
    }
}

impl Permissions {
    /// Combines the rules of all files. A repository can forbid, never permit.
    pub(crate) fn of(files: &[Settings]) -> Self {
        let managed_only = files.iter().any(|file| file.managed_rules_only);
        let mut all = Self::default();
        for file in files {
            let rules = |texts: &[String]| {
                let rule = |text: &String| PermissionRule {
                    text: text.trim().to_owned(),
                    source: file.source.clone(),
                    is_unreadable: file.permissions.is_unreadable && text == EVERYTHING,
                };
                texts.iter().map(rule).collect::<Vec<_>>()
            };
            all.deny.extend(rules(&file.permissions.deny));
            if managed_only && file.origin != Origin::Managed {
                continue;
            }
            all.ask.extend(rules(&file.permissions.ask));
            if file.origin.may_approve() {
                all.allow.extend(rules(&file.permissions.allow));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(origin: Origin, rule: &str) -> Settings {
        let mut settings = Settings::empty(origin, rule);
        settings.permissions.allow = vec![format!(" {rule} ")];
        settings.permissions.ask = vec![rule.to_owned()];
        settings.permissions.deny = vec![rule.to_owned()];
        settings
    }

    fn texts(rules: &[PermissionRule]) -> Vec<&str> {
        rules.iter().map(|rule| rule.text.as_str()).collect()
    }

    #[test]
    fn a_repository_forbids_and_never_permits() {
        let all = Permissions::of(&[
            file(Origin::Managed, "m"),
            file(Origin::User, "u"),
            file(Origin::Project, "p"),
            file(Origin::Relocated, "v"),
        ]);
        assert_eq!(texts(&all.allow), ["m", "u"]);
        assert_eq!(texts(&all.ask), ["m", "u", "p", "v"]);
        assert_eq!(texts(&all.deny), ["m", "u", "p", "v"]);
    }

    #[test]
    fn a_company_can_have_its_rules_alone_count_but_nobody_is_made_to_permit() {
        let mut managed = file(Origin::Managed, "m");
        managed.managed_rules_only = true;
        let all = Permissions::of(&[managed, file(Origin::User, "u")]);
        assert_eq!(texts(&all.allow), ["m"]);
        assert_eq!(texts(&all.deny), ["m", "u"]);
    }
}
