//! The framing of an HTTP/1.1 response body (RFC 9112, 6).

use bytes::{Buf as _, Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

use crate::response_head::ResponseHead;

/// Limits for the line before a chunk and for the trailers.
const MAX_CHUNK_LINE: usize = 4 * 1024;
const MAX_TRAILER_BYTES: usize = 64 * 1024;
const MAX_TRAILER_LINES: usize = 100;

/// Data up to this length is copied, so that it does not keep a large read buffer alive.
pub(super) const MAX_COPIED: usize = 4 * 1024;

/// How the rest of a body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Remaining bytes.
    Length(u64),
    Chunked(ChunkState),
    /// The body ends with the connection.
    UntilClose,
    Ended,
}

/// The next element of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkState {
    Size,
    /// Remaining bytes of the chunk.
    Data(u64),
    /// The line ending after a chunk.
    End,
    /// Trailers; bytes and lines read so far.
    Trailers(usize, usize),
}

/// The result of decoding some input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Data(Bytes),
    NeedMore,
    End,
}

impl Framing {
    /// The framing that a head announces.
    pub(super) fn of(head: &ResponseHead) -> Result<Self, &'static str> {
        let headers = &head.headers;
        match head.status {
            StatusCode::SWITCHING_PROTOCOLS => {
                return Err("the server wants to switch to another protocol");
            }
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => return Ok(Self::Ended),
            _ => {}
        }
        if let Some(coding) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
            if head.is_http10() {
                return Err("the response is chunked, which HTTP/1.0 does not allow");
            }
            let last = coding
                .to_str()
                .ok()
                .and_then(|text| text.rsplit(',').next());
            let chunked = last.is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"));
            return Ok(if chunked {
                Self::Chunked(ChunkState::Size)
            } else {
                Self::UntilClose
            });
        }
        let mut length = None;
        for value in headers.get_all(CONTENT_LENGTH) {
            for text in value.as_bytes().split(|byte| *byte == b',') {
                let value =
                    number(text.trim_ascii(), 10).ok_or("the response has an invalid length")?;
                if length.is_some_and(|length| length != value) {
                    return Err("the response has two lengths");
                }
                length = Some(value);
            }
        }
        Ok(match length {
            Some(0) => Self::Ended,
            Some(length) => Self::Length(length),
            None => Self::UntilClose,
        })
    }

    /// Removes the next decodable data from `input`.
    pub(super) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, &'static str> {
        loop {
            match self {
                Self::Ended => return Ok(Decoded::End),
                _ if input.is_empty() => return Ok(Decoded::NeedMore),
                Self::UntilClose => {
                    let all = u64::MAX;
                    return Ok(Decoded::Data(take_data(input, all)));
                }
                Self::Length(left) | Self::Chunked(ChunkState::Data(left)) => {
                    let data = take_data(input, *left);
                    *left -= data.len() as u64;
                    if *left == 0 {
                        *self = match self {
                            Self::Chunked(_) => Self::Chunked(ChunkState::End),
                            _ => Self::Ended,
                        };
                    }
                    return Ok(Decoded::Data(data));
                }
                Self::Chunked(chunk) => {
                    let Some(end) = memchr::memchr(b'\n', input) else {
                        if input.len() > MAX_CHUNK_LINE {
                            return Err("the response has an invalid chunk size");
                        }
                        return Ok(Decoded::NeedMore);
                    };
                    match chunk.after_line(&input[..end])? {
                        Some(next) => *chunk = next,
                        None => *self = Self::Ended,
                    }
                    input.advance(end + 1);
                }
            }
        }
    }
}

impl ChunkState {
    /// The state after a line; `None` after the last.
    fn after_line(self, line: &[u8]) -> Result<Option<Self>, &'static str> {
        // Strict, because readers that disagree on line endings allow response smuggling.
        let line = line.strip_suffix(b"\r");
        let line = line.filter(|line| !line.contains(&b'\r'));
        let line = line.ok_or("the response has an invalid line ending between chunks")?;
        Ok(Some(match self {
            Self::Size => {
                // Chunk extensions are ignored.
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
                match number(trim_end(size), 16) {
                    Some(0) => Self::Trailers(0, 0),
                    Some(size) => Self::Data(size),
                    None => {
                        return Err("the response has an invalid chunk size");
                    }
                }
            }
            Self::End if line.is_empty() => Self::Size,
            Self::Data(_) | Self::End => {
                return Err("the response has a chunk that is longer than its size");
            }
            Self::Trailers(..) if line.is_empty() => return Ok(None),
            Self::Trailers(bytes, lines)
                if bytes + line.len() <= MAX_TRAILER_BYTES && lines < MAX_TRAILER_LINES =>
            {
                if !is_header(line) {
                    return Err("the response has an invalid trailer");
                }
                Self::Trailers(bytes + line.len() + 1, lines + 1)
            }
            Self::Trailers(..) => return Err("the response has too many trailers"),
        }))
    }
}

fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

fn is_header(line: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER];
    let text = [line, b"\r\n\r\n"].concat();
    let parsed = httparse::parse_headers(&text, &mut headers);
    matches!(parsed, Ok(httparse::Status::Complete((_, [_]))))
}

/// Parses digits without a sign.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('+') {
        return None;
    }
    u64::from_str_radix(text, radix).ok()
}

fn take_data(input: &mut BytesMut, max: u64) -> Bytes {
    let length = usize::try_from(max).unwrap_or(usize::MAX).min(input.len());
    if length > MAX_COPIED {
        return input.split_to(length).freeze();
    }
    let data = Bytes::copy_from_slice(&input[..length]);
    input.advance(length);
    data
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn framing(
        status: StatusCode,
        pairs: &[(&'static str, &'static str)],
    ) -> Result<Framing, &'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        Framing::of(&ResponseHead::for_test(status, headers))
    }

    #[test]
    fn the_head_announces_the_framing() {
        const LENGTH: &str = "content-length";
        const CODING: &str = "transfer-encoding";
        for (pairs, expected) in [
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
            (
                &[(CODING, "chunked")],
                Some(Framing::Chunked(ChunkState::Size)),
            ),
            (
                &[(CODING, "gzip, Chunked"), (LENGTH, "3")],
                Some(Framing::Chunked(ChunkState::Size)),
            ),
            (&[(CODING, "gzip")], Some(Framing::UntilClose)),
        ] {
            let found = framing(StatusCode::OK, pairs);
            assert_eq!(found.ok(), expected, "{pairs:?}");
        }
        let none = framing(StatusCode::NO_CONTENT, &[(LENGTH, "7")]);
        assert_eq!(none, Ok(Framing::Ended));
    }

    /// Decodes bytes that arrive `size` at a time; true if the body ended.
    fn read(mut framing: Framing, bytes: &[u8], size: usize) -> Result<(Vec<u8>, bool), &str> {
        let (mut input, mut body) = (BytesMut::new(), Vec::new());
        for part in bytes.chunks(size) {
            input.extend_from_slice(part);
            loop {
                match framing.decode(&mut input)? {
                    Decoded::Data(data) => body.extend_from_slice(&data),
                    Decoded::NeedMore => break,
                    Decoded::End => return Ok((body, true)),
                }
            }
        }
        Ok((body, false))
    }

    #[test]
    fn a_body_is_the_same_however_its_bytes_arrive() {
        let chunked = Framing::Chunked(ChunkState::Size);
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
            for size in 1..=bytes.len() {
                let found = read(framing, bytes, size);
                let whole = whole.map(|(text, ended)| (text.as_bytes().to_vec(), ended));
                assert_eq!(found.map_err(|_| ()), whole, "{bytes:?} {size} at a time");
            }
        }
        assert!(read(chunked, &[b'1'; MAX_CHUNK_LINE + 2], 64).is_err());
        let endless = [&b"0\r\n"[..], &b"a: b\r\n".repeat(MAX_TRAILER_BYTES)].concat();
        assert!(read(chunked, &endless, 1000).is_err());
        let (whole, ended) = read(Framing::Length(1 << 20), &vec![7; 1 << 20], 100_000).unwrap();
        assert_eq!((whole.len(), ended), (1 << 20, true));
    }

    proptest! {
        #[test]
        fn any_input_decodes_the_same_in_one_chunk_and_in_many(
            bytes in "[0-9a-f;x\r\n]{0,40}(2\r\nab\r\n){0,3}[0\r\n]{0,8}",
            size in 1_usize..10,
        ) {
            let chunked = Framing::Chunked(ChunkState::Size);
            let whole = read(chunked, bytes.as_bytes(), bytes.len().max(1));
            prop_assert_eq!(read(chunked, bytes.as_bytes(), size), whole);
        }
    }
}
