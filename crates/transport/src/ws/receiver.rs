//! The half that receives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, Sleep, sleep};
use trunkline_wire::transport::{CloseReason, Closed, Incoming, ReceiveHalf};

use super::frames::{Event, FrameDecoder};
use super::{Debts, SILENCE_LIMIT};
use crate::net::ReadHalf;

/// How much is read at once, unless more is known to come.
const READ_BYTES: usize = 16 * 1024;

/// Less room than this is not worth a read.
const LITTLE: usize = 2 * 1024;

/// How often a message that takes long to arrive is taken for a sign of life.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// The half that receives.
pub struct WsReceiver<R = ReadHalf> {
    stream: R,
    frames: FrameDecoder,
    debts: Arc<Debts>,
    /// When bytes last arrived.
    heard: Instant,
    /// When anything was last passed on.
    told: Instant,
    /// Wakes us when it may be time to give up; it is set anew only then.
    silence: Pin<Box<Sleep>>,
}

impl<R> WsReceiver<R> {
    pub(super) fn new(stream: R, frames: FrameDecoder, debts: Arc<Debts>) -> Self {
        let now = Instant::now();
        Self {
            stream,
            frames,
            debts,
            heard: now,
            told: now,
            silence: Box::pin(sleep(SILENCE_LIMIT)),
        }
    }
}

/// Whoever closes the link need not wait for more.
impl<R> Drop for WsReceiver<R> {
    fn drop(&mut self) {
        self.debts.ended.send_replace(true);
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> ReceiveHalf for WsReceiver<R> {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        let received = self.next().await;
        if received.is_err() {
            self.debts.ended.send_replace(true);
        }
        received.map_err(Closed::new)
    }
}

impl<R: AsyncRead + Unpin> WsReceiver<R> {
    async fn next(&mut self) -> Result<Incoming, CloseReason> {
        let mut read = None;
        loop {
            match self.frames.next_event() {
                Ok(Some(Event::Message(incoming))) => {
                    self.told = self.heard;
                    return Ok(incoming);
                }
                Ok(Some(Event::Ping(payload))) => {
                    let bytes = payload.len();
                    self.debts.owe_pong(payload);
                    return Ok(Incoming::Noise { frames: 1, bytes });
                }
                // An empty frame brings no message nearer to its end.
                Ok(Some(Event::Pong | Event::Part(0))) => {
                    return Ok(Incoming::Noise {
                        frames: 1,
                        bytes: 0,
                    });
                }
                Ok(Some(Event::Part(bytes))) => return Ok(Incoming::Partial { bytes }),
                Ok(Some(Event::Close { code, reason })) => return Err(farewell(code, &reason)),
                Ok(None) => {
                    if self.frames.is_inside_message() && self.heard - self.told >= ALIVE_EVERY {
                        self.told = self.heard;
                        return Ok(Incoming::Activity { to: None });
                    }
                    if let Some(bytes) = read {
                        return Ok(Incoming::Partial { bytes });
                    }
                    read = Some(self.read_more().await?);
                }
                Err(what) => {
                    self.debts.violated.store(true, Ordering::Relaxed);
                    return Err(CloseReason::Io(format!(
                        "the server broke the WebSocket protocol: {what}"
                    )));
                }
            }
        }
    }

    /// Reads some bytes. Safe to drop while it waits.
    async fn read_more(&mut self) -> Result<usize, CloseReason> {
        loop {
            let missing = self.frames.missing();
            let buffer = self.frames.buffer();
            make_room(buffer, missing);
            tokio::select! {
                biased;
                read = self.stream.read_buf(buffer) => {
                    self.heard = Instant::now();
                    return match read {
                        Ok(0) => Err(cut()),
                        Ok(bytes) => Ok(bytes),
                        Err(error) => Err(broken(&error)),
                    };
                }
                () = self.silence.as_mut() => {
                    let limit = self.heard + SILENCE_LIMIT;
                    if Instant::now() >= limit {
                        return Err(CloseReason::Io(format!(
                            "nothing arrived for {} s, not even an answer to our pings",
                            SILENCE_LIMIT.as_secs()
                        )));
                    }
                    self.silence.as_mut().reset(limit);
                }
            }
        }
    }
}

/// Room for what is known to be missing, or for some more. What is left of the old block is used up first.
fn make_room(buffer: &mut BytesMut, missing: usize) {
    let room = buffer.capacity() - buffer.len();
    if missing > room || room < LITTLE {
        buffer.reserve(missing.max(READ_BYTES));
    }
}

fn farewell(code: Option<u16>, reason: &str) -> CloseReason {
    match (code, reason) {
        (None | Some(1000 | 1001), "") => CloseReason::ByPeer,
        (code, reason) => {
            let code = code.map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
            let reason = match reason {
                "" => String::new(),
                text => format!(": {text}"),
            };
            CloseReason::Io(format!("the server closed it with {code}{reason}"))
        }
    }
}

fn cut() -> CloseReason {
    CloseReason::Io("the server cut it without a Close frame".to_owned())
}

fn broken(error: &io::Error) -> CloseReason {
    match error.kind() {
        // TLS that ends without its own farewell.
        io::ErrorKind::UnexpectedEof => cut(),
        _ => CloseReason::Io(format!("reading from the server failed: {error}")),
    }
}
