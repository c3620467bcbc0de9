//! How configuration files are written (CFG-4): under the lock that other programs respect, whole or not at all, and without
//! touching what an edit is not about.
//!
//! `splice` changes the text and `layout` lays out what it adds; `lock` keeps others out, with the help of `ledger` and `wait`;
//! `atomic` reads the file and replaces it.

mod atomic;
mod json_layout;
mod ledger;
mod lock;
pub(crate) mod splice;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod wait;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atomic::{Replacement, directory, sibling, with_real_parent};
use lock::Lock;

use crate::files::ReadError;

/// How long an edit waits for the lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

/// How often an edit starts again because the lock was lost, or the file changed by a program that does not take it.
const MAX_ATTEMPTS: usize = 10;

/// How one file is edited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EditOptions<'a> {
    /// The state directory, for what Trunkline processes tell each other about locks; without it, an edit after a killed one
    /// waits until its lock is stale.
    pub(crate) locks: Option<&'a Path>,
    /// Whether a new file, and new directories on the way to it, are for their owner alone.
    pub(crate) private: bool,
    /// How long to wait for the lock; by default as long as somebody who waits for the result would.
    pub(crate) patience: Option<Duration>,
}

/// Why a file was not edited. It is as it was before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// Its symbolic links have no end.
    #[error("{} leads through too many symbolic links; remove the one that leads back", path.display())]
    LinkLoop {
        /// The first link.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("{} cannot be written: {source}; it is unchanged", path.display())]
    Write {
        /// The file, or the directory that was to be made for it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The lock cannot be made.
    #[error("the lock {} cannot be taken: {source}; if no program uses it, remove it", lock.display())]
    Lock {
        /// The lock directory.
        lock: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Someone else has the lock and keeps it.
    #[error("{} is in use: {} was not free within {seconds} s; {advice}", path.display(), lock.display())]
    LockTimeout {
        /// The file.
        path: PathBuf,
        /// The lock.
        lock: PathBuf,
        /// How long it was waited for.
        seconds: u64,
        /// What to do.
        advice: &'static str,
    },
    /// Each time, someone else changed it meanwhile.
    #[error("{} keeps being changed by another program; close that program, or try again later", path.display())]
    Contended {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the file under its lock, lets `change` work on the text, which is `""` when there is no file, and writes what comes back;
/// a `change` that gives `None` has nothing to write. It is called again if the lock was lost meanwhile, or the file
/// changed, and it is its last call that counts.
pub(crate) fn edit_file<T, E: From<EditError>>(
    path: &Path,
    options: &EditOptions,
    mut change: impl FnMut(&str) -> Result<(Option<String>, T), E>,
) -> Result<T, E> {
    for _ in 0..MAX_ATTEMPTS {
        let target = atomic::resolve(path)?;
        let parent = directory(&target);
        if !parent.exists() {
            // The lock needs the directory, and an edit without effect makes none.
            if let (None, out) = change("")? {
                return Ok(out);
            }
            atomic::create_directories(parent, options.private).map_err(|source| {
                EditError::Write {
                    path: parent.to_owned(),
                    source,
                }
            })?;
            // Now its path can be resolved to the end.
            continue;
        }
        let locks = lock_directories(path, &target)?;
        let mut lock = Lock::acquire(
            &target,
            &locks,
            options.locks,
            options.patience.unwrap_or(LOCK_PATIENCE),
        )?;
        let before = atomic::read(&target)?;
        let old = before.as_deref().unwrap_or_default();
        let (new, out) = change(old)?;
        let Some(new) = new.filter(|new| new != old) else {
            return Ok(out);
        };
        let replacement = Replacement::prepare(&target, &new, options.private)?;
        // Not every program takes the lock: an editor does not, and Claude Code writes without it when it cannot have it. So
        // the file is read again; its time would not tell two changes within one tick of the clock apart.
        if atomic::read(&target)? == before && lock.confirm() {
            replacement.commit()?;
            return Ok(out);
        }
    }
    let path = path.to_owned();
    Err(EditError::Contended { path }.into())
}

/// The lock directories of a file: beside the file itself, where `proper-lockfile` looks by default, and, where `path` is a
/// link to it, beside the link, where Claude Code tells it to look.
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
