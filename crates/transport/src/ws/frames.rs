//! Decoding of server frames (RFC 6455, 5).

use bytes::{Buf, Bytes, BytesMut};
use trunkline_wire::transport::Incoming;

use super::codes::{
    BINARY, CLOSE, CONTINUATION, CONTROL_LIMIT, EIGHT_BYTES, FINAL, MASKED, PING, PONG, TEXT,
    TWO_BYTES,
};
use crate::skipped::Skipped;

/// Larger payloads do not share their memory with what follows.
const LARGE_PAYLOAD: usize = 256 * 1024;

/// A decoded event.
#[derive(Debug)]
pub(crate) enum FrameEvent {
    /// A complete message, or the report of one over the limit.
    Message(Incoming),
    /// Bytes of an incomplete or empty message.
    Part(usize),
    /// To be answered with a pong of the same payload.
    Ping(Bytes),
    Pong,
    Close {
        code: Option<u16>,
        /// Untrusted text.
        reason: String,
    },
}

/// Decodes received bytes. A message over the limit is skipped and reported; the next one is
/// intact.
pub(crate) struct FrameDecoder {
    buffer: BytesMut,
    limit: usize,
    /// The frame whose payload comes next in the buffer.
    frame: Option<FrameHeader>,
    /// A fragmented message, or one over the limit.
    message: Option<PartialMessage>,
}

#[derive(Clone, Copy)]
struct FrameHeader {
    is_final: bool,
    opcode: u8,
    /// Remaining bytes of its payload.
    remaining: u64,
}

enum PartialMessage {
    Buffered(BytesMut),
    Skipped(Skipped),
}

impl FrameDecoder {
    /// Creates a decoder for messages of at most `limit` bytes; `buffer` holds bytes already
    /// received.
    pub(crate) fn new(limit: usize, buffer: BytesMut) -> Self {
        Self {
            buffer,
            limit,
            frame: None,
            message: None,
        }
    }

    /// The buffer to append received bytes to.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Missing bytes of the current frame; 0 if unknown or if they will be skipped.
    pub(super) fn missing_bytes(&self) -> usize {
        let skips = matches!(self.message, Some(PartialMessage::Skipped(_)));
        let remaining = self
            .frame
            .filter(|_| !skips)
            .map_or(0, |frame| frame.remaining);
        usize::try_from(remaining)
            .map_or(0, |remaining| remaining.saturating_sub(self.buffer.len()))
    }

    /// Whether a message is incomplete.
    pub(super) fn has_partial_message(&self) -> bool {
        self.message.is_some() || self.frame.is_some()
    }

    /// Returns the next event; an error describes a protocol violation.
    pub(crate) fn next_event(&mut self) -> Result<Option<FrameEvent>, &'static str> {
        let frame = match self.frame {
            Some(frame) => frame,
            None => match self.next_frame()? {
                Some(frame) => *self.frame.insert(frame),
                None => return Ok(None),
            },
        };
        let taken = if let Some(PartialMessage::Skipped(skipped)) = &mut self.message
            && frame.opcode < CLOSE
        {
            let some = self.buffer.len().min(clamp(frame.remaining));
            skipped.add(&self.buffer[..some]);
            self.buffer.advance(some);
            let remaining = frame.remaining - some as u64;
            if remaining > 0 {
                self.frame = Some(FrameHeader { remaining, ..frame });
                return Ok((some > 0).then_some(FrameEvent::Part(some)));
            }
            self.frame = None;
            some
        } else {
            if self.buffer.len() < clamp(frame.remaining) {
                return Ok(None);
            }
            self.frame = None;
            let payload = self.buffer.split_to(clamp(frame.remaining));
            if payload.len() > LARGE_PAYLOAD {
                // The large block would be kept alive by small messages.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            if frame.opcode >= CLOSE {
                return control(frame.opcode, payload.freeze()).map(Some);
            }
            let taken = payload.len();
            match &mut self.message {
                Some(PartialMessage::Buffered(buffered)) => buffered.extend_from_slice(&payload),
                _ => self.message = Some(PartialMessage::Buffered(payload)),
            }
            taken
        };
        let message = if frame.is_final { self.finish() } else { None };
        Ok(Some(
            message.map_or(FrameEvent::Part(taken), FrameEvent::Message),
        ))
    }

    /// Removes a frame header from the buffer.
    fn next_frame(&mut self) -> Result<Option<FrameHeader>, &'static str> {
        let Some((frame, header_len)) = FrameHeader::parse(&self.buffer)? else {
            return Ok(None);
        };
        match (frame.opcode, &self.message) {
            (CONTINUATION, None) => return Err("a fragment of no message"),
            (TEXT | BINARY, Some(_)) => return Err("a message within a message"),
            _ => {}
        }
        self.buffer.advance(header_len);
        if frame.opcode < CLOSE {
            let buffered = match &self.message {
                Some(PartialMessage::Buffered(buffered)) => buffered.len(),
                Some(PartialMessage::Skipped(_)) => return Ok(Some(frame)),
                None => 0,
            };
            if frame.remaining > (self.limit - buffered) as u64 {
                self.skip();
            }
        }
        Ok(Some(frame))
    }

    /// Starts to skip the current message.
    fn skip(&mut self) {
        let mut skipped = Skipped::default();
        if let Some(PartialMessage::Buffered(buffered)) = self.message.take() {
            skipped.add(&buffered);
        }
        self.message = Some(PartialMessage::Skipped(skipped));
    }

    /// Completes a message; an empty one is dropped.
    fn finish(&mut self) -> Option<Incoming> {
        match self.message.take()? {
            PartialMessage::Buffered(buffered) => {
                (!buffered.is_empty()).then(|| Incoming::Frame(buffered.freeze()))
            }
            PartialMessage::Skipped(skipped) => Some(skipped.report(self.limit)),
        }
    }
}

