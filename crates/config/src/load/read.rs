//! The first step of loading: reads every file once.
//!
//! Only files whose names depend on the content of others, those of plugins, are read later.

use std::path::{Path, PathBuf};

use super::{LoadState, Loader, is_exclusive};
use crate::files::{FileText, ReadError};

/// The content of a managed file. It never falls back to earlier content.
pub(super) type ManagedText = Result<Option<String>, ReadError>;

/// The texts of all configuration files that apply.
pub(super) struct ConfigFiles {
    /// `~/.claude.json`.
    pub(super) global: FileText,
    pub(super) managed_settings: ManagedText,
    /// `managed-mcp.json`; `None` if it does not exist.
    pub(super) managed_servers: Option<ManagedText>,
    pub(super) user_settings: FileText,
    /// The settings files in the project.
    pub(super) project_settings: Vec<(PathBuf, FileText)>,
    /// The `.mcp.json` files from the working directory upwards.
    pub(super) project_servers: Vec<(PathBuf, FileText)>,
    pub(super) approvals: FileText,
}

impl Loader {
    /// Reads the files of all scopes, in the order in which their problems are reported.
    pub(super) fn read(&self, state: &mut LoadState) -> ConfigFiles {
        let layout = &self.layout;
        let global = state.read(&layout.global_file);
        let managed_settings = state.read_managed(&layout.managed_settings());
        let user_settings = state.read(&layout.settings_file());
        let project_settings = self.project_settings();
        let mut read_all = |paths: Vec<PathBuf>| -> Vec<(PathBuf, FileText)> {
            let read = |path: PathBuf| (path.clone(), state.read(&path));
            paths.into_iter().map(read).collect()
        };
        let project_settings = read_all(project_settings);
        let exclusive = is_exclusive(layout);
        let project_servers = if exclusive || self.strict {
            Vec::new()
        } else {
            let dirs = self.project.cwd.ancestors();
            read_all(dirs.map(|dir| dir.join(&layout.project_file)).collect())
        };
        // Watched even if it does not exist: it takes effect as soon as it appears.
        let managed_servers = state.read_managed(&layout.managed_servers());
        ConfigFiles {
            global,
            managed_settings,
            managed_servers: exclusive.then_some(managed_servers),
            user_settings,
            project_settings,
            project_servers,
            approvals: state.read(&layout.approvals_file()),
        }
    }

    /// The settings files of the project root and of the working directory.
    fn project_settings(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<&Path> = vec![&self.project.root, &self.project.cwd];
        dirs.dedup();
        let files = dirs
            .into_iter()
            .flat_map(|dir| self.layout.project_settings(dir));
        let user = self.layout.settings_file();
        files.filter(|path| *path != user).collect()
    }
}
