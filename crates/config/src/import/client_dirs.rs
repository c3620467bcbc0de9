//! Where each client keeps its files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Client;

/// Operating systems with different conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Os {
    /// Linux, and other systems with XDG directories.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Os {
    /// The current operating system.
    pub fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }
}

/// The directories that contain the files of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientDirs {
    /// The operating system.
    pub os: Os,
    /// The home directory.
    pub home: PathBuf,
    /// `XDG_CONFIG_HOME`, or `~/.config`: some clients use it on every system.
    pub config: PathBuf,
    /// `%APPDATA%` on Windows, `~/Library/Application Support` on macOS, the same as `config` on
    /// Linux.
    pub app_data: PathBuf,
    /// `CODEX_HOME`, or `~/.codex`.
    pub codex: PathBuf,
    /// The project.
    pub project: PathBuf,
}

impl ClientDirs {
    /// The usual directories below `home`.
    ///
    /// ```
    /// use trunkline_config::import::{Client, Os, ClientDirs};
    /// let places = ClientDirs::under(Os::Linux, "/home/ada", "/src/engine");
    /// let files = Client::Cursor.files(&places);
    /// assert_eq!(files[0].to_str(), Some("/home/ada/.cursor/mcp.json"));
    /// ```
    pub fn under(os: Os, home: impl Into<PathBuf>, project: impl Into<PathBuf>) -> Self {
        let home = home.into();
        let config = home.join(".config");
        Self {
            os,
            app_data: match os {
                Os::Linux => config.clone(),
                Os::MacOs => home.join("Library").join("Application Support"),
                Os::Windows => home.join("AppData").join("Roaming"),
            },
            config,
            codex: home.join(".codex"),
            project: project.into(),
            home,
        }
    }

    /// Like [`under`](Self::under), with the directories of the variables `XDG_CONFIG_HOME`,
    /// `APPDATA` and `CODEX_HOME`. A relative value counts as unset, as the XDG specification
    /// requires.
    pub fn from_env(
        os: Os,
        home: impl Into<PathBuf>,
        project: impl Into<PathBuf>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let mut places = Self::under(os, home, project);
        let moved = |name| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        if let Some(config) = moved("XDG_CONFIG_HOME") {
            if os == Os::Linux {
                places.app_data.clone_from(&config);
            }
            places.config = config;
        }
        if let Some(app_data) = moved("APPDATA").filter(|_| os == Os::Windows) {
            places.app_data = app_data;
        }
        if let Some(codex) = moved("CODEX_HOME") {
            places.codex = codex;
        }
        places
    }
}

impl Client {
    /// Its files: those of the user first, then those of the project.
    pub fn files(self, places: &ClientDirs) -> Vec<PathBuf> {
        let mut files = self.user_files(places);
        files.extend(self.project_files(places));
        // If the project is the home directory, both have the same file.
        let mut seen = std::collections::HashSet::new();
        files.retain(|file| seen.insert(file.clone()));
        files
    }

    /// Its files for the user.
    pub fn user_files(self, places: &ClientDirs) -> Vec<PathBuf> {
        let ClientDirs {
            os,
            home,
            config,
            app_data,
            codex,
            project: _,
        } = places;
        match self {
            Self::ClaudeDesktop => vec![app_data.join("Claude").join("claude_desktop_config.json")],
            Self::Cursor => vec![home.join(".cursor").join("mcp.json")],
            Self::VsCode => {
                let bases = ["Code", "Code - Insiders"].map(|build| app_data.join(build));
                let bases = bases.iter().map(|base| base.join("User"));
                bases.flat_map(|base| vs_code(&base)).collect()
            }
            Self::Windsurf => {
                let base = home.join(".codeium");
                let bases = [base.join("windsurf"), base];
                bases.map(|base| base.join("mcp_config.json")).into()
            }
            Self::Zed => vec![
                match os {
                    Os::Windows => app_data.join("Zed"),
                    Os::Linux | Os::MacOs => config.join("zed"),
                }
                .join("settings.json"),
            ],
            Self::GeminiCli => vec![home.join(".gemini").join("settings.json")],
            Self::Codex => vec![codex.join("config.toml")],
            Self::Opencode => {
                let user = config.join("opencode");
                let files = std::iter::once(user.join("config.json"));
                files.chain(opencode(&user)).collect()
            }
            Self::Goose => vec![
                match os {
                    Os::Windows => app_data.join("Block").join("goose").join("config"),
                    Os::Linux | Os::MacOs => config.join("goose"),
                }
                .join("config.yaml"),
            ],
        }
    }

