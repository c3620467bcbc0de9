//! The opening handshake (RFC 6455, 4): an HTTP request that asks for a WebSocket, and its answer.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Buf, BytesMut};
use http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use super::{WsError, mask};
use crate::net::{Stream, Target};

/// What we want to speak.
const SUBPROTOCOL: &str = "mcp";

/// What is appended to our key to prove that it was read.
const PROOF: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// How long the head of the server's answer may be, and how many headers it may have.
const ANSWER_LIMIT: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;

/// Asks for a WebSocket on `stream`; gives back what the server has sent after its answer.
pub(super) async fn perform(
    stream: &mut Stream,
    url: &Url,
    headers: &[(String, String)],
) -> Result<BytesMut, WsError> {
    let io = |error: std::io::Error| WsError::Io(error.to_string());
    let key = BASE64_STANDARD.encode(mask::nonce().map_err(io)?);
    let request = request(url, headers, &key)?;
    stream.write_all(&request).await.map_err(io)?;
    stream.flush().await.map_err(io)?;

    let mut buffer = BytesMut::with_capacity(4096);
    loop {
        if stream.read_buf(&mut buffer).await.map_err(io)? == 0 {
            return Err(WsError::Io("the server closed it".to_owned()));
        }
        if let Some(length) = judge(&buffer, &key, url)? {
            buffer.advance(length);
            return Ok(buffer);
        }
        if buffer.len() > ANSWER_LIMIT {
            return Err(WsError::NotWebSocket("its answer is too long"));
        }
    }
}

fn request(url: &Url, headers: &[(String, String)], key: &str) -> Result<Vec<u8>, WsError> {
    let mut text = format!("GET {}", url.path());
    if let Some(query) = url.query() {
        text.push('?');
        text.push_str(query);
    }
    text.push_str(" HTTP/1.1\r\n");
    let mut text = text.into_bytes();
    let mut put = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    };
    put("Upgrade", b"websocket");
    put("Connection", b"Upgrade");
    put("Sec-WebSocket-Version", b"13");
    put("Sec-WebSocket-Key", key.as_bytes());
    put("Sec-WebSocket-Protocol", SUBPROTOCOL.as_bytes());
    let (mut host, mut authorization) = (false, false);
    for (name, value) in headers {
        let wrong = || WsError::Header(name.clone());
        let known = HeaderName::try_from(name).map_err(|_| wrong())?;
        let value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        match known.as_str() {
            "upgrade" | "connection" | "content-length" | "transfer-encoding" => continue,
            name if name.starts_with("sec-websocket-") => continue,
            "host" => host = true,
            "authorization" => authorization = true,
            _ => {}
        }
        put(name, value.as_bytes());
    }
    if !host {
        put("Host", place(url)?.as_bytes());
    }
    if !authorization && (!url.username().is_empty() || url.password().is_some()) {
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
        let (user, password) = (url.username(), url.password().unwrap_or_default());
        let both = format!("{}:{}", decoded(user), decoded(password));
        let value = format!("Basic {}", BASE64_STANDARD.encode(both));
        put("Authorization", value.as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    Ok(text)
}

/// The host of `url`, with the port if it is not the usual one.
fn place(url: &Url) -> Result<String, WsError> {
    let target = Target::of(url)?;
    Ok(match url.port() {
        Some(_) => target.to_string(),
        None => url.host_str().unwrap_or_default().to_owned(),
    })
}

/// How long the head of the answer is, once it is there and if it is a yes.
fn judge(buffer: &[u8], key: &str, url: &Url) -> Result<Option<usize>, WsError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let length = match answer.parse(buffer) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(WsError::NotWebSocket("its answer is not HTTP")),
    };
    let header = |name: &str| {
        let found = answer.headers.iter();
        found
            .filter(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| String::from_utf8_lossy(header.value).trim().to_owned())
            .reduce(|all, next| format!("{all}, {next}"))
    };
    match answer.code.unwrap_or_default() {
        101 => {}
        status => return Err(refusal(status, &header, url)),
    }
    let has = |name: &str, word: &str| {
        let value = header(name).unwrap_or_default();
        value
            .split(',')
            .any(|token| token.trim().eq_ignore_ascii_case(word))
    };
    if !has("Upgrade", "websocket") || !has("Connection", "upgrade") {
        return Err(WsError::NotWebSocket("it agrees to something else"));
    }
    let proof = BASE64_STANDARD.encode(Sha1::digest(format!("{key}{PROOF}")));
    if header("Sec-WebSocket-Accept").as_deref() != Some(&proof) {
        return Err(WsError::NotWebSocket("its answer is not to our request"));
    }
    if header("Sec-WebSocket-Extensions").is_some_and(|value| !value.is_empty()) {
        return Err(WsError::NotWebSocket("it uses an extension unasked"));
    }
    match header("Sec-WebSocket-Protocol") {
        Some(selected) if selected != SUBPROTOCOL => Err(WsError::Subprotocol { selected }),
        _ => Ok(Some(length)),
    }
}

fn refusal(status: u16, header: &dyn Fn(&str) -> Option<String>, url: &Url) -> WsError {
    let challenge = || header("WWW-Authenticate");
    match status {
        401 => WsError::Unauthorized {
            challenge: challenge(),
        },
        403 => WsError::Forbidden {
            challenge: challenge(),
        },
        404 => WsError::NotFound,
        300..=399 => {
            // Only where to, not with what: a token may be in it.
            let location = header("Location").and_then(|location| url.join(&location).ok());
            let to = location.as_ref().and_then(Url::host_str);
            WsError::Redirect {
                status,
                to: to.unwrap_or("nowhere").to_owned(),
            }
        }
        _ => WsError::Status { status },
    }
}
