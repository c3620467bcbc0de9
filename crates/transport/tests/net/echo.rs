//! An echo server.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use trunkline_transport::net::{Alpn, DialError, Dialed, Dialer, Target, TlsFiles};

/// An echo server that records its TLS handshakes.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    pub(crate) handshakes: mpsc::UnboundedReceiver<Option<HandshakeKind>>,
}

impl Echo {
    pub(crate) async fn start(address: &str, tls: Option<ServerConfig>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let (done, handshakes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (tls, done) = (tls.clone(), done.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            let stream = tls.accept(tcp).await?;
                            let _ = done.send(stream.get_ref().1.handshake_kind());
                            echo(stream).await
                        }
                        None => echo(tcp).await,
                    }
                });
            }
        });
        Self {
            address,
            handshakes,
        }
    }

    pub(crate) async fn tls(config: ServerConfig) -> Self {
        Self::start("127.0.0.1:0", Some(config)).await
    }

    /// Its target by address.
    pub(crate) fn target(&self) -> Target {
        Target {
            tls: true,
            host: self.address.ip().to_string(),
            port: self.address.port(),
        }
    }

    /// Its target by a name that only the test proxies know.
    pub(crate) fn named(&self) -> Target {
        Target {
            host: "server.test".to_owned(),
            ..self.target()
        }
    }
}

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        let some = stream.read(&mut buffer).await?;
        if some == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..some]).await?;
        stream.flush().await?;
    }
}

/// Connects to `target` and checks the echo.
pub(crate) async fn reach(
    dialer: &Dialer,
    target: &Target,
    files: &TlsFiles,
) -> Result<Dialed, DialError> {
    let mut reached = dialer.dial(target, files, Alpn::Http1).await?;
    assert_echo(&mut reached.stream).await;
    Ok(reached)
}

pub(crate) async fn assert_echo(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    stream.write_all(b"hello").await.unwrap();
    stream.flush().await.unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello");
}
