//! Splits a byte stream into lines, one message each.

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr_iter, memchr2, memrchr};
use trunkline_wire::transport::Incoming;

use crate::skipped::Skipped;

/// A longer line does not share its memory with what follows.
const LONG: usize = 1024 * 1024;

/// Blank lines that count as one frame of noise. A few between messages count as none.
const BLANK_LINES: usize = 16;

/// Ends the line of JSON that starts at `from`. Line endings inside are white space and become
/// spaces.
pub(crate) fn end_line(text: &mut Vec<u8>, from: usize) {
    let mut at = from;
    while let Some(offset) = memchr2(b'\n', b'\r', &text[at..]) {
        at += offset;
        text[at] = b' ';
    }
    text.push(b'\n');
}

/// Splits received bytes into lines. A line over the limit is skipped and reported; the next one is
/// intact.
///
/// ```
/// use trunkline_transport::lines::LineDecoder;
///
/// let mut lines = LineDecoder::new(1024);
/// lines.buffer().extend_from_slice(b"{\"a\":1}\r\n{\"b\"");
/// assert!(lines.next_line().is_some());
/// assert!(lines.next_line().is_none());
/// lines.buffer().extend_from_slice(b":2}\n");
/// assert!(lines.next_line().is_some());
/// ```
pub struct LineDecoder {
    buffer: BytesMut,
    /// Bytes of the buffer known to hold no newline.
    searched: usize,
    limit: usize,
    skipping: Option<Skipped>,
    /// Blank lines not counted as noise yet.
    blank: usize,
}

impl LineDecoder {
    /// Creates a decoder for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            limit,
            skipping: None,
            blank: 0,
        }
    }

    /// The buffer to append received bytes to.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Returns the next complete line without its line ending. Blank lines, and parts of a line
    /// over the limit, are noise.
    pub fn next_line(&mut self) -> Option<Incoming> {
        if self.searched == 0
            && self.skipping.is_none()
            && let Some(noise) = self.skip_blank()
        {
            return Some(noise);
        }
        let Some(offset) = memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return self.skip_if_oversize();
        };
        let line = self.buffer.split_to(self.searched + offset + 1);
        self.searched = 0;
        if line.len() > LONG {
            // The next messages must not keep the memory of a long one alive.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        let bytes = line.len();
        let incoming = self.finish(&line.freeze());
        Some(incoming.unwrap_or(Incoming::Noise { frames: 0, bytes }))
    }

    /// Skips all blank lines together: each by itself would cost as much as a message.
    fn skip_blank(&mut self) -> Option<Incoming> {
        let is_blank = |byte: &&u8| byte.is_ascii_whitespace();
        self.buffer.first().filter(is_blank)?;
        let blank = self.buffer.iter().take_while(is_blank).count();
        let end = memrchr(b'\n', &self.buffer[..blank])? + 1;
        if end > self.limit {
            return None;
        }
        self.blank += memchr_iter(b'\n', &self.buffer[..end]).count();
        self.buffer.advance(end);
        let frames = u32::try_from(self.blank / BLANK_LINES).unwrap_or(u32::MAX);
        self.blank %= BLANK_LINES;
        Some(Incoming::Noise { frames, bytes: end })
    }

    /// Returns the last line of a stream that ended without a newline.
    pub fn last_line(&mut self) -> Option<Incoming> {
        let rest = self.buffer.split().freeze();
        self.searched = 0;
        self.finish(&rest)
    }

    fn finish(&mut self, line: &Bytes) -> Option<Incoming> {
        let length = line.len() - usize::from(line.ends_with(b"\n"));
        if self.skipping.is_some() || length > self.limit {
            let mut skipped = self.skipping.take().unwrap_or_default();
            skipped.add(&line[..length]);
            return Some(skipped.report(self.limit));
        }
        let text = line.trim_ascii_end().len();
        (text > 0).then(|| Incoming::Frame(line.slice(..text)))
    }

    /// Drops the bytes of a line that is over the limit.
    fn skip_if_oversize(&mut self) -> Option<Incoming> {
        let bytes = self.buffer.len();
        if bytes == 0 || self.skipping.is_none() && bytes <= self.limit {
            return None;
        }
        let skipped = self.skipping.get_or_insert_default();
        skipped.add(&self.buffer.split());
        self.searched = 0;
        Some(Incoming::Noise { frames: 0, bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `chunks` one by one, as text.
    fn decode(limit: usize, chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = LineDecoder::new(limit);
        let mut out = Vec::new();
        let mut keep = |incoming| {
            out.push(match incoming {
                Incoming::Noise { .. } => return,
                Incoming::Frame(line) => String::from_utf8_lossy(&line).into_owned(),
                Incoming::Oversize { bytes, .. } => format!("<{bytes} bytes>"),
                other => panic!("{other:?}"),
            });
        };
        for chunk in chunks {
            lines.buffer().extend_from_slice(chunk);
            while let Some(incoming) = lines.next_line() {
                keep(incoming);
            }
        }
        lines.last_line().into_iter().for_each(&mut keep);
        out
    }

    #[test]
    fn lines_are_split_at_newlines() {
        let cases: [(&str, &[&str]); 6] = [
            ("a\nb\n", &["a", "b"]),
            ("a\r\n\r\n  \nb", &["a", "b"]),
            ("", &[]),
            ("\n\n", &[]),
            ("1234567890\nok\n", &["<10 bytes>", "ok"]),
            ("12345678\nok", &["12345678", "ok"]),
        ];
        for (text, expected) in cases {
            assert_eq!(decode(8, &[text.as_bytes()]), expected, "{text:?}");
        }
    }

    #[test]
    fn blank_lines_are_skipped_together() {
        let mut lines = LineDecoder::new(1 << 20);
        let blank = " \r\n".repeat(1600);
        lines.buffer().extend_from_slice(blank.as_bytes());
        lines.buffer().extend_from_slice(b"  {}\n");
        assert!(matches!(
            lines.next_line(),
            Some(Incoming::Noise {
                frames: 100,
                bytes: 4800
            })
        ));
        assert!(matches!(lines.next_line(), Some(Incoming::Frame(line)) if &line[..] == b"  {}"));
        assert!(lines.next_line().is_none());
    }

    #[test]
    fn end_line_replaces_inner_line_endings() {
        let mut text = b"x\n".to_vec();
        text.extend_from_slice(b"{\n  \"a\": 1\r\n}");
        end_line(&mut text, 2);
        assert_eq!(text, b"x\n{   \"a\": 1  }\n");
    }

    #[test]
    fn the_report_of_an_oversize_line_has_both_ends() {
        let mut lines = LineDecoder::new(1000);
        let line = format!("HEAD{}TAIL\nnext\n", "x".repeat(5000));
        let mut found = Vec::new();
        for chunk in line.as_bytes().chunks(300) {
            lines.buffer().extend_from_slice(chunk);
            while let Some(incoming) = lines.next_line() {
                found.push(incoming);
            }
        }
        found.retain(|incoming| !matches!(incoming, Incoming::Noise { .. }));
        let [
            Incoming::Oversize {
                bytes, head, tail, ..
            },
            Incoming::Frame(next),
        ] = &found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!(*bytes, 5008);
        assert!(head.starts_with(b"HEAD") && tail.ends_with(b"TAIL"));
        assert_eq!(&next[..], b"next");
    }

    proptest! {
        #[test]
        fn the_lines_do_not_depend_on_how_the_bytes_arrive(
            text in "[a-c \r\n]{0,60}",
            cuts in prop::collection::vec(0_usize..60, 0..8),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(decode(100, &chunks), decode(100, &[bytes]));
        }
    }
}
