//! A server behind a WebSocket, one JSON message a WebSocket message (TRN-1, ws and ws-ide).
//!
//! Two halves and a third party share a link. The sending half writes batches and ends the link. The receiving half reads,
//! and notices silence. The keeper sends pings, and the pongs that the receiving half owes. The frames are our own work, in
//! `frames` and `encode`: a message over the limit is to be skipped, not the end of the link, and no task is to wake another one for a
//! message.

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

/// How often a ping is sent.
pub const PING_EVERY: Duration = Duration::from_secs(20);

/// How long nothing at all may arrive, not even the answer to a ping.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(40);

/// How long the handshake may take once the server is reached.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

/// How long the server may take to answer our Close frame.
pub const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// The statuses of our Close frames: the link is no longer needed, and the server broke the protocol.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;

/// A server to connect to.
#[derive(Clone)]
pub struct WsServer {
    /// Where it is: `ws:` or `wss:`.
    pub url: Url,
    /// What goes into the handshake besides what belongs to it; the handshake's own headers cannot be replaced.
    pub headers: Vec<(String, String)>,
    /// Its certificates.
    pub files: TlsFiles,
}

/// Never shows the values of `headers`, nor what of the URL may be a secret (SEC-1).
impl fmt::Debug for WsServer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let place = Target::of(&self.url).map(|target| target.to_string());
        f.debug_struct("WsServer")
            .field("place", &place.unwrap_or_default())
            .field("headers", &names)
            .field("files", &self.files)
            .finish()
    }
}

impl WsServer {
    /// Reaches the server and agrees with it to speak MCP. Redirects are not followed.
    pub async fn connect(&self, dialer: &Dialer) -> Result<WsTransport, WsError> {
        let target = Target::of(&self.url)?;
        let mut stream = dialer.dial_direct(&target, &self.files).await?;
        let shaken = handshake::perform(&mut stream, &self.url, &self.headers);
        let rest = tokio::time::timeout(HANDSHAKE_LIMIT, shaken)
            .await
            .map_err(|_| WsError::TimedOut(HANDSHAKE_LIMIT))??;
        Ok(WsTransport {
            stream,
            frames: FrameDecoder::new(MAX_MESSAGE_BYTES, rest),
        })
    }
}

/// An open link. Must be taken apart on a Tokio runtime.
pub struct WsTransport {
    stream: Stream,
    frames: FrameDecoder,
}

impl Transport for WsTransport {
    type Sender = WsSender;
    type Receiver = WsReceiver;

    fn split(self) -> (WsSender, WsReceiver) {
        let (read, write) = self.stream.into_split();
        link(read, write, self.frames)
    }
}

fn link<R, W>(read: R, write: W, frames: FrameDecoder) -> (WsSender<W>, WsReceiver<R>)
where
    W: AsyncWrite + Unpin + Send + 'static,
{
    let debts = Arc::new(Debts::default());
    (
        WsSender::start(write, Arc::clone(&debts)),
        WsReceiver::new(read, frames, debts),
    )
}

/// What the receiving half leaves to the others.
#[derive(Default)]
struct Debts {
    /// What the newest ping carried that has not been answered; older ones need no answer any more.
    pong: Mutex<Option<Bytes>>,
    incurred: Notify,
    /// Whether nothing more will be received.
    ended: watch::Sender<bool>,
    /// Whether the server broke the protocol.
    violated: AtomicBool,
}

impl Debts {
    fn owe_pong(&self, payload: Bytes) {
        *self.pong.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
        self.incurred.notify_one();
    }

    fn take_pong(&self) -> Option<Bytes> {
        let mut pong = self.pong.lock().unwrap_or_else(PoisonError::into_inner);
        pong.take()
    }

    /// The status of our Close frame.
    fn status(&self) -> u16 {
        if self.violated.load(Ordering::Relaxed) {
            PROTOCOL_ERROR
        } else {
            NORMAL
        }
    }
}

#[cfg(test)]
mod tests;
