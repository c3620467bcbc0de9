//! The frames of the server (RFC 6455, 5), cut out of the bytes that arrive.

use bytes::{Buf, Bytes, BytesMut};
use trunkline_wire::transport::Incoming;

use super::codes::{
    BINARY, CLOSE, CONTINUATION, CONTROL_LIMIT, EIGHT_BYTES, FINAL, MASKED, PING, PONG, TEXT,
    TWO_BYTES,
};
use crate::skipped::Skipped;

/// From this size on a payload has a block of memory of its own.
const LARGE: usize = 256 * 1024;

/// What the server sent.
#[derive(Debug)]
pub(crate) enum Event {
    /// A whole message, or the news that one was too long.
    Message(Incoming),
    /// A part of a message, or an empty message: this many bytes.
    Part(usize),
    /// To be answered with the same bytes.
    Ping(Bytes),
    Pong,
    Close {
        code: Option<u16>,
        /// Untrusted text.
        reason: String,
    },
}

/// Collects bytes and gives back what they mean. A message may be no longer than the limit; a longer one is skipped and
/// reported, and what follows it is intact.
pub(crate) struct FrameDecoder {
    buffer: BytesMut,
    limit: usize,
    /// The frame whose payload is next in the buffer.
    frame: Option<Frame>,
    /// What has come of a message in several frames, or of one that is too long.
    message: Option<Partial>,
}

#[derive(Clone, Copy)]
struct Frame {
    last: bool,
    opcode: u8,
    /// How much of its payload is yet to be taken out of the buffer.
    left: u64,
}

enum Partial {
    Kept(BytesMut),
    Skipped(Skipped),
}

impl FrameDecoder {
    /// A decoder for messages of at most `limit` bytes; `buffer` holds what has arrived already.
    pub(crate) fn new(limit: usize, buffer: BytesMut) -> Self {
        Self {
            buffer,
            limit,
            frame: None,
            message: None,
        }
    }

    /// Where the bytes that arrive are to be appended.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// How many bytes are missing from the frame that is arriving; 0 if that is not known or they will not be kept.
    pub(super) fn missing(&self) -> usize {
        let skips = matches!(self.message, Some(Partial::Skipped(_)));
        let left = self.frame.filter(|_| !skips).map_or(0, |frame| frame.left);
        usize::try_from(left).map_or(0, |left| left.saturating_sub(self.buffer.len()))
    }

    /// Whether a part of a message has arrived.
    pub(super) fn is_inside_message(&self) -> bool {
        self.message.is_some() || self.frame.is_some()
    }

