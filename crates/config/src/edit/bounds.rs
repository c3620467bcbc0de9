//! Where a project's file may lead if it is a link (CFG-4).
//!
//! The author of a repository chooses its links. A write through one must not reach the user's own
//! files, whether or not they exist yet.

use std::path::{Component, Path, PathBuf};

use super::atomic::directory;

/// The places that an edit of a project's file may write to.
#[derive(Clone, Debug)]
pub(crate) struct ProjectBounds {
    /// Directories that may hold the file, at any depth.
    trees: Vec<PathBuf>,
    /// The directory of the link, which may hold the file itself.
    beside: Option<PathBuf>,
    /// The user's own files and directories.
    users: Vec<PathBuf>,
}

impl ProjectBounds {
    /// The bounds for `file` of the project at `root`. `users` are the user's own files and
    /// directories; a tree that contains one of them is not the project's alone.
    pub(crate) fn new(file: &Path, root: &Path, users: &[&Path]) -> Option<Self> {
        let users: Vec<_> = users.iter().filter_map(|path| real(path)).collect();
        let beside = real(directory(file))?;
        let is_projects = |tree: &PathBuf| !users.iter().any(|own| own.starts_with(tree));
        let trees = [real(root)?, beside.clone()];
        Some(Self {
            trees: trees.into_iter().filter(is_projects).collect(),
            beside: Some(beside),
            users,
        })
    }

    /// Bounds that are these directories, at any depth.
    #[cfg(feature = "import")]
    pub(crate) fn trees<'p>(directories: impl Iterator<Item = &'p Path>) -> Self {
        Self {
            trees: directories.filter_map(real).collect(),
            beside: None,
            users: Vec::new(),
        }
    }

    /// Whether a file, which need not exist, is within the bounds.
    pub(crate) fn contain(&self, target: &Path) -> bool {
        let Some(target) = real(target) else {
            return false;
        };
        let is_within = self.trees.iter().any(|tree| target.starts_with(tree))
            || (self.beside.is_some() && target.parent() == self.beside.as_deref());
        is_within && !self.users.iter().any(|own| target.starts_with(own))
    }
}

/// A path without links, of which the last parts need not exist; `None` if it cannot be determined.
fn real(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    // A link that leads nowhere yet, or `..` below a missing directory, may lead anywhere later.
    if path.is_symlink() {
        return None;
    }
    match path.components().next_back()? {
        Component::Normal(name) => Some(real(directory(path))?.join(name)),
        _ => None,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::edit::atomic::resolve;

    /// Whether `.mcp.json` in `dir`, a link to `to`, may be written through.
    fn may_lead(root: &str, dir: &str, to: &str) -> bool {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        for dir in ["home/.claude", "home/repo/sub", "home/repo/config"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        fs::write(at("home/exists.json"), "{}").unwrap();
        symlink(at("home"), at("home/repo/out")).unwrap();
        let file = at(dir).join(".mcp.json");
        symlink(to, &file).unwrap();
        let (global, config) = (at("home/.claude.json"), at("home/.claude"));
        let bounds = ProjectBounds::new(&file, &at(root), &[&global, &config]).unwrap();
        bounds.contain(&resolve(&file).unwrap())
    }

    #[test]
    fn a_link_may_lead_within_the_project_and_never_to_the_users_files() {
        let (repo, sub) = ("home/repo", "home/repo/sub");
        for (root, dir, to, may) in [
            (repo, repo, "config/mcp.json", true),
            (repo, repo, "missing/mcp.json", true),
            (repo, repo, "other.json", true),
            (repo, sub, "../config/mcp.json", true),
            // Whether or not it exists.
            (repo, repo, "../exists.json", false),
            (repo, repo, "../missing.json", false),
            (repo, repo, "../.claude/settings.json", false),
            (repo, repo, "../.claude.json", false),
            (repo, repo, "../missing/x.json", false),
            (repo, repo, "missing/../../.claude/settings.json", false),
            (repo, repo, "out/missing/x.json", false),
            (repo, repo, "out/.claude/missing/x.json", false),
            // A home that is a repository itself makes nothing in it the project's.
            ("home", repo, "../.claude/settings.json", false),
            ("home", repo, "../exists.json", false),
            ("home", repo, "config/mcp.json", true),
            ("home", "home", "other.json", true),
            ("home", "home", ".claude.json", false),
            ("home", "home", ".claude/settings.json", false),
        ] {
            assert_eq!(may_lead(root, dir, to), may, "{root} {dir} -> {to}");
        }
    }
}
