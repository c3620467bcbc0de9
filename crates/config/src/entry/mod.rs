//! One server as a configuration file describes it (CFG-2).

mod fields;
mod raw;
mod transport;
mod url;
mod written;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) use fields::meant;
pub use fields::{FIELDS, Field, json_schema};
pub(crate) use raw::RawEntry;
pub use transport::{
    HttpEntry, HttpFlavour, IdeEntry, OAuthEntry, StdioEntry, TlsEntry, TransportEntry, WsEntry,
};
pub use url::ServerUrl;

use crate::expand::KeyringRef;
use crate::glob::Glob;
use crate::names::normalize_name;
use crate::redact::{RedactMode, redact_entry};
use crate::runs::{RepositoryFile, is_path};
use crate::scopes::Scope;
use crate::secret::Secret;

/// A server that is configured.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub scope: Scope,
    /// The file, or the flag, that holds it.
    pub source: String,
    /// How it is reached, expanded.
    pub transport: TransportEntry,
    /// How long one tool call may take.
    pub timeout: Option<Duration>,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// Whether its entry switches it off.
    pub disabled: bool,
    /// Whether its tools are always shown to the model, however many there are.
    pub always_load: bool,
    /// Whether it is started only when it is first needed, if its tools are known from an earlier run; without it, the program
    /// decides (LIF-13).
    pub lazy: Option<bool>,
    /// Which of its tools are offered.
    pub tools: ToolFilter,
    /// What it may touch, as written (SEC-5).
    pub sandbox: Option<Value>,
    /// Secrets from the keychain that are put in place when it is connected (CFG-5).
    pub keyring: Vec<KeyringRef>,
    /// The entry as it stands in its file, unexpanded.
    pub written: Option<Arc<str>>,
    /// The folder that relative paths in the entry start from: the one of the file that holds it. `None` is the working
    /// directory.
    pub base: Option<PathBuf>,
    /// The files inside the repository that it runs, where it needs approval (CFG-6).
    pub files: Vec<RepositoryFile>,
    /// Whether it names more files than an approval can hold, so that none counts for it (CFG-6).
    pub too_many_files: bool,
}

/// Which tools of a server are offered: those that an `allow` glob names, or all if there is none, less those that a `deny`
/// glob names. Globs are held against the server's own names for its tools; those that deny also against the
/// normalised names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// `None` allows all; an empty list allows none.
    pub allow: Option<Vec<Glob>>,
    /// Wins over `allow`.
    pub deny: Vec<Glob>,
}

impl ToolFilter {
    /// Whether a tool is offered.
    pub fn offers(&self, tool: &str) -> bool {
        let allowed = self
            .allow
            .as_ref()
            .is_none_or(|globs| globs.iter().any(|glob| glob.matches(tool)));
        // A tool does not slip past by another spelling of its name.
        let normalized = normalize_name(tool);
        let denies = |glob: &Glob| glob.matches(tool) || glob.matches(&normalized);
        allowed && !self.deny.iter().any(denies)
    }
}

/// A secret that an entry asks for could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The keychain has none of that name.
    #[error("the keychain has no secret for account \"{}\" of service \"{}\"", .0.account, .0.service)]
    Missing(KeyringRef),
    /// The keychain could not be asked.
    #[error("the keychain could not be read: {0}")]
    Unavailable(String),
}

impl ServerEntry {
    /// An entry of the embedding program's own, with everything else at its default.
    pub fn new(name: impl Into<String>, transport: TransportEntry) -> Self {
        Self {
            name: name.into(),
            scope: Scope::Dynamic,
            source: "the embedding program".to_owned(),
            transport,
            timeout: None,
            connect_timeout: None,
            disabled: false,
            always_load: false,
            lazy: None,
            tools: ToolFilter::default(),
            sandbox: None,
            keyring: Vec::new(),
            written: None,
            base: None,
            files: Vec::new(),
            too_many_files: false,
        }
    }

    /// The program to start, if it is a child process. A relative path starts from the entry's `cwd`, or else from the
    /// folder of the file that holds the entry; a name without a slash is left for `PATH`.
    ///
    /// ```
    /// use trunkline_config::ServerEntry;
    ///
    /// let mut entry = ServerEntry::stdio("s", "./run.sh", [""; 0]);
    /// entry.base = Some("/repo".into());
    /// assert_eq!(entry.program().as_deref(), Some("/repo/run.sh"));
    /// ```
    pub fn program(&self) -> Option<String> {
        let TransportEntry::Stdio(stdio) = &self.transport else {
            return None;
        };
        let resolved = || {
            let command = Path::new(&stdio.command);
            if !is_path(&stdio.command) || command.is_absolute() {
                return None;
            }
            let dir = stdio.cwd.as_deref().or(self.base.as_deref())?;
            // A relative directory starts from the one that the child is started in, and so does the command.
            if dir.is_relative() {
                return None;
            }
            let path: PathBuf = dir.join(command).components().collect();
            path.to_str().map(str::to_owned)
        };
        Some(resolved().unwrap_or_else(|| stdio.command.clone()))
    }

