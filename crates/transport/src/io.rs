//! One JSON message a line over any pair of reader and writer.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use trunkline_wire::transport::{
    CloseReason, Closed, Incoming, Outgoing, ReceiveHalf, SendHalf, Transport,
};

use crate::MAX_MESSAGE_BYTES;
use crate::lines::{LineDecoder, end_line};

/// Bytes to reserve for each read.
const READ_BYTES: usize = 8 * 1024;

/// A send buffer larger than this is freed after use.
const KEPT_BYTES: usize = 1024 * 1024;

/// Time for the writer to shut down.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// A link over a reader and a writer that carry JSON lines.
pub struct IoTransport<R, W> {
    reader: R,
    writer: W,
}

impl<R, W> IoTransport<R, W> {
    /// Joins both directions.
    pub fn new(reader: R, writer: W) -> Self {
        Self { reader, writer }
    }
}

impl<R, W> Transport for IoTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Sender = IoSender<W>;
    type Receiver = IoReceiver<R>;

    fn split(self) -> (IoSender<W>, IoReceiver<R>) {
        let sender = IoSender {
            writer: self.writer,
            text: Vec::new(),
        };
        let receiver = IoReceiver {
            reader: self.reader,
            lines: LineDecoder::new(MAX_MESSAGE_BYTES),
        };
        (sender, receiver)
    }
}

/// The sending half of an [`IoTransport`].
pub struct IoSender<W> {
    writer: W,
    text: Vec<u8>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> SendHalf for IoSender<W> {
    async fn send(&mut self, batch: &mut Vec<Outgoing>) -> Result<(), Closed> {
        self.text.clear();
        for message in batch.drain(..) {
            let from = self.text.len();
            message.encode(&mut self.text);
            end_line(&mut self.text, from);
        }
        let written = match self.writer.write_all(&self.text).await {
            Ok(()) => self.writer.flush().await,
            failed => failed,
        };
        if self.text.capacity() > KEPT_BYTES {
            self.text = Vec::new();
        }
        written.map_err(|error| Closed::new(CloseReason::Io(format!("writing failed: {error}"))))
    }

    async fn close(mut self) {
        let _ = timeout(CLOSE_GRACE, self.writer.shutdown()).await;
    }
}

/// The receiving half of an [`IoTransport`].
pub struct IoReceiver<R> {
    reader: R,
    lines: LineDecoder,
}

impl<R: AsyncRead + Send + Unpin + 'static> ReceiveHalf for IoReceiver<R> {
    async fn receive(&mut self) -> Result<Incoming, Closed> {
        if let Some(incoming) = self.lines.next_line() {
            return Ok(incoming);
        }
        let buffer = self.lines.buffer();
        buffer.reserve(READ_BYTES.max(buffer.len()));
        match self.reader.read_buf(buffer).await {
            Ok(0) => {
                let last = self.lines.last_line();
                last.ok_or_else(|| Closed::new(CloseReason::ByPeer))
            }
            Ok(bytes) => {
                let line = self.lines.next_line();
                Ok(line.unwrap_or(Incoming::Partial { bytes }))
            }
            Err(error) => Err(Closed::new(CloseReason::Io(format!(
                "reading failed: {error}"
            )))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader, duplex, split};
    use trunkline_wire::Json;

    use super::*;

    #[tokio::test]
    async fn messages_are_lines_in_both_directions_and_the_end_is_noticed() {
        let (ours, theirs) = duplex(16);
        let (reader, writer) = split(ours);
        let (mut sender, mut receiver) = IoTransport::new(reader, writer).split();
        let (their_reader, mut their_writer) = split(theirs);
        let reading = tokio::spawn(async move {
            let mut line = String::new();
            let mut reader = BufReader::new(their_reader);
            reader.read_line(&mut line).await.unwrap();
            (line, reader)
        });
        let message = Outgoing::Notification {
            method: "a",
            params: Json::parse("{\n}").ok(),
            version: None,
        };
        sender.send(&mut vec![message]).await.unwrap();
        let (line, their_reader) = reading.await.unwrap();
        assert_eq!(
            line,
            "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{ }}\n"
        );

        let writing = tokio::spawn(async move {
            their_writer
                .write_all(b"{\"first\":1}\n{\"last\":2}")
                .await
                .unwrap();
            their_writer.shutdown().await.unwrap();
        });
        let mut frames = Vec::new();
        let end = loop {
            match receiver.receive().await {
                Ok(Incoming::Frame(frame)) => frames.push(frame),
                Ok(_) => {}
                Err(end) => break end,
            }
        };
        writing.await.unwrap();
        assert_eq!(frames, [&b"{\"first\":1}"[..], b"{\"last\":2}"]);
        assert_eq!(end.reason(), &CloseReason::ByPeer);
        sender.close().await;
        drop(their_reader);
    }
}
