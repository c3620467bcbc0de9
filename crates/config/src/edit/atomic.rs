//! Reads a file and replaces it atomically: a crash, a full disk or `kill -9` at any instant leaves
//! the old or the new file, complete (CFG-4).
//!
//! The temporary file has one fixed name per target. The caller holds the lock of the target, so an
//! existing file of that name was left by a killed process and is removed.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::edit::EditError;
use crate::files;

/// The maximum number of chained symbolic links, as on Linux.
const MAX_LINKS: usize = 40;

/// Reads the file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, EditError> {
    files::read(path).map_err(|source| EditError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The file that `path` refers to after following symbolic links; it need not exist.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, EditError> {
    let failed = |error: io::Error| EditError::Read {
        path: path.to_owned(),
        source: error.into(),
    };
    let mut target = std::path::absolute(path).map_err(failed)?;
    for _ in 0..=MAX_LINKS {
        target = with_real_parent(&target).map_err(failed)?;
        match fs::read_link(&target) {
            // A relative link is resolved against the directory of the link.
            Ok(link) => target = directory(&target).join(link),
            // Not a link, or nothing there yet.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(target);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Err(EditError::LinkLoop {
        path: path.to_owned(),
    })
}

/// The path with its directory in canonical form, if the directory exists.
pub(crate) fn with_real_parent(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(ErrorKind::IsADirectory.into());
    };
    match fs::canonicalize(directory(path)) {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

/// The directory of `path`.
pub(crate) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// `path` with its file name put between `before` and `after`.
pub(crate) fn sibling(path: &Path, before: &str, after: &str) -> PathBuf {
    let mut name = OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(after);
    path.with_file_name(name)
}

/// Creates the directory and its missing parents; only the owner may enter them if `private`.
pub(crate) fn create_directories(path: &Path, private: bool) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = directory(path);
    if above != path {
        create_directories(above, private)?;
    }
    match directory_builder(private).create(path) {
        Ok(()) => {
            if let Ok(created) = File::open(path) {
                give_to_owner_of(above, &created);
            }
            Ok(())
        }
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// New content for a file, on disk beside it but not in its place yet. Dropping it before `commit`
/// leaves nothing behind.
pub(crate) struct Replacement {
    target: PathBuf,
    temporary: PathBuf,
    file: File,
    committed: bool,
}

impl Replacement {
    /// Writes `text` beside `target`, whose lock the caller holds. A new file is readable only by
    /// its owner if `private`.
    pub(crate) fn prepare(target: &Path, text: &str, private: bool) -> Result<Self, EditError> {
        Self::written(target, text, private).map_err(|source| EditError::Write {
            path: target.to_owned(),
            source,
        })
    }

    fn written(target: &Path, text: &str, private: bool) -> io::Result<Self> {
        let existing = match fs::symlink_metadata(target) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let temporary = sibling(target, ".", ".trunkline-tmp");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        // `create_new` refuses a planted file, in particular a link.
        options.write(true).create_new(true);
        // Nobody else may read it before it has the mode of the file it replaces.
        let closed = private || existing.is_some();
        set_mode(&mut options, if closed { 0o600 } else { 0o644 });
        let file = options.open(&temporary)?;
        let mut this = Self {
            target: target.to_owned(),
            temporary,
            file,
            committed: false,
        };
        this.file.write_all(text.as_bytes())?;
        match existing {
            Some(existing) => keep_owner_and_mode(&this.file, &existing)?,
            None => give_to_owner_of(directory(target), &this.file),
        }
        this.file.sync_all()?;
        Ok(this)
    }

    /// Moves it into place.
    pub(crate) fn commit(mut self) -> Result<(), EditError> {
        let placed = if self.is_there() {
            fs::rename(&self.temporary, &self.target)
        } else {
            Err(io::Error::other("its temporary file was taken away"))
        };
        placed.map_err(|source| EditError::Write {
            path: self.target.clone(),
            source,
        })?;
        self.committed = true;
        // Until the directory is synced, a power failure may bring the old file back, complete. If
        // this fails there is nothing to undo, and some file systems refuse it.
        #[cfg(unix)]
        let _ = File::open(directory(&self.target)).and_then(|directory| directory.sync_all());
        Ok(())
    }

    /// Whether the temporary file is ours. If the lock was lost, it may belong to the next holder.
    fn is_there(&self) -> bool {
        let there = fs::symlink_metadata(&self.temporary);
        match (there, self.file.metadata()) {
            (Ok(there), Ok(ours)) => inode(&there) == inode(&ours),
            _ => false,
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.committed && self.is_there() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Gives the new file the owner and mode of the old one, as far as permitted.
#[cfg(unix)]
fn keep_owner_and_mode(file: &File, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    let new = file.metadata()?;
    let mut mode = old.mode() & 0o7777;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        // Only root may change the owner; anyone may change the group to one of their own.
        let kept = fchown(file, Some(old.uid()), Some(old.gid()))
            .or_else(|_| fchown(file, None, Some(old.gid())));
        if kept.is_err() {
            // Permissions of the old group must not apply to ours.
            mode &= !0o070;
        }
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// If we are root, gives a file created in `directory` to the owner of the directory: an edit under
/// `sudo` must not leave an unreadable file in someone's home. Fails silently for everyone else.
#[cfg(unix)]
pub(crate) fn give_to_owner_of(directory: &Path, created: &File) {
    use std::os::unix::fs::{MetadataExt, fchown};

    if let (Ok(above), Ok(own)) = (fs::metadata(directory), created.metadata())
        && own.uid() == 0
        && above.uid() != 0
    {
        let _ = fchown(created, Some(above.uid()), Some(above.gid()));
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

/// The mode of a file that `options` creates, before the umask.
#[cfg(unix)]
pub(crate) fn set_mode(options: &mut OpenOptions, mode: u32) {
    std::os::unix::fs::OpenOptionsExt::mode(options, mode);
}

#[cfg(unix)]
fn directory_builder(private: bool) -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    if private {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    }
    builder
}

#[cfg(not(unix))]
fn keep_owner_and_mode(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_: &mut OpenOptions, _: u32) {}

#[cfg(not(unix))]
fn directory_builder(_: bool) -> fs::DirBuilder {
    fs::DirBuilder::new()
}

#[cfg(not(unix))]
pub(crate) fn give_to_owner_of(_: &Path, _: &File) {}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn replace(target: &Path, text: &str) -> Result<(), EditError> {
        Replacement::prepare(target, text, true)?.commit()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_a_regular_file_of_text_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        assert!(read(&at("none")).unwrap().is_none());

        let status = std::process::Command::new("mkfifo")
            .arg(at("fifo"))
            .status();
        assert!(status.unwrap().success());
        fs::create_dir(at("directory")).unwrap();
        fs::write(at("bytes"), [0xff, 0xfe]).unwrap();
        let large = File::create(at("large")).unwrap();
        large.set_len(files::MAX_FILE_BYTES + 1).unwrap();
        let cases = [
            (at("fifo"), "is not a regular file"),
            (at("directory"), "is not a regular file"),
            (PathBuf::from("/dev/zero"), "is not a regular file"),
            (at("bytes"), "not UTF-8 text"),
            (at("large"), "larger than 16 MB"),
        ];
        for (path, expected) in cases {
            let error = read(&path).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_mode_is_kept_and_a_new_file_has_the_one_asked_for() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("f");
        let mode = || fs::metadata(&target).unwrap().mode() & 0o7777;
        replace(&target, "new").unwrap();
        assert_eq!(mode(), 0o600);
        for kept in [0o664, 0o640, 0o400] {
            fs::set_permissions(&target, fs::Permissions::from_mode(kept)).unwrap();
            replace(&target, "newer").unwrap();
            assert_eq!(mode(), kept);
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "newer");

        fs::remove_file(&target).unwrap();
        let plain = scratch.path().join("plain");
        File::create(&plain).unwrap();
        let usual = fs::metadata(&plain).unwrap().mode() & 0o644;
        let replacement = Replacement::prepare(&target, "", false).unwrap();
        replacement.commit().unwrap();
        assert_eq!(mode() & 0o777, usual);
        assert_eq!(names(scratch.path()), ["f", "plain"]);
    }

    #[test]
    fn an_edit_by_root_leaves_the_file_to_its_owner() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        fs::create_dir(&home).unwrap();
        // Only root can set this up, and only root needs it.
        if std::os::unix::fs::chown(&home, Some(4711), Some(4712)).is_err() {
            return;
        }
        let owner = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.uid(), metadata.gid())
        };
        let new = home.join("a/b");
        create_directories(&new, true).unwrap();
        let target = new.join("f");
        replace(&target, "1").unwrap();
        for path in [&home.join("a"), &new, &target] {
            assert_eq!(owner(path), (4711, 4712), "{}", path.display());
        }
        std::os::unix::fs::chown(&target, Some(815), Some(816)).unwrap();
        replace(&target, "2").unwrap();
        assert_eq!(owner(&target), (815, 816));
    }

    #[test]
    fn missing_directories_are_made_for_whom_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let private = scratch.path().join("a/b");
        create_directories(&private, true).unwrap();
        for path in [&private, directory(&private)] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700);
        }
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(create_directories(&file.join("c"), true).is_err());
    }

    #[test]
    fn links_are_followed_to_the_file_and_no_further() {
        let scratch = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(scratch.path()).unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir(at("d")).unwrap();
        symlink("d/two", at("one")).unwrap();
        symlink("../f", at("d/two")).unwrap();
        symlink("d", at("e")).unwrap();
        symlink(at("loop b"), at("loop a")).unwrap();
        symlink("loop a", at("loop b")).unwrap();
        let cases = [
            ("f", "f"),
            ("one", "f"),
            ("e/two", "f"),
            ("e/../d/x", "d/x"),
            ("no/such/f", "no/such/f"),
        ];
        for (path, expected) in cases {
            assert_eq!(resolve(&at(path)).unwrap(), at(expected), "{path}");
        }
        let error = resolve(&at("loop a")).unwrap_err().to_string();
        assert!(error.contains("too many symbolic links"), "{error}");
        assert!(resolve(Path::new("/")).is_err());
    }

    #[test]
    fn a_planted_temporary_file_is_not_written_through() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("f");
        let victim = scratch.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        symlink(&victim, scratch.path().join(".f.trunkline-tmp")).unwrap();
        replace(&target, "new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert!(fs::symlink_metadata(&target).unwrap().is_file());
        assert_eq!(names(scratch.path()), ["f", "victim"]);
    }

    #[test]
    fn a_failed_or_abandoned_replacement_leaves_the_old_file_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("f");
        fs::write(&target, "old").unwrap();
        drop(Replacement::prepare(&target, "new", true).unwrap());
        assert_eq!(names(scratch.path()), ["f"]);
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");

        // A directory, which a rename cannot replace.
        let replacement = Replacement::prepare(&target, "new", true).unwrap();
        fs::remove_file(&target).unwrap();
        fs::create_dir(&target).unwrap();
        let error = replacement.commit().unwrap_err().to_string();
        assert!(error.contains("cannot be written"), "{error}");
        assert_eq!(names(scratch.path()), ["f"]);

        // The temporary file of the next holder must be neither used nor removed.
        fs::remove_dir(&target).unwrap();
        let replacement = Replacement::prepare(&target, "new", true).unwrap();
        let theirs = scratch.path().join(".f.trunkline-tmp");
        fs::write(scratch.path().join("theirs"), "half of").unwrap();
        fs::rename(scratch.path().join("theirs"), &theirs).unwrap();
        assert!(replacement.commit().is_err());
        assert_eq!(names(scratch.path()), [".f.trunkline-tmp"]);
    }
}
