//! Where everything is: one value holds every path and name (CFG-1).

use std::path::{Path, PathBuf};

use crate::env_vars;

/// Every path and file name that configuration is read from and written to. The default is Claude Code's own; an embedding
/// agent may supply others.
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
    /// `~/.claude.json`: the user's servers, and what is kept for each project.
    pub global_file: PathBuf,
    /// `~/.claude`: settings, plugins, credentials.
    pub config_dir: PathBuf,
    /// Where a company puts `managed-mcp.json` and `managed-settings.json`.
    pub managed_dir: PathBuf,
    /// The name of a project's file of servers.
    pub project_file: String,
    /// The name of the directory with a project's settings.
    pub project_settings_dir: String,
    /// What `CLAUDE_CONFIG_DIR` says, if it moved the user's files.
    pub moved_to: Option<PathBuf>,
}

impl Layout {
    /// Claude Code's layout, with `HOME` and `CLAUDE_CONFIG_DIR` honoured; `None` when there is no home directory.
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

    /// Claude Code's layout in this home directory.
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

    /// The company's servers.
    pub fn managed_servers(&self) -> PathBuf {
        self.managed_dir.join("managed-mcp.json")
    }

    /// The company's settings.
    pub fn managed_settings(&self) -> PathBuf {
        self.managed_dir.join("managed-settings.json")
    }

    /// The user's settings.
    pub fn settings_file(&self) -> PathBuf {
        self.config_dir.join("settings.json")
    }

    /// A project's settings: those in the repository, and those that should be kept out of it.
    pub fn project_settings(&self, project: &Path) -> [PathBuf; 2] {
        let dir = project.join(&self.project_settings_dir);
        [dir.join("settings.json"), dir.join("settings.local.json")]
    }

    /// Where plugins are installed.
    pub fn plugins_dir(&self) -> PathBuf {
        self.config_dir.join("plugins")
    }

    /// Where the sign-in to claude.ai is kept.
    pub fn credentials_file(&self) -> PathBuf {
        self.config_dir.join(".credentials.json")
    }

    /// Where Trunkline keeps what is its own.
    pub fn state_dir(&self) -> PathBuf {
        self.config_dir.join("trunkline")
    }

    /// Secrets, where there is no keychain (AUTH-3).
    pub fn secrets_file(&self) -> PathBuf {
        self.state_dir().join("secrets.json")
    }

    /// What was approved, with its content (CFG-6).
    pub fn approvals_file(&self) -> PathBuf {
        self.state_dir().join("approvals.json")
    }
}

/// Where this system's companies put their files. No variable can move it: whoever could set that could leave the policy.
const fn managed_dir() -> &'static str {
    if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else if cfg!(windows) {
        "C:\\Program Files\\ClaudeCode"
    } else {
        "/etc/claude-code"
    }
}

/// A project: where the work happens, and the key under which `~/.claude.json` keeps what is local to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The working directory.
    pub cwd: PathBuf,
    /// The root of the repository around it, or else the working directory itself.
    pub root: PathBuf,
    /// Whether there is a repository around it.
    pub is_repository: bool,
}

impl Project {
    /// The project around a working directory.
    pub fn at(cwd: impl Into<PathBuf>) -> Self {
        let cwd = cwd.into();
        // `.git` is only looked for, never read: a file there could point at another project and borrow its approvals.
        let root = cwd.ancestors().find(|dir| dir.join(".git").exists());
        Self {
            is_repository: root.is_some(),
            root: root.unwrap_or(&cwd).to_owned(),
            cwd,
        }
    }

    /// Its key in `~/.claude.json`. There is none where its directory's name is no text: a key that stands for several
    /// directories would lend one's approvals to another.
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
