//! Where the body of an HTTP/1.1 answer ends (RFC 9112, 6).

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};

/// How long the line before a chunk may be, and everything after the last one.
const MAX_CHUNK_LINE: usize = 4 * 1024;
const MAX_TRAILERS: usize = 64 * 1024;
const MAX_TRAILER_LINES: usize = 100;

/// Up to which length a piece is copied, so that what is kept of it does not keep the buffer that it was read into.
pub(super) const COPIED: usize = 4 * 1024;

/// How the rest of a body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes are left.
    Length(u64),
    Chunked(Chunk),
    /// All that comes until the connection is closed.
    UntilClose,
    Ended,
}

/// What comes next in a body of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// The line that says how long it is.
    Size,
    /// So many bytes of it.
    Data(u64),
    /// The line end after it.
    End,
    /// What follows the last one; so many bytes and lines of it were read.
    Trailers(usize, usize),
}

/// What is in the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Piece(Bytes),
    /// Nothing that can be used yet.
    Nothing,
    End,
}

impl Framing {
    /// What the head of an answer says; `is_old` means HTTP/1.0.
    pub(super) fn of(
        status: StatusCode,
        headers: &HeaderMap,
        is_old: bool,
    ) -> Result<Self, &'static str> {
        if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok(Self::Ended);
        }
        if let Some(coding) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
            if is_old {
                return Err("its answer is in chunks, of which HTTP/1.0 knows nothing");
            }
            let last = coding
                .to_str()
                .ok()
                .and_then(|text| text.rsplit(',').next());
            let chunked = last.is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"));
            return Ok(if chunked {
                Self::Chunked(Chunk::Size)
            } else {
                Self::UntilClose
            });
        }
        let mut length = None;
        for value in headers.get_all(CONTENT_LENGTH) {
            for text in value.as_bytes().split(|byte| *byte == b',') {
                let said =
                    number(text.trim_ascii(), 10).ok_or("its answer has no proper length")?;
                if length.is_some_and(|length| length != said) {
                    return Err("its answer has two lengths");
                }
                length = Some(said);
            }
        }
        Ok(match length {
            Some(0) => Self::Ended,
            Some(length) => Self::Length(length),
            None => Self::UntilClose,
        })
    }

    /// Takes what can be used from the front of `input`.
    pub(super) fn take(&mut self, input: &mut BytesMut) -> Result<Found, &'static str> {
        loop {
            match self {
                Self::Ended => return Ok(Found::End),
                _ if input.is_empty() => return Ok(Found::Nothing),
                Self::UntilClose => {
                    let all = u64::MAX;
                    return Ok(Found::Piece(piece(input, all)));
                }
                Self::Length(left) | Self::Chunked(Chunk::Data(left)) => {
                    let piece = piece(input, *left);
                    *left -= piece.len() as u64;
                    if *left == 0 {
                        *self = match self {
                            Self::Chunked(_) => Self::Chunked(Chunk::End),
                            _ => Self::Ended,
                        };
                    }
                    return Ok(Found::Piece(piece));
                }
                Self::Chunked(chunk) => {
                    let Some(end) = memchr::memchr(b'\n', input) else {
                        if input.len() > MAX_CHUNK_LINE {
                            return Err(
                                "its answer is in chunks that do not say how long they are",
                            );
                        }
                        return Ok(Found::Nothing);
                    };
                    match chunk.line(&input[..end])? {
                        Some(next) => *chunk = next,
                        None => *self = Self::Ended,
                    }
                    input.advance(end + 1);
                }
            }
        }
    }
}

impl Chunk {
    /// What comes after a line; `None` after the last.
    fn line(self, line: &[u8]) -> Result<Option<Self>, &'static str> {
        // As strict as others are: what two readers take for different ends can hide an answer in another.
        let line = line.strip_suffix(b"\r");
        let line = line.filter(|line| !line.contains(&b'\r'));
        let line = line.ok_or("its answer is in chunks whose lines do not end properly")?;
        Ok(Some(match self {
            Self::Size => {
                // Nobody uses what may follow behind a semicolon.
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
                match number(trim_end(size), 16) {
                    Some(0) => Self::Trailers(0, 0),
                    Some(size) => Self::Data(size),
                    None => {
                        return Err("its answer is in chunks that do not say how long they are");
                    }
                }
            }
            Self::End if line.is_empty() => Self::Size,
            Self::Data(_) | Self::End => {
                return Err("its answer is in chunks that are longer than they say");
            }
            Self::Trailers(..) if line.is_empty() => return Ok(None),
            Self::Trailers(bytes, lines)
                if bytes + line.len() <= MAX_TRAILERS && lines < MAX_TRAILER_LINES =>
            {
                if !is_header(line) {
                    return Err("what follows its answer is no header");
                }
                Self::Trailers(bytes + line.len() + 1, lines + 1)
            }
            Self::Trailers(..) => return Err("too much follows its answer"),
        }))
    }
}

fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Whether a line is a header.
fn is_header(line: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER];
    let text = [line, b"\r\n\r\n"].concat();
    let parsed = httparse::parse_headers(&text, &mut headers);
    matches!(parsed, Ok(httparse::Status::Complete((_, [_]))))
}

