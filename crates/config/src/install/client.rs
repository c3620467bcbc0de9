//! The clients that the gateway can be installed in: their files and the form of an entry.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::edit::jsonc::Dialect;
use crate::import::{Client, ClientDirs};
use crate::layout::Layout;

/// A client that the gateway can be installed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstallClient {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// Zed.
    Zed,
}

/// How a client reaches the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayEntry {
    /// The client starts it.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// It runs already.
    Http {
        /// The URL of its endpoint.
        url: String,
    },
}

/// The format of a client's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json(Dialect),
    Toml,
}

impl InstallClient {
    /// Every client, in the order of presentation.
    pub const ALL: [Self; 7] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Codex,
        Self::GeminiCli,
        Self::Zed,
    ];

    /// The client whose servers can be imported; `None` for Claude Code, whose files are ours.
    fn imported(self) -> Option<Client> {
        match self {
            Self::ClaudeCode => None,
            Self::ClaudeDesktop => Some(Client::ClaudeDesktop),
            Self::Cursor => Some(Client::Cursor),
            Self::VsCode => Some(Client::VsCode),
            Self::Codex => Some(Client::Codex),
            Self::GeminiCli => Some(Client::GeminiCli),
            Self::Zed => Some(Client::Zed),
        }
    }

    /// The name to type.
    ///
    /// ```
    /// use trunkline_config::install::InstallClient;
    /// assert_eq!(InstallClient::ClaudeCode.id(), "claude-code");
    /// ```
    pub fn id(self) -> &'static str {
        self.imported().map_or("claude-code", Client::id)
    }

    /// The name of the program.
    pub fn title(self) -> &'static str {
        self.imported().map_or("Claude Code", Client::title)
    }

    /// The user's file that lists its servers.
    pub fn file(self, dirs: &ClientDirs, layout: &Layout) -> PathBuf {
        let Some(client) = self.imported() else {
            return layout.global_file.clone();
        };
        let files = client.user_files(dirs);
        // Visual Studio Code has a stable and an Insiders build; settings.json is its old place.
        let own = files
            .iter()
            .filter(|file| self != Self::VsCode || file.ends_with("mcp.json"));
        let has_directory = |file: &&PathBuf| file.parent().is_some_and(Path::is_dir);
        let first = files.first().cloned().unwrap_or_default();
        own.clone().find(has_directory).cloned().unwrap_or(first)
    }

    /// Whether the client has left traces on this machine: its file, or the directory of it.
    pub fn is_found(self, dirs: &ClientDirs, layout: &Layout) -> bool {
        let file = self.file(dirs, layout);
        let directory = match self {
            // Its file is in the home directory itself; ours may have created `~/.claude`.
            Self::ClaudeCode => None,
            _ => file.parent(),
        };
        file.exists() || directory.is_some_and(Path::is_dir)
    }

    pub(super) fn format(self) -> Format {
        match self {
            Self::Codex => Format::Toml,
            Self::VsCode | Self::Zed | Self::GeminiCli => Format::Json(Dialect::Jsonc),
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor => Format::Json(Dialect::Json),
        }
    }

    /// The member that holds the servers.
    pub(super) fn section(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::Codex => "mcp_servers",
            Self::Zed => "context_servers",
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor | Self::GeminiCli => "mcpServers",
        }
    }

    /// The entry in the form of the client; `Err` explains why it cannot have such an entry.
    pub(super) fn entry(self, gateway: &GatewayEntry) -> Result<Map<String, Value>, &'static str> {
        let entry = match (self, gateway) {
            (Self::ClaudeDesktop, GatewayEntry::Http { .. }) => {
                return Err(
                    "Claude Desktop starts servers from its file and takes URLs only in its settings",
                );
            }
            (Self::ClaudeCode, GatewayEntry::Stdio { command, args }) => {
                json!({"type": "stdio", "command": command, "args": args, "env": {}})
            }
            (Self::VsCode, GatewayEntry::Stdio { command, args }) => {
                json!({"type": "stdio", "command": command, "args": args})
            }
            (Self::Zed, GatewayEntry::Stdio { command, args }) => {
                json!({"source": "custom", "command": command, "args": args, "env": {}})
            }
            (_, GatewayEntry::Stdio { command, args }) => json!({"command": command, "args": args}),
            (Self::ClaudeCode | Self::VsCode, GatewayEntry::Http { url }) => {
                json!({"type": "http", "url": url})
            }
            (Self::GeminiCli, GatewayEntry::Http { url }) => json!({"httpUrl": url}),
            (Self::Zed, GatewayEntry::Http { url }) => json!({"source": "custom", "url": url}),
            (_, GatewayEntry::Http { url }) => json!({"url": url}),
        };
        match entry {
            Value::Object(entry) => Ok(entry),
            _ => Err("it has no entry"),
        }
    }
}

impl fmt::Display for InstallClient {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.title())
    }
}
