//! The output of a server: lines, or messages of a network server.

use std::{io::Write, sync::Mutex, thread, time::Duration};

use serde_json::Value;

/// The delivery that a message responds to; `None` for unsolicited messages.
pub(crate) type Exchange = Option<u64>;

/// An item of output.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    /// A response, without a newline.
    Reply(Vec<u8>),
    /// A notification or request, without a newline.
    Message(Vec<u8>),
    /// Raw output of a script, without a newline.
    Line(Vec<u8>),
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// A line written in chunks.
    Slow {
        line: Vec<u8>,
        chunk: usize,
        pause: Duration,
    },
    /// A request is finished, with or without a reply.
    Settled,
    /// A request was cancelled: nothing more comes.
    Cancelled,
}

/// Consumes the output of a server. Errors are ignored: the client may be gone.
pub(crate) trait Sink: Send + Sync {
    fn put(&self, to: Exchange, out: Out);
    /// Nothing more is sent.
    fn close(&self);
}

/// Writes whole lines to a stream.
pub(super) struct LineSink(Mutex<Option<Box<dyn Write + Send>>>);

impl LineSink {
    pub(super) fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(writer))))
    }
}

impl Sink for LineSink {
    fn put(&self, _: Exchange, out: Out) {
        let mut guard = self.0.lock().unwrap();
        let Some(writer) = guard.as_mut() else { return };
        let mut write = |bytes: &[u8]| writer.write_all(bytes).and_then(|()| writer.flush()).ok();
        match out {
            Out::Reply(mut line) | Out::Message(mut line) | Out::Line(mut line) => {
                line.push(b'\n');
                write(&line);
            }
            Out::Bytes(bytes) => drop(write(&bytes)),
            Out::Slow {
                mut line,
                chunk,
                pause,
            } => {
                line.push(b'\n');
                for piece in line.chunks(chunk.max(1)) {
                    write(piece);
                    thread::sleep(pause);
                }
            }
            Out::Settled | Out::Cancelled => {}
        }
    }

    fn close(&self) {
        *self.0.lock().unwrap() = None;
    }
}

/// The writer of a server.
pub(super) struct Output(Box<dyn Sink>);

impl Output {
    pub(super) fn new(sink: impl Sink + 'static) -> Self {
        Self(Box::new(sink))
    }

    pub(super) fn message(&self, to: Exchange, message: &Value) {
        self.put(to, Out::Message(message.to_string().into_bytes()));
    }

    pub(super) fn put(&self, to: Exchange, out: Out) {
        self.0.put(to, out);
    }

    pub(super) fn close(&self) {
        self.0.close();
    }
}
