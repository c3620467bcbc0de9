//! Variables in entries: `${VAR}`, `${VAR:-default}`, `$VAR`, `${env:VAR}` and `${keyring:service/account}` (CFG-5).

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use crate::env_vars;

/// Where the values of variables come from.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Instead of the process's own.
    only: Option<BTreeMap<String, String>>,
    /// Before all others.
    own: BTreeMap<String, String>,
    /// Whether references to this program's own secrets are filled in.
    secrets: bool,
}

impl Environment {
    /// The variables of this process.
    pub fn process() -> Self {
        Self::default()
    }

    /// These variables and no others.
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

    /// The same with one variable more, which no other hides.
    #[must_use]
    pub(crate) fn with(&self, name: &str, value: impl Into<String>) -> Self {
        let mut more = self.clone();
        more.own.insert(name.to_owned(), value.into());
        more
    }

    /// The same, with this program's own secrets: for entries of the company's.
    #[must_use]
    pub(crate) fn with_secrets(&self) -> Self {
        Self {
            secrets: true,
            ..self.clone()
        }
    }

    /// Whether a variable is one of this program's own secrets, and kept back.
    fn withholds(&self, name: &str) -> bool {
        !self.secrets && env_vars::is_secret(name)
    }

    /// The value of a variable. One that is set to nothing has a value.
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

/// A secret in the operating system's keychain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyringRef {
    /// The service it belongs to.
    pub service: String,
    /// The account of that service.
    pub account: String,
}

impl KeyringRef {
    /// How it is written in an entry.
    pub fn written(&self) -> String {
        format!("${{keyring:{}/{}}}", self.service, self.account)
    }
}

/// How much the values of variables may add to one entry (SEC-4): a repository chooses how often a variable is written.
const MAX_ADDED: usize = 1 << 20;

/// How many problems of one entry are named one by one.
const MAX_TOLD: usize = 10;

/// How much of a reference is repeated in a warning.
const MAX_QUOTED: usize = 80;

/// What came up while expanding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Variables that are not set, and how they are written.
    unset: Unique<(String, String)>,
    /// References to this program's own secrets.
    withheld: Unique<String>,
    /// What else is wrong, in words.
    odd: Unique<String>,
    /// The secrets that stay in place until the connection is made.
    keyring: Unique<KeyringRef>,
    /// How much the values have added.
    added: usize,
}

impl Findings {
    /// What is wrong, in words that name the variable. One that the server's own `env` sets is set for the server, who may be
    /// meant to look at it.
    pub(crate) fn warnings(&self, own: impl Fn(&str) -> bool) -> Vec<String> {
        let unset = self.unset.list.iter().filter(|(name, _)| !own(name));
        let unset = unset.map(|(name, written)| {
            format!("the variable {name} is not set, so {written} stays as it is; set it, or write ${{{name}:-default}}")
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
            warnings.push(format!("{more} more variables are not set, or are none"));
        }
        warnings
    }

    /// Adds a warning of another kind.
    pub(crate) fn note(&mut self, warning: &str) {
        self.odd.push(warning.to_owned());
    }

    /// Whether the values have added more than an entry may hold.
    pub(crate) fn is_too_long(&self) -> bool {
        self.added > MAX_ADDED
    }

    /// The secrets that stay in place until the connection is made.
    pub(crate) fn take_keyring(&mut self) -> Vec<KeyringRef> {
        std::mem::take(&mut self.keyring).list
    }
}

/// A list in which nothing is twice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unique<T: Eq + Hash> {
    list: Vec<T>,
    seen: HashSet<T>,
}

impl<T: Eq + Hash> Default for Unique<T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            seen: HashSet::new(),
        }
    }
}

impl<T: Eq + Hash + Clone> Unique<T> {
    fn push(&mut self, item: T) {
        if self.seen.insert(item.clone()) {
            self.list.push(item);
        }
    }
}

/// A reference as it is repeated in a warning.
fn quoted(written: &str) -> String {
    match written.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &written[..end]),
        None => written.to_owned(),
    }
}

/// One reference in a text.
enum Reference<'a> {
    Variable {
        name: &'a str,
        default: Option<&'a str>,
    },
    Keyring(KeyringRef),
    /// In braces, but nothing we know.
    Unknown(&'a str),
}

/// The text with its variables replaced, once: what a value holds is not looked at again.
pub(crate) fn expand(text: &str, environment: &Environment, findings: &mut Findings) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    // Behind the last closing brace no brace needs to be looked for.
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
                    findings.withheld.push(name.to_owned());
                    None
                } else {
                    environment.get(name)
                };
                if let Some(value) = value.or_else(|| default.map(str::to_owned)) {
                    findings.added += value.len();
                    if findings.is_too_long() {
                        return expanded;
                    }
                    expanded.push_str(&value);
                } else if environment.withholds(name) {
                    expanded.push_str(written);
                } else {
                    findings.unset.push((quoted(name), quoted(written)));
                    expanded.push_str(written);
                }
            }
            Reference::Keyring(secret) => {
                findings.keyring.push(secret);
                expanded.push_str(written);
            }
            Reference::Unknown(hint) => {
                let told = quoted(written);
                findings
                    .odd
                    .push(format!("{told} is no variable and stays as it is{hint}"));
                expanded.push_str(written);
            }
        }
        rest = &rest[written.len()..];
    }
    expanded.push_str(rest);
    expanded
}

