//! Expands variables in entries: `${VAR}`, `${VAR:-default}`, `$VAR`, `${env:VAR}` and
//! `${keyring:service/account}` (CFG-5).

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use crate::env_vars;

/// The source of the values of variables.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Used instead of the environment of the process.
    only: Option<BTreeMap<String, String>>,
    /// Take precedence over all others.
    own: BTreeMap<String, String>,
    /// Whether references to this program's own secrets are expanded.
    secrets: bool,
}

impl Environment {
    /// The variables of this process.
    pub fn process() -> Self {
        Self::default()
    }

    /// Only these variables.
    pub fn of<K: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        Self {
            only: Some(variables.map(|(k, v)| (k.into(), v.into())).collect()),
            own: BTreeMap::new(),
            secrets: false,
        }
    }

    /// Adds a variable that takes precedence over all others.
    #[must_use]
    pub(crate) fn with(&self, name: &str, value: impl Into<String>) -> Self {
        let mut more = self.clone();
        more.own.insert(name.to_owned(), value.into());
        more
    }

    /// Allows this program's own secrets, for entries of the enterprise configuration.
    #[must_use]
    pub(crate) fn with_secrets(&self) -> Self {
        Self {
            secrets: true,
            ..self.clone()
        }
    }

    /// Whether a variable is one of this program's own secrets and withheld.
    fn withholds(&self, name: &str) -> bool {
        !self.secrets && env_vars::is_secret(name)
    }

    /// The value of a variable. An empty variable has a value.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        if let Some(value) = self.own.get(name) {
            return Some(value.clone());
        }
        match &self.only {
            Some(variables) => variables.get(name).cloned(),
            None => std::env::var(name).ok(),
        }
    }
}

/// A reference to a secret in the OS keychain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyringRef {
    /// The service.
    pub service: String,
    /// The account.
    pub account: String,
}

impl KeyringRef {
    /// The reference as written in an entry.
    pub fn written(&self) -> String {
        format!("${{keyring:{}/{}}}", self.service, self.account)
    }
}

/// How much the values of variables may add to one entry (SEC-4): a repository controls how often a
/// variable is repeated.
const MAX_ADDED: usize = 1 << 20;

/// How many problems of one entry are reported individually.
const MAX_TOLD: usize = 10;

/// How many characters of a reference a warning quotes.
const MAX_QUOTED: usize = 80;

/// What expansion found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpansionReport {
    /// Unset variables with their references.
    unset: UniqueVec<(String, String)>,
    /// References to this program's own secrets.
    withheld: UniqueVec<String>,
    /// Other warnings.
    odd: UniqueVec<String>,
    /// References that stay in place until the connection is made.
    keyring: UniqueVec<KeyringRef>,
    /// Variables of the user's environment whose values were filled in.
    variables: UniqueVec<String>,
    /// How much the values have added.
    added: usize,
}

impl ExpansionReport {
    /// The warnings, each naming its variable. A variable that the server's `env` sets, for which
    /// `own` is true, may be left for the server to expand.
    pub(crate) fn warnings(&self, own: impl Fn(&str) -> bool) -> Vec<String> {
        let unset = self.unset.list.iter().filter(|(name, _)| !own(name));
        let unset = unset.map(|(name, written)| {
            format!("the variable {name} is not set, so {written} is not expanded; set it, or write ${{{name}:-default}}")
        });
        let withheld = self.withheld.list.iter();
        let withheld = withheld.map(|name| {
            format!("the variable {name} holds a secret of this program's own sign-in, so servers do not get its value; store a secret for the server in the keychain and write ${{keyring:service/account}}")
        });
        let mut warnings: Vec<_> = withheld
            .chain(unset)
            .chain(self.odd.list.iter().cloned())
            .collect();
        let more = warnings.len().saturating_sub(MAX_TOLD);
        if more > 0 {
            warnings.truncate(MAX_TOLD);
            warnings.push(format!("{more} more variables are unset or invalid"));
        }
        warnings
    }

    /// Adds another warning.
    pub(crate) fn note(&mut self, warning: &str) {
        self.odd.push(warning.to_owned());
    }

    /// Whether the values have added more than an entry may contain.
    pub(crate) fn is_too_long(&self) -> bool {
        self.added > MAX_ADDED
    }

    /// Variables of the user's environment whose values were filled in.
    pub(crate) fn take_variables(&mut self) -> Vec<String> {
        std::mem::take(&mut self.variables).list
    }

    /// References that stay in place until the connection is made.
    pub(crate) fn take_keyring(&mut self) -> Vec<KeyringRef> {
        std::mem::take(&mut self.keyring).list
    }
}

/// A list without duplicates, in insertion order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UniqueVec<T: Eq + Hash> {
    list: Vec<T>,
    seen: HashSet<T>,
}

impl<T: Eq + Hash> Default for UniqueVec<T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            seen: HashSet::new(),
        }
    }
}

