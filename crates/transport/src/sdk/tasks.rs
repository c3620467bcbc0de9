//! The reader and writer tasks of a bridge.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use trunkline_wire::offload::offload;
use trunkline_wire::transport::{CloseReason, Closed, Incoming};

use super::output_lines::OutputLines;
use super::router::{Router, WriteCommand};
use crate::MAX_MESSAGE_BYTES;
use crate::lines::LineDecoder;

/// Bytes per read.
const READ_BYTES: usize = 64 * 1024;

/// Lines and bytes that are read before the task yields.
const LINES_AT_ONCE: usize = 32;
const BYTES_AT_ONCE: usize = 256 * 1024;

/// The most bytes of unwritten responses of the reader; more are dropped, because only a peer that
/// floods without reading gets here.
const MAX_ANSWERS: usize = 1024 * 1024;

/// The most writes per batch.
const WRITES_AT_ONCE: usize = 64;

/// Reads and routes lines until the end. It waits only for input, so that no server and no full
/// pipe can block the others.
pub(super) async fn read(
    mut reader: impl AsyncRead + Unpin,
    limit: usize,
    router: Arc<Router>,
    written: mpsc::Sender<WriteCommand>,
) {
    let mut lines = LineDecoder::new(limit);
    let mut answers = OutputLines::default();
    let why = loop {
        let (mut count, mut bytes) = (0, 0);
        while let Some(incoming) = lines.next_line() {
            count += 1;
            bytes += match &incoming {
                Incoming::Frame(line) => line.len(),
                Incoming::Noise { bytes, .. } => *bytes,
                _ => 0,
            };
            answers = handle(&router, incoming, answers).await;
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
                    permit.send(WriteCommand::Lines(std::mem::take(&mut answers)));
                    continue;
                }
                // The writer has set the reason.
                break router.close_reason();
            }
            read = reader.read_buf(lines.buffer()) => read,
        };
        match read {
            Ok(0) => {
                while let Some(incoming) = lines.next_line().or_else(|| lines.last_line()) {
                    answers = handle(&router, incoming, answers).await;
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

/// Handles a line, which may add a response to `answers`.
async fn handle(router: &Arc<Router>, incoming: Incoming, mut answers: OutputLines) -> OutputLines {
    let bytes = match &incoming {
        Incoming::Frame(line) => line.len(),
        _ => 0,
    };
    let router = Arc::clone(router);
    let handled = offload(bytes, move || {
        let before = answers.len();
        router.handle_line(incoming, &mut answers);
        if answers.len() > MAX_ANSWERS {
            answers.truncate(before);
        }
        answers
    });
    handled.await.unwrap_or_default()
}

/// Writes lines until all senders are gone.
pub(super) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut written: mpsc::Receiver<WriteCommand>,
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
                WriteCommand::Flush(done) => flushes.push(done),
                WriteCommand::Lines(lines) if outcome.is_ok() => {
                    outcome = writer.write_all(&lines.into_bytes()).await;
                }
                WriteCommand::Lines(_) => {}
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
