//! A server as a configuration file describes it (CFG-2).

mod confinement;
mod construct;
mod fields;
mod raw;
mod to_json;
mod transport;
mod url;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use confinement::Confinement;
pub(crate) use fields::suggest_field;
pub use fields::{FIELDS, Field, json_schema};
pub(crate) use raw::RawEntry;
pub use raw::check_account_name;
pub use transport::{
    GrantType, HttpEntry, HttpFlavour, IdeEntry, OAuthEntry, StdioEntry, TlsEntry, TransportEntry,
    WsEntry,
};
pub use url::ServerUrl;

use crate::approval::{RepositoryFile, is_path};
use crate::expand::KeyringRef;
use crate::glob::Glob;
use crate::names::normalize_name;
use crate::redact::{RedactMode, display_redactor, redact_entry};
use crate::scopes::Scope;
use crate::secret::Secret;

/// A configured server.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// Its name.
    pub name: String,
    /// The scope it comes from.
    pub scope: Scope,
    /// The file or the flag that holds it.
    pub source: String,
    /// How to reach it, expanded.
    pub transport: TransportEntry,
    /// The time limit of a tool call.
    pub timeout: Option<Duration>,
    /// The time limit for connecting.
    pub connect_timeout: Option<Duration>,
    /// Whether the entry disables it.
    pub disabled: bool,
    /// Whether its tools are always shown to the model, however many there are.
    pub always_load: bool,
    /// Whether it starts only when first needed, if its tools are known from an earlier run; `None`
    /// leaves the choice to the program (LIF-13).
    pub lazy: Option<bool>,
    /// Whether the clients of a gateway share its process (AGT-2); `None` leaves the choice to the
    /// gateway, which knows some servers that cannot be shared.
    pub share: Option<bool>,
    /// The tools it offers.
    pub tools: ToolFilter,
    /// The sandbox settings as written (SEC-5).
    pub sandbox: Option<Value>,
    /// The sandbox that it runs in, as its entry and all settings have it.
    pub confinement: Confinement,
    /// References to keychain secrets, resolved when connecting (CFG-5).
    pub keyring: Vec<KeyringRef>,
    /// The variables of the user's environment whose values it contains (CFG-5).
    pub variables: Vec<String>,
    /// The entry as written in its file, unexpanded.
    pub written: Option<Arc<str>>,
    /// The directory that relative paths start from: that of the file that holds the entry. `None`
    /// is the working directory.
    pub base: Option<PathBuf>,
    /// The repository files that it runs, if it needs approval (CFG-6).
    pub files: Vec<RepositoryFile>,
    /// Whether it names more files than an approval can cover, so that no approval counts (CFG-6).
    pub too_many_files: bool,
}

/// Selects the tools of a server: those that an `allow` glob matches, or all without one, except
/// for those that a `deny` glob matches. Globs match the server's own tool names; `deny` globs also
/// match the normalised names.
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
        // Another spelling of the name must not evade the rule.
        let normalized = normalize_name(tool);
        let denies = |glob: &Glob| glob.matches(tool) || glob.matches(&normalized);
        allowed && !self.deny.iter().any(denies)
    }
}

/// A keychain secret is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The keychain has no such secret.
    #[error("the keychain has no secret for account \"{}\" of service \"{}\"", .0.account, .0.service)]
    Missing(KeyringRef),
    /// The keychain could not be read.
    #[error("the keychain could not be read: {0}")]
    Unavailable(String),
}

