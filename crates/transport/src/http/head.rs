//! The head of an HTTP/1.1 answer: where it ends, and what it says of the connection.

use std::mem::MaybeUninit;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use httparse::ParserConfig;

/// The longest head of an answer, and the most headers in it.
const MAX_HEAD: usize = 256 * 1024;
const MAX_HEADERS: usize = 100;

/// Interim answers, and bytes of blank lines, that may come before an answer.
const MAX_INTERIM: usize = 1000;
const MAX_BLANK: usize = 256 * 1024;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Looks for the head of an answer in what has come so far.
#[derive(Default)]
pub(super) struct Search {
    /// How much was looked through in vain, and how many lines that has.
    bytes: usize,
    lines: usize,
    /// Interim answers and blank bytes so far.
    interim: usize,
    blank: usize,
}

impl Search {
    /// The head of the answer, once all of it has come; `input` then begins behind it.
    pub(super) fn head(&mut self, input: &mut BytesMut) -> Result<Option<Head>, String> {
        loop {
            if self.bytes == 0 {
                // Some servers end a body with more than its length says.
                let blank = blank(input);
                input.advance(blank);
                self.blank += blank;
                if self.blank > MAX_BLANK {
                    return Err("the server sends blank lines instead of an answer".to_owned());
                }
            }
            // The other half of a line end may be on its way.
            if self.bytes == 0 && input[..] == *b"\r" {
                return Ok(None);
            }
            if !is_http_so_far(input) {
                return Err("what the server sent is not HTTP".to_owned());
            }
            // Only what is new is searched, so that a head that comes byte by byte costs no more than one that comes whole.
            let whole = if has_end(input, self.bytes) {
                Head::read(input)?
            } else {
                None
            };
            let Some(head) = whole else {
                self.lines += memchr::memchr_iter(b'\n', &input[self.bytes..]).count();
                self.bytes = input.len();
                if self.bytes > MAX_HEAD || self.lines > 2 * MAX_HEADERS {
                    return Err("the head of the server's answer is too long".to_owned());
                }
                return Ok(None);
            };
            input.advance(head.length);
            *self = Self {
                interim: self.interim + 1,
                blank: self.blank,
                ..Self::default()
            };
            if self.interim > MAX_INTERIM {
                return Err("the server sends interim answers without end".to_owned());
            }
            if head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Err("the server wants to speak something else than HTTP".to_owned());
            }
            // Anything else of this kind comes before the answer itself.
            if !head.status.is_informational() {
                return Ok(Some(head));
            }
        }
    }
}

/// The head of an answer.
pub(super) struct Head {
    length: usize,
    minor_version: u8,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

impl Head {
    fn read(input: &[u8]) -> Result<Option<Self>, String> {
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut []);
        let bad = |why: String| format!("the server's answer is not proper HTTP: {why}");
        let parsed = ParserConfig::default().parse_response_with_uninit_headers(
            &mut head,
            input,
            &mut headers,
        );
        let httparse::Status::Complete(length) = parsed.map_err(|error| bad(error.to_string()))?
        else {
            return Ok(None);
        };
        let mut headers = HeaderMap::with_capacity(head.headers.len());
        for header in head.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let value = HeaderValue::from_bytes(header.value);
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(bad(format!("the header {:?}", header.name)));
            };
            headers.append(name, value);
        }
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        Ok(Some(Self {
            length,
            minor_version: head.version.unwrap_or_default(),
            status: status.ok_or_else(|| bad("the status".to_owned()))?,
            headers,
        }))
    }

    /// Whether the connection can take another request, as far as the server says.
    pub(super) fn is_lasting(&self) -> bool {
        let (headers, is_old) = (&self.headers, self.minor_version == 0);
        // Who says both, or knows nothing of chunks, may mean another end than we do.
        let doubtful = headers.contains_key(TRANSFER_ENCODING)
            && (is_old || headers.contains_key(CONTENT_LENGTH));
        let keeps = !is_old || says(headers, CONNECTION, "keep-alive");
        !doubtful && keeps && !says(headers, CONNECTION, "close")
    }

    /// Whether it is of HTTP/1.0.
    pub(super) fn is_old(&self) -> bool {
        self.minor_version == 0
    }

    /// Whether it says in so many words that it takes another request.
    pub(super) fn promises_more(&self) -> bool {
        says(&self.headers, CONNECTION, "keep-alive")
            || says(&self.headers, PROXY_CONNECTION, "keep-alive")
    }

    /// How long the server keeps an unused connection, where it says so.
    pub(super) fn keep_alive(&self) -> Option<Duration> {
        keep_alive(&self.headers)
    }
}