impl<T: Eq + Hash + Clone> UniqueVec<T> {
    fn push(&mut self, item: T) {
        if self.seen.insert(item.clone()) {
            self.list.push(item);
        }
    }
}

/// A reference as quoted in a warning.
fn quoted(written: &str) -> String {
    match written.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &written[..end]),
        None => written.to_owned(),
    }
}

/// A reference in a text.
enum Reference<'a> {
    Variable {
        name: &'a str,
        default: Option<&'a str>,
    },
    Keyring(KeyringRef),
    /// In braces, but not a known form.
    Unknown(&'a str),
}

/// Replaces the variables in a text, once: values are not expanded again.
pub(crate) fn expand(
    text: &str,
    environment: &Environment,
    report: &mut ExpansionReport,
) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    // After the last closing brace the search can stop.
    let last_brace = text.rfind('}').unwrap_or(0);
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at..];
        let may_close = text.len() - rest.len() < last_brace;
        let Some((written, reference)) = reference(rest, may_close) else {
            expanded.push('$');
            rest = &rest[1..];
            continue;
        };
        match reference {
            Reference::Variable { name, default } => {
                let value = if environment.withholds(name) {
                    report.withheld.push(name.to_owned());
                    None
                } else {
                    environment.get(name)
                };
                if value.is_some() && !environment.own.contains_key(name) {
                    report.variables.push(name.to_owned());
                }
                if let Some(value) = value.or_else(|| default.map(str::to_owned)) {
                    report.added += value.len();
                    if report.is_too_long() {
                        return expanded;
                    }
                    expanded.push_str(&value);
                } else if environment.withholds(name) {
                    expanded.push_str(written);
                } else {
                    report.unset.push((quoted(name), quoted(written)));
                    expanded.push_str(written);
                }
            }
            Reference::Keyring(secret) => {
                report.keyring.push(secret);
                expanded.push_str(written);
            }
            Reference::Unknown(hint) => {
                let told = quoted(written);
                report.odd.push(format!(
                    "{told} is not a variable and is not expanded{hint}"
                ));
                expanded.push_str(written);
            }
        }
        rest = &rest[written.len()..];
    }
    expanded.push_str(rest);
    expanded
}

/// The reference at the start of `text`, as written and parsed.
fn reference(text: &str, may_close: bool) -> Option<(&str, Reference<'_>)> {
    let after = text.strip_prefix('$')?;
    let Some(inside) = after.strip_prefix('{') else {
        let length = name_length(after);
        let name = &after[..length];
        let written = &text[..=length];
        return (length > 0).then_some((
            written,
            Reference::Variable {
                name,
                default: None,
            },
        ));
    };
    let end = may_close.then(|| inside.find('}')).flatten()?;
    let inside = &inside[..end];
    Some((&text[..end + 3], braced(inside)))
}

/// Parses the text between braces.
fn braced(inside: &str) -> Reference<'_> {
    const UNKNOWN: &str = "; write ${VAR}, ${VAR:-default} or ${keyring:service/account}";
    if let Some(secret) = inside.strip_prefix("keyring:") {
        return match secret.split_once('/') {
            Some((service, _)) if is_own(service) => {
                Reference::Unknown(": that service's secrets are not for servers")
            }
            Some((service, account)) if !service.is_empty() && !account.is_empty() => {
                Reference::Keyring(KeyringRef {
                    service: service.to_owned(),
                    account: account.to_owned(),
                })
            }
            _ => Reference::Unknown("; write ${keyring:service/account}"),
        };
    }
    let variable = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    if !name.is_empty() && name_length(name) == name.len() {
        Reference::Variable { name, default }
    } else {
        Reference::Unknown(UNKNOWN)
    }
}

/// Whether the secrets of a service belong to this program or to Claude Code: no entry may use
/// them.
fn is_own(service: &str) -> bool {
    let service = service.trim_start().to_ascii_lowercase();
    ["trunkline", "claude code", "claude-code"]
        .iter()
        .any(|own| service.starts_with(own))
}

