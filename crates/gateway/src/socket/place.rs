//! Where the socket is: a directory that only its owner can enter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest path of a socket, in bytes: `sun_path` of macOS less its end.
const MAX_PATH: usize = 103;

/// The files of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketPlace {
    /// The socket.
    pub socket: PathBuf,
    /// The file whose lock the running daemon holds.
    pub lock: PathBuf,
}

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The path is too long for a socket.
    #[error("{} is longer than the {MAX_PATH} bytes that a socket may have; use --socket with a shorter path", .0.display())]
    TooLong(PathBuf),
    /// Others can enter the directory.
    #[error("{} is not private: {reason}", directory.display())]
    NotPrivate {
        /// The directory.
        directory: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// The directory cannot be created or read.
    #[error("{}: {source}", directory.display())]
    Io {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The place of the user's daemon: below `runtime_dir` (`XDG_RUNTIME_DIR`), or else below the state
/// directory. `relocated` tells the daemons of different configuration directories apart.
pub fn default_place(
    runtime_dir: Option<&Path>,
    state_dir: &Path,
    relocated: Option<&str>,
) -> SocketPlace {
    let runtime_dir = runtime_dir.filter(|dir| dir.is_absolute() && dir.is_dir());
    let directory = match runtime_dir {
        Some(dir) => dir.join("trunkline"),
        None => state_dir.join("run"),
    };
    let name = match relocated.filter(|_| runtime_dir.is_some()) {
        Some(id) => format!("daemon-{id}.sock"),
        None => "daemon.sock".to_owned(),
    };
    SocketPlace::at(directory.join(name))
}

impl SocketPlace {
    /// The place of a socket.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        let socket = socket.into();
        Self {
            lock: socket.with_extension("lock"),
            socket,
        }
    }

    fn directory(&self) -> &Path {
        match self.socket.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Creates the directory if it does not exist, and checks that it is private: ours, and closed
    /// to everyone else.
    pub fn prepare(&self) -> Result<(), PlaceError> {
        if self.socket.as_os_str().len() > MAX_PATH {
            return Err(PlaceError::TooLong(self.socket.clone()));
        }
        let directory = self.directory();
        let failed = |source| PlaceError::Io {
            directory: directory.to_owned(),
            source,
        };
        let created = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        created.map_err(failed)?;
        // Not the target of a link: who owns the link could change it.
        let metadata = fs::symlink_metadata(directory).map_err(failed)?;
        check_private(directory, &metadata)
    }

    /// Checks that a socket may be connected to: it is ours, in a private directory.
    pub fn check(&self) -> Result<(), PlaceError> {
        let directory = self.directory();
        let metadata = fs::symlink_metadata(directory).map_err(|source| PlaceError::Io {
            directory: directory.to_owned(),
            source,
        })?;
        check_private(directory, &metadata)
    }
}

fn check_private(directory: &Path, metadata: &fs::Metadata) -> Result<(), PlaceError> {
    let own = rustix::process::geteuid().as_raw();
    let mode = metadata.permissions().mode();
    match privacy_problem(metadata.is_dir(), metadata.uid(), mode, own) {
        None => Ok(()),
        Some(reason) => Err(PlaceError::NotPrivate {
            directory: directory.to_owned(),
            reason,
        }),
    }
}

/// Why a directory of this owner and mode is not private to the user `own`.
fn privacy_problem(is_dir: bool, owner: u32, mode: u32, own: u32) -> Option<&'static str> {
    if !is_dir {
        Some("it is not a directory")
    } else if owner != own {
        Some("it belongs to another user")
    } else if mode & 0o077 != 0 {
        Some("others can enter it; run chmod 700 on it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_closed_directory_is_private() {
        for (is_dir, owner, mode, private) in [
            (true, 7, 0o40700, true),
            (true, 7, 0o40500, true),
            (true, 7, 0o40710, false),
            (true, 7, 0o40701, false),
            (true, 0, 0o40700, false),
            (false, 7, 0o100_700, false),
        ] {
            let problem = privacy_problem(is_dir, owner, mode, 7);
            assert_eq!(problem.is_none(), private, "{owner} {mode:o}");
        }
    }

    #[test]
    fn the_directory_is_created_private_and_an_open_one_or_a_link_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let place = SocketPlace::at(scratch.path().join("run/daemon.sock"));
        place.prepare().unwrap();
        let mode = fs::metadata(scratch.path().join("run"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::set_permissions(
            scratch.path().join("run"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        assert!(matches!(
            place.prepare(),
            Err(PlaceError::NotPrivate { .. })
        ));
        assert!(matches!(place.check(), Err(PlaceError::NotPrivate { .. })));
        fs::set_permissions(
            scratch.path().join("run"),
            fs::Permissions::from_mode(0o700),
        )
        .unwrap();
        std::os::unix::fs::symlink("run", scratch.path().join("link")).unwrap();
        let linked = SocketPlace::at(scratch.path().join("link/daemon.sock"));
        assert!(matches!(linked.check(), Err(PlaceError::NotPrivate { .. })));
        let long = SocketPlace::at(scratch.path().join("x".repeat(MAX_PATH)));
        assert!(matches!(long.prepare(), Err(PlaceError::TooLong(_))));
    }

    #[test]
    fn the_place_follows_the_runtime_directory_and_the_configuration() {
        let scratch = tempfile::tempdir().unwrap();
        let (run, state) = (scratch.path(), Path::new("/s"));
        let at = |runtime, relocated| default_place(runtime, state, relocated).socket;
        assert_eq!(at(Some(run), None), run.join("trunkline/daemon.sock"));
        assert_eq!(
            at(Some(run), Some("ab")),
            run.join("trunkline/daemon-ab.sock")
        );
        assert_eq!(at(None, Some("ab")), Path::new("/s/run/daemon.sock"));
        assert_eq!(
            at(Some(Path::new("relative")), None),
            Path::new("/s/run/daemon.sock")
        );
        assert_eq!(
            at(Some(Path::new("/missing/run")), None),
            Path::new("/s/run/daemon.sock")
        );
    }
}
