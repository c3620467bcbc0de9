//! Servers behind a WebSocket, one JSON message per WebSocket message (TRN-1, ws and ws-ide).
//!
//! The sending half writes batches and closes the link. The receiving half reads and detects
//! silence. The keep-alive task sends pings, and pongs for the receiving half. The framing is our
//! own, in `frames` and `encode`: a message over the limit is skipped without ending the link, and
//! no task wakes another one for a message.

mod codes;
mod encode;
mod error;
pub(crate) mod frames;
mod handshake;
mod mask;
mod receiver;
mod sender;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, watch};
use trunkline_wire::transport::Transport;
use url::Url;

use crate::MAX_MESSAGE_BYTES;
use crate::net::{Dialer, Stream, Target, TlsFiles};
pub use error::WsError;
use frames::FrameDecoder;
pub use receiver::WsReceiver;
pub use sender::WsSender;

/// Interval of pings.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);

/// The longest silence, pongs included.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(40);

/// Time limit for the handshake once the server is connected.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for the response to our Close frame.
pub const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Status codes of our Close frames.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

/// A server to connect to over WebSocket.
#[derive(Clone)]
pub struct WsServer {
    /// Its URL: `ws:` or `wss:`.
    pub url: Url,
    /// Additional headers of the handshake; its own cannot be replaced.
    pub headers: Vec<(String, String)>,
    /// Certificate files for TLS.
    pub tls_files: TlsFiles,
}

/// Shows neither header values nor the secret parts of the URL (SEC-1).
impl fmt::Debug for WsServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let place = Target::of(&self.url).map(|target| target.to_string());
        f.debug_struct("WsServer")
            .field("place", &place.unwrap_or_default())
            .field("headers", &names)
            .field("tls_files", &self.tls_files)
            .finish()
    }
}

impl WsServer {
    /// Connects and performs the handshake. Redirects are not followed.
    pub async fn connect(&self, dialer: &Dialer) -> Result<WsTransport, WsError> {
        let target = Target::of(&self.url)?;
        let mut stream = dialer.dial_direct(&target, &self.tls_files).await?;
        let shaken = handshake::perform(&mut stream, &self.url, &self.headers);
        let rest = tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken)
            .await
            .map_err(|_| WsError::TimedOut(HANDSHAKE_TIMEOUT))??;
        Ok(WsTransport {
            stream,
            frames: FrameDecoder::new(MAX_MESSAGE_BYTES, rest),
        })
    }
}

/// An open link. [`Transport::split`] must be called on a Tokio runtime.
pub struct WsTransport {
    stream: Stream,
    frames: FrameDecoder,
}

impl Transport for WsTransport {
    type Sender = WsSender;
    type Receiver = WsReceiver;

    fn split(self) -> (WsSender, WsReceiver) {
        let (read, write) = self.stream.into_split();
        split_stream(read, write, self.frames)
    }
}

fn split_stream<R, W>(read: R, write: W, frames: FrameDecoder) -> (WsSender<W>, WsReceiver<R>)
where
    W: AsyncWrite + Unpin + Send + 'static,
{
    let state = Arc::new(LinkState::default());
    (
        WsSender::start(write, Arc::clone(&state)),
        WsReceiver::new(read, frames, state),
    )
}

/// State that the receiving half shares with the sending half and the keep-alive task.
#[derive(Default)]
struct LinkState {
    /// The payload of the newest unanswered ping; older ones need no pong.
    pong: Mutex<Option<Bytes>>,
    pong_queued: Notify,
    /// Nothing more will be received.
    receive_ended: watch::Sender<bool>,
    /// The server broke the protocol.
    protocol_violated: AtomicBool,
}

impl LinkState {
    fn queue_pong(&self, payload: Bytes) {
        *self.pong.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
        self.pong_queued.notify_one();
    }

    fn take_pong(&self) -> Option<Bytes> {
        let mut pong = self.pong.lock().unwrap_or_else(PoisonError::into_inner);
        pong.take()
    }

    /// The status code of our Close frame.
    fn close_code(&self) -> u16 {
        if self.protocol_violated.load(Ordering::Relaxed) {
            PROTOCOL_ERROR
        } else {
            NORMAL
        }
    }
}

#[cfg(test)]
mod tests;
