//! Private files and locks that processes share.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The interval between attempts to take a lock.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// Returns `path` with a suffix.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Options that create a file readable only by its owner.
pub(crate) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are modes only on Unix"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory and its missing parents, accessible only to the owner.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes the rename of a file survive a power failure.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        // The parent of a bare file name is the empty path.
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        return File::open(folder)?.sync_all();
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Reads a file of at most `limit` bytes; `None` if there is none, or it is larger, or no file.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Option<Vec<u8>> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= limit) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Replaces a file by one that only its owner can read. The caller holds the lock of the file.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path, ".new");
    // The lock makes one fixed name safe; this removes what a killed process left.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private().write(true).create_new(true).open(&new)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| sync_folder(path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Fails if a path is something else than a file: opening a pipe would wait for a reader, and a
/// link may lead to a file that must not be written.
pub(crate) fn refuse_other_than_file(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::other("it is not a file")),
        _ => Ok(()),
    }
}

/// A lock on a file, held until it is dropped. The kernel releases it when the process dies.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl FileLock {
    /// Takes the lock, waiting at most `limit`; `None` if another process or task has it. Blocks.
    pub(crate) fn acquire(path: &Path, limit: Duration) -> io::Result<Option<Self>> {
        let mut file = LockFile::open(path)?;
        let start = Instant::now();
        loop {
            file = match file.try_lock()? {
                Ok(lock) => return Ok(Some(lock)),
                Err(file) if start.elapsed() < limit => file,
                Err(_) => return Ok(None),
            };
            std::thread::sleep(LOCK_POLL);
        }
    }

    /// Writes the id of this process into the file, for [`lock_owner`]. Failures are ignored.
    pub(crate) fn note_owner(&self) {
        let _ = self.file.set_len(0);
        let _ = (&self.file).write_all(std::process::id().to_string().as_bytes());
    }
}

/// A file to lock.
#[derive(Debug)]
pub(crate) struct LockFile(File);

impl LockFile {
    /// Opens or creates the file. Blocks.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        refuse_other_than_file(path)?;
        let mut options = private();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        Ok(Self(file))
    }

    /// Takes the lock, unless another process or task has it.
    pub(crate) fn try_lock(self) -> io::Result<Result<FileLock, Self>> {
        match self.0.try_lock() {
            Ok(()) => Ok(Ok(FileLock { file: self.0 })),
            Err(TryLockError::WouldBlock) => Ok(Err(self)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Returns the process that holds a lock, if it noted itself and the system lets others read it.
pub(crate) fn lock_owner(path: &Path) -> Option<u32> {
    let text = String::from_utf8(read_bounded(path, 16)?).ok()?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_knows_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/lock");
        let lock = FileLock::acquire(&path, Duration::ZERO).unwrap().unwrap();
        lock.note_owner();
        assert!(FileLock::acquire(&path, Duration::ZERO).unwrap().is_none());
        assert_eq!(lock_owner(&path), Some(std::process::id()));
        drop(lock);
        assert!(FileLock::acquire(&path, Duration::ZERO).unwrap().is_some());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_a_link_in_place_of_a_lock_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let target = folder.path().join("precious");
        fs::write(&target, "text").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [pipe, link] {
            let error = FileLock::acquire(&path, Duration::ZERO).unwrap_err();
            assert!(error.to_string().contains("not a file"), "{error}");
        }
        assert_eq!(fs::read_to_string(target).unwrap(), "text");
    }
}
