//! The receiving half.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, Sleep, sleep};
use trunkline_wire::transport::{CloseReason, Closed, Incoming, ReceiveHalf};

use super::frames::{FrameDecoder, FrameEvent};
use super::{LinkState, SILENCE_TIMEOUT};
use crate::net::ReadHalf;

/// Bytes per read, unless more are known to come.
const READ_BYTES: usize = 16 * 1024;

/// Less free capacity is not worth a read.
const MIN_FREE: usize = 2 * 1024;

/// Interval of progress reports while a long message arrives.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The receiving half.
pub struct WsReceiver<R = ReadHalf> {
    stream: R,
    frames: FrameDecoder,
    state: Arc<LinkState>,
    /// When bytes were last received.
    last_received: Instant,
    /// When something was last returned.
    last_reported: Instant,
    /// Fires when the silence limit may have passed; reset only then.
    silence_timer: Pin<Box<Sleep>>,
}

impl<R> WsReceiver<R> {
    pub(super) fn new(stream: R, frames: FrameDecoder, state: Arc<LinkState>) -> Self {
        let now = Instant::now();
        Self {
            stream,
            frames,
            state,
            last_received: now,
            last_reported: now,
            silence_timer: Box::pin(sleep(SILENCE_TIMEOUT)),
        }
    }
}

/// A closing sender need not wait for more.
impl<R> Drop for WsReceiver<R> {
    fn drop(&mut self) {
        self.state.receive_ended.send_replace(true);
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> ReceiveHalf for WsReceiver<R> {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        let received = self.next().await;
        if received.is_err() {
            self.state.receive_ended.send_replace(true);
        }
        received.map_err(Closed::new)
    }
}

impl<R: AsyncRead + Unpin> WsReceiver<R> {
    async fn next(&mut self) -> Result<Incoming, CloseReason> {
        let mut read = None;
        loop {
            match self.frames.next_event() {
                Ok(Some(FrameEvent::Message(incoming))) => {
                    self.last_reported = self.last_received;
                    return Ok(incoming);
                }
                Ok(Some(FrameEvent::Ping(payload))) => {
                    let bytes = payload.len();
                    self.state.queue_pong(payload);
                    return Ok(Incoming::Noise { frames: 1, bytes });
                }
                // An empty frame makes no progress.
                Ok(Some(FrameEvent::Pong | FrameEvent::Part(0))) => {
                    return Ok(Incoming::Noise {
                        frames: 1,
                        bytes: 0,
                    });
                }
                Ok(Some(FrameEvent::Part(bytes))) => return Ok(Incoming::Partial { bytes }),
                Ok(Some(FrameEvent::Close { code, reason })) => {
                    return Err(close_reason(code, &reason));
                }
                Ok(None) => {
                    if self.frames.has_partial_message()
                        && self.last_received - self.last_reported >= PROGRESS_INTERVAL
                    {
                        self.last_reported = self.last_received;
                        return Ok(Incoming::Activity { to: None });
                    }
                    if let Some(bytes) = read {
                        return Ok(Incoming::Partial { bytes });
                    }
                    read = Some(self.read_more().await?);
                }
                Err(what) => {
                    self.state.protocol_violated.store(true, Ordering::Relaxed);
                    return Err(CloseReason::Io(format!(
                        "the server broke the WebSocket protocol: {what}"
                    )));
                }
            }
        }
    }

    /// Reads some bytes. Cancel safe.
    async fn read_more(&mut self) -> Result<usize, CloseReason> {
        loop {
            let missing = self.frames.missing_bytes();
            let buffer = self.frames.buffer();
            reserve(buffer, missing);
            tokio::select! {
                biased;
                read = self.stream.read_buf(buffer) => {
                    self.last_received = Instant::now();
                    return match read {
                        Ok(0) => Err(unexpected_eof()),
                        Ok(bytes) => Ok(bytes),
                        Err(error) => Err(read_error(&error)),
                    };
                }
                () = self.silence_timer.as_mut() => {
                    let limit = self.last_received + SILENCE_TIMEOUT;
                    if Instant::now() >= limit {
                        return Err(CloseReason::Io(format!(
                            "no data for {} s, not even a pong",
                            SILENCE_TIMEOUT.as_secs()
                        )));
                    }
                    self.silence_timer.as_mut().reset(limit);
                }
            }
        }
    }
}

/// Reserves capacity for the missing bytes, or for some more. Free capacity is used up first.
fn reserve(buffer: &mut BytesMut, missing: usize) {
    let room = buffer.capacity() - buffer.len();
    if missing > room || room < MIN_FREE {
        buffer.reserve(missing.max(READ_BYTES));
    }
}

fn close_reason(code: Option<u16>, reason: &str) -> CloseReason {
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

fn unexpected_eof() -> CloseReason {
    CloseReason::Io("the server closed it without a Close frame".to_owned())
}

fn read_error(error: &io::Error) -> CloseReason {
    match error.kind() {
        // TLS closed without `close_notify`.
        io::ErrorKind::UnexpectedEof => unexpected_eof(),
        _ => CloseReason::Io(format!("reading from the server failed: {error}")),
    }
}
