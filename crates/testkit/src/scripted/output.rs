//! Where a server's messages go: lines to a stream, or whatever front a network server has.

use std::{io::Write, sync::Mutex, thread, time::Duration};

use serde_json::Value;

/// The number of the delivery that a message answers; none when it is for the client at large.
pub(crate) type Exchange = Option<u64>;

/// Something a server sends.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    /// An answer, without a newline.
    Reply(Vec<u8>),
    /// A notification or request, without a newline.
    Message(Vec<u8>),
    /// What a script wrote in place of a message, without a newline.
    Line(Vec<u8>),
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// A line written piece by piece.
    Slow {
        line: Vec<u8>,
        chunk: usize,
        pause: Duration,
    },
    /// The work of a request is over, replied to or not.
    Settled,
    /// A request was cancelled: nothing more comes.
    Cancelled,
}

/// Takes what a server sends. Failures are ignored: a client that has gone is not this server's fault.
pub(crate) trait Sink: Send + Sync {
    fn put(&self, to: Exchange, out: Out);
    /// Nothing more is sent.
    fn close(&self);
}

/// Lines to a stream, which it keeps whole.
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

/// The one writer of a server.
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