    /// Its files in the project. The author of the project controls them.
    pub fn project_files(self, places: &ClientDirs) -> Vec<PathBuf> {
        let project = &places.project;
        match self {
            Self::ClaudeDesktop | Self::Windsurf | Self::Goose => Vec::new(),
            Self::Cursor => vec![project.join(".cursor").join("mcp.json")],
            Self::VsCode => vs_code(&project.join(".vscode")).into(),
            Self::Zed => vec![project.join(".zed").join("settings.json")],
            Self::GeminiCli => vec![project.join(".gemini").join("settings.json")],
            Self::Codex => vec![project.join(".codex").join("config.toml")],
            Self::Opencode => {
                let bases = [project.clone(), project.join(".opencode")];
                bases.iter().flat_map(|base| opencode(base)).collect()
            }
        }
    }
}

fn vs_code(base: &Path) -> [PathBuf; 2] {
    ["mcp.json", "settings.json"].map(|name| base.join(name))
}

fn opencode(base: &Path) -> [PathBuf; 2] {
    ["opencode.json", "opencode.jsonc"].map(|name| base.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(client: Client, os: Os) -> String {
        let places = ClientDirs::under(os, "/h", "/p");
        client.files(&places)[0]
            .to_string_lossy()
            .replace('\\', "/")
    }

    #[test]
    fn each_system_keeps_the_user_wide_file_where_its_client_does() {
        let cases = [
            (
                Client::ClaudeDesktop,
                [
                    "/h/.config/Claude/claude_desktop_config.json",
                    "/h/Library/Application Support/Claude/claude_desktop_config.json",
                    "/h/AppData/Roaming/Claude/claude_desktop_config.json",
                ],
            ),
            (Client::Cursor, ["/h/.cursor/mcp.json"; 3]),
            (
                Client::VsCode,
                [
                    "/h/.config/Code/User/mcp.json",
                    "/h/Library/Application Support/Code/User/mcp.json",
                    "/h/AppData/Roaming/Code/User/mcp.json",
                ],
            ),
            (
                Client::Windsurf,
                ["/h/.codeium/windsurf/mcp_config.json"; 3],
            ),
            (
                Client::Zed,
                [
                    "/h/.config/zed/settings.json",
                    "/h/.config/zed/settings.json",
                    "/h/AppData/Roaming/Zed/settings.json",
                ],
            ),
            (Client::GeminiCli, ["/h/.gemini/settings.json"; 3]),
            (Client::Codex, ["/h/.codex/config.toml"; 3]),
            (Client::Opencode, ["/h/.config/opencode/config.json"; 3]),
            (
                Client::Goose,
                [
                    "/h/.config/goose/config.yaml",
                    "/h/.config/goose/config.yaml",
                    "/h/AppData/Roaming/Block/goose/config/config.yaml",
                ],
            ),
        ];
        for (client, expected) in cases {
            let found = [Os::Linux, Os::MacOs, Os::Windows].map(|os| first(client, os));
            assert_eq!(found, expected, "{client}");
        }
    }

    #[test]
    fn the_environment_moves_directories_and_a_relative_value_counts_as_unset() {
        let variable = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some("/x".into()),
            "CODEX_HOME" => Some("relative".into()),
            _ => None,
        };
        let places = ClientDirs::from_env(Os::Linux, "/h", "/p", variable);
        assert_eq!(
            (places.app_data, places.codex),
            (PathBuf::from("/x"), PathBuf::from("/h/.codex"))
        );
    }

    #[test]
    fn the_project_s_files_come_last_and_no_file_comes_twice() {
        let places = ClientDirs::under(Os::Linux, "/h", "/h");
        assert_eq!(Client::Cursor.files(&places).len(), 1);
        let places = ClientDirs::under(Os::Linux, "/h", "/p");
        for client in Client::ALL {
            let files = client.files(&places);
            let last_of_user = files.iter().rposition(|file| file.starts_with("/h"));
            let first_of_project = files.iter().position(|file| file.starts_with("/p"));
            assert!(first_of_project.is_none_or(|at| Some(at - 1) == last_of_user));
        }
    }
}
