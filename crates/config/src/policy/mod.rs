//! Allow and deny lists of servers (CFG-7).

mod program;
mod rule;
mod sensitive;
mod url;
mod url_pattern;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::entry::{ServerEntry, ServerUrl};
use crate::names::normalize_name;
use crate::pinning::Pinning;
use crate::scopes::Scope;
use program::spellings;
pub(crate) use rule::Rule;
use sensitive::{sensitive_remote_field, sensitive_stdio_field};
use url::NormalizedUrl;
use url_pattern::{DenyCandidates, UrlPattern};

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

/// A rule about a command.
#[derive(Clone, Debug)]
struct CommandRule {
    /// The command as written.
    written: Vec<String>,
    source: String,
}

/// An indexed list of rules.
#[derive(Clone, Debug, Default)]
struct Rules {
    /// The source of each name.
    names: HashMap<String, String>,
    /// The sources of commands. Denied ones are listed in every spelling of their program.
    commands: HashMap<Vec<String>, CommandRule>,
    /// The variables that entries with a command may set.
    variables: HashMap<Vec<String>, HashSet<String>>,
    urls: Vec<(Box<UrlPattern>, String)>,
    /// Starts of commands, guessed from malformed deny rules.
    prefixes: Vec<(Vec<String>, String)>,
    /// Commands are listed, so that a name is not enough for a command; even if no rule that lists
    /// them is usable.
    restricts_commands: bool,
    /// Likewise for URLs.
    restricts_urls: bool,
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
    /// The file that requires pinned versions of packages.
    pinned_only: Option<String>,
}

impl Policy {
    /// Adds an allow list. A server that any list allows is allowed.
    pub(crate) fn allow(&mut self, rules: Vec<Rule>, source: &str) {
        self.allow.get_or_insert_default().extend(rules, source);
        self.allow_sources.push(source.to_owned());
    }

    /// Adds a deny list. Names are denied in every spelling that normalises to them.
    pub(crate) fn deny(&mut self, rules: Vec<Rule>, source: &str) {
        let mut programs = HashMap::new();
        let mut denied = Vec::new();
        for rule in rules {
            match rule {
                Rule::Name(name) => denied.push(Rule::Name(normalize_name(&name))),
                Rule::Command(written) => {
                    let program = written.first().map_or("", String::as_str);
                    let forms = programs
                        .entry(program.to_owned())
                        .or_insert_with_key(|program| spellings(program));
                    self.deny.insert_command(&written, forms.iter(), source);
                }
                rule => denied.push(rule),
            }
        }
        self.deny.extend(denied, source);
    }

    /// Blocks every server, because the lists are unreadable.
    pub(crate) fn unreadable(&mut self, source: &str) {
        self.unreadable = Some(source.to_owned());
    }

    /// Blocks commands that fetch packages without a pinned version.
    pub(crate) fn require_pinned(&mut self, source: &str) {
        self.pinned_only = Some(source.to_owned());
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
        self.denied(entry)
            .or_else(|| self.not_allowed(entry))
            .or_else(|| self.unpinned(entry))
    }

