//! Whether another `trunkline` process has a host, so that `clean` keeps its hands off what that
//! one uses.
//!
//! Each process with a host holds a shared lock on one file in the state directory for as long as
//! it lives; the system takes the lock back however the process ends.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::session;

static HELD: OnceLock<File> = OnceLock::new();

fn file() -> Option<PathBuf> {
    Some(session::state_dir()?.join("running.lock"))
}

/// Tells other processes that this one has a host. A file that cannot be written does no harm.
pub(crate) fn announce() {
    let Some(path) = file() else {
        return;
    };
    if let Some(dir) = path.parent() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let _ = builder.create(dir);
    }
    let opened = File::options().create(true).append(true).open(path);
    if let Ok(file) = opened
        && file.try_lock_shared().is_ok()
    {
        let _ = HELD.set(file);
    }
}

/// Whether another process has a host.
pub(crate) fn others() -> bool {
    let opened = file().and_then(|path| File::options().append(true).open(path).ok());
    opened.is_some_and(|file| matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)))
}
