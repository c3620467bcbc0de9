//! A tunnel through an HTTP proxy (`CONNECT`).

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::proxy::Proxy;
use super::{DialError, Stream, Target};

/// How long a proxy's answer may be.
const ANSWER_LIMIT: usize = 16 * 1024;

/// Asks `proxy`, at the other end of `stream`, to connect it to `target`.
pub(super) async fn open(
    stream: &mut Stream,
    proxy: &Proxy,
    target: &Target,
) -> Result<(), DialError> {
    let broken = |error: String| DialError::ProxyBroken {
        proxy: proxy.to_string(),
        server: target.to_string(),
        error,
    };
    let exchanged = exchange(stream, &request(proxy, target)).await;
    let head = exchanged.map_err(|error| broken(error.to_string()))?;
    let Some((status, line)) = status(&head) else {
        return Err(broken("it does not answer as an HTTP proxy".to_owned()));
    };
    match status {
        200..=299 => Ok(()),
        407 => Err(DialError::ProxyCredentials {
            proxy: proxy.to_string(),
        }),
        _ => Err(DialError::ProxyRefused {
            proxy: proxy.to_string(),
            server: target.to_string(),
            answer: line,
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

/// Sends the request and reads the head of the answer. Nothing can follow it yet: in all that we send through a tunnel,
/// it is we who speak first.
async fn exchange(stream: &mut Stream, request: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut head = Vec::with_capacity(512);
    loop {
        if stream.read_buf(&mut head).await? == 0 {
            return Err(std::io::Error::other("it closed the connection"));
        }
        if head.windows(4).any(|four| four == b"\r\n\r\n") {
            return Ok(head);
        }
        if head.len() > ANSWER_LIMIT {
            return Err(std::io::Error::other("its answer is too long"));
        }
    }
}

/// The status and what stands beside it.
fn status(head: &[u8]) -> Option<(u16, String)> {
    let end = head.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let line = String::from_utf8_lossy(&head[..end]);
    let (version, rest) = line.split_once(' ')?;
    let status = rest.get(..3)?.parse().ok()?;
    let shown = rest.chars().filter(|c| !c.is_control()).take(100);
    version
        .starts_with("HTTP/1.")
        .then(|| (status, shown.collect::<String>().trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_http_answer_has_a_status() {
        let cases = [
            ("HTTP/1.1 200 OK\r\n\r\n", Some((200, "200 OK"))),
            ("HTTP/1.0 403\r\n\r\n", Some((403, "403"))),
            ("HTTP/1.1 5\r\n\r\n", None),
            ("SSH-2.0-x 200 OK\r\n\r\n", None),
            ("", None),
        ];
        for (head, expected) in cases {
            let expected = expected.map(|(code, line)| (code, line.to_owned()));
            assert_eq!(status(head.as_bytes()), expected, "{head:?}");
        }
    }
}
