//! The half that sends, and the keeper that sends pings and pongs.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use trunkline_wire::transport::{CloseReason, Closed, Outgoing, SendHalf};

use super::encode::{put_close, put_message, put_ping, put_pong};
use super::mask::Masks;
use super::{CLOSE_GRACE, Debts, PING_EVERY};
use crate::net::WriteHalf;

/// A write buffer that has grown beyond this is not kept.
const KEPT_BUFFER: usize = 1024 * 1024;

/// The half that sends. Dropping it cuts the link.
pub struct WsSender<W = WriteHalf> {
    writer: Arc<Mutex<Writer<W>>>,
    debts: Arc<Debts>,
    keeper: AbortHandle,
}

impl<W: AsyncWrite + Unpin + Send + 'static> WsSender<W> {
    pub(super) fn start(stream: W, debts: Arc<Debts>) -> Self {
        let writer = Arc::new(Mutex::new(Writer {
            stream,
            text: Vec::new(),
            written: 0,
            masks: Masks::new(),
        }));
        let keeper = tokio::spawn(keep(Arc::clone(&writer), Arc::clone(&debts)));
        Self {
            writer,
            debts,
            keeper: keeper.abort_handle(),
        }
    }
}

impl<W> Drop for WsSender<W> {
    fn drop(&mut self) {
        self.keeper.abort();
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
        self.keeper.abort();
        let farewell = async {
            let mut writer = self.writer.lock().await;
            writer.say_goodbye(self.debts.status()).await?;
            // The receiving half is still reading, and sees the server's own Close frame.
            let mut ended = self.debts.ended.subscribe();
            let _ = ended.wait_for(|ended| *ended).await;
            writer.stream.shutdown().await
        };
        // Whatever goes wrong now, the link is closed.
        let _ = timeout(CLOSE_GRACE, farewell).await;
    }
}

/// Pings the server now and then, and answers its pings.
async fn keep<W: AsyncWrite + Unpin>(writer: Arc<Mutex<Writer<W>>>, debts: Arc<Debts>) {
    let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let ping = tokio::select! {
            () = debts.incurred.notified() => false,
            _ = pings.tick() => true,
        };
        let mut writer = writer.lock().await;
        // If it cannot be written, the receiving half will find out why.
        if writer.keep_up(ping, debts.take_pong()).await.is_err() {
            return;
        }
    }
}

/// What is on its way to the server. A write that was dropped half-way is finished by the next.
struct Writer<W> {
    stream: W,
    text: Vec<u8>,
    written: usize,
    masks: Masks,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> io::Result<()> {
        for message in batch.drain(..) {
            let mask = self.masks.next()?;
            put_message(&mut self.text, &message, mask);
        }
        self.flush().await
    }

    async fn keep_up(&mut self, ping: bool, owed: Option<bytes::Bytes>) -> io::Result<()> {
        if let Some(payload) = owed {
            let mask = self.masks.next()?;
            put_pong(&mut self.text, &payload, mask);
        }
        if ping {
            let mask = self.masks.next()?;
            put_ping(&mut self.text, mask);
        }
        self.flush().await
    }

    async fn say_goodbye(&mut self, status: u16) -> io::Result<()> {
        let mask = self.masks.next()?;
        put_close(&mut self.text, status, mask);
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        while self.written < self.text.len() {
            match self.stream.write(&self.text[self.written..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                some => self.written += some,
            }
        }
        self.stream.flush().await?;
        self.written = 0;
        self.text.clear();
        if self.text.capacity() > KEPT_BUFFER {
            self.text = Vec::new();
        }
        Ok(())
    }
}
