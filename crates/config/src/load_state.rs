//! What is collected while configuration is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::entry::ServerEntry;
use crate::expand::Environment;
use crate::files::{self, LastGood, ReadError};

/// What is collected while configuration is read: entries, problems, and which files were looked at.
pub(crate) struct LoadState<'g> {
    pub(crate) environment: Environment,
    /// The folder that relative paths in the entries being read start from.
    pub(crate) base: PathBuf,
    pub(crate) entries: Vec<ServerEntry>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Every file that counts, whether it exists or not.
    pub(crate) files: Vec<PathBuf>,
    last_good: &'g LastGood,
}

impl<'g> LoadState<'g> {
    pub(crate) fn new(environment: Environment, cwd: &Path, last_good: &'g LastGood) -> Self {
        Self {
            environment,
            base: cwd.to_owned(),
            entries: Vec::new(),
            diagnostics: Vec::new(),
            files: Vec::new(),
            last_good,
        }
    }

    /// Has relative paths in the entries that are read next start from the folder of this file.
    pub(crate) fn relative_to_file(&mut self, file: &Path) {
        file.parent().unwrap_or(file).clone_into(&mut self.base);
    }

    /// The text of a file, if there is one that can be used.
    pub(crate) fn read(&mut self, path: &Path) -> Option<Arc<str>> {
        self.files.push(path.to_owned());
        let source = files::shown(path);
        self.last_good.read(path, &source, &mut self.diagnostics)
    }

    /// The text of something that the user named on the command line.
    pub(crate) fn read_named(&mut self, path: &Path, source: &str) -> Option<Arc<str>> {
        self.files.push(path.to_owned());
        let last_good = self.last_good;
        last_good.read_named(path, source, &mut self.diagnostics)
    }

    /// The text of a file that has been read before, as it was then.
    pub(crate) fn again(&self, path: &Path) -> Option<Arc<str>> {
        self.last_good.last(path)
    }

    /// The text of one of the company's files, as it is now: what it said before does not count.
    pub(crate) fn read_managed(&mut self, path: &Path) -> Result<Option<String>, ReadError> {
        self.files.push(path.to_owned());
        files::read(path)
    }
}
