//! WebSocket without extensions.

use tungstenite::handshake::derive_accept_key;

use crate::{
    Options,
    answer::{Call, answer, put},
    net::Step,
};

const FIN: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const MASKED: u8 = 0x80;

/// Responds to an upgrade request.
pub(crate) fn accept(key: &str, out: &mut Vec<u8>) {
    put(
        out,
        &[
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n",
            "sec-websocket-protocol: mcp\r\nsec-websocket-accept: ",
            &derive_accept_key(key.as_bytes()),
            "\r\n\r\n",
        ],
    );
}

pub(crate) struct WebSocket {
    modern: bool,
    /// The fragments of an unfinished message.
    started: Vec<u8>,
    answered: Vec<u8>,
}

impl Default for WebSocket {
    fn default() -> Self {
        Self {
            modern: true,
            started: Vec::new(),
            answered: Vec::new(),
        }
    }
}

impl WebSocket {
    pub(crate) fn step(&mut self, input: &mut [u8], options: &Options, out: &mut Vec<u8>) -> Step {
        let Some(frame) = Frame::read(input) else {
            return Step::Wants(0);
        };
        let end = frame.start + frame.length;
        let Some(payload) = input.get_mut(frame.start..end) else {
            return Step::Wants(end);
        };
        unmask(payload, frame.mask);
        match (frame.opcode, frame.last) {
            (TEXT | BINARY, true) if self.started.is_empty() => {
                self.message(payload, options, out);
            }
            (TEXT | BINARY | CONTINUATION, last) => {
                self.started.extend_from_slice(payload);
                if last {
                    let whole = std::mem::take(&mut self.started);
                    self.message(&whole, options, out);
                }
            }
            (PING, _) => {
                put_head(PONG, payload.len(), out);
                out.extend_from_slice(payload);
            }
            (PONG, _) => {}
            // The client closes the connection on this.
            (CLOSE, _) => {
                put_head(CLOSE, payload.len(), out);
                out.extend_from_slice(payload);
            }
            _ => return Step::Close,
        }
        Step::Done(end)
    }

    fn message(&mut self, message: &[u8], options: &Options, out: &mut Vec<u8>) {
        if options.hang {
            return;
        }
        if let Some(call) = Call::at_a_glance(message) {
            put_head(TEXT, call.answer_len(self.modern), out);
            return call.answer(self.modern, out);
        }
        answer(message, options, &mut self.modern, &mut self.answered);
        if !self.answered.is_empty() {
            put_head(TEXT, self.answered.len(), out);
            out.append(&mut self.answered);
        }
    }
}

/// The head of a frame.
struct Frame {
    opcode: u8,
    last: bool,
    mask: [u8; 4],
    /// Where the payload starts.
    start: usize,
    length: usize,
}

impl Frame {
    /// `None` while bytes are missing.
    fn read(input: &[u8]) -> Option<Self> {
        let (&[first, second], rest) = input.split_first_chunk()?;
        let (length, long) = match second & !MASKED {
            126 => (u16::from_be_bytes(*rest.first_chunk()?).into(), 2),
            127 => (u64::from_be_bytes(*rest.first_chunk()?), 8),
            short => (short.into(), 0),
        };
        let masked = second & MASKED != 0;
        let mask = if masked {
            *rest[long..].first_chunk()?
        } else {
            [0; 4]
        };
        Some(Self {
            opcode: first & 0x0f,
            last: first & FIN != 0,
            mask,
            start: 2 + long + if masked { 4 } else { 0 },
            length: usize::try_from(length).ok()?,
        })
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    if mask == [0; 4] {
        return;
    }
    let wide: [u8; 16] = std::array::from_fn(|at| mask[at % 4]);
    let (blocks, rest) = payload.as_chunks_mut();
    for block in blocks {
        *block = (u128::from_ne_bytes(*block) ^ u128::from_ne_bytes(wide)).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
}

/// The head of an unmasked frame.
fn put_head(opcode: u8, length: usize, out: &mut Vec<u8>) {
    out.push(FIN | opcode);
    if let Ok(length @ ..126) = u8::try_from(length) {
        out.push(length);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(126);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}
