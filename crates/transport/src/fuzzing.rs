//! The way in for fuzz targets to what is private; not part of the interface.

use bytes::{Bytes, BytesMut};

use crate::http::EventDecoder;
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

/// Whether a line is a control message of the `sdk` bridge.
pub fn control_line(line: &[u8]) -> bool {
    sdk::control::read(&Bytes::copy_from_slice(line)).is_ok()
}
