//! The way in for fuzz targets to what is private; not part of the interface.

use bytes::{Bytes, BytesMut};

use crate::http::{self, EventDecoder};
use crate::sdk;
use crate::ws;

/// What comes out of an event stream that arrives in these pieces, in words.
pub fn event_stream(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
    let mut events = EventDecoder::new(limit);
    let mut out = Vec::new();
    for piece in pieces {
        events.push(Bytes::copy_from_slice(piece));
        loop {
            match events.next_event() {
                Ok(Some(event)) => out.push(format!("{event:?}")),
                Ok(None) => break,
                Err(_) => out.push("too long".to_owned()),
            }
        }
    }
    out.push(format!("{:?} {:?}", events.last_id(), events.retry()));
    out
}

/// What comes out of WebSocket frames that arrive in these pieces, in words; the last says how the server broke the protocol, if
/// it did.
pub fn websocket(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
    let mut frames = ws::frames::FrameDecoder::new(limit, BytesMut::new());
    let mut out = Vec::new();
    for piece in pieces {
        frames.buffer().extend_from_slice(piece);
        loop {
            match frames.next_event() {
                // Where a message is cut into parts depends on how it arrives.
                Ok(Some(ws::frames::Event::Part(_))) => {}
                Ok(Some(event)) => out.push(format!("{event:?}")),
                Ok(None) => break,
                Err(broken) => {
                    out.push(broken.to_owned());
                    return out;
                }
            }
        }
    }
    out
}

/// The status and the body of an HTTP/1.1 answer that arrives in these pieces, after which the connection is closed. An
/// error says why there is none.
pub fn http1(pieces: &[&[u8]]) -> Result<(u16, Vec<u8>), String> {
    http::read_http1(pieces)
}

/// What a gzip event stream that arrives in these pieces comes to, in words.
pub fn gzip_events(limit: usize, pieces: &[&[u8]]) -> Result<Vec<String>, String> {
    let unpacked = http::unpack_all(pieces)?;
    let pieces: Vec<_> = unpacked.iter().map(|piece| &piece[..]).collect();
    Ok(event_stream(limit, &pieces))
}

/// Whether a line is a control message of the `sdk` bridge.
pub fn control_line(line: &[u8]) -> bool {
    sdk::control::read(&Bytes::copy_from_slice(line)).is_ok()
}