/// A number that is nothing but digits.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('+') {
        return None;
    }
    u64::from_str_radix(text, radix).ok()
}

fn piece(input: &mut BytesMut, most: u64) -> Bytes {
    let length = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
    if length > COPIED {
        return input.split_to(length).freeze();
    }
    let piece = Bytes::copy_from_slice(&input[..length]);
    input.advance(length);
    piece
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        headers
    }

    #[test]
    fn the_head_says_how_the_body_is_read() {
        const LENGTH: &str = "content-length";
        const CODING: &str = "transfer-encoding";
        for (pairs, framing) in [
            (&[][..], Some(Framing::UntilClose)),
            (&[(LENGTH, "7")], Some(Framing::Length(7))),
            (&[(LENGTH, "0")], Some(Framing::Ended)),
            (&[(LENGTH, "7, 7")], Some(Framing::Length(7))),
            (&[(LENGTH, "7"), (LENGTH, "7")], Some(Framing::Length(7))),
            (&[(LENGTH, "7"), (LENGTH, "8")], None),
            (&[(LENGTH, "+7")], None),
            (&[(LENGTH, "-1")], None),
            (&[(LENGTH, "")], None),
            (&[(LENGTH, "99999999999999999999")], None),
            (&[(CODING, "chunked")], Some(Framing::Chunked(Chunk::Size))),
            (
                &[(CODING, "gzip, Chunked"), (LENGTH, "3")],
                Some(Framing::Chunked(Chunk::Size)),
            ),
            (&[(CODING, "gzip")], Some(Framing::UntilClose)),
        ] {
            let found = Framing::of(StatusCode::OK, &headers(pairs), false);
            assert_eq!(found.ok(), framing, "{pairs:?}");
        }
        let none = Framing::of(StatusCode::NO_CONTENT, &headers(&[(LENGTH, "7")]), false);
        assert_eq!(none, Ok(Framing::Ended));
    }

    /// All that is found when the bytes come so many at a time, and what is left behind the end.
    fn read(mut framing: Framing, bytes: &[u8], at_once: usize) -> Result<(Vec<u8>, bool), &str> {
        let (mut input, mut whole) = (BytesMut::new(), Vec::new());
        for part in bytes.chunks(at_once) {
            input.extend_from_slice(part);
            loop {
                match framing.take(&mut input)? {
                    Found::Piece(piece) => whole.extend_from_slice(&piece),
                    Found::Nothing => break,
                    Found::End => return Ok((whole, true)),
                }
            }
        }
        Ok((whole, false))
    }

    #[test]
    fn a_body_is_the_same_however_it_comes() {
        let chunked = Framing::Chunked(Chunk::Size);
        for (framing, bytes, whole) in [
            (Framing::Length(5), &b"hello, next"[..], Ok(("hello", true))),
            (Framing::Length(9), b"hello", Ok(("hello", false))),
            (Framing::UntilClose, b"hello", Ok(("hello", false))),
            (
                chunked,
                b"2\r\nhe\r\n003;a=b\r\nllo\r\n0\r\nx: y\r\n\r\nHTTP",
                Ok(("hello", true)),
            ),
            (chunked, b"a\n0123456789\n0\n\n", Err(())),
            (chunked, b"2 \t\r\nab\r\n0\r\n\r\n", Ok(("ab", true))),
            (chunked, b" 2\r\nab\r\n0\r\n\r\n", Err(())),
            (chunked, b"2\r\r\nab\r\n", Err(())),
            (chunked, b"0\r\nno header\r\n\r\n", Err(())),
            (chunked, b"3\r\nab", Ok(("ab", false))),
            (chunked, b"2\r\nabc\r\n", Err(())),
            (chunked, b"x\r\n", Err(())),
            (chunked, b"\r\n", Err(())),
            (chunked, b"-1\r\n", Err(())),
            (chunked, b"fffffffffffffffff\r\n", Err(())),
        ] {
            for at_once in 1..=bytes.len() {
                let found = read(framing, bytes, at_once);
                let whole = whole.map(|(text, ended)| (text.as_bytes().to_vec(), ended));
                assert_eq!(found.map_err(|_| ()), whole, "{bytes:?} by {at_once}");
            }
        }
        assert!(read(chunked, &[b'1'; MAX_CHUNK_LINE + 2], 64).is_err());
        let endless = [&b"0\r\n"[..], &b"a: b\r\n".repeat(MAX_TRAILERS)].concat();
        assert!(read(chunked, &endless, 1000).is_err());
        let (whole, ended) = read(Framing::Length(1 << 20), &vec![7; 1 << 20], 100_000).unwrap();
        assert_eq!((whole.len(), ended), (1 << 20, true));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_the_same_in_one_piece_and_in_many(
            bytes in "[0-9a-f;x\r\n]{0,40}(2\r\nab\r\n){0,3}[0\r\n]{0,8}",
            at_once in 1_usize..10,
        ) {
            let chunked = Framing::Chunked(Chunk::Size);
            let whole = read(chunked, bytes.as_bytes(), bytes.len().max(1));
            prop_assert_eq!(read(chunked, bytes.as_bytes(), at_once), whole);
        }
    }
}
