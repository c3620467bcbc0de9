//! The paths of all configuration files (CFG-1).

use std::path::{Path, PathBuf};

use crate::env_vars;

/// Every path and file name of the configuration. The default is that of Claude Code; an embedding
/// agent may use others.
///
/// ```
/// use trunkline_config::Layout;
///
/// let layout = Layout::under("/home/x");
/// assert_eq!(layout.global_file, std::path::Path::new("/home/x/.claude.json"));
/// assert_eq!(layout.settings_file(), std::path::Path::new("/home/x/.claude/settings.json"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `~/.claude.json`: the user's servers, and the state of each project.
    pub global_file: PathBuf,
    /// `~/.claude`: settings, plugins, credentials.
    pub config_dir: PathBuf,
    /// The directory of `managed-mcp.json` and `managed-settings.json`.
    pub managed_dir: PathBuf,
    /// The name of a project's servers file.
    pub project_file: String,
    /// The name of a project's settings directory.
    pub project_settings_dir: String,
    /// The value of `CLAUDE_CONFIG_DIR`, if it relocates the user's files.
    pub moved_to: Option<PathBuf>,
}

impl Layout {
    /// Claude Code's layout, respecting `HOME` and `CLAUDE_CONFIG_DIR`; `None` without a home
    /// directory.
    pub fn from_env() -> Option<Self> {
        let moved = std::env::var_os(env_vars::CLAUDE_CONFIG_DIR).filter(|dir| !dir.is_empty());
        let Some(dir) = moved else {
            return std::env::home_dir()
                .filter(|home| home.is_absolute())
                .map(Self::under);
        };
        let dir = std::path::absolute(dir).ok()?;
        Some(Self {
            global_file: dir.join(".claude.json"),
            config_dir: dir.clone(),
            moved_to: Some(dir),
            ..Self::under(PathBuf::new())
        })
    }

    /// Claude Code's layout in a home directory.
    pub fn under(home: impl AsRef<Path>) -> Self {
        let home = home.as_ref();
        Self {
            global_file: home.join(".claude.json"),
            config_dir: home.join(".claude"),
            managed_dir: managed_dir().into(),
            project_file: ".mcp.json".to_owned(),
            project_settings_dir: ".claude".to_owned(),
            moved_to: None,
        }
    }

    /// The managed servers.
    pub fn managed_servers(&self) -> PathBuf {
        self.managed_dir.join("managed-mcp.json")
    }

    /// The managed settings.
    pub fn managed_settings(&self) -> PathBuf {
        self.managed_dir.join("managed-settings.json")
    }

    /// The user's settings.
    pub fn settings_file(&self) -> PathBuf {
        self.config_dir.join("settings.json")
    }

    /// A project's settings: the shared file and the local one.
    pub fn project_settings(&self, project: &Path) -> [PathBuf; 2] {
        let dir = project.join(&self.project_settings_dir);
        [dir.join("settings.json"), dir.join("settings.local.json")]
    }

    /// The directory of installed plugins.
    pub fn plugins_dir(&self) -> PathBuf {
        self.config_dir.join("plugins")
    }

    /// The credentials for claude.ai.
    pub fn credentials_file(&self) -> PathBuf {
        self.config_dir.join(".credentials.json")
    }

    /// The directory of Trunkline's own state.
    pub fn state_dir(&self) -> PathBuf {
        self.config_dir.join("trunkline")
    }

    /// The secrets file, used without a keychain (AUTH-3).
    pub fn secrets_file(&self) -> PathBuf {
        self.state_dir().join("secrets.json")
    }

    /// The approvals with their content (CFG-6).
    pub fn approvals_file(&self) -> PathBuf {
        self.state_dir().join("approvals.json")
    }
}

/// The system directory of managed files. No variable can relocate it: anyone who could set one
/// could evade policy.
const fn managed_dir() -> &'static str {
    if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else if cfg!(windows) {
        "C:\\Program Files\\ClaudeCode"
    } else {
        "/etc/claude-code"
    }
}

/// A project: the working directory, and its key in `~/.claude.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Project {
    /// The working directory.
    pub cwd: PathBuf,
    /// The root of the enclosing repository, or else the working directory.
    pub root: PathBuf,
    /// Whether there is an enclosing repository.
    pub is_repository: bool,
}

impl Project {
    /// The project that contains a working directory.
    pub fn at(cwd: impl Into<PathBuf>) -> Self {
        let cwd = cwd.into();
        // `.git` is never read: a file there could point to another project and borrow its
        // approvals.
        let root = cwd.ancestors().find(|dir| dir.join(".git").exists());
        Self {
            is_repository: root.is_some(),
            root: root.unwrap_or(&cwd).to_owned(),
            cwd,
        }
    }

    /// The key in `~/.claude.json`. `None` if the path is not UTF-8: a lossy key could stand for
    /// several directories and share their approvals.
    pub fn key(&self) -> Option<&str> {
        self.root.to_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_git_root_or_else_the_working_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let deep = scratch.path().join("repo/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(Project::at(&deep).root, deep);
        std::fs::create_dir(scratch.path().join("repo/.git")).unwrap();
        assert_eq!(Project::at(&deep).root, scratch.path().join("repo"));
        // A worktree's `.git` is a file.
        std::fs::write(deep.join(".git"), "gitdir: /elsewhere").unwrap();
        assert_eq!(Project::at(&deep).root, deep);
    }
}
