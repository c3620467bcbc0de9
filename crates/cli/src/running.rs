//! Detects other `trunkline` processes with a host, so that `clean` leaves their files alone.
//!
//! Each process with a host holds a shared lock on one file in the state directory. The system
//! releases the lock however the process ends.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::session;

static HELD: OnceLock<File> = OnceLock::new();

fn file() -> Option<PathBuf> {
    Some(session::state_dir()?.join("running.lock"))
}

/// Announces to other processes that this one has a host. Failing to write the file is harmless.
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

/// Returns whether another process has a host.
pub(crate) fn others() -> bool {
    let opened = file().and_then(|path| File::options().append(true).open(path).ok());
    opened.is_some_and(|file| matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)))
}
