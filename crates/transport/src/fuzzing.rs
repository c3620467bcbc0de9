//! Entry points for fuzz targets; not part of the API.

use bytes::Bytes;

use crate::http::{self, EventDecoder};
use crate::sdk;
#[cfg(feature = "ws")]
use crate::ws;

/// Decodes an event stream that arrives in these chunks, as text.
pub fn event_stream(limit: usize, chunks: &[&[u8]]) -> Vec<String> {
    let mut events = EventDecoder::new(limit);
    let mut out = Vec::new();
    for chunk in chunks {
        events.push(Bytes::copy_from_slice(chunk));
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

/// Decodes WebSocket frames that arrive in these chunks, as text; a protocol violation comes last.
#[cfg(feature = "ws")]
pub fn websocket(limit: usize, chunks: &[&[u8]]) -> Vec<String> {
    let mut frames = ws::frames::FrameDecoder::new(limit, bytes::BytesMut::new());
    let mut out = Vec::new();
    for chunk in chunks {
        frames.buffer().extend_from_slice(chunk);
        loop {
            match frames.next_event() {
                // Parts depend on the chunks.
                Ok(Some(ws::frames::FrameEvent::Part(_))) => {}
                Ok(Some(event)) => out.push(format!("{event:?}")),
                Ok(None) => break,
                Err(violation) => {
                    out.push(violation.to_owned());
                    return out;
                }
            }
        }
    }
    out
}

/// Decodes an HTTP/1.1 response that arrives in these chunks before the connection closes: status
/// and body.
pub fn http1(chunks: &[&[u8]]) -> Result<(u16, Vec<u8>), String> {
    http::read_http1(chunks)
}

/// Decodes a gzip event stream that arrives in these chunks, as text.
pub fn gzip_events(limit: usize, chunks: &[&[u8]]) -> Result<Vec<String>, String> {
    let decompressed = http::decompress_all(chunks)?;
    let chunks: Vec<_> = decompressed.iter().map(|chunk| &chunk[..]).collect();
    Ok(event_stream(limit, &chunks))
}

/// Whether a line is a valid control message of the `sdk` bridge.
pub fn control_line(line: &[u8]) -> bool {
    sdk::control::read(&Bytes::copy_from_slice(line)).is_ok()
}
