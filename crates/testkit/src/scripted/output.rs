//! The one writer, which keeps lines whole.

use std::{io::Write, sync::Mutex, thread, time::Duration};

use serde_json::Value;

/// Lines to the client. Failures are ignored: a client that has gone is not this server's fault.
pub(super) struct Output(Mutex<Option<Box<dyn Write + Send>>>);

impl Output {
    pub(super) fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(writer))))
    }

    pub(super) fn message(&self, message: &Value) {
        self.line(message.to_string().into_bytes());
    }

    /// Writes `line` and a newline.
    pub(super) fn line(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        self.bytes(&line);
    }

    pub(super) fn bytes(&self, bytes: &[u8]) {
        if let Some(writer) = self.0.lock().unwrap().as_mut() {
            writer.write_all(bytes).and_then(|()| writer.flush()).ok();
        }
    }

    /// Writes `line` and a newline, `chunk` bytes at a time.
    pub(super) fn slowly(&self, line: &str, chunk: usize, pause: Duration) {
        let mut guard = self.0.lock().unwrap();
        let Some(writer) = guard.as_mut() else { return };
        for piece in format!("{line}\n").as_bytes().chunks(chunk.max(1)) {
            writer.write_all(piece).and_then(|()| writer.flush()).ok();
            thread::sleep(pause);
        }
    }

    pub(super) fn close(&self) {
        *self.0.lock().unwrap() = None;
    }
}
