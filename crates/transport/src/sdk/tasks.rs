//! The two tasks behind a bridge: one reads and routes, one writes.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use trunkline_wire::transport::{CloseReason, Closed, Incoming};

use super::lines::Lines;
use super::router::{Router, Written};
use crate::MAX_MESSAGE_BYTES;
use crate::lines::LineDecoder;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Lines and bytes after which other tasks get to run.
const LINES_AT_ONCE: usize = 32;
const BYTES_AT_ONCE: usize = 256 * 1024;

/// How many bytes of the reader's own answers may wait for the embedding program to read; more are dropped, because only one
/// that floods us without reading gets that far.
const MAX_ANSWERS: usize = 1024 * 1024;

/// How many writes are taken together.
const WRITES_AT_ONCE: usize = 64;

/// Reads lines and routes them until the end. It never waits for anything but the next bytes, so no server and no full pipe can
/// keep it from the others.
pub(super) async fn read(
    mut reader: impl AsyncRead + Unpin,
    limit: usize,
    router: Arc<Router>,
    written: mpsc::Sender<Written>,
) {
    let mut lines = LineDecoder::new(limit);
    let mut answers = Lines::default();
    let why = loop {
        let (mut count, mut bytes) = (0, 0);
        while let Some(incoming) = lines.next_line() {
            count += 1;
            bytes += match &incoming {
                Incoming::Frame(line) => line.len(),
                Incoming::Noise { bytes, .. } => *bytes,
                _ => 0,
            };
            let before = answers.len();
            router.incoming(incoming, &mut answers);
            if answers.len() > MAX_ANSWERS {
                answers.truncate(before);
            }
            if count >= LINES_AT_ONCE || bytes >= BYTES_AT_ONCE {
                (count, bytes) = (0, 0);
                tokio::task::yield_now().await;
            }
        }
        let room = lines.buffer().len().clamp(READ_BYTES, MAX_MESSAGE_BYTES);
        lines.buffer().reserve(room);
        let read = tokio::select! {
            biased;
            permit = written.reserve(), if !answers.is_empty() => {
                if let Ok(permit) = permit {
                    permit.send(Written::Lines(std::mem::take(&mut answers)));
                    continue;
                }
                // The writer has said why.
                break router.why_closed();
            }
            read = reader.read_buf(lines.buffer()) => read,
        };
        match read {
            Ok(0) => {
                while let Some(incoming) = lines.next_line().or_else(|| lines.last_line()) {
                    router.incoming(incoming, &mut answers);
                }
                break Closed::new(CloseReason::ByPeer);
            }
            Ok(_) => {}
            Err(error) => {
                let reason = format!("reading from the embedding program failed: {error}");
                break Closed::new(CloseReason::Io(reason));
            }
        }
    };
    router.close(&why);
}

/// Writes whole lines until nobody is left who could send any.
pub(super) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut written: mpsc::Receiver<Written>,
    router: Arc<Router>,
) {
    let mut batch = Vec::new();
    loop {
        if written.recv_many(&mut batch, WRITES_AT_ONCE).await == 0 {
            return;
        }
        let mut flushes = Vec::new();
        let mut outcome = Ok(());
        for written in batch.drain(..) {
            match written {
                Written::Flush(done) => flushes.push(done),
                Written::Lines(lines) if outcome.is_ok() => {
                    outcome = writer.write_all(&lines.into_bytes()).await;
                }
                Written::Lines(_) => {}
            }
        }
        if outcome.is_ok() {
            outcome = writer.flush().await;
        }
        if let Err(error) = outcome {
            let reason = format!("writing to the embedding program failed: {error}");
            router.close(&Closed::new(CloseReason::Io(reason)));
            return;
        }
        for done in flushes {
            let _ = done.send(());
        }
    }
}
