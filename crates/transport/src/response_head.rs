//! The head of an HTTP/1.1 response: the one reader for HTTP, the WebSocket handshake and tunnels.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use httparse::ParserConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::net::Stream;

const MAX_HEAD_BYTES: usize = 256 * 1024;
const MAX_HEADERS: usize = 100;

/// Interim responses, and bytes of blank lines, that may precede a response.
const MAX_INTERIM: usize = 1000;
const MAX_BLANK_BYTES: usize = 256 * 1024;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// An error of reading the head of a response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the response is not HTTP")]
    NotHttp,
    #[error("the response is not valid HTTP: {0}")]
    Malformed(String),
    #[error("the head of the response is too long")]
    TooLong,
    #[error("the server sends blank lines instead of a response")]
    BlankLines,
    #[error("the server sends too many interim responses")]
    Interim,
    #[error("the server closed the connection")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Sends a request and reads the head of the response. Bytes that follow the head stay in `input`.
pub(crate) async fn exchange(
    stream: &mut Stream,
    request: &[u8],
    input: &mut BytesMut,
) -> Result<ResponseHead, HeadError> {
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut reader = HeadReader::default();
    loop {
        if stream.read_buf(input).await? == 0 {
            return Err(HeadError::Closed);
        }
        if let Some(head) = reader.read(input)? {
            return Ok(head);
        }
    }
}

/// Reads the head of a response incrementally.
#[derive(Default)]
pub(crate) struct HeadReader {
    /// Bytes and lines searched without finding the end.
    searched: usize,
    lines: usize,
    /// Interim responses and bytes of blank lines so far.
    interim: usize,
    blank: usize,
}

impl HeadReader {
    /// Removes the head of the final response from `input` once it is complete. Interim responses
    /// are skipped, except 101.
    pub(crate) fn read(&mut self, input: &mut BytesMut) -> Result<Option<ResponseHead>, HeadError> {
        loop {
            if self.searched == 0 {
                // Some servers send more than a body's length.
                let blank = blank_bytes(input);
                input.advance(blank);
                self.blank += blank;
                if self.blank > MAX_BLANK_BYTES {
                    return Err(HeadError::BlankLines);
                }
            }
            // The rest of a line ending may follow.
            if self.searched == 0 && input[..] == *b"\r" {
                return Ok(None);
            }
            if !is_http_prefix(input) {
                return Err(HeadError::NotHttp);
            }
            // Only new bytes are searched, so that a head that comes byte by byte costs no more.
            let head = if has_end(input, self.searched) {
                ResponseHead::parse(input)?
            } else {
                None
            };
            let Some(head) = head else {
                self.lines += memchr::memchr_iter(b'\n', &input[self.searched..]).count();
                self.searched = input.len();
                if self.searched > MAX_HEAD_BYTES || self.lines > 2 * MAX_HEADERS {
                    return Err(HeadError::TooLong);
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
                return Err(HeadError::Interim);
            }
            let is_final = !head.status.is_informational();
            if is_final || head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Some(head));
            }
        }
    }
}

/// The head of a response.
pub(crate) struct ResponseHead {
    length: usize,
    minor_version: u8,
    pub(crate) status: StatusCode,
    /// The reason phrase, unless the status is a success; untrusted text.
    pub(crate) reason: String,
    pub(crate) headers: HeaderMap,
}

