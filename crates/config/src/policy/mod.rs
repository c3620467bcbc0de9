//! Allow and deny lists of servers (CFG-7).

mod sensitive;
mod url;

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::entry::{ServerEntry, ServerUrl};
use crate::names::normalize_name;
use crate::scopes::Scope;
use sensitive::sensitive_field;
use url::{DenyCandidates, NormalizedUrl, UrlPattern};

/// One element of `allowedMcpServers` or `deniedMcpServers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `{"serverName": …}`
    Name(String),
    /// `{"serverCommand": […]}`
    Command(Vec<String>),
    /// `{"serverUrl": …}`
    Url(Box<UrlPattern>),
}

impl Rule {
    pub(crate) fn url(pattern: &str) -> Self {
        Self::Url(Box::new(UrlPattern::new(pattern)))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let value = match self {
            Self::Name(name) => serde_json::json!({"serverName": name}),
            Self::Command(argv) => serde_json::json!({"serverCommand": argv}),
            Self::Url(pattern) => serde_json::json!({"serverUrl": pattern.written()}),
        };
        write!(f, "{value}")
    }
}

/// Why policy blocks a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Blocked {
    /// The rule, or the missing permission.
    pub rule: String,
    /// The file that rejects it.
    pub source: String,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} ({})", self.rule, self.source)
    }
}

/// An indexed list of rules.
#[derive(Clone, Debug, Default)]
struct Rules {
    /// The source of each name.
    names: HashMap<String, String>,
    commands: HashMap<Vec<String>, String>,
    urls: Vec<(Box<UrlPattern>, String)>,
}

/// All allow and deny lists.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// `None` allows all.
    allow: Option<Rules>,
    /// The sources of the allow lists.
    allow_sources: Vec<String>,
    deny: Rules,
    /// The managed settings are unreadable, so nothing is known to be allowed.
    unreadable: Option<String>,
}

impl Policy {
    /// Adds an allow list. A server that any list allows is allowed.
    pub(crate) fn allow(&mut self, rules: Vec<Rule>, source: &str) {
        self.allow
            .get_or_insert_default()
            .extend(rules, source, str::to_owned);
        self.allow_sources.push(source.to_owned());
    }

    /// Adds a deny list. Names are denied in every spelling that normalises to them.
    pub(crate) fn deny(&mut self, rules: Vec<Rule>, source: &str) {
        self.deny.extend(rules, source, normalize_name);
    }

    /// Blocks every server, because the lists are unreadable.
    pub(crate) fn unreadable(&mut self, source: &str) {
        self.unreadable = Some(source.to_owned());
    }

    /// Whether the lists are unreadable.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable.is_some()
    }

    /// Why a server may not run. Its entry must be expanded.
    pub fn blocks(&self, entry: &ServerEntry) -> Option<Blocked> {
        if let Some(source) = &self.unreadable {
            return Some(Blocked {
                rule:
                    "the lists of allowed and denied servers cannot be read, so no server may run"
                        .to_owned(),
                source: source.clone(),
            });
        }
        self.denied(entry).or_else(|| self.not_allowed(entry))
    }

    fn denied(&self, entry: &ServerEntry) -> Option<Blocked> {
        let blocked = |rule: &Rule, source: &String| Blocked {
            rule: format!("denied by {rule}"),
            source: source.clone(),
        };
        if let Some(source) = self.deny.names.get(&normalize_name(&entry.name)) {
            return Some(blocked(&Rule::Name(entry.name.clone()), source));
        }
        if let Some(argv) = entry.transport.argv() {
            let resolved = entry.resolved_argv().unwrap_or_default();
            let found = self.deny.commands.get_key_value(&resolved);
            let found = found.or_else(|| self.deny.command(&argv)).or_else(|| {
                let mut rules = self.deny.commands.iter();
                rules.find(|(denied, _)| may_become(&argv, denied, entry))
            });
            return found.map(|(argv, source)| blocked(&Rule::Command(argv.clone()), source));
        }
        let url = entry.transport.url()?;
        if self.deny.urls.is_empty() {
            return None;
        }
        match comparable(entry, url) {
            Ok(url) => {
                let url = DenyCandidates::of(url);
                let mut rules = self.deny.urls.iter();
                let (pattern, source) = rules.find(|(pattern, _)| pattern.denies(&url))?;
                Some(blocked(&Rule::Url(pattern.clone()), source))
            }
            Err(reason) => Some(Blocked {
                rule: format!("its URL cannot be compared with the denied ones: {reason}"),
                source: self.deny.urls[0].1.clone(),
            }),
        }
    }

    fn not_allowed(&self, entry: &ServerEntry) -> Option<Blocked> {
        let rules = self.allow.as_ref()?;
        let source = self.allow_sources.join(", ");
        let by_name = rules.names.contains_key(&entry.name);
        let (allowed, kind) = match (entry.resolved_argv(), entry.transport.url()) {
            // The resolved command: a relative one does not say which program it is.
            (Some(argv), _) if !rules.commands.is_empty() => {
                (rules.commands.contains_key(&argv), "command")
            }
            (_, Some(url)) if !rules.urls.is_empty() => {
                let allowed = comparable(entry, url).is_ok_and(|url| {
                    let mut patterns = rules.urls.iter();
                    patterns.any(|(pattern, _)| pattern.allows(&url))
                });
                (allowed, "URL")
            }
            _ => (by_name, "name"),
        };
        if !allowed {
            return Some(Blocked {
                rule: format!("its {kind} is not in allowedMcpServers"),
                source,
            });
        }
        if rules.commands.is_empty() && rules.urls.is_empty() || entry.scope == Scope::Enterprise {
            return None;
        }
        let field = sensitive_field(entry)?;
        Some(Blocked {
            rule: format!(
                "its \"{field}\" can change which code runs or who is trusted; if allowedMcpServers \
                 lists commands or URLs, only managed-mcp.json may set it"
            ),
            source,
        })
    }
}

