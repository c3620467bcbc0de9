//! Connects to a daemon.

use std::io;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::hello::{Hello, HelloError, HelloReply, RefusalCode, read_reply, write_line};
use super::listener::is_allowed_peer;
use super::place::{PlaceError, SocketPlace};

/// How long a connection to a socket may take: a daemon whose queue is full is as good as none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that a daemon has accepted.
#[derive(Debug)]
pub struct SocketConnection {
    /// What the daemon sends.
    pub reader: BufReader<OwnedReadHalf>,
    /// What it receives.
    pub writer: OwnedWriteHalf,
    /// The process of the daemon.
    pub pid: u32,
}

/// Why there is no connection to a daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// No daemon is running.
    #[error("no daemon is running")]
    NotRunning,
    /// The socket cannot be trusted.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The socket belongs to another user.
    #[error("the socket belongs to another user")]
    ForeignDaemon,
    /// The daemon refused.
    #[error("the daemon refused: {reason}")]
    Refused {
        /// The kind of the refusal.
        code: RefusalCode,
        /// The reason.
        reason: String,
    },
    /// The daemon did not answer as it should.
    #[error("the daemon did not answer: {0}")]
    Hello(#[from] HelloError),
}

/// Connects to a daemon and says hello.
pub async fn connect(
    place: &SocketPlace,
    hello: &Hello,
) -> Result<SocketConnection, ConnectFailure> {
    match place.check() {
        Ok(()) => {}
        Err(PlaceError::Io { .. }) => return Err(ConnectFailure::NotRunning),
        Err(error) => return Err(error.into()),
    }
    let connecting = timeout(CONNECT_TIMEOUT, UnixStream::connect(&place.socket)).await;
    let Ok(Ok(stream)) = connecting else {
        return Err(ConnectFailure::NotRunning);
    };
    // The hello holds secrets: whoever made the socket must be this user.
    let own = rustix::process::geteuid().as_raw();
    let peer = stream.peer_cred().map_err(HelloError::Io)?;
    if !is_allowed_peer(peer.uid(), own) {
        return Err(ConnectFailure::ForeignDaemon);
    }
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    write_line(&mut writer, hello).await.map_err(gone)?;
    match read_reply(&mut reader).await? {
        HelloReply::Welcome { pid, .. } => Ok(SocketConnection {
            reader,
            writer,
            pid,
        }),
        HelloReply::Refused { code, reason } => Err(ConnectFailure::Refused { code, reason }),
    }
}

fn gone(error: io::Error) -> ConnectFailure {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ConnectFailure::NotRunning,
        _ => ConnectFailure::Hello(HelloError::Io(error)),
    }
}