    /// What comes next, once it is whole; an error says how the server broke the protocol.
    pub(crate) fn next_event(&mut self) -> Result<Option<Event>, &'static str> {
        let frame = match self.frame {
            Some(frame) => frame,
            None => match self.next_frame()? {
                Some(frame) => *self.frame.insert(frame),
                None => return Ok(None),
            },
        };
        let taken = if let Some(Partial::Skipped(skipped)) = &mut self.message
            && frame.opcode < CLOSE
        {
            let some = self.buffer.len().min(clamp(frame.left));
            skipped.add(&self.buffer[..some]);
            self.buffer.advance(some);
            let left = frame.left - some as u64;
            if left > 0 {
                self.frame = Some(Frame { left, ..frame });
                return Ok((some > 0).then_some(Event::Part(some)));
            }
            self.frame = None;
            some
        } else {
            if self.buffer.len() < clamp(frame.left) {
                return Ok(None);
            }
            self.frame = None;
            let payload = self.buffer.split_to(clamp(frame.left));
            if payload.len() > LARGE {
                // The block that it came in would be kept and used again for little ones.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            if frame.opcode >= CLOSE {
                return control(frame.opcode, payload.freeze()).map(Some);
            }
            let taken = payload.len();
            match &mut self.message {
                Some(Partial::Kept(kept)) => kept.extend_from_slice(&payload),
                _ => self.message = Some(Partial::Kept(payload)),
            }
            taken
        };
        let message = if frame.last { self.finish() } else { None };
        Ok(Some(message.map_or(Event::Part(taken), Event::Message)))
    }

    /// Takes the head of a frame out of the buffer.
    fn next_frame(&mut self) -> Result<Option<Frame>, &'static str> {
        let Some((frame, head)) = Frame::parse(&self.buffer)? else {
            return Ok(None);
        };
        match (frame.opcode, &self.message) {
            (CONTINUATION, None) => return Err("a fragment of no message"),
            (TEXT | BINARY, Some(_)) => return Err("a message within a message"),
            _ => {}
        }
        self.buffer.advance(head);
        if frame.opcode < CLOSE {
            let kept = match &self.message {
                Some(Partial::Kept(kept)) => kept.len(),
                Some(Partial::Skipped(_)) => return Ok(Some(frame)),
                None => 0,
            };
            if frame.left > (self.limit - kept) as u64 {
                self.skip();
            }
        }
        Ok(Some(frame))
    }

    /// Lets go of what has come of a message that will be too long.
    fn skip(&mut self) {
        let mut skipped = Skipped::default();
        if let Some(Partial::Kept(kept)) = self.message.take() {
            skipped.add(&kept);
        }
        self.message = Some(Partial::Skipped(skipped));
    }

    /// The message whose last frame is in; an empty one is passed over.
    fn finish(&mut self) -> Option<Incoming> {
        match self.message.take()? {
            Partial::Kept(kept) => (!kept.is_empty()).then(|| Incoming::Frame(kept.freeze())),
            Partial::Skipped(skipped) => Some(skipped.report(self.limit)),
        }
    }
}

impl Frame {
    /// A frame's head and how long it is, once all of it is there.
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
        let last = first & FINAL != 0;
        let (left, head) = match second & 0x7f {
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
            CLOSE | PING | PONG if last && left <= CONTROL_LIMIT as u64 => {}
            CLOSE | PING | PONG => return Err("a control frame that is too long or in pieces"),
            _ => return Err("a frame of an unknown kind"),
        }
        let frame = Self { last, opcode, left };
        Ok(Some((frame, head)))
    }
}

/// Lengths beyond the limit never get so far as to be cut off here.
fn clamp(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn control(opcode: u8, payload: Bytes) -> Result<Event, &'static str> {
    match (opcode, &payload[..]) {
        (PING, _) => Ok(Event::Ping(payload)),
        (PONG, _) => Ok(Event::Pong),
        (_, []) => Ok(Event::Close {
            code: None,
            reason: String::new(),
        }),
        (_, [high, low, reason @ ..]) => Ok(Event::Close {
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

    /// A frame as a server sends it.
    fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![head];
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

    /// Feeds `chunks` one by one and tells what came out.
    fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut frames = FrameDecoder::new(limit, BytesMut::new());
        let mut out = Vec::new();
        for chunk in chunks {
            frames.buffer().extend_from_slice(chunk);
            loop {
                out.push(match frames.next_event() {
                    Ok(Some(Event::Message(Incoming::Frame(text)))) => {
                        String::from_utf8_lossy(&text).into_owned()
                    }
                    Ok(Some(Event::Message(Incoming::Oversize {
                        bytes, head, tail, ..
                    }))) => format!(
                        "<{bytes}: {}…{}>",
                        String::from_utf8_lossy(&head),
                        String::from_utf8_lossy(&tail)
                    ),
                    Ok(Some(Event::Part(_))) => continue,
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
    fn frames_are_messages_and_signals() {
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
    fn a_server_that_breaks_the_protocol_is_told_apart() {
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
    fn a_length_that_cannot_be_true_is_not_believed() {
        let mut frames = FrameDecoder::new(8, BytesMut::new());
        let claim = b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xffabc";
        frames.buffer().extend_from_slice(claim);
        assert!(matches!(frames.next_event(), Ok(Some(Event::Part(3)))));
        assert!(matches!(frames.next_event(), Ok(None)));
        assert_eq!(frames.missing(), 0);
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
                    let last = if index + 1 == parts.len() { FINAL } else { 0 };
                    bytes.extend(frame(kind | last, part));
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
