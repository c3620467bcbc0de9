//! Reads configuration files, which may be anything.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::diagnostic::Diagnostic;
use crate::document::Document;

/// How long a configuration file may be (SEC-4).
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;

/// A file's name as it is shown and compared.
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
/// Only a regular file is read: a pipe that somebody put into a repository would keep us waiting for ever.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ReadError> {
    open_regular(path)?.map(text).transpose()
}

/// A file, opened for reading; `None` if there is none. Only a regular file is opened, and nothing is waited for.
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

/// Whether an error says that there is no such file.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// All of a reader, which may never end.
pub(crate) fn text(reader: impl Read) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    reader.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotText)
}

/// The texts of files that were valid the last time, so that one which is just being written is not acted on (CFG-9).
#[derive(Debug, Default)]
pub(crate) struct LastGood {
    good: Mutex<HashMap<PathBuf, Arc<str>>>,
    /// What pipes held; they can be read only once.
    pipes: Mutex<HashMap<PathBuf, String>>,
}

impl LastGood {
    /// The text of a file, or what it was before it became unusable; then the diagnostic says so, and calls the file `source`.
    pub(crate) fn read(
        &self,
        path: &Path,
        source: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Arc<str>> {
        match read(path) {
            Ok(None) => {
                self.lock().remove(path);
                None
            }
            text => self.keep(
                path,
                source,
                text.map(Option::unwrap_or_default),
                diagnostics,
            ),
        }
    }

    /// The text of something that the user named, which may be a pipe: that can be read only once.
    pub(crate) fn read_named(
        &self,
        path: &Path,
        source: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Arc<str>> {
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
        self.keep(path, source, read, diagnostics)
    }

    fn keep(
        &self,
        path: &Path,
        source: &str,
        read: Result<String, ReadError>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Arc<str>> {
        let problem = match read {
            Ok(text) => {
                let text: Arc<str> = text.into();
                match Document::new(source, &text).root() {
                    Ok(_) => {
                        self.lock().insert(path.to_owned(), Arc::clone(&text));
                        return Some(text);
                    }
                    Err(problem) => problem,
                }
            }
            Err(error) => Diagnostic::error(source, error.to_string()),
        };
        let last = self.last(path);
        let message = match last {
            Some(_) => format!("{}; what it said before stays in force", problem.message),
            None => problem.message.clone(),
        };
        diagnostics.push(Diagnostic { message, ..problem });
        last
    }

    /// What a file said when it was last read with success.
    pub(crate) fn last(&self, path: &Path) -> Option<Arc<str>> {
        self.lock().get(path).cloned()
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
        assert_eq!(files.read(&path, "f", &mut problems), None);
        std::fs::write(&path, "{\"a\":1}").unwrap();
        assert_eq!(
            files.read(&path, "f", &mut problems).as_deref(),
            Some("{\"a\":1}")
        );
        assert!(problems.is_empty());
        for half in ["", "{\"a\":", "[]"] {
            std::fs::write(&path, half).unwrap();
            assert_eq!(
                files.read(&path, "f", &mut problems).as_deref(),
                Some("{\"a\":1}")
            );
        }
        assert_eq!(problems.len(), 3);
        assert!(
            problems[0]
                .message
                .ends_with("what it said before stays in force")
        );
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files.read(&path, "f", &mut problems), None);
    }
}
