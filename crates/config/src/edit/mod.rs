//! Writes configuration files (CFG-4): under the lock shared with other programs, atomically, and
//! without touching anything else in the file.
//!
//! `splice` edits the text, `jsonc` one with comments, as undoable `text_edit`s, and `json_layout`
//! formats additions; `lock` excludes other processes,
//! with `journal` and `wait`; `atomic` reads and replaces the file; `bounds` keeps a project's
//! links out of the user's files.

mod atomic;
mod bounds;
mod journal;
mod json_layout;
#[cfg(feature = "import")]
pub(crate) mod jsonc;
mod lock;
pub(crate) mod splice;
#[cfg(test)]
#[cfg(unix)]
mod tests;
#[cfg(feature = "import")]
pub(crate) mod text_edit;
mod wait;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atomic::{Replacement, directory, sibling, with_real_parent};
pub(crate) use bounds::ProjectBounds;
use lock::Lock;

use crate::files::ReadError;

/// How long an edit waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How often an edit is retried after the lock was lost or another program changed the file without
/// the lock.
const MAX_ATTEMPTS: usize = 10;

/// Options for an edit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EditOptions<'a> {
    /// The state directory, for the journals of lock directories. Without it, an edit after a
    /// killed one waits until its lock is stale.
    pub(crate) locks: Option<&'a Path>,
    /// Whether new files and directories are accessible only by their owner.
    pub(crate) private: bool,
    /// How long to wait for the lock; `None` is the default for interactive use.
    pub(crate) lock_timeout: Option<Duration>,
    /// Where the file may be if it is a project's; `None` is anywhere.
    pub(crate) bounds: Option<&'a ProjectBounds>,
}

/// Why a file was not edited. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// The symbolic links form a loop.
    #[error("{} leads through too many symbolic links; remove the one that leads back", path.display())]
    LinkLoop {
        /// The first link.
        path: PathBuf,
    },
    /// A project's file is a link out of the project.
    #[error("{} is a link to {}, outside of where it may lead; edit that file instead", path.display(), target.display())]
    OutOfBounds {
        /// The link.
        path: PathBuf,
        /// The file that it leads to.
        target: PathBuf,
    },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}; it is unchanged", path.display())]
    Write {
        /// The file, or the directory to create for it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The lock cannot be taken.
    #[error("the lock {} cannot be taken: {source}; if no program uses it, remove it", lock.display())]
    Lock {
        /// The lock directory.
        lock: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process holds the lock.
    #[error("{} is in use: {} was not free within {seconds} s; {advice}", path.display(), lock.display())]
    LockTimeout {
        /// The file.
        path: PathBuf,
        /// The lock.
        lock: PathBuf,
        /// The timeout in seconds.
        seconds: u64,
        /// What to do.
        advice: &'static str,
    },
    /// Another program changed the file during every attempt.
    #[error("{} keeps being changed by another program; close that program, or try again later", path.display())]
    Contended {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the file under its lock, calls `change` with the text, which is empty if there is no file,
/// and writes the result; `None` leaves the file unchanged. If the lock was lost or the file
/// changed meanwhile, `change` is called again, and only its last result counts.
pub(crate) fn edit_file<T, E: From<EditError>>(
    path: &Path,
    options: &EditOptions,
    mut change: impl FnMut(&str) -> Result<(Option<String>, T), E>,
) -> Result<T, E> {
    for _ in 0..MAX_ATTEMPTS {
        let target = atomic::resolve(path)?;
        if options
            .bounds
            .is_some_and(|bounds| !bounds.contain(&target))
        {
            let path = path.to_owned();
            return Err(EditError::OutOfBounds { path, target }.into());
        }
        let parent = directory(&target);
        if !parent.exists() {
            // The lock needs the directory, but an edit without effect must not create it.
            if let (None, out) = change("")? {
                return Ok(out);
            }
            atomic::create_directories(parent, options.private).map_err(|source| {
                EditError::Write {
                    path: parent.to_owned(),
                    source,
                }
            })?;
            // Now the whole path can be resolved.
            continue;
        }
        let locks = lock_directories(path, &target)?;
        let mut lock = Lock::acquire(
            &target,
            &locks,
            options.locks,
            options.lock_timeout.unwrap_or(LOCK_TIMEOUT),
        )?;
        let before = atomic::read(&target)?;
        let old = before.as_deref().unwrap_or_default();
        let (new, out) = change(old)?;
        let Some(new) = new.filter(|new| new != old) else {
            return Ok(out);
        };
        let replacement = Replacement::prepare(&target, &new, options.private)?;
        // Not every program takes the lock: editors do not, and Claude Code writes without it if it
        // cannot get it. So read the file again; its modification time could not tell two changes
        // within one clock tick apart.
        if atomic::read(&target)? == before && lock.confirm() {
            replacement.commit()?;
            return Ok(out);
        }
    }
    let path = path.to_owned();
    Err(EditError::Contended { path }.into())
}

/// Replaces a file as a whole; a link in its place is replaced, not followed.
pub(crate) fn replace_file(path: &Path, text: &str) -> Result<(), EditError> {
    Replacement::prepare(path, text, false)?.commit()
}

/// Deletes the file under its lock if `may_delete` agrees to its text. Returns whether it did.
#[cfg(feature = "import")]
pub(crate) fn delete_file<E: From<EditError>>(
    path: &Path,
    options: &EditOptions,
    mut may_delete: impl FnMut(&str) -> Result<bool, E>,
) -> Result<bool, E> {
    edit_file(path, options, |text| {
        if !may_delete(text)? {
            return Ok((None, false));
        }
        let target = atomic::resolve(path)?;
        std::fs::remove_file(&target).map_err(|source| EditError::Write {
            path: target,
            source,
        })?;
        Ok((None, true))
    })
}

/// The lock directories of a file: beside the file, where `proper-lockfile` looks by default, and,
/// if `path` is a link to it, beside the link, where Claude Code looks.
fn lock_directories(path: &Path, target: &Path) -> Result<BTreeSet<PathBuf>, EditError> {
    let link = std::path::absolute(path)
        .and_then(|path| with_real_parent(&path))
        .map_err(|source| EditError::Read {
            path: path.to_owned(),
            source: ReadError::Io(source),
        })?;
    Ok([target, &link]
        .map(|path| sibling(path, "", ".lock"))
        .into())
}