impl ResponseHead {
    fn parse(input: &[u8]) -> Result<Option<Self>, HeadError> {
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut []);
        let parsed = ParserConfig::default().parse_response_with_uninit_headers(
            &mut head,
            input,
            &mut headers,
        );
        let parsed = parsed.map_err(|error| HeadError::Malformed(error.to_string()))?;
        let httparse::Status::Complete(length) = parsed else {
            return Ok(None);
        };
        let mut headers = HeaderMap::with_capacity(head.headers.len());
        for header in head.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let value = HeaderValue::from_bytes(header.value);
            let (Ok(name), Ok(value)) = (name, value) else {
                let text = format!("the header {:?}", header.name);
                return Err(HeadError::Malformed(text));
            };
            headers.append(name, value);
        }
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(|| HeadError::Malformed("the status".to_owned()))?;
        let reason = match head.reason {
            Some(reason) if !status.is_success() => reason.to_owned(),
            _ => String::new(),
        };
        Ok(Some(Self {
            length,
            minor_version: head.version.unwrap_or_default(),
            status,
            reason,
            headers,
        }))
    }

    /// Whether the server allows another request on the connection.
    pub(crate) fn allows_reuse(&self) -> bool {
        let headers = &self.headers;
        // With both framings, or chunks in HTTP/1.0, two readers may disagree on the body's end.
        let ambiguous = headers.contains_key(TRANSFER_ENCODING)
            && (self.is_http10() || headers.contains_key(CONTENT_LENGTH));
        let keeps = !self.is_http10() || list_contains(headers, CONNECTION, "keep-alive");
        !ambiguous && keeps && !list_contains(headers, CONNECTION, "close")
    }

    pub(crate) fn is_http10(&self) -> bool {
        self.minor_version == 0
    }

    /// Whether the server explicitly allows another request.
    pub(crate) fn promises_keep_alive(&self) -> bool {
        list_contains(&self.headers, CONNECTION, "keep-alive")
            || list_contains(&self.headers, PROXY_CONNECTION, "keep-alive")
    }

    /// How long the server keeps an idle connection, if it says so.
    pub(crate) fn keep_alive_timeout(&self) -> Option<Duration> {
        keep_alive_timeout(&self.headers)
    }

    #[cfg(test)]
    pub(crate) fn for_test(status: StatusCode, headers: HeaderMap) -> Self {
        Self {
            length: 0,
            minor_version: 1,
            status,
            reason: String::new(),
            headers,
        }
    }
}

/// Whether a comma-separated header contains this token.
pub(crate) fn list_contains(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}

/// All values of a header, joined with commas.
pub(crate) fn joined(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let values = headers.get_all(name).iter();
    values
        .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        .reduce(|all, next| format!("{all}, {next}"))
}

/// The length of the blank lines at the start.
fn blank_bytes(input: &[u8]) -> usize {
    let mut rest = input;
    while let [b'\r', b'\n', more @ ..] | [b'\n', more @ ..] = rest {
        rest = more;
    }
    input.len() - rest.len()
}

/// Whether this may be the start of a response. Servers of other protocols wait for us, so they are
/// recognised by their first bytes.
fn is_http_prefix(input: &[u8]) -> bool {
    const PREFIX: &[u8] = b"HTTP/1.";
    let length = input.len().min(PREFIX.len());
    input[..length] == PREFIX[..length]
}

/// Whether a head ends in `input`, of which the first bytes were searched. Lines end with LF or
/// CRLF.
fn has_end(input: &[u8], searched: usize) -> bool {
    let new = &input[searched.saturating_sub(3)..];
    memchr::memchr_iter(b'\n', new).any(|at| {
        let rest = &new[at + 1..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

fn keep_alive_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(KEEP_ALIVE)?.to_str().ok()?;
    let mut parts = value.split(',').map(str::trim);
    let timeout = parts.find_map(|part| part.strip_prefix("timeout="))?;
    timeout.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keep_alive_timeout_is_read_from_its_header() {
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
                keep_alive_timeout(&headers),
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
            // For every number of bytes searched before.
            let found = (0..=input.len())
                .any(|at| has_end(&input.as_bytes()[..at], 0) || has_end(input.as_bytes(), at));
            assert_eq!(found, ends, "{input:?}");
        }
        for at in 0.."a\r\n\r\n".len() {
            assert!(has_end(b"a\r\n\r\n", at), "{at}");
        }
    }

    #[test]
    fn other_protocols_are_recognised_by_their_first_bytes() {
        for (input, can_be) in [
            ("", true),
            ("HT", true),
            ("HTTP/1.1 200", true),
            ("\r\nHTTP/1.1 200", false),
            ("HTTP/2 ", false),
            ("SSH-2.0", false),
            ("{\"jsonrpc\"", false),
        ] {
            assert_eq!(is_http_prefix(input.as_bytes()), can_be, "{input:?}");
        }
    }

    #[test]
    fn a_head_is_parsed_once_it_is_complete() {
        let read = |text: &str| ResponseHead::parse(text.as_bytes());
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
