//! The files and directories of a repository that words name.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The directories whose content the author of a repository controls.
pub(super) struct RepositoryRoots {
    roots: Vec<PathBuf>,
}

impl RepositoryRoots {
    pub(super) fn new(roots: &[&Path]) -> Self {
        let real = roots.iter().filter_map(|root| root.canonicalize().ok());
        let roots = roots.iter().map(|root| (*root).to_owned());
        Self {
            roots: roots.chain(real).collect(),
        }
    }

    /// The repository file that a word names.
    pub(super) fn find(&self, dir: &Path, word: impl AsRef<OsStr>) -> Option<PathBuf> {
        match self.named(dir, word.as_ref())? {
            Named::File(path) => Some(path),
            Named::Directory(_) => None,
        }
    }

    /// The repository's directory that a word names.
    pub(super) fn find_directory(&self, dir: &Path, word: impl AsRef<OsStr>) -> Option<PathBuf> {
        match self.named(dir, word.as_ref())? {
            Named::File(_) => None,
            Named::Directory(path) => Some(path),
        }
    }

    /// What a word names in the repository. A link that leads out of it counts too: its author can
    /// change the target.
    pub(super) fn named(&self, dir: &Path, word: &OsStr) -> Option<Named> {
        if word.is_empty() || word.len() > 4096 {
            return None;
        }
        let path: PathBuf = dir.join(word).components().collect();
        let metadata = path.metadata().ok()?;
        if !self.contain(&path) {
            return None;
        }
        if metadata.is_dir() {
            return Some(Named::Directory(path));
        }
        metadata.is_file().then_some(Named::File(path))
    }

    /// Whether a path is in the repository, by its text or really.
    pub(super) fn contain(&self, path: &Path) -> bool {
        let within = |path: &Path| self.roots.iter().any(|root| path.starts_with(root));
        within(&normalized(path)) || path.canonicalize().is_ok_and(|real| within(&real))
    }
}

/// What is in a repository.
pub(super) enum Named {
    File(PathBuf),
    Directory(PathBuf),
}

/// A path without `..`, if that is the same file: a file is pinned once, by one name.
pub(super) fn without_parents(path: PathBuf) -> PathBuf {
    if !path.components().any(|part| part == Component::ParentDir) {
        return path;
    }
    let plain = normalized(&path);
    match (plain.canonicalize(), path.canonicalize()) {
        (Ok(one), Ok(other)) if one == other => plain,
        _ => path,
    }
}

/// A path with `..` resolved by its text.
pub(super) fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            normalized.pop();
        } else {
            normalized.push(part);
        }
    }
    normalized
}