    /// Why a command may not fetch its package.
    fn unpinned(&self, entry: &ServerEntry) -> Option<Blocked> {
        let source = self.pinned_only.as_ref()?;
        // The organisation's own servers are its own choice.
        if entry.scope == Scope::Enterprise {
            return None;
        }
        let argv = entry.transport.argv()?;
        let rule = match Pinning::of_command(&argv) {
            Pinning::NoPackage | Pinning::Pinned => return None,
            Pinning::Unpinned(package) => {
                // A URL may hold credentials, which need not end where the name does.
                let name = package.name.split("://").next().unwrap_or_default();
                format!("requirePinnedServers: the version of {name} is not pinned")
            }
            Pinning::Unclear(runner) => {
                format!("requirePinnedServers: what it runs with {runner} cannot be told")
            }
        };
        Some(Blocked {
            rule,
            source: source.clone(),
        })
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
            let found = self.deny.any_spelling(&resolved);
            let found = found.or_else(|| self.deny.any_spelling(&argv)).or_else(|| {
                let mut rules = self.deny.commands.iter();
                rules.find_map(|(denied, rule)| may_become(&argv, denied, entry).then_some(rule))
            });
            if let Some(CommandRule { written, source }) = found {
                return Some(blocked(&Rule::Command(written.clone()), source));
            }
            let mut prefixes = self.deny.prefixes.iter();
            let found = prefixes.find(|(words, _)| {
                let resolved = resolved.iter().map(String::as_str);
                starts_with(&argv, words) || starts_with(&resolved.collect::<Vec<_>>(), words)
            });
            return found
                .map(|(words, source)| blocked(&Rule::CommandPrefix(words.clone()), source));
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
            (Some(argv), _) if rules.restricts_commands => {
                (rules.commands.contains_key(&argv), "command")
            }
            (_, Some(url)) if rules.restricts_urls => {
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
        if entry.scope == Scope::Enterprise {
            return None;
        }
        let field = rules.sensitive_field(entry)?;
        let or_listed = if field.starts_with("env.") {
            ", or the \"env\" of the rule must list it"
        } else {
            ""
        };
        Some(Blocked {
            rule: format!(
                "its \"{field}\" can change which code runs or who is trusted; if allowedMcpServers \
                 lists commands or URLs, only managed-mcp.json may set it{or_listed}"
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

/// Whether a command starts with these words, or may once keychain values are known. A bare name
/// stands for the program in any directory.
fn starts_with(argv: &[&str], words: &[String]) -> bool {
    let matches = |(at, (ours, word)): (usize, (&&str, &String))| {
        let name = Path::new(ours).file_name().and_then(|name| name.to_str());
        *ours == word || ours.contains("${keyring:") || (at == 0 && name == Some(word))
    };
    argv.len() >= words.len() && argv.iter().zip(words).enumerate().all(matches)
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
    fn extend(&mut self, rules: Vec<Rule>, source: &str) {
        for rule in rules {
            match rule {
                Rule::Name(name) => _ = self.names.insert(name, source.to_owned()),
                Rule::Command(argv) => {
                    self.restricts_commands = true;
                    let program = argv.first().cloned().unwrap_or_default();
                    self.insert_command(&argv, [&program], source);
                }
                Rule::Url(pattern) => {
                    self.restricts_urls = true;
                    self.urls.push((pattern, source.to_owned()));
                }
                Rule::Variables { argv, names } => {
                    self.variables.entry(argv).or_default().extend(names);
                }
                Rule::CommandPrefix(words) => self.prefixes.push((words, source.to_owned())),
                Rule::Malformed { commands, urls } => {
                    self.restricts_commands |= commands;
                    self.restricts_urls |= urls;
                }
            }
        }
    }

    /// The first field that makes an allowed command or URL run other code, or trust another peer.
    /// Where a name is enough, an entry may run any code anyway.
    fn sensitive_field(&self, entry: &ServerEntry) -> Option<String> {
        if !self.restricts_commands && !self.restricts_urls {
            return None;
        }
        // A command, whichever of them is listed.
        if entry.transport.headers_helper().is_some() {
            return Some("headersHelper".to_owned());
        }
        let of_stdio = || {
            let variables = self.variables.get(&entry.resolved_argv()?);
            sensitive_stdio_field(entry, variables)
        };
        let stdio = self.restricts_commands.then(of_stdio).flatten();
        let of_remote = || sensitive_remote_field(entry);
        stdio.or_else(|| self.restricts_urls.then(of_remote).flatten())
    }

    /// Lists a command under several spellings of its program.
    fn insert_command<'p>(
        &mut self,
        written: &[String],
        programs: impl IntoIterator<Item = &'p String>,
        source: &str,
    ) {
        for program in programs {
            let rest = written.iter().skip(1).cloned();
            let argv = std::iter::once(program.clone()).chain(rest).collect();
            let rule = CommandRule {
                written: written.to_owned(),
                source: source.to_owned(),
            };
            self.commands.insert(argv, rule);
        }
    }

    /// The rule about a command in any spelling of its program.
    fn any_spelling<W: AsRef<str>>(&self, argv: &[W]) -> Option<&CommandRule> {
        let (program, rest) = argv.split_first()?;
        if self.commands.is_empty() {
            return None;
        }
        spellings(program.as_ref()).into_iter().find_map(|program| {
            let rest = rest.iter().map(|word| word.as_ref().to_owned());
            let spelt: Vec<_> = std::iter::once(program).chain(rest).collect();
            self.commands.get(&spelt)
        })
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
        // The rule may list more.
        let listed = Rule::Variables {
            argv: vec!["cmd".to_owned()],
            names: vec!["DATABASE_URL".to_owned()],
        };
        let more = || Some(vec![command(&["cmd"]), listed.clone()]);
        assert!(may_run(more(), vec![], &with("DATABASE_URL")));
        assert!(!may_run(allow(), vec![], &with("DATABASE_URL")));
        assert!(!may_run(more(), vec![], &with("TCL_LIBRARY")));
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
        let mut redirected = Vec::new();
        for at in 0..3 {
            let mut http = HttpEntry::new(HttpFlavour::Streamable, "https://h/mcp");
            match at {
                0 => http.tls.ca = Some("/x".into()),
                1 => http.oauth.auth_server_metadata_url = Some("https://evil/".to_owned()),
                _ => {
                    let evil = crate::Secret::new("evil");
                    http.headers.insert("host".to_owned(), evil);
                }
            }
            redirected.push(ServerEntry::new("r", TransportEntry::Http(http)));
        }
        let [trusted, metadata, hosted] = redirected.try_into().unwrap();
        for (entry, field) in [
            (trusted, "\"tls\""),
            (metadata, "\"oauth.authServerMetadataUrl\""),
            (hosted, "\"headers.host\""),
            (with("TCL_LIBRARY"), "\"env.TCL_LIBRARY\""),
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
    fn a_plugin_may_have_its_own_directory() {
        let allow = || Some(vec![command(&["cmd"])]);
        let at = |root: &str, scope| {
            let mut entry = ServerEntry::stdio("s", "cmd", [""; 0]);
            let root = crate::Secret::new(root);
            entry
                .transport
                .each_secret(|env| _ = env.insert("CLAUDE_PLUGIN_ROOT".to_owned(), root));
            ServerEntry {
                base: Some("/plugin".into()),
                scope,
                ..entry
            }
        };
        assert!(may_run(allow(), vec![], &at("/plugin", Scope::Plugin)));
        assert!(!may_run(allow(), vec![], &at("/evil", Scope::Plugin)));
        assert!(!may_run(allow(), vec![], &at("/plugin", Scope::Project)));
    }

    #[test]
    fn no_spelling_of_a_denied_program_gets_through() {
        for (denied, spelt) in [
            ("/bin/true", "/bin//true"),
            ("/bin/true", "/bin/../bin/true"),
            ("/bin//true", "/bin/./true"),
            ("/no/such", "/no/x/../such"),
        ] {
            let entry = ServerEntry::stdio("s", spelt, ["x"]);
            let deny = vec![command(&[denied, "x"])];
            assert!(!may_run(None, deny, &entry), "{denied} {spelt}");
            assert!(may_run(None, vec![command(&[denied, "y"])], &entry));
        }
    }

    #[test]
    fn a_rule_that_is_not_understood_restricts() {
        let stdio = ServerEntry::stdio("s", "/bin/sh", ["-c", "x"]);
        let http = remote("r", "https://h/mcp");
        let bad = |commands, urls| Rule::Malformed { commands, urls };
        for (rule, stdio_runs, http_runs) in [
            (bad(true, false), false, true),
            (bad(false, true), true, false),
            (bad(true, true), false, false),
        ] {
            let allow = || Some(vec![name("s"), name("r"), rule.clone()]);
            assert_eq!(may_run(allow(), vec![], &stdio), stdio_runs, "{rule:?}");
            assert_eq!(may_run(allow(), vec![], &http), http_runs, "{rule:?}");
        }
        let denied = |words: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            !may_run(None, vec![Rule::CommandPrefix(words)], &stdio)
        };
        assert!(denied(&["sh"]) && denied(&["sh", "-c"]) && denied(&["/bin/sh", "-c", "x"]));
        assert!(!denied(&["sh", "-x"]) && !denied(&["sh", "-c", "x", "y"]) && !denied(&["s"]));
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
