//! The handshake.

use trunkline_transport::WsError;
use trunkline_wire::transport::Transport;

use crate::server::{accept, answer, entry, listen, soon, text};
use crate::support::plain_dialer;

const SECRET: &str = "open-sesame";

#[tokio::test]
async fn entry_headers_are_sent_but_do_not_replace_those_of_the_handshake() {
    let (listener, mut entry) = listen().await;
    entry.url.set_path("/a b");
    entry.url.set_query(Some("c=d"));
    entry.headers = [
        ("X-Claude-Code-Ide-Authorization", SECRET),
        ("Sec-WebSocket-Protocol", "soup"),
        ("sec-websocket-key", "mine"),
        ("Connection", "close"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert!(!format!("{entry:?}").contains(SECRET));
    let dialer = plain_dialer();
    let serving = async {
        let (tcp, _) = listener.accept().await.unwrap();
        accept(tcp, Some("mcp")).await.1
    };
    let (transport, asked) = tokio::join!(entry.connect(&dialer), serving);
    transport.unwrap();
    assert_eq!(asked.uri(), "/a%20b?c=d");
    let headers = asked.headers();
    let one = |name: &str| {
        let all: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(all.len(), 1, "{name}");
        all[0].to_str().unwrap()
    };
    assert_eq!(one("x-claude-code-ide-authorization"), SECRET);
    assert_eq!(one("sec-websocket-protocol"), "mcp");
    assert_eq!(one("connection"), "Upgrade");
    assert_ne!(one("sec-websocket-key"), "mine");
    assert_eq!(one("host"), listener.local_addr().unwrap().to_string());
    assert!(headers.get("authorization").is_none());
}

#[tokio::test]
async fn user_and_password_in_the_url_are_sent_as_basic_auth() {
    let (listener, mut entry) = listen().await;
    entry.url.set_username("me").unwrap();
    entry.url.set_password(Some("p@ss")).unwrap();
    assert!(!format!("{entry:?}").contains("p%40ss"));
    let dialer = plain_dialer();
    let serving = async {
        let (tcp, _) = listener.accept().await.unwrap();
        accept(tcp, None).await.1
    };
    let (transport, asked) = tokio::join!(entry.connect(&dialer), serving);
    transport.unwrap();
    assert_eq!(asked.headers()["authorization"], "Basic bWU6cEBzcw==");
}

#[tokio::test]
async fn a_server_may_omit_the_subprotocol_but_not_choose_another() {
    for (select, good) in [(Some("mcp"), true), (None, true), (Some("soup"), false)] {
        let (listener, entry) = listen().await;
        let dialer = plain_dialer();
        let serving = async {
            let (tcp, _) = listener.accept().await.unwrap();
            accept(tcp, select).await
        };
        let (transport, _server) = tokio::join!(entry.connect(&dialer), serving);
        match transport {
            Ok(_) => assert!(good, "{select:?}"),
            Err(error) => {
                assert!(!good, "{error}");
                assert!(matches!(error, WsError::Subprotocol { .. }));
                assert!(error.to_string().contains("soup"), "{error}");
            }
        }
    }
}

/// The error for a server that responds with `head`.
async fn refusal(head: &str) -> WsError {
    let (listener, mut entry) = listen().await;
    entry
        .headers
        .push(("Authorization".to_owned(), SECRET.to_owned()));
    let text = format!("{}\r\n\r\n", head.replace('\n', "\r\n"));
    let dialer = plain_dialer();
    let (transport, ()) = tokio::join!(entry.connect(&dialer), answer(&listener, &text));
    let Err(error) = transport else {
        panic!("{head} was taken for a yes")
    };
    assert!(!format!("{error} {error:?}").contains(SECRET));
    error
}

#[tokio::test]
async fn each_refusal_is_a_distinct_error() {
    let error = refusal("HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Bearer realm=\"x\"").await;
    let WsError::Unauthorized { challenge } = error else {
        panic!("{error:?}")
    };
    assert_eq!(challenge.as_deref(), Some("Bearer realm=\"x\""));

    let error = refusal("HTTP/1.1 403 Forbidden").await;
    assert!(matches!(error, WsError::Forbidden { challenge: None }));
    let error = refusal("HTTP/1.1 404 Not Found").await;
    assert!(matches!(error, WsError::NotFound));
    let error = refusal("HTTP/1.1 503 Busy").await;
    assert!(matches!(error, WsError::Status { status: 503 }));

    let error = refusal("HTTP/1.1 307 Away\nLocation: wss://other.test/?token=open-sesame").await;
    assert_eq!(
        error.to_string(),
        "the server redirects to other.test (status 307), which is not followed"
    );
    let error = refusal("HTTP/1.1 302 Away").await;
    assert!(matches!(error, WsError::Redirect { status: 302, .. }));
}

#[tokio::test]
async fn a_server_without_websocket_is_recognised() {
    let upgrade = "HTTP/1.1 101 Switching\nUpgrade: websocket\nConnection: Upgrade";
    for head in [
        "220 mail.test ESMTP",
        "HTTP/1.1 101 Switching\nUpgrade: h2c\nConnection: Upgrade",
        upgrade,
        &format!("{upgrade}\nSec-WebSocket-Accept: AAAA"),
    ] {
        let error = refusal(head).await;
        assert!(matches!(error, WsError::NotWebSocket(_)), "{error:?}");
    }
    let error = refusal("HTTP/1.1 200 OK").await;
    assert!(error.hint().unwrap().contains("`http`"));
}

#[tokio::test]
async fn invalid_headers_and_urls_are_rejected_before_connecting() {
    let (_listener, mut entry) = listen().await;
    entry.headers = vec![("X-Token".to_owned(), format!("{SECRET}\r\nX-More: 1"))];
    let Err(error) = entry.connect(&plain_dialer()).await else {
        panic!("a header with a line end was sent")
    };
    assert!(matches!(error, WsError::Header(_)), "{error:?}");
    assert!(!error.to_string().contains(SECRET), "{error}");
    let connected = entry_of_other_kind().connect(&plain_dialer()).await;
    assert!(matches!(connected, Err(WsError::Dial(_))));
}

fn entry_of_other_kind() -> trunkline_transport::WsServer {
    entry("ftp://127.0.0.1/")
}

#[tokio::test]
async fn frames_right_after_the_handshake_are_not_lost() {
    use base64::Engine;
    use sha1::Digest;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (listener, entry) = listen().await;
    let serving = async {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tcp.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let key = head.split_once("Sec-WebSocket-Key: ").unwrap().1;
        let key = key.split_once("\r\n").unwrap().0;
        let proof = sha1::Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
        let proof = base64::prelude::BASE64_STANDARD.encode(proof);
        let yes = format!(
            "HTTP/1.1 101 Switching\r\nupgrade: WebSocket\r\nconnection: keep-alive, upgrade\r\n\
             sec-websocket-accept: {proof}\r\n\r\n\u{1}"
        );
        let mut bytes = yes.into_bytes();
        *bytes.last_mut().unwrap() = 0x81;
        bytes.extend(b"\x05first");
        tcp.write_all(&bytes).await.unwrap();
        tcp
    };
    let dialer = plain_dialer();
    let (transport, _tcp) = tokio::join!(entry.connect(&dialer), serving);
    let (_sender, mut receiver) = transport.unwrap().split();
    assert_eq!(soon(text(&mut receiver)).await, "first");
}
