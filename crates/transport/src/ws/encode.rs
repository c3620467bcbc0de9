//! Encoding of client frames (RFC 6455, 5): unfragmented and masked.

use trunkline_wire::transport::Outgoing;

use super::codes::{CLOSE, CONTROL_LIMIT, EIGHT_BYTES, FINAL, MASKED, PING, PONG, TEXT, TWO_BYTES};
use super::mask;

/// Appends `message` as a frame.
pub(super) fn put_message(out: &mut Vec<u8>, message: &Outgoing, mask: [u8; 4]) {
    // The header precedes the payload and depends on its length; reserve the likely size.
    let start = out.len();
    let guess = head_length(message.size_hint());
    out.resize(start + guess, 0);
    message.encode(out);
    let length = out.len() - start - guess;
    let head = head_length(length);
    if head > guess {
        out.resize(out.len() + head - guess, 0);
    }
    if head != guess {
        out.copy_within(start + guess..start + guess + length, start + head);
        out.truncate(start + head + length);
    }
    put_head(&mut out[start..start + head], TEXT, length, mask);
    mask::apply(&mut out[start + head..], mask);
}

/// Appends an empty ping.
pub(super) fn put_ping(out: &mut Vec<u8>, mask: [u8; 4]) {
    put_control(out, PING, &[], mask);
}

/// Appends a pong.
pub(super) fn put_pong(out: &mut Vec<u8>, payload: &[u8], mask: [u8; 4]) {
    put_control(out, PONG, payload, mask);
}

/// Appends a Close frame.
pub(super) fn put_close(out: &mut Vec<u8>, code: u16, mask: [u8; 4]) {
    put_control(out, CLOSE, &code.to_be_bytes(), mask);
}

fn put_control(out: &mut Vec<u8>, opcode: u8, payload: &[u8], mask: [u8; 4]) {
    let payload = &payload[..payload.len().min(CONTROL_LIMIT)];
    let start = out.len();
    out.resize(start + head_length(payload.len()), 0);
    put_head(&mut out[start..], opcode, payload.len(), mask);
    let start = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[start..], mask);
}

/// The length of the header of a client frame.
fn head_length(payload: usize) -> usize {
    match payload {
        0..126 => 6,
        126..=0xffff => 8,
        _ => 14,
    }
}

fn put_head(head: &mut [u8], opcode: u8, length: usize, mask: [u8; 4]) {
    let wide = (length as u64).to_be_bytes();
    head[0] = FINAL | opcode;
    let size: &[u8] = match head.len() {
        6 => {
            head[1] = MASKED | wide[7];
            &[]
        }
        8 => {
            head[1] = MASKED | TWO_BYTES;
            &wide[6..]
        }
        _ => {
            head[1] = MASKED | EIGHT_BYTES;
            &wide
        }
    };
    head[2..2 + size.len()].copy_from_slice(size);
    head[2 + size.len()..].copy_from_slice(&mask);
}

#[cfg(test)]
mod tests {
    use trunkline_wire::Json;

    use super::*;

    /// A notification with a payload of `length` bytes.
    fn outgoing(length: usize) -> Outgoing {
        let around = r#"{"jsonrpc":"2.0","method":"n","params":{"a":""}}"#.len();
        let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(length - around));
        Outgoing::Notification {
            method: "n",
            params: Some(Json::parse(text).unwrap()),
            version: None,
        }
    }

    #[test]
    fn messages_have_the_shortest_header_and_are_masked() {
        let mask = [1, 2, 3, 4];
        for length in [60, 120, 125, 126, 127, 200, 65_480, 65_535, 65_536, 100_000] {
            let message = outgoing(length);
            let mut out = b"before".to_vec();
            put_message(&mut out, &message, mask);
            put_ping(&mut out, mask);
            let (size, head): (&[u8], _) = match length {
                0..126 => (&[], 6),
                126..=0xffff => (&(length as u64).to_be_bytes()[6..], 8),
                _ => (&(length as u64).to_be_bytes(), 14),
            };
            let frame = &mut out[b"before".len()..];
            assert_eq!(frame[0], 0x81, "{length}");
            assert_eq!(&frame[2..head - 4], size, "{length}");
            assert_eq!(frame[head - 4..head], mask, "{length}");
            assert_eq!(&frame[head + length..], b"\x89\x80\x01\x02\x03\x04");
            let mut plain = Vec::new();
            message.encode(&mut plain);
            for (index, byte) in frame[head..head + length].iter_mut().enumerate() {
                *byte ^= mask[index % 4];
            }
            assert_eq!(&frame[head..head + length], plain, "{length}");
        }
    }
}
