//! One daemon per socket: it holds the lock of a file as long as it lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the lock is tried while a daemon hands over.
const RETRY: Duration = Duration::from_millis(10);

/// The lock of the running daemon. The system releases it when the process ends, however it does.
#[derive(Debug)]
pub struct InstanceLock {
    _file: File,
}

/// Why the lock cannot be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another daemon holds it.
    #[error("a daemon is running already")]
    Held,
    /// The file cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl InstanceLock {
    /// Takes the lock if nobody holds it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io {
            path: path.to_owned(),
            source,
        };
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Takes the lock, waiting at most `limit` for the holder to release it.
    pub async fn wait(path: &Path, limit: Duration) -> Result<Self, LockError> {
        let latest = Instant::now() + limit;
        loop {
            match Self::take(path) {
                Err(LockError::Held) if Instant::now() < latest => tokio::time::sleep(RETRY).await,
                outcome => return outcome,
            }
        }
    }
}
