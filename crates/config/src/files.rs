//! Reads configuration files, which may be anything.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::diagnostic::Diagnostic;
use crate::document::Document;

/// The maximum size of a configuration file (SEC-4).
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;

/// A path for display and comparison.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("the file is larger than {} MB", MAX_FILE_BYTES >> 20)]
    TooLarge,
    #[error("the file is not UTF-8 text")]
    NotText,
}

/// The text of a file; `None` if there is none.
///
/// Only regular files are read: a pipe planted in a repository would block forever.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ReadError> {
    open_regular(path)?.map(text).transpose()
}

/// Opens a file for reading without blocking; `None` if there is none. Only regular files are
/// opened.
pub(crate) fn open_regular(path: &Path) -> Result<Option<File>, ReadError> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(ReadError::NotAFile);
    }
    Ok(Some(file))
}

/// Whether an error means that there is no such file.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Reads all of a reader, which may never end.
pub(crate) fn text(reader: impl Read) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    reader.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotText)
}

/// A text without its byte-order mark.
pub(crate) fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A configuration file as loading sees it.
pub(crate) enum FileText {
    /// There is no such file.
    Missing,
    /// A JSON object: the current content of the file, or else its last good content.
    Text(Arc<str>),
    /// The file is not a JSON object, and never was one.
    Unusable {
        /// The raw content; `None` if it could not be read.
        raw: Option<String>,
    },
}

impl FileText {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Missing | Self::Unusable { .. } => None,
        }
    }

    pub(crate) fn into_text(self) -> Option<Arc<str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Missing | Self::Unusable { .. } => None,
        }
    }

    /// Whether the file is unusable and may have been meant to set one of these keys.
    pub(crate) fn may_contain(&self, keys: &[&str]) -> bool {
        match self {
            Self::Unusable { raw: Some(raw) } => keys.iter().any(|key| raw.contains(key)),
            Self::Unusable { raw: None } => true,
            Self::Missing | Self::Text(_) => false,
        }
    }
}

/// Remembers the last good content of files, so that a file that is being written does not take
/// effect half-finished (CFG-9).
#[derive(Debug, Default)]
pub(crate) struct LastGood {
    good: Mutex<HashMap<PathBuf, Arc<str>>>,
    /// The content of pipes, which can be read only once.
    pipes: Mutex<HashMap<PathBuf, String>>,
}

impl LastGood {
    /// Reads a file, falling back to its last good content. Diagnostics call the file `source`.
    pub(crate) fn read(
        &self,
        path: &Path,
        source: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> FileText {
        match read(path) {
            Ok(None) => {
                self.lock().remove(path);
                FileText::Missing
            }
            Ok(Some(text)) => self.check(path, source, Ok(text), diagnostics),
            Err(error) => self.check(path, source, Err(error), diagnostics),
        }
    }

    /// Reads a file that the user named, which may be a pipe.
    pub(crate) fn read_named(
        &self,
        path: &Path,
        source: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> FileText {
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match pipes.get(path) {
            Some(text) => Ok(text.clone()),
            None => File::open(path).map_err(ReadError::from).and_then(text),
        };
        if let (false, Ok(text)) = (is_file, &read) {
            pipes.insert(path.to_owned(), text.clone());
        }
        drop(pipes);
        self.check(path, source, read, diagnostics)
    }

    /// Stores a text that is a JSON object; otherwise reports the problem and falls back.
    fn check(
        &self,
        path: &Path,
        source: &str,
        read: Result<String, ReadError>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> FileText {
        let (problem, raw) = match read {
            Ok(text) => match Document::new(source, &text).root() {
                Ok(_) => {
                    let text: Arc<str> = text.into();
                    self.lock().insert(path.to_owned(), Arc::clone(&text));
                    return FileText::Text(text);
                }
                Err(problem) => (problem, Some(text)),
            },
            Err(error) => {
                // A directory or a pipe holds no settings.
                let raw = matches!(error, ReadError::NotAFile).then(String::new);
                (Diagnostic::error(source, error.to_string()), raw)
            }
        };
        let Some(last) = self.lock().get(path).cloned() else {
            diagnostics.push(problem);
            return FileText::Unusable { raw };
        };
        let message = format!("{}; the last good content stays in effect", problem.message);
        diagnostics.push(Diagnostic { message, ..problem });
        FileText::Text(last)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Arc<str>>> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        let text = |name| read(&at(name)).unwrap();
        assert_eq!(text("file").as_deref(), Some("text"));
        assert_eq!((text("none"), text("file/below")), (None, None));
        let error = |path: &Path| read(path).unwrap_err().to_string();
        assert_eq!(error(scratch.path()), "it is not a regular file");
        assert_eq!(error(Path::new("/dev/zero")), "it is not a regular file");
        std::fs::write(at("binary"), [0xff, 0xfe]).unwrap();
        assert_eq!(error(&at("binary")), "the file is not UTF-8 text");
        let fifo = at("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(error(&fifo), "it is not a regular file");
    }

    #[test]
    fn a_half_written_file_leaves_what_was_there_in_force() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("f.json");
        let files = LastGood::default();
        let mut problems = Vec::new();
        let read = |problems: &mut Vec<_>| files.read(&path, "f", problems).into_text();
        assert_eq!(read(&mut problems), None);
        std::fs::write(&path, "{\"a\":1}").unwrap();
        assert_eq!(read(&mut problems).as_deref(), Some("{\"a\":1}"));
        assert!(problems.is_empty());
        for half in ["", "{\"a\":", "[]"] {
            std::fs::write(&path, half).unwrap();
            assert_eq!(read(&mut problems).as_deref(), Some("{\"a\":1}"));
        }
        assert_eq!(problems.len(), 3);
        assert!(
            problems[0]
                .message
                .ends_with("the last good content stays in effect")
        );
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut problems), None);
    }
}
