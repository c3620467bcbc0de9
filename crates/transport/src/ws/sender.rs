//! The sending half, and the keep-alive task with pings and pongs.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use trunkline_wire::transport::{CloseReason, Closed, Outgoing, SendHalf};

use super::encode::{put_close, put_message, put_ping, put_pong};
use super::mask::Masks;
use super::{CLOSE_GRACE, LinkState, PING_INTERVAL};
use crate::net::WriteHalf;

/// A larger write buffer is not kept.
const MAX_KEPT_BUFFER: usize = 1024 * 1024;

/// The sending half. Dropping it closes the connection.
pub struct WsSender<W = WriteHalf> {
    writer: Arc<Mutex<Writer<W>>>,
    state: Arc<LinkState>,
    keep_alive: AbortHandle,
}

impl<W: AsyncWrite + Unpin + Send + 'static> WsSender<W> {
    pub(super) fn start(stream: W, state: Arc<LinkState>) -> Self {
        let writer = Arc::new(Mutex::new(Writer {
            stream,
            output: Vec::new(),
            written: 0,
            masks: Masks::new(),
        }));
        let keep_alive = tokio::spawn(run_keep_alive(Arc::clone(&writer), Arc::clone(&state)));
        Self {
            writer,
            state,
            keep_alive: keep_alive.abort_handle(),
        }
    }
}

impl<W> Drop for WsSender<W> {
    fn drop(&mut self) {
        self.keep_alive.abort();
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> SendHalf for WsSender<W> {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        let mut writer = self.writer.lock().await;
        writer.send(batch).await.map_err(|error| {
            Closed::new(CloseReason::Io(format!(
                "writing to the server failed: {error}"
            )))
        })
    }

    async fn close(self) {
        self.keep_alive.abort();
        let closing = async {
            let mut writer = self.writer.lock().await;
            writer.send_close(self.state.close_code()).await?;
            // The receiving half still reads and sees the server's Close frame.
            let mut receive_ended = self.state.receive_ended.subscribe();
            let _ = receive_ended.wait_for(|receive_ended| *receive_ended).await;
            writer.stream.shutdown().await
        };
        // The link is closed even on errors.
        let _ = timeout(CLOSE_GRACE, closing).await;
    }
}

/// Sends pings, and pongs for the server's pings.
async fn run_keep_alive<W: AsyncWrite + Unpin>(
    writer: Arc<Mutex<Writer<W>>>,
    state: Arc<LinkState>,
) {
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let ping = tokio::select! {
            () = state.pong_queued.notified() => false,
            _ = pings.tick() => true,
        };
        let mut writer = writer.lock().await;
        // The receiving half reports write errors.
        if writer.send_control(ping, state.take_pong()).await.is_err() {
            return;
        }
    }
}

/// Buffered output. A cancelled write is completed by the next one.
struct Writer<W> {
    stream: W,
    output: Vec<u8>,
    written: usize,
    masks: Masks,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> io::Result<()> {
        for message in batch.drain(..) {
            let mask = self.masks.next()?;
            put_message(&mut self.output, &message, mask);
        }
        self.flush().await
    }

    async fn send_control(
        &mut self,
        ping: bool,
        pong_payload: Option<bytes::Bytes>,
    ) -> io::Result<()> {
        if let Some(payload) = pong_payload {
            let mask = self.masks.next()?;
            put_pong(&mut self.output, &payload, mask);
        }
        if ping {
            let mask = self.masks.next()?;
            put_ping(&mut self.output, mask);
        }
        self.flush().await
    }

    async fn send_close(&mut self, close_code: u16) -> io::Result<()> {
        let mask = self.masks.next()?;
        put_close(&mut self.output, close_code, mask);
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                some => self.written += some,
            }
        }
        self.stream.flush().await?;
        self.written = 0;
        self.output.clear();
        if self.output.capacity() > MAX_KEPT_BUFFER {
            self.output = Vec::new();
        }
        Ok(())
    }
}