impl FrameHeader {
    /// Parses a frame header and its length, once it is complete.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return Err("a frame of an extension that was not agreed on");
        }
        if second & MASKED != 0 {
            return Err("a masked frame");
        }
        let opcode = first & 0x0f;
        let is_final = first & FINAL != 0;
        let (remaining, header_len) = match second & 0x7f {
            TWO_BYTES => match rest.first_chunk() {
                Some(length) => (u64::from(u16::from_be_bytes(*length)), 4),
                None => return Ok(None),
            },
            EIGHT_BYTES => match rest.first_chunk() {
                Some(length) => (u64::from_be_bytes(*length), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        match opcode {
            CONTINUATION | TEXT | BINARY => {}
            CLOSE | PING | PONG if is_final && remaining <= CONTROL_LIMIT as u64 => {}
            CLOSE | PING | PONG => return Err("a control frame that is too long or in pieces"),
            _ => return Err("a frame of an unknown kind"),
        }
        let frame = Self {
            is_final,
            opcode,
            remaining,
        };
        Ok(Some((frame, header_len)))
    }
}

/// Lengths over the limit are never used after this.
fn clamp(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn control(opcode: u8, payload: Bytes) -> Result<FrameEvent, &'static str> {
    match (opcode, &payload[..]) {
        (PING, _) => Ok(FrameEvent::Ping(payload)),
        (PONG, _) => Ok(FrameEvent::Pong),
        (_, []) => Ok(FrameEvent::Close {
            code: None,
            reason: String::new(),
        }),
        (_, [high, low, reason @ ..]) => Ok(FrameEvent::Close {
            code: Some(u16::from_be_bytes([*high, *low])),
            reason: String::from_utf8_lossy(reason)
                .chars()
                .filter(|c| !c.is_control())
                .collect(),
        }),
        (_, [_]) => Err("half a status in a Close frame"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes a server frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            short @ 0..126 => bytes.push(u8::try_from(short).unwrap()),
            long => {
                bytes.push(TWO_BYTES);
                bytes.extend(u16::try_from(long).unwrap().to_be_bytes());
            }
        }
        bytes.extend(payload);
        bytes
    }

    /// Decodes `chunks` one by one, as text.
    fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut frames = FrameDecoder::new(limit, BytesMut::new());
        let mut out = Vec::new();
        for chunk in chunks {
            frames.buffer().extend_from_slice(chunk);
            loop {
                out.push(match frames.next_event() {
                    Ok(Some(FrameEvent::Message(Incoming::Frame(text)))) => {
                        String::from_utf8_lossy(&text).into_owned()
                    }
                    Ok(Some(FrameEvent::Message(Incoming::Oversize {
                        bytes, head, tail, ..
                    }))) => format!(
                        "<{bytes}: {}…{}>",
                        String::from_utf8_lossy(&head),
                        String::from_utf8_lossy(&tail)
                    ),
                    Ok(Some(FrameEvent::Part(_))) => continue,
                    Ok(Some(other)) => format!("{other:?}"),
                    Ok(None) => break,
                    Err(what) => {
                        out.push(what.to_owned());
                        return out;
                    }
                });
            }
        }
        out
    }

    #[test]
    fn frames_decode_to_events() {
        let cases: [(&[&[u8]], &[&str]); 9] = [
            (&[b"\x81\x01a", b"\x82\x02bc"], &["a", "bc"]),
            (&[b"\x01\x01a", b"\x00\x01b", b"\x80\x01c"], &["abc"]),
            (
                &[b"\x01\x01a", b"\x89\x01p", b"\x80\x01c"],
                &[r#"Ping(b"p")"#, "ac"],
            ),
            (&[b"\x81\x00", b"\x8a\x00"], &["Pong"]),
            (
                &[b"\x88\x04\x03\xe8hi"],
                &[r#"Close { code: Some(1000), reason: "hi" }"#],
            ),
            (&[b"\x88\x00"], &[r#"Close { code: None, reason: "" }"#]),
            (
                &[b"\x81\x09123456789", b"\x81\x02ok"],
                &["<9: 123456789…123456789>", "ok"],
            ),
            (
                &[
                    b"\x01\x041234",
                    b"\x00\x0556789",
                    b"\x89\x00",
                    b"\x80\x01x",
                    b"\x81\x01y",
                ],
                &[r#"Ping(b"")"#, "<10: 123456789x…123456789x>", "y"],
            ),
            (&[b"\x81\x0812345678"], &["12345678"]),
        ];
        for (chunks, expected) in cases {
            assert_eq!(decode(8, chunks.iter().copied()), expected, "{chunks:?}");
        }
    }

    #[test]
    fn each_protocol_violation_is_a_distinct_error() {
        let cases: [(&[u8], &str); 9] = [
            (
                b"\xc1\x00",
                "a frame of an extension that was not agreed on",
            ),
            (b"\x81\x81aaaab", "a masked frame"),
            (b"\x80\x00", "a fragment of no message"),
            (b"\x01\x01a\x81\x01b", "a message within a message"),
            (b"\x83\x00", "a frame of an unknown kind"),
            (b"\x8b\x00", "a frame of an unknown kind"),
            (b"\x09\x00", "a control frame that is too long or in pieces"),
            (
                b"\x89\x7e\x00\x7e",
                "a control frame that is too long or in pieces",
            ),
            (b"\x88\x01\x03", "half a status in a Close frame"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode(8, [bytes]), [expected], "{bytes:?}");
        }
    }

    #[test]
    fn an_impossible_length_reserves_no_memory() {
        let mut frames = FrameDecoder::new(8, BytesMut::new());
        let claim = b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xffabc";
        frames.buffer().extend_from_slice(claim);
        assert!(matches!(frames.next_event(), Ok(Some(FrameEvent::Part(3)))));
        assert!(matches!(frames.next_event(), Ok(None)));
        assert_eq!(frames.missing_bytes(), 0);
        assert!(frames.buffer().is_empty());
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_the_bytes_arrive(
            messages in prop::collection::vec(("[a-z]{0,200}", 1_usize..5, any::<bool>()), 0..6),
            size in 1_usize..40,
        ) {
            let mut bytes = Vec::new();
            for (text, pieces, ping) in &messages {
                let each = text.len().div_ceil(*pieces).max(1);
                let parts: Vec<_> = text.as_bytes().chunks(each).collect();
                for (index, part) in parts.iter().enumerate() {
                    let kind = if index == 0 { TEXT } else { CONTINUATION };
                    let is_final = if index + 1 == parts.len() { FINAL } else { 0 };
                    bytes.extend(frame(kind | is_final, part));
                    if *ping {
                        bytes.extend(frame(FINAL | PING, b"p"));
                    }
                }
            }
            let whole = decode(150, [&bytes[..]]);
            prop_assert_eq!(decode(150, bytes.chunks(size)), whole.clone());
            let heard: Vec<_> = whole.iter().filter(|what| !what.starts_with("Ping")).collect();
            let said = messages.iter().map(|(text, ..)| text);
            let said: Vec<_> = said.filter(|text| !text.is_empty()).collect();
            prop_assert_eq!(heard.len(), said.len());
            for (heard, said) in heard.iter().zip(said) {
                let length = format!("<{}:", said.len());
                let skipped = said.len() > 150 && heard.starts_with(&length);
                prop_assert!(*heard == said || skipped, "{} {}", heard, said);
            }
        }
    }
}
