//! One server as a configuration file describes it (CFG-2).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Where an entry comes from, strongest first (CFG-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// `--mcp-config`, or the embedding program.
    Dynamic,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Dynamic => "dynamic",
        })
    }
}

/// A server that is configured.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub scope: Scope,
    /// The file, or the flag, that holds it.
    pub source: String,
    /// How it is reached.
    pub transport: TransportEntry,
    /// How long one tool call may take.
    pub timeout: Option<Duration>,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// Whether it is switched off.
    pub disabled: bool,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum TransportEntry {
    /// A child process.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables on top of our own; their values may be secrets.
        env: BTreeMap<String, String>,
        /// Where it runs.
        cwd: Option<PathBuf>,
    },
    /// A transport that this version cannot open yet.
    Unsupported {
        /// Its `type`.
        kind: String,
        /// Where it is.
        url: Option<String>,
    },
}

impl ServerEntry {
    /// A child process, for programs that embed the host.
    pub fn stdio<A: Into<String>>(
        name: impl Into<String>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            name: name.into(),
            scope: Scope::Dynamic,
            source: "the embedding program".to_owned(),
            transport: TransportEntry::Stdio {
                command: command.into(),
                args: args.into_iter().map(Into::into).collect(),
                env: BTreeMap::new(),
                cwd: None,
            },
            timeout: None,
            connect_timeout: None,
            disabled: false,
        }
    }

    /// SHA-256, in hex, of everything that makes this the server it is; not of where it was found (CFG-9).
    pub fn hash(&self) -> String {
        let transport = match &self.transport {
            TransportEntry::Stdio {
                command,
                args,
                env,
                cwd,
            } => {
                serde_json::json!({"command": command, "args": args, "env": env, "cwd": cwd})
            }
            TransportEntry::Unsupported { kind, url } => {
                serde_json::json!({"type": kind, "url": url})
            }
        };
        let whole = serde_json::json!([
            self.name,
            transport,
            self.timeout.map(|limit| limit.as_millis().to_string()),
            self.connect_timeout
                .map(|limit| limit.as_millis().to_string()),
            self.disabled,
        ]);
        let digest = Sha256::digest(whole.to_string());
        let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        nibbles
            .filter_map(|nibble| char::from_digit(nibble.into(), 16))
            .collect()
    }
}

impl TransportEntry {
    /// The `type` it has in a configuration file.
    pub fn kind(&self) -> &str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Unsupported { kind, .. } => kind,
        }
    }
}

/// Never shows the values of `env`: they may be secrets (SEC-1).
impl fmt::Debug for TransportEntry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Stdio {
                command,
                args,
                env,
                cwd,
            } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish(),
            Self::Unsupported { kind, .. } => {
                f.debug_struct("Unsupported").field("kind", kind).finish()
            }
        }
    }
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("ServerEntry")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("source", &self.source)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

/// An entry as it stands in a file, before it is checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawEntry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    timeout: Option<u64>,
    connect_timeout: Option<u64>,
    #[serde(default)]
    disabled: bool,
}

const KNOWN_TYPES: [&str; 9] = [
    "stdio",
    "http",
    "streamable-http",
    "sse",
    "ws",
    "sse-ide",
    "ws-ide",
    "sdk",
    "claudeai-proxy",
];

impl RawEntry {
    /// Checks the entry; the error says what to write instead.
    pub(crate) fn check(
        self,
        name: &str,
        scope: Scope,
        source: &str,
    ) -> Result<ServerEntry, String> {
        let Self {
            kind,
            command,
            args,
            env,
            cwd,
            url,
            timeout,
            connect_timeout,
            disabled,
        } = self;
        let transport = match (kind.as_deref(), command, url) {
            (None | Some("stdio"), Some(command), _) if command.trim().is_empty() => {
                return Err("its \"command\" is empty; write the program to start".to_owned());
            }
            (None | Some("stdio"), Some(command), _) => TransportEntry::Stdio {
                command,
                args,
                env,
                cwd,
            },
            (Some("stdio"), None, _) => {
                return Err("a \"stdio\" server needs a \"command\"".to_owned());
            }
            (Some(kind), ..) if !KNOWN_TYPES.contains(&kind) => {
                return Err(format!(
                    "unknown \"type\": \"{kind}\"; write one of {}",
                    KNOWN_TYPES.join(", ")
                ));
            }
            (Some(kind), _, url) => TransportEntry::Unsupported {
                kind: kind.to_owned(),
                url,
            },
            (None, None, url @ Some(_)) => TransportEntry::Unsupported {
                kind: "http".to_owned(),
                url,
            },
            (None, None, None) => {
                return Err("it has neither a \"command\" nor a \"url\"".to_owned());
            }
        };
        Ok(ServerEntry {
            name: name.to_owned(),
            scope,
            source: source.to_owned(),
            transport,
            timeout: limit(timeout),
            connect_timeout: limit(connect_timeout),
            disabled,
        })
    }
}

/// A limit in milliseconds; 0 is none of its own, as it is for the environment variables.
fn limit(milliseconds: Option<u64>) -> Option<Duration> {
    let given = milliseconds.filter(|milliseconds| *milliseconds > 0);
    given.map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_covers_what_the_server_is_and_not_where_it_was_found() {
        let one = ServerEntry::stdio("s", "cmd", ["a"]);
        let moved = ServerEntry {
            source: "elsewhere".to_owned(),
            ..one.clone()
        };
        assert_eq!(one.hash(), moved.hash());
        for changed in [
            ServerEntry::stdio("s", "cmd", ["b"]),
            ServerEntry::stdio("s", "cmd2", ["a"]),
            ServerEntry {
                disabled: true,
                ..one.clone()
            },
        ] {
            assert_ne!(one.hash(), changed.hash());
        }
    }

    #[test]
    fn debug_output_hides_the_values_of_env() {
        let mut entry = ServerEntry::stdio("s", "cmd", ["a"]);
        if let TransportEntry::Stdio { env, .. } = &mut entry.transport {
            env.insert("TOKEN".to_owned(), "hunter2".to_owned());
        }
        let shown = format!("{entry:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"));
    }
}