/// The URL of an entry in comparable form; the error says why there is none.
fn comparable(entry: &ServerEntry, url: &ServerUrl) -> Result<NormalizedUrl, String> {
    if entry.transport.is_connector() && entry.scope != Scope::ClaudeAi {
        return Err("it is reached by its id, whatever its URL says".to_owned());
    }
    NormalizedUrl::new(url.expose())
}

/// Whether pending keychain values could make `argv` the denied one.
fn may_become(argv: &[&str], denied: &[String], entry: &ServerEntry) -> bool {
    !entry.keyring.is_empty()
        && argv.len() == denied.len()
        && argv
            .iter()
            .zip(denied)
            .all(|(ours, denied)| ours == denied || ours.contains("${keyring:"))
}

impl Rules {
    fn extend(&mut self, rules: Vec<Rule>, source: &str, spell: impl Fn(&str) -> String) {
        for rule in rules {
            match rule {
                Rule::Name(name) => _ = self.names.insert(spell(&name), source.to_owned()),
                Rule::Command(argv) => _ = self.commands.insert(argv, source.to_owned()),
                Rule::Url(pattern) => self.urls.push((pattern, source.to_owned())),
            }
        }
    }

    fn command(&self, argv: &[&str]) -> Option<(&Vec<String>, &String)> {
        let argv: Vec<String> = argv.iter().map(|&word| word.to_owned()).collect();
        self.commands.get_key_value(&argv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{HttpEntry, HttpFlavour, TransportEntry};
    use crate::expand::KeyringRef;

    fn name(name: &str) -> Rule {
        Rule::Name(name.to_owned())
    }

    fn command(argv: &[&str]) -> Rule {
        Rule::Command(argv.iter().map(|&word| word.to_owned()).collect())
    }

    fn remote(name: &str, url: &str) -> ServerEntry {
        ServerEntry::new(
            name,
            TransportEntry::Http(HttpEntry::new(HttpFlavour::Streamable, url)),
        )
    }

    /// Whether `entry` may run with these lists.
    fn may_run(allow: Option<Vec<Rule>>, deny: Vec<Rule>, entry: &ServerEntry) -> bool {
        let mut policy = Policy::default();
        if let Some(allow) = allow {
            policy.allow(allow, "managed");
        }
        policy.deny(deny, "managed");
        policy.blocks(entry).is_none()
    }

    #[test]
    fn undefined_allows_all_and_an_empty_list_none() {
        let stdio = ServerEntry::stdio("s", "cmd", ["a"]);
        let http = remote("r", "https://h/mcp");
        for entry in [&stdio, &http] {
            assert!(may_run(None, vec![], entry));
            assert!(!may_run(Some(vec![]), vec![], entry));
        }
    }

    #[test]
    fn a_name_is_enough_unless_commands_or_urls_are_listed() {
        let stdio = ServerEntry::stdio("s", "cmd", ["a"]);
        let http = remote("r", "https://h/mcp");
        let both = || vec![name("s"), name("r")];
        assert!(may_run(Some(both()), vec![], &stdio));
        assert!(may_run(Some(both()), vec![], &http));
        let with_command = || [both(), vec![command(&["cmd", "b"])]].concat();
        assert!(!may_run(Some(with_command()), vec![], &stdio));
        assert!(may_run(Some(with_command()), vec![], &http));
        let with_url = || [both(), vec![Rule::url("https://other/*")]].concat();
        assert!(may_run(Some(with_url()), vec![], &stdio));
        assert!(!may_run(Some(with_url()), vec![], &http));
        assert!(may_run(Some(vec![command(&["cmd", "a"])]), vec![], &stdio));
        assert!(!may_run(Some(vec![command(&["cmd"])]), vec![], &stdio));
        assert!(may_run(Some(vec![Rule::url("https://h/*")]), vec![], &http));
    }

    #[test]
    fn with_commands_or_urls_listed_an_entry_may_not_choose_the_code() {
        let allow = || Some(vec![command(&["cmd"]), Rule::url("https://h/*"), name("s")]);
        let with = |variable: &str| {
            let mut entry = ServerEntry::stdio("s", "cmd", [""; 0]);
            let set = |env: &mut std::collections::BTreeMap<_, _>| {
                _ = env.insert(variable.to_owned(), crate::Secret::new("v"));
            };
            entry.transport.each_secret(set);
            entry
        };
        assert!(may_run(allow(), vec![], &with("API_KEY")));
        assert!(may_run(Some(vec![name("s")]), vec![], &with("LD_PRELOAD")));
        assert!(may_run(None, vec![], &with("LD_PRELOAD")));
        let company = ServerEntry {
            scope: Scope::Enterprise,
            ..with("LD_PRELOAD")
        };
        assert!(may_run(allow(), vec![], &company));
        let mut moved = with("A");
        if let TransportEntry::Stdio(stdio) = &mut moved.transport {
            stdio.cwd = Some("/x".into());
        }
        let mut helped = HttpEntry::new(HttpFlavour::Streamable, "https://h/mcp");
        helped.headers_helper = Some("evil".to_owned());
        let helped = ServerEntry::new("r", TransportEntry::Http(helped));
        for (entry, field) in [
            (with("LD_PRELOAD"), "\"env.LD_PRELOAD\""),
            (moved, "\"cwd\""),
            (helped, "\"headersHelper\""),
        ] {
            let mut policy = Policy::default();
            policy.allow(allow().unwrap(), "managed");
            let blocked = policy.blocks(&entry).unwrap();
            assert!(blocked.rule.contains(field), "{blocked}");
        }
    }

    #[test]
    fn a_relative_command_is_compared_as_it_is_started() {
        let entry = ServerEntry {
            base: Some("/repo".into()),
            ..ServerEntry::stdio("s", "./run", [""; 0])
        };
        assert!(may_run(Some(vec![command(&["/repo/run"])]), vec![], &entry));
        assert!(!may_run(Some(vec![command(&["./run"])]), vec![], &entry));
        for denied in ["/repo/run", "./run"] {
            assert!(!may_run(None, vec![command(&[denied])], &entry), "{denied}");
        }
    }

    #[test]
    fn deny_always_wins() {
        let stdio = ServerEntry::stdio("my.server", "cmd", ["a"]);
        let allow = || Some(vec![name("my.server"), name("r")]);
        for rule in [name("my.server"), name("my_server"), command(&["cmd", "a"])] {
            assert!(!may_run(allow(), vec![rule.clone()], &stdio), "{rule}");
        }
        for rule in [name("other"), command(&["cmd"]), command(&["cmd", "a", ""])] {
            assert!(may_run(allow(), vec![rule.clone()], &stdio), "{rule}");
        }
        let http = remote("r", "https://h/mcp");
        assert!(!may_run(allow(), vec![Rule::url("https://h/*")], &http));
    }

    #[test]
    fn what_the_keychain_may_still_fill_in_does_not_slip_past_a_denied_command() {
        let entry = ServerEntry {
            keyring: vec![KeyringRef {
                service: "s".to_owned(),
                account: "a".to_owned(),
            }],
            ..ServerEntry::stdio("s", "cmd", ["${keyring:s/a}"])
        };
        assert!(!may_run(None, vec![command(&["cmd", "--evil"])], &entry));
        assert!(may_run(None, vec![command(&["cmd", "x", "y"])], &entry));
    }

    #[test]
    fn a_url_that_cannot_be_compared_is_blocked_where_urls_count() {
        for url in [
            "https://user@h/mcp",
            "https://u:p@h/mcp",
            "https://${X}/mcp",
            "https://h/${keyring:a/b}",
        ] {
            let entry = remote("r", url);
            assert!(may_run(None, vec![name("x")], &entry), "{url}");
            assert!(!may_run(None, vec![Rule::url("https://x/*")], &entry));
            assert!(!may_run(Some(vec![Rule::url("https://*")]), vec![], &entry));
        }
    }

    #[test]
    fn the_reason_names_the_rule_and_its_file() {
        let mut policy = Policy::default();
        policy.deny(vec![command(&["npx", "evil"])], "/etc/x.json");
        let blocked = policy.blocks(&ServerEntry::stdio("s", "npx", ["evil"]));
        assert_eq!(
            blocked.unwrap().to_string(),
            r#"denied by {"serverCommand":["npx","evil"]} (/etc/x.json)"#
        );
        policy.unreadable("/etc/y.json");
        let blocked = policy
            .blocks(&ServerEntry::stdio("s", "fine", ["x"]))
            .unwrap();
        assert!(blocked.to_string().contains("/etc/y.json"));
    }
}
