//! The state of loading.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::entry::ServerEntry;
use crate::expand::Environment;
use crate::files::{self, FileText, LastGood, ReadError};

/// The state of loading: entries, problems, and the files read.
pub(crate) struct LoadState<'g> {
    pub(crate) environment: Environment,
    /// The directory that relative paths in the entries being read start from.
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

    /// Resolves relative paths in the next entries against the directory of this file.
    pub(crate) fn relative_to_file(&mut self, file: &Path) {
        file.parent().unwrap_or(file).clone_into(&mut self.base);
    }

    /// Reads a file, falling back to its last good content.
    pub(crate) fn read(&mut self, path: &Path) -> FileText {
        self.files.push(path.to_owned());
        let source = files::shown(path);
        self.last_good.read(path, &source, &mut self.diagnostics)
    }

    /// Reads a file that the user named on the command line, which may be a pipe.
    pub(crate) fn read_named(&mut self, path: &Path, source: &str) -> Option<Arc<str>> {
        self.files.push(path.to_owned());
        let file = self
            .last_good
            .read_named(path, source, &mut self.diagnostics);
        file.into_text()
    }

    /// Reads a managed file. Its earlier content never counts.
    pub(crate) fn read_managed(&mut self, path: &Path) -> Result<Option<String>, ReadError> {
        self.files.push(path.to_owned());
        files::read(path)
    }
}