/// The reference that `text` begins with, and how long it is.
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

/// What stands between braces.
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

/// Whether a service's secrets are this program's own, or Claude Code's: no entry may have them.
fn is_own(service: &str) -> bool {
    let service = service.trim_start().to_ascii_lowercase();
    ["trunkline", "claude code", "claude-code"]
        .iter()
        .any(|own| service.starts_with(own))
}

/// How much of the beginning of `text` is a variable's name.
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
            let mut findings = Findings::default();
            assert_eq!(expand(text, &environment(), &mut findings), expected);
        }
    }

    #[test]
    fn what_is_not_set_stays_and_is_named() {
        for (text, named) in [
            ("${NO}", "the variable NO is not set"),
            ("a $NO b", "the variable NO is not set"),
            ("${env:NO}", "the variable NO is not set"),
            ("${input:token}", "${input:token} is no variable"),
            ("${keyring:only}", "${keyring:only} is no variable"),
            (
                "${keyring:Trunkline OAuth client/x}",
                "${keyring:Trunkline OAuth client/x} is no",
            ),
            (
                "${keyring:Claude Code-credentials/me}",
                "${keyring:Claude Code-credentials/me} is no",
            ),
            ("${a b}", "${a b} is no variable"),
            ("${}", "${} is no variable"),
        ] {
            let mut findings = Findings::default();
            assert_eq!(expand(text, &environment(), &mut findings), text);
            let warnings = findings.warnings(|_| false);
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
            let mut findings = Findings::default();
            assert_eq!(expand(text, &environment, &mut findings), expected);
            let warnings = findings.warnings(|_| false);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].starts_with("the variable CLAUDE_CODE_OAUTH_TOKEN holds"));
            let mut findings = Findings::default();
            let whole = expand(text, &environment.with_secrets(), &mut findings);
            assert!(whole.ends_with("hunter2"), "{whole}");
        }
    }

    #[test]
    fn other_dollars_are_left_alone_in_silence() {
        for text in ["$", "$$", "a$", "$1", "${", "${A", "$ {A}", "100$", "$é"] {
            let mut findings = Findings::default();
            assert_eq!(expand(text, &environment(), &mut findings), text);
            assert_eq!(findings, Findings::default(), "{text}");
        }
    }

    #[test]
    fn what_is_written_often_costs_little() {
        let mut findings = Findings::default();
        let many: Vec<String> = (0..200_000).map(|n| format!("$V{n}")).collect();
        let many = many.concat();
        assert_eq!(expand(&many, &environment(), &mut findings), many);
        let warnings = findings.warnings(|_| false);
        assert_eq!(warnings.len(), MAX_TOLD + 1);
        assert!(
            warnings[MAX_TOLD].starts_with("199990 more"),
            "{warnings:?}"
        );
        let open = "${".repeat(500_000);
        assert_eq!(expand(&open, &environment(), &mut findings), open);
        let large = Environment::of([("L", "x".repeat(2000))]);
        let expanded = expand(&"$L".repeat(500_000), &large, &mut findings);
        assert!(findings.is_too_long() && expanded.len() <= MAX_ADDED);
    }

    #[test]
    fn a_keyring_reference_stays_until_the_connection_is_made() {
        let mut findings = Findings::default();
        let text = "Bearer ${keyring:github/me/work}";
        assert_eq!(expand(text, &environment(), &mut findings), text);
        let found = &findings.take_keyring()[0];
        assert_eq!((&*found.service, &*found.account), ("github", "me/work"));
        assert!(text.contains(&found.written()));
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_is_never_touched(text in "[^$]*") {
            let mut findings = Findings::default();
            prop_assert_eq!(&expand(&text, &environment(), &mut findings), &text);
            prop_assert_eq!(findings, Findings::default());
        }

        #[test]
        fn with_nothing_set_and_no_default_nothing_changes(text in "([${}A-C:/ ]|keyring|env)*") {
            prop_assume!(!text.contains(":-"));
            let none = Environment::of::<&str, &str>([]);
            prop_assert_eq!(expand(&text, &none, &mut Findings::default()), text);
        }

        #[test]
        fn what_stands_around_a_variable_stays(before in "[^$]*", after in "[^$]*", value in ".*") {
            let one = Environment::of([("X", value.as_str())]);
            let text = format!("{before}${{X}}{after}");
            let expanded = expand(&text, &one, &mut Findings::default());
            prop_assert_eq!(expanded, format!("{before}{value}{after}"));
        }
    }
}