/// The length of the variable name at the start of `text`.
fn name_length(text: &str) -> usize {
    let named = |(at, c): &(usize, char)| {
        *c == '_' || c.is_ascii_alphabetic() || (*at > 0 && c.is_ascii_digit())
    };
    text.char_indices().take_while(named).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn environment() -> Environment {
        Environment::of([
            ("A", "one"),
            ("EMPTY", ""),
            ("NESTED", "${A} $A"),
            ("B_2", "two"),
        ])
    }

    #[test]
    fn variables_are_replaced() {
        let cases = [
            ("plain", "plain"),
            ("${A}", "one"),
            ("$A", "one"),
            ("x${A}y$B_2/z", "xoneytwo/z"),
            ("${env:A}", "one"),
            ("${A:-d}", "one"),
            ("${NO:-d e:-f}", "d e:-f"),
            ("${NO:-}", ""),
            ("${env:NO:-d}", "d"),
            ("${EMPTY:-d}|${EMPTY}|$EMPTY", "||"),
            ("${NESTED}", "${A} $A"),
            ("$A$A", "oneone"),
            ("$Ab", "$Ab"),
        ];
        for (text, expected) in cases {
            let mut report = ExpansionReport::default();
            assert_eq!(expand(text, &environment(), &mut report), expected);
        }
    }

    #[test]
    fn what_is_not_set_stays_and_is_named() {
        for (text, named) in [
            ("${NO}", "the variable NO is not set"),
            ("a $NO b", "the variable NO is not set"),
            ("${env:NO}", "the variable NO is not set"),
            ("${input:token}", "${input:token} is not a variable"),
            ("${keyring:only}", "${keyring:only} is not a variable"),
            (
                "${keyring:Trunkline OAuth client/x}",
                "${keyring:Trunkline OAuth client/x} is not",
            ),
            (
                "${keyring:Claude Code-credentials/me}",
                "${keyring:Claude Code-credentials/me} is not",
            ),
            ("${a b}", "${a b} is not a variable"),
            ("${}", "${} is not a variable"),
        ] {
            let mut report = ExpansionReport::default();
            assert_eq!(expand(text, &environment(), &mut report), text);
            let warnings = report.warnings(|_| false);
            assert_eq!(warnings.len(), 1, "{text}");
            assert!(warnings[0].starts_with(named), "{warnings:?}");
        }
    }

    #[test]
    fn our_own_secrets_are_for_the_company_alone() {
        let environment = Environment::of([("CLAUDE_CODE_OAUTH_TOKEN", "hunter2")]);
        for (text, expected) in [
            ("$CLAUDE_CODE_OAUTH_TOKEN", "$CLAUDE_CODE_OAUTH_TOKEN"),
            ("a${CLAUDE_CODE_OAUTH_TOKEN}", "a${CLAUDE_CODE_OAUTH_TOKEN}"),
            ("${env:CLAUDE_CODE_OAUTH_TOKEN:-d}", "d"),
        ] {
            let mut report = ExpansionReport::default();
            assert_eq!(expand(text, &environment, &mut report), expected);
            let warnings = report.warnings(|_| false);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].starts_with("the variable CLAUDE_CODE_OAUTH_TOKEN holds"));
            let mut report = ExpansionReport::default();
            let whole = expand(text, &environment.with_secrets(), &mut report);
            assert!(whole.ends_with("hunter2"), "{whole}");
        }
    }

    #[test]
    fn other_dollars_are_left_alone_in_silence() {
        for text in ["$", "$$", "a$", "$1", "${", "${A", "$ {A}", "100$", "$é"] {
            let mut report = ExpansionReport::default();
            assert_eq!(expand(text, &environment(), &mut report), text);
            assert_eq!(report, ExpansionReport::default(), "{text}");
        }
    }

    #[test]
    fn what_is_written_often_costs_little() {
        let mut report = ExpansionReport::default();
        let many: Vec<String> = (0..200_000).map(|n| format!("$V{n}")).collect();
        let many = many.concat();
        assert_eq!(expand(&many, &environment(), &mut report), many);
        let warnings = report.warnings(|_| false);
        assert_eq!(warnings.len(), MAX_TOLD + 1);
        assert!(
            warnings[MAX_TOLD].starts_with("199990 more"),
            "{warnings:?}"
        );
        let open = "${".repeat(500_000);
        assert_eq!(expand(&open, &environment(), &mut report), open);
        let large = Environment::of([("L", "x".repeat(2000))]);
        let expanded = expand(&"$L".repeat(500_000), &large, &mut report);
        assert!(report.is_too_long() && expanded.len() <= MAX_ADDED);
    }

    #[test]
    fn a_keyring_reference_stays_until_the_connection_is_made() {
        let mut report = ExpansionReport::default();
        let text = "Bearer ${keyring:github/me/work}";
        assert_eq!(expand(text, &environment(), &mut report), text);
        let found = &report.take_keyring()[0];
        assert_eq!((&*found.service, &*found.account), ("github", "me/work"));
        assert!(text.contains(&found.written()));
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_is_never_touched(text in "[^$]*") {
            let mut report = ExpansionReport::default();
            prop_assert_eq!(&expand(&text, &environment(), &mut report), &text);
            prop_assert_eq!(report, ExpansionReport::default());
        }

        #[test]
        fn with_nothing_set_and_no_default_nothing_changes(text in "([${}A-C:/ ]|keyring|env)*") {
            prop_assume!(!text.contains(":-"));
            let none = Environment::of::<&str, &str>([]);
            prop_assert_eq!(expand(&text, &none, &mut ExpansionReport::default()), text);
        }

        #[test]
        fn what_stands_around_a_variable_stays(before in "[^$]*", after in "[^$]*", value in ".*") {
            let one = Environment::of([("X", value.as_str())]);
            let text = format!("{before}${{X}}{after}");
            let expanded = expand(&text, &one, &mut ExpansionReport::default());
            prop_assert_eq!(expanded, format!("{before}{value}{after}"));
        }
    }
}
