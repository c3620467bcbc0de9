//! `WebSocket` over TLS, and through proxies.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;
use trunkline_transport::net::{DialError, Dialer, TlsFiles};
use trunkline_transport::{WsError, WsServer};
use trunkline_wire::transport::{SendHalf, Transport};

use crate::server::{accept, entry, message, soon, text};
use crate::support::certs::Ca;
use crate::support::proxy::RecordingProxy;
use crate::support::{dialer, plain_dialer};

/// Starts an echo server; returns its port.
async fn echo(tls: Option<ServerConfig>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        while let Ok((tcp, _)) = listener.accept().await {
            match tls.clone() {
                Some(tls) => {
                    tokio::spawn(async move {
                        if let Ok(stream) = tls.accept(tcp).await {
                            back(accept(stream, Some("mcp")).await.0).await;
                        }
                    });
                }
                None => {
                    tokio::spawn(async move { back(accept(tcp, Some("mcp")).await.0).await });
                }
            }
        }
    });
    port
}

async fn back<S>(mut server: tokio_tungstenite::WebSocketStream<S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = server.next().await {
        if let Message::Text(_) = &message {
            server.send(message).await.unwrap();
        }
    }
}

/// Checks the echo of a long and a short message.
async fn talk(server: &WsServer, dialer: &Dialer) -> Result<(), WsError> {
    let (mut sender, mut receiver) = server.connect(dialer).await?.split();
    for size in [100, 3_000_000] {
        let (message, said) = message(size);
        let mut batch = vec![message];
        let (sent, heard) = tokio::join!(sender.send(&mut batch), text(&mut receiver));
        sent.unwrap();
        assert!(heard == said);
    }
    let reader = tokio::spawn(async move {
        use trunkline_wire::transport::ReceiveHalf;
        receiver.receive().await
    });
    soon(sender.close()).await;
    let closed = soon(reader).await.unwrap().unwrap_err();
    assert_eq!(closed.to_string(), "the server closed the connection");
    Ok(())
}

#[tokio::test]
async fn tls_and_certificates_work_as_with_http() {
    let ca = Ca::new();
    let us = ca.sign(&["us.test"], (2020, 2100));
    let port = echo(Some(ca.strict_server(rustls::ALL_VERSIONS))).await;
    let mut server = entry(&format!("wss://127.0.0.1:{port}/"));
    server.tls_files = TlsFiles {
        ca: Some(ca.trust()),
        cert: Some(ca.file("us.pem", &us.cert)),
        key: Some(ca.file("us.key", &us.key)),
    };
    talk(&server, &plain_dialer()).await.unwrap();

    server.tls_files.cert = None;
    let error = talk(&server, &plain_dialer()).await.unwrap_err();
    assert!(
        error.to_string().contains("asks for a client certificate"),
        "{error}"
    );

    server.tls_files.ca = None;
    let stranger = Ca::new();
    let dialer = dialer([("SSL_CERT_FILE", stranger.trust().to_str().unwrap())]);
    let error = talk(&server, &dialer).await.unwrap_err();
    assert!(matches!(error, WsError::Dial(DialError::NotTrusted { .. })));
    assert!(error.hint().unwrap().contains("tls.ca"));
}

#[tokio::test]
async fn connections_are_tunnelled_through_a_proxy() {
    let ca = Ca::new();
    let proxy = RecordingProxy::open().await;
    let dialer = dialer([
        ("ALL_PROXY", format!("http://me:pw@{}", proxy.address)),
        ("SSL_CERT_FILE", ca.trust().to_str().unwrap().to_owned()),
    ]);
    let secure = echo(Some(ca.server())).await;
    let plain = echo(None).await;
    let urls = [
        format!("wss://server.test:{secure}/mcp"),
        format!("ws://server.test:{plain}/mcp"),
    ];
    for url in &urls {
        talk(&entry(url), &dialer).await.unwrap();
    }
    let heads = proxy.heads();
    assert_eq!(heads.len(), 2);
    for (head, port) in heads.iter().zip([secure, plain]) {
        let start = format!("CONNECT server.test:{port} HTTP/1.1\r\n");
        assert!(head.starts_with(&start), "{head}");
        assert!(head.contains("\r\nProxy-Authorization: Basic bWU6cHc=\r\n"));
    }
}

#[tokio::test]
async fn tls_is_tunnelled_through_a_tls_proxy() {
    let ca = Ca::new();
    let yes = "HTTP/1.1 200 OK\r\n\r\n";
    let proxy = RecordingProxy::start(yes, Some(ca.server())).await;
    let dialer = dialer([
        ("HTTPS_PROXY", format!("https://{}", proxy.address)),
        ("SSL_CERT_FILE", ca.trust().to_str().unwrap().to_owned()),
    ]);
    let port = echo(Some(ca.server())).await;
    let server = entry(&format!("wss://server.test:{port}/mcp"));
    talk(&server, &dialer).await.unwrap();
    assert_eq!(proxy.heads().len(), 1);
}