    /// The program and its arguments, as they are started.
    pub(crate) fn resolved_argv(&self) -> Option<Vec<String>> {
        let words = self.transport.argv()?;
        let args = words.into_iter().skip(1).map(str::to_owned);
        Some(self.program().into_iter().chain(args).collect())
    }

    /// Makes the relative paths of an entry start from the folder of the file that holds it.
    pub(crate) fn relative_to(&mut self, base: &Path) {
        let resolve = |path: &mut Option<PathBuf>| {
            if let Some(path) = path.as_mut().filter(|path| path.is_relative()) {
                *path = base.join(&*path).components().collect();
            }
        };
        match &mut self.transport {
            TransportEntry::Stdio(stdio) => resolve(&mut stdio.cwd),
            TransportEntry::Http(HttpEntry { tls, .. })
            | TransportEntry::Ws(WsEntry { tls, .. }) => {
                [&mut tls.ca, &mut tls.cert, &mut tls.key]
                    .into_iter()
                    .for_each(resolve);
            }
            TransportEntry::Ide(_) | TransportEntry::Sdk | TransportEntry::ClaudeAiProxy { .. } => {
            }
        }
        self.base = Some(base.to_owned());
    }

    /// A child process, for programs that embed the host.
    pub fn stdio<A: Into<String>>(
        name: impl Into<String>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let stdio = StdioEntry {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            ..StdioEntry::default()
        };
        Self::new(name, TransportEntry::Stdio(stdio))
    }

    /// Whether the user has to approve of it before it may run: what a project brings along (CFG-6), and in the user's own file for
    /// this project a command that prints headers (TRN-3).
    pub fn needs_approval(&self) -> bool {
        match self.scope {
            Scope::Project => true,
            Scope::Local => self.transport.headers_helper().is_some(),
            _ => false,
        }
    }

    /// SHA-256, in hex, of everything that makes this the server it is; not of where it was found (CFG-9), nor of when it is
    /// started.
    pub fn hash(&self) -> String {
        let globs = |globs: &[Glob]| globs.iter().map(|glob| json!(glob.as_str())).collect();
        let allow: Option<Value> = self.tools.allow.as_deref().map(globs);
        let deny: Value = globs(&self.tools.deny);
        // Only where it says more than the command.
        let program = self.program().filter(|program| {
            let argv = self.transport.argv();
            argv.and_then(|argv| argv.first().copied()) != Some(program.as_str())
        });
        let mut parts = json!([
            self.name,
            self.transport.identity(),
            milliseconds(self.timeout),
            milliseconds(self.connect_timeout),
            self.disabled,
            self.always_load,
            allow,
            deny,
            self.sandbox,
        ]);
        if let (Value::Array(parts), Some(program)) = (&mut parts, program) {
            parts.push(json!(program));
        }
        sha256(&parts)
    }

    /// The entry as it stands in its file, unexpanded; for one that is in none, what it would look like there.
    pub fn as_written(&self) -> Value {
        match self.written.as_deref() {
            // What is too deep for a tree, or no text, can still be told from anything else.
            Some(text) => serde_json::from_str(text)
                .unwrap_or_else(|_| json!({"unreadable": sha256(&json!(text))})),
            None => written::written(self),
        }
    }

    /// The entry as it stands in its file, fit to be shown: with `***` for the values of `env` and `headers`, tokens, and what may
    /// be a secret in a URL, unless secrets are wanted. A value that only refers to a variable is no secret.
    pub fn shown(&self, secrets: bool) -> Value {
        let mut written = self.as_written();
        if !secrets {
            redact_entry(&mut written, RedactMode::Display);
        }
        written
    }

    /// The entry with the secrets of its keychain references in place. Only what the entry itself refers to is replaced,
    /// never what looks like a reference in the value of a variable.
    pub fn with_secrets(
        &self,
        look_up: impl Fn(&KeyringRef) -> Result<Option<Secret>, String>,
    ) -> Result<Self, SecretError> {
        let mut whole = self.clone();
        for wanted in &self.keyring {
            let secret = look_up(wanted)
                .map_err(SecretError::Unavailable)?
                .ok_or_else(|| SecretError::Missing(wanted.clone()))?;
            let written = wanted.written();
            whole
                .transport
                .each_text(|text| text.replace(&written, secret.expose()));
        }
        Ok(whole)
    }
}