impl ServerEntry {
    /// Creates an entry of the embedding program, with defaults for everything else.
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
            share: None,
            tools: ToolFilter::default(),
            sandbox: None,
            confinement: Confinement::default(),
            keyring: Vec::new(),
            variables: Vec::new(),
            written: None,
            base: None,
            files: Vec::new(),
            too_many_files: false,
        }
    }

    /// The program of a child process. A relative path starts from `cwd`, or else from the
    /// directory of the file that holds the entry; a name without a slash is looked up in `PATH`.
    ///
    /// ```
    /// use trunkline_config::ServerEntry;
    ///
    /// let mut entry = ServerEntry::stdio("s", "./run.sh", [""; 0]);
    /// entry.base = Some("/repo".into());
    /// assert_eq!(entry.program().as_deref(), Some("/repo/run.sh"));
    /// ```
    pub fn program(&self) -> Option<String> {
        let stdio = self.transport.stdio()?;
        let resolved = || {
            let command = Path::new(&stdio.command);
            if !is_path(&stdio.command) || command.is_absolute() {
                return None;
            }
            let dir = stdio.cwd.as_deref().or(self.base.as_deref())?;
            // A relative directory starts from the working directory of the child, and so does the
            // command.
            if dir.is_relative() {
                return None;
            }
            let path: PathBuf = dir.join(command).components().collect();
            path.to_str().map(str::to_owned)
        };
        Some(resolved().unwrap_or_else(|| stdio.command.clone()))
    }

    /// The resolved program and its arguments.
    pub(crate) fn resolved_argv(&self) -> Option<Vec<String>> {
        let words = self.transport.argv()?;
        let args = words.into_iter().skip(1).map(str::to_owned);
        Some(self.program().into_iter().chain(args).collect())
    }

    /// Resolves the relative paths of an entry against the directory of its file.
    pub(crate) fn relative_to(&mut self, base: &Path) {
        for path in self.transport.paths_mut() {
            if path.is_relative() {
                *path = base.join(&*path).components().collect();
            }
        }
        self.base = Some(base.to_owned());
    }

    /// Creates an entry for a child process.
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

    /// Whether the user must approve it before it may run: any server of a project (CFG-6), and a
    /// `headersHelper` in the user's own file for this project (TRN-3).
    pub fn needs_approval(&self) -> bool {
        match self.scope {
            Scope::Project => true,
            Scope::Local => self.transport.headers_helper().is_some(),
            _ => false,
        }
    }

    /// SHA-256, in hex, of everything that identifies the server, but not of where it was found
    /// (CFG-9) or when it starts.
    pub fn hash(&self) -> String {
        let globs = |globs: &[Glob]| globs.iter().map(|glob| json!(glob.as_str())).collect();
        let allow: Option<Value> = self.tools.allow.as_deref().map(globs);
        let deny: Value = globs(&self.tools.deny);
        // Only if it differs from the command.
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
        if let Value::Array(parts) = &mut parts {
            parts.extend(program.map(|program| json!(program)));
            // A server in another sandbox is another server.
            parts.extend(self.confinement.identity());
        }
        sha256(&parts)
    }

    /// The entry as written in its file, unexpanded; or as it would be written, if it is in none.
    pub fn as_written(&self) -> Value {
        match self.written.as_deref() {
            // Text that is too deeply nested or not UTF-8 still gets a distinct value.
            Some(text) => serde_json::from_str(text)
                .unwrap_or_else(|_| json!({"unreadable": sha256(&json!(text))})),
            None => to_json::to_json(self),
        }
    }

    /// The entry as written, with `***` for the values of `env` and `headers`, tokens, and possible
    /// secrets in URLs. References to variables are not secrets.
    pub fn redacted(&self) -> Value {
        let mut written = self.as_written();
        redact_entry(&mut written, RedactMode::Display);
        // The values that its references stand for may be in it literally, too.
        display_redactor(self).mask_value(&mut written);
        written
    }

    /// Fills in the keychain secrets of the entry. Only references in the entry itself are
    /// replaced, never text in the value of a variable that looks like one.
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
        // A keychain secret may be anywhere in it.
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
            share: Some(false),
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
        let shown = entry.redacted();
        assert!(!shown.to_string().contains("hunter2"), "{shown}");
        assert_eq!(shown["headers"]["B"], "Bearer ${TOKEN}");
        assert_eq!(
            (&shown["headers"]["D"], &shown["timeout"]),
            (&json!("***"), &json!(5))
        );
        assert!(entry.as_written().to_string().contains("hunter2"));
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
