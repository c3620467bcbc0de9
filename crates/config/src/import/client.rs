//! The supported clients.

use std::fmt;

/// A client whose servers can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Gemini CLI.
    GeminiCli,
    /// Codex.
    Codex,
    /// opencode.
    Opencode,
    /// goose.
    Goose,
}

impl Client {
    /// Every client, in the order of presentation.
    pub const ALL: [Self; 9] = [
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Zed,
        Self::GeminiCli,
        Self::Codex,
        Self::Opencode,
        Self::Goose,
    ];

    /// The name to type.
    ///
    /// ```
    /// use trunkline_config::import::Client;
    /// let named = Client::ALL.into_iter().find(|client| client.id() == "vscode");
    /// assert_eq!(named, Some(Client::VsCode));
    /// ```
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::GeminiCli => "gemini",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Goose => "goose",
        }
    }

    /// The name of the IDE.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
            Self::GeminiCli => "Gemini CLI",
            Self::Codex => "Codex",
            Self::Opencode => "opencode",
            Self::Goose => "goose",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.title())
    }
}