fn milliseconds(limit: Option<Duration>) -> Option<String> {
    limit.map(|limit| limit.as_millis().to_string())
}

/// SHA-256 of a value's text, in hex.
pub(crate) fn sha256(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string()))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles
        .filter_map(|nibble| char::from_digit(nibble.into(), 16))
        .collect()
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut shown = f.debug_struct("ServerEntry");
        shown
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("source", &self.source);
        // What the keychain gave may stand anywhere in it.
        if self.keyring.is_empty() {
            shown.field("transport", &self.transport);
        }
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_what_the_server_is_and_not_where_it_was_found() {
        let one = ServerEntry::stdio("s", "cmd", ["a"]);
        let moved = ServerEntry {
            source: "elsewhere".to_owned(),
            scope: Scope::User,
            lazy: Some(true),
            ..one.clone()
        };
        assert_eq!(one.hash(), moved.hash());
        let mut with_env = one.clone();
        with_env
            .transport
            .each_secret(|secrets| _ = secrets.insert("K".into(), Secret::new("v")));
        for changed in [
            ServerEntry::stdio("s", "cmd", ["b"]),
            ServerEntry::stdio("s", "cmd2", ["a"]),
            ServerEntry::stdio("t", "cmd", ["a"]),
            with_env,
            ServerEntry {
                disabled: true,
                ..one.clone()
            },
            ServerEntry {
                timeout: Some(Duration::from_secs(1)),
                ..one.clone()
            },
        ] {
            assert_ne!(one.hash(), changed.hash());
        }
    }

    #[test]
    fn debug_output_hides_the_values_of_env() {
        let mut entry = ServerEntry::stdio("s", "cmd", ["a"]);
        entry
            .transport
            .each_secret(|env| _ = env.insert("TOKEN".to_owned(), Secret::new("hunter2")));
        let shown = format!("{entry:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"));
    }

    #[test]
    fn secrets_come_from_the_keychain_and_only_where_the_entry_says() {
        let github = KeyringRef {
            service: "github".to_owned(),
            account: "me".to_owned(),
        };
        let entry = ServerEntry {
            keyring: vec![github.clone()],
            ..ServerEntry::stdio("s", "cmd", ["${keyring:github/me}", "${keyring:other/x}"])
        };
        let found = entry
            .with_secrets(|wanted| Ok((*wanted == github).then(|| Secret::new("hunter2"))))
            .unwrap();
        let TransportEntry::Stdio(stdio) = &found.transport else {
            unreachable!()
        };
        assert_eq!(stdio.args, ["hunter2", "${keyring:other/x}"]);
        assert_eq!(
            entry.with_secrets(|_| Ok(None)).err(),
            Some(SecretError::Missing(github))
        );
    }

    #[test]
    fn what_is_shown_has_no_secrets() {
        let entry = ServerEntry {
            written: Some(
                r#"{"url":"https://u:hunter2@h/?k=hunter2","headers":{"A":"hunter2","B":"Bearer ${TOKEN}","C":"${X:-hunter2}","D":5},
                    "authToken":"hunter2","oauth":{"clientId":"id","clientSecret":"hunter2"},"timeout":5}"#
                    .into(),
            ),
            ..ServerEntry::stdio("s", "c", [""; 0])
        };
        let shown = entry.shown(false);
        assert!(!shown.to_string().contains("hunter2"), "{shown}");
        assert_eq!(shown["headers"]["B"], "Bearer ${TOKEN}");
        assert_eq!(
            (&shown["headers"]["D"], &shown["timeout"]),
            (&json!("***"), &json!(5))
        );
        assert!(entry.shown(true).to_string().contains("hunter2"));
    }

    #[test]
    fn tools_are_offered_by_globs_and_deny_wins() {
        let globs = |list: &[&str]| list.iter().map(|text| Glob::new(*text)).collect();
        let filter = ToolFilter {
            allow: Some(globs(&["get_*", "list"])),
            deny: globs(&["get_secret*"]),
        };
        for (tool, offered) in [
            ("get_issue", true),
            ("list", true),
            ("lists", false),
            ("get_secrets", false),
        ] {
            assert_eq!(filter.offers(tool), offered, "{tool}");
        }
        assert!(ToolFilter::default().offers("anything"));
    }
}
