//! The server side of a link.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};
use trunkline_transport::net::TlsFiles;
use trunkline_transport::{WsServer, WsTransport};
use trunkline_wire::Json;
use trunkline_wire::transport::{Incoming, Outgoing, ReceiveHalf};

use crate::support::{LIMIT, plain_dialer};

/// A listener and its URL.
pub(crate) async fn listen() -> (TcpListener, WsServer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, entry(&format!("ws://127.0.0.1:{port}/mcp")))
}

/// An entry with only a URL.
pub(crate) fn entry(url: &str) -> WsServer {
    WsServer {
        url: url.parse().unwrap(),
        headers: Vec::new(),
        tls_files: TlsFiles::default(),
    }
}

/// A link over TCP.
pub(crate) async fn pair() -> (WsTransport, WebSocketStream<TcpStream>) {
    let (listener, entry) = listen().await;
    let dialer = plain_dialer();
    let serving = async {
        let (tcp, _) = listener.accept().await.unwrap();
        accept(tcp, Some("mcp")).await.0
    };
    let (transport, server) = tokio::join!(entry.connect(&dialer), serving);
    (transport.unwrap(), server)
}

/// Accepts a client with a subprotocol; also returns its request.
pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    select: Option<&'static str>,
) -> (WebSocketStream<S>, Request) {
    let mut asked = None;
    #[allow(clippy::result_large_err, reason = "the library's own type")]
    let callback = |request: &Request, mut response: Response| {
        asked = Some(request.clone());
        if let Some(name) = select {
            let value = name.parse().unwrap();
            let headers = response.headers_mut();
            headers.insert("sec-websocket-protocol", value);
        }
        Ok(response)
    };
    let config = WebSocketConfig::default()
        .max_frame_size(None)
        .max_message_size(None);
    let server = accept_hdr_async_with_config(stream, callback, Some(config)).await;
    (server.unwrap(), asked.unwrap())
}

/// Sends exactly this response to one client.
pub(crate) async fn answer(listener: &TcpListener, text: &str) {
    let (mut tcp, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.unwrap());
    }
    tcp.write_all(text.as_bytes()).await.unwrap();
}

/// A message of `length` bytes, if that is enough for one.
pub(crate) fn message(length: usize) -> (Outgoing, String) {
    let around = r#"{"jsonrpc":"2.0","method":"n","params":{"a":""}}"#.len();
    let fill = "x".repeat(length.saturating_sub(around));
    let message = Outgoing::Notification {
        method: "n",
        params: Some(Json::parse(format!(r#"{{"a":"{fill}"}}"#)).unwrap()),
        version: None,
    };
    let mut text = Vec::new();
    message.encode(&mut text);
    (message, String::from_utf8(text).unwrap())
}

/// The next frame's text.
pub(crate) async fn text(receiver: &mut impl ReceiveHalf) -> String {
    loop {
        match soon(receiver.receive()).await.unwrap() {
            Incoming::Frame(frame) => return String::from_utf8(frame.to_vec()).unwrap(),
            Incoming::Partial { .. } | Incoming::Noise { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Awaits a future with a time limit.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    let limit: Duration = LIMIT;
    tokio::time::timeout(limit, what).await.expect("in time")
}
