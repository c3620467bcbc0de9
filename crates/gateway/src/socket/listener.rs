//! Accepts connections of this user, and of nobody else.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::place::{PlaceError, SocketPlace};

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
}

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its user.
    pub uid: u32,
    /// Its process, if the system tells.
    pub pid: Option<i32>,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// What the client sends.
    pub reader: BufReader<OwnedReadHalf>,
    /// What it receives.
    pub writer: OwnedWriteHalf,
    /// The client.
    pub peer: PeerIdentity,
}

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Its place cannot be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It cannot be created.
    #[error("{}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Whether a process of the user `peer` may connect to the daemon of the user `own`. Root may do
/// anything anyway, but it does not need our daemon: it has its own.
pub fn is_allowed_peer(peer: u32, own: u32) -> bool {
    peer == own
}

impl Listener {
    /// Listens on a socket of its own, in place of whatever has the path: the caller holds the
    /// lock, so a socket there is that of a killed daemon, or of one that hands over.
    pub fn bind(place: &SocketPlace) -> Result<Self, BindError> {
        place.prepare()?;
        let path = &place.socket;
        let failed = |source| BindError::Io {
            path: path.clone(),
            source,
        };
        let temporary = path.with_extension(format!("new-{}", std::process::id()));
        remove(&temporary).map_err(failed)?;
        let listener = StdListener::bind(&temporary).map_err(failed)?;
        let placed = listener
            .set_nonblocking(true)
            .and_then(|()| fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600)))
            // Atomic: at every instant, a client finds the old daemon or the new one.
            .and_then(|()| fs::rename(&temporary, path));
        if let Err(source) = placed {
            let _ = fs::remove_file(&temporary);
            return Err(failed(source));
        }
        Self::from_std(listener).map_err(failed)
    }

    /// Uses a socket that a service manager has opened.
    pub fn from_std(listener: StdListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(Self { listener })
    }

    /// Waits for a connection. A connection of another user is closed, and the next one awaited.
    pub async fn accept(&self) -> io::Result<Accepted> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if let Some(accepted) = identified(stream) {
                return Ok(accepted);
            }
        }
    }

    /// The next connection that is waiting already.
    pub async fn accept_waiting(&self) -> Option<Accepted> {
        tokio::select! {
            biased;
            accepted = self.accept() => accepted.ok(),
            () = tokio::task::yield_now() => None,
        }
    }
}

fn identified(stream: UnixStream) -> Option<Accepted> {
    let credentials = stream.peer_cred().ok()?;
    let peer = PeerIdentity {
        uid: credentials.uid(),
        pid: credentials.pid(),
    };
    let own = rustix::process::geteuid().as_raw();
    if !is_allowed_peer(peer.uid, own) {
        tracing::warn!(uid = peer.uid, "refused a connection of another user");
        return None;
    }
    let (reader, writer) = stream.into_split();
    Some(Accepted {
        reader: BufReader::new(reader),
        writer,
        peer,
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_user_may_connect() {
        assert!(is_allowed_peer(1000, 1000));
        assert!(!is_allowed_peer(1001, 1000));
        assert!(!is_allowed_peer(0, 1000));
        assert!(!is_allowed_peer(65534, 0));
    }

    #[tokio::test]
    async fn the_socket_is_private_and_replaces_a_stale_one() {
        let scratch = tempfile::tempdir().unwrap();
        let place = SocketPlace::at(scratch.path().join("run/d.sock"));
        drop(Listener::bind(&place).unwrap());
        assert!(place.socket.exists(), "as after kill -9");
        let listener = Listener::bind(&place).unwrap();
        let mode = fs::metadata(&place.socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(listener.accept_waiting().await.is_none());
        let _client = UnixStream::connect(&place.socket).await.unwrap();
        let accepted = listener.accept().await.unwrap();
        assert_eq!(accepted.peer.pid, Some(std::process::id().cast_signed()));
        let names: Vec<_> = fs::read_dir(scratch.path().join("run")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}