/// How many bytes of blank lines come first.
fn blank(input: &[u8]) -> usize {
    let mut rest = input;
    while let [b'\r', b'\n', more @ ..] | [b'\n', more @ ..] = rest {
        rest = more;
    }
    input.len() - rest.len()
}

/// Whether it can be, as far as it has come. One that speaks something else may wait for us to go on.
fn is_http_so_far(input: &[u8]) -> bool {
    const BEGINNING: &[u8] = b"HTTP/1.";
    let length = input.len().min(BEGINNING.len());
    input[..length] == BEGINNING[..length]
}

/// Whether a head may end in there, of which the first bytes have been searched: lines end with a line feed, with or without
/// a carriage return before it.
fn has_end(input: &[u8], searched: usize) -> bool {
    let new = &input[searched.saturating_sub(3)..];
    memchr::memchr_iter(b'\n', new).any(|at| {
        let rest = &new[at + 1..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

/// Whether the header has this word in its list.
fn says(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(word))
}

/// What a server says about how long it keeps an unused connection.
fn keep_alive(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(KEEP_ALIVE)?.to_str().ok()?;
    let mut parts = value.split(',').map(str::trim);
    let timeout = parts.find_map(|part| part.strip_prefix("timeout="))?;
    timeout.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_say_how_long_it_keeps_a_connection() {
        for (value, seconds) in [
            ("timeout=5", Some(5)),
            ("timeout=72, max=1000", Some(72)),
            ("max=3, timeout=0", Some(0)),
            ("timeout=soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("keep-alive", HeaderValue::from_static(value));
            assert_eq!(
                keep_alive(&headers),
                seconds.map(Duration::from_secs),
                "{value}"
            );
        }
    }

    #[test]
    fn a_head_ends_with_an_empty_line() {
        for (input, ends) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\n\n", true),
            ("HTTP/1.1 200 OK\r\na: b\r\n\r", false),
            ("HTTP/1.1 200 OK\r\na: b\r\n", false),
            ("", false),
        ] {
            assert_eq!(has_end(input.as_bytes(), 0), ends, "{input:?}");
            // However much of it was there before.
            let found = (0..=input.len())
                .any(|at| has_end(&input.as_bytes()[..at], 0) || has_end(input.as_bytes(), at));
            assert_eq!(found, ends, "{input:?}");
        }
        for at in 0.."a\r\n\r\n".len() {
            assert!(has_end(b"a\r\n\r\n", at), "{at}");
        }
    }

    #[test]
    fn what_is_no_http_is_known_by_how_it_begins() {
        for (input, can_be) in [
            ("", true),
            ("HT", true),
            ("HTTP/1.1 200", true),
            ("\r\nHTTP/1.1 200", false),
            ("HTTP/2 ", false),
            ("SSH-2.0", false),
            ("{\"jsonrpc\"", false),
        ] {
            assert_eq!(is_http_so_far(input.as_bytes()), can_be, "{input:?}");
        }
    }

    #[test]
    fn heads_are_read_whole_or_not_at_all() {
        let read = |text: &str| Head::read(text.as_bytes());
        let head = read("HTTP/1.1 200 OK\r\nA: b\r\na: c\r\n\r\nrest")
            .unwrap()
            .unwrap();
        assert_eq!((head.length, head.minor_version), (31, 1));
        assert_eq!(head.headers.get_all("a").iter().count(), 2);
        assert!(read("HTTP/1.1 200 OK\r\nA: b\r\n").unwrap().is_none());
        assert!(read("HTTP/1.1 200 OK\r\nA b\r\n\r\n").is_err());
        assert!(read("HTTP/1.1 20 OK\r\n\r\n").is_err());
        let many = "a: b\r\n".repeat(MAX_HEADERS + 1);
        assert!(read(&format!("HTTP/1.1 200 OK\r\n{many}\r\n")).is_err());
    }
}
