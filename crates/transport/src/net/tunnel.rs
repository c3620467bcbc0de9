//! Tunnels through an HTTP proxy (`CONNECT`).

use bytes::BytesMut;

use super::proxy::Proxy;
use super::{DialError, Stream, Target};
use crate::response_head::{self, HeadError, ResponseHead};

/// Asks `proxy`, the peer of `stream`, to connect it to `target`.
pub(super) async fn open(
    stream: &mut Stream,
    proxy: &Proxy,
    target: &Target,
) -> Result<(), DialError> {
    // Nothing can follow the head: through a tunnel, the client always sends first.
    let mut input = BytesMut::with_capacity(512);
    let head = response_head::exchange(stream, &request(proxy, target), &mut input).await;
    let (proxy, server) = (proxy.to_string(), target.to_string());
    match head {
        Ok(head) if head.status.is_success() => Ok(()),
        Ok(head) if head.status.as_u16() == 407 => Err(DialError::ProxyCredentials { proxy }),
        Ok(head) => Err(DialError::ProxyRefused {
            proxy,
            server,
            answer: status_line(&head),
        }),
        Err(error) => Err(DialError::ProxyBroken {
            proxy,
            server,
            error: match error {
                HeadError::Closed => "it closed the connection".to_owned(),
                HeadError::Io(error) => error.to_string(),
                HeadError::TooLong => "its response is too long".to_owned(),
                _ => "its response is not HTTP".to_owned(),
            },
        }),
    }
}

fn request(proxy: &Proxy, target: &Target) -> Vec<u8> {
    let mut text = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(value) = proxy.authorization() {
        text.extend_from_slice(b"Proxy-Authorization: ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// The status and its reason, shortened.
fn status_line(head: &ResponseHead) -> String {
    let line = format!("{} {}", head.status.as_u16(), head.reason);
    let shown = line.chars().filter(|c| !c.is_control()).take(100);
    shown.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response_head::HeadReader;

    #[test]
    fn only_an_http_response_has_a_status() {
        let cases = [
            ("HTTP/1.1 502 Bad\tGateway\r\n\r\n", Some("502 BadGateway")),
            ("HTTP/1.0 403\r\n\r\n", Some("403")),
            ("HTTP/1.1 5\r\n\r\n", None),
            ("SSH-2.0-x 200 OK\r\n\r\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let head = HeadReader::default().read(&mut BytesMut::from(text));
            let line = head.ok().flatten().map(|head| status_line(&head));
            assert_eq!(line.as_deref(), expected, "{text:?}");
        }
    }
}
