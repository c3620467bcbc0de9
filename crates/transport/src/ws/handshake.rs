//! The opening handshake (RFC 6455, 4).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::BytesMut;
use http::header::{
    CONNECTION, LOCATION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue};
use sha1::{Digest, Sha1};
use url::Url;

use super::{WsError, mask};
use crate::net::{Stream, url_headers};
use crate::response_head::{self, HeadError, ResponseHead, joined, list_contains};

const SUBPROTOCOL: &str = "mcp";

/// Appended to our key before hashing, to prove that the server has read it.
const ACCEPT_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Performs the handshake on `stream`; returns the bytes that follow the response.
pub(super) async fn perform(
    stream: &mut Stream,
    url: &Url,
    headers: &[(String, String)],
) -> Result<BytesMut, WsError> {
    let nonce = mask::nonce().map_err(|error| WsError::Io(error.to_string()))?;
    let key = BASE64_STANDARD.encode(nonce);
    let request = request(url, headers, &key)?;
    let mut input = BytesMut::with_capacity(4096);
    let head = response_head::exchange(stream, &request, &mut input).await;
    let head = head.map_err(|error| match error {
        HeadError::Closed => WsError::Io("the server closed it".to_owned()),
        HeadError::Io(error) => WsError::Io(error.to_string()),
        HeadError::TooLong => WsError::NotWebSocket("its response is too long"),
        _ => WsError::NotWebSocket("its response is not HTTP"),
    })?;
    check(&head, &key, url)?;
    Ok(input)
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
        let value = url_headers::host(url).unwrap_or_default();
        put("Host", value.as_bytes());
    }
    if !authorization && let Some(value) = url_headers::basic_auth(url) {
        put("Authorization", value.as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    Ok(text)
}

/// Checks that the server agrees to the upgrade.
fn check(head: &ResponseHead, key: &str, url: &Url) -> Result<(), WsError> {
    let headers = &head.headers;
    if head.status.as_u16() != 101 {
        return Err(refusal(head, url));
    }
    if !list_contains(headers, UPGRADE, "websocket")
        || !list_contains(headers, CONNECTION, "upgrade")
    {
        return Err(WsError::NotWebSocket("it did not upgrade to WebSocket"));
    }
    let accept = BASE64_STANDARD.encode(Sha1::digest(format!("{key}{ACCEPT_GUID}")));
    if joined(headers, SEC_WEBSOCKET_ACCEPT) != Some(accept) {
        return Err(WsError::NotWebSocket("its response has the wrong key"));
    }
    if joined(headers, SEC_WEBSOCKET_EXTENSIONS).is_some_and(|value| !value.is_empty()) {
        return Err(WsError::NotWebSocket(
            "it uses an extension that was not offered",
        ));
    }
    match joined(headers, SEC_WEBSOCKET_PROTOCOL) {
        Some(selected) if selected != SUBPROTOCOL => Err(WsError::Subprotocol { selected }),
        _ => Ok(()),
    }
}

fn refusal(head: &ResponseHead, url: &Url) -> WsError {
    let challenge = || joined(&head.headers, WWW_AUTHENTICATE);
    match head.status.as_u16() {
        401 => WsError::Unauthorized {
            challenge: challenge(),
        },
        403 => WsError::Forbidden {
            challenge: challenge(),
        },
        404 => WsError::NotFound,
        status @ 300..=399 => {
            // Only the host is shown: the rest may hold a token.
            let location = joined(&head.headers, LOCATION);
            let location = location.and_then(|location| url.join(&location).ok());
            let to = location.as_ref().and_then(Url::host_str);
            WsError::Redirect {
                status,
                to: to.unwrap_or("nowhere").to_owned(),
            }
        }
        status => WsError::Status { status },
    }
}
