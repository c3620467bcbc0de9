//! WebSocket frames of the server, valid or not.

use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex},
    thread,
};

use crate::{net::stream::Stream, scripted::Out};

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const FINAL: u8 = 0x80;

/// The one writer of a connection.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    stream: Arc<Mutex<Stream>>,
    binary: bool,
    fragment: Option<usize>,
}

impl Frames {
    pub(super) fn new(stream: Stream, binary: bool, fragment: Option<usize>) -> Self {
        Self {
            stream: Arc::new(Mutex::new(stream)),
            binary,
            fragment,
        }
    }

    pub(super) fn put(&self, out: &Out) {
        // Errors are ignored: the client may be gone.
        match out {
            Out::Reply(line) | Out::Message(line) | Out::Line(line) => self.message(line),
            Out::Bytes(bytes) => self.raw(bytes),
            Out::Slow { line, chunk, pause } => {
                self.fragments(line, *chunk, || thread::sleep(*pause))
            }
            Out::Settled | Out::Cancelled => Ok(()),
        }
        .ok();
    }

    pub(super) fn message(&self, bytes: &[u8]) -> io::Result<()> {
        match self.fragment {
            None => self.raw(&frame(FINAL | self.kind(), bytes)),
            Some(size) => self.fragments(bytes, size, || ()),
        }
    }

    pub(super) fn ping(&self) -> io::Result<()> {
        self.raw(&frame(FINAL | PING, b"testkit"))
    }

    pub(super) fn close(&self, code: u16, reason: &str) -> io::Result<()> {
        let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
        self.raw(&frame(FINAL | CLOSE, &payload))
    }

    pub(super) fn raw(&self, bytes: &[u8]) -> io::Result<()> {
        self.stream.lock().unwrap().write_all(bytes)
    }

    fn kind(&self) -> u8 {
        if self.binary { BINARY } else { TEXT }
    }

    fn fragments(&self, bytes: &[u8], size: usize, pause: impl Fn()) -> io::Result<()> {
        let mut stream = self.stream.lock().unwrap();
        let pieces: Vec<_> = bytes.chunks(size.max(1)).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let kind = if index == 0 {
                self.kind()
            } else {
                CONTINUATION
            };
            let last = if index + 1 == pieces.len() { FINAL } else { 0 };
            stream.write_all(&frame(kind | last, piece))?;
            pause();
        }
        Ok(())
    }
}

/// Encodes an unmasked frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        short @ 0..=125 => bytes.push(u8::try_from(short).unwrap_or_default()),
        middle @ 126..=0xffff => {
            bytes.push(126);
            bytes.extend(u16::try_from(middle).unwrap_or_default().to_be_bytes());
        }
        long => {
            bytes.push(127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// The stream of the WebSocket library: its own frames (pong, close) are written whole, between
/// ours.
#[derive(Debug)]
pub(super) struct Duplex {
    stream: Stream,
    frames: Frames,
    /// Whether its pongs are swallowed.
    mute: bool,
}

impl Duplex {
    pub(super) fn new(stream: Stream, frames: Frames) -> Self {
        Self {
            stream,
            frames,
            mute: false,
        }
    }

    /// Swallows pongs from now on; the handshake is over.
    pub(super) fn mute(&mut self) {
        self.mute = true;
    }
}

impl Read for Duplex {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Duplex {
    /// Takes whole frames, always: the library hands over all that it has, and does not flush after
    /// a Close.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.mute {
            self.frames.raw(&without_pongs(bytes))?;
        } else {
            self.frames.raw(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Control frames without the pongs among them; all are short and not masked.
fn without_pongs(mut frames: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    while let [first, length, ..] = *frames {
        let end = (usize::from(length) + 2).min(frames.len());
        if first != FINAL | PONG {
            kept.extend_from_slice(&frames[..end]);
        }
        frames = &frames[end..];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        assert_eq!(frame(FINAL | TEXT, b"hi"), b"\x81\x02hi");
        assert_eq!(frame(TEXT, &[0; 126])[..4], [1, 126, 0, 126]);
        assert_eq!(
            frame(TEXT, &vec![0; 70_000])[..10],
            [1, 127, 0, 0, 0, 0, 0, 1, 17, 112]
        );
    }

    #[test]
    fn only_pongs_are_swallowed() {
        let both = [frame(FINAL | PONG, b"x"), frame(FINAL | CLOSE, b"\x03\xe8")].concat();
        assert_eq!(without_pongs(&both), b"\x88\x02\x03\xe8");
    }
}
