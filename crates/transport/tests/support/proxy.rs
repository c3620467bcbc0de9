//! A recording proxy that connects every tunnel to this host.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub(crate) struct RecordingProxy {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl RecordingProxy {
    /// Starts a proxy with this response to each request; status 200 opens the tunnel.
    pub(crate) async fn start(answer: &'static str, tls: Option<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let kept = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (heads, tls) = (Arc::clone(&heads), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => serve(tls.accept(tcp).await?, answer, &heads).await,
                        None => serve(tcp, answer, &heads).await,
                    }
                });
            }
        });
        Self {
            address,
            heads: kept,
        }
    }

    /// Starts a proxy that opens every tunnel.
    pub(crate) async fn open() -> Self {
        Self::start("HTTP/1.1 200 Connection established\r\n\r\n", None).await
    }

    /// The heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &str,
    heads: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    heads.lock().unwrap().push(head.clone());
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await?;
    let tunnel = head
        .strip_prefix("CONNECT ")
        .filter(|_| answer.contains(" 200 "));
    if let Some(rest) = tunnel {
        let port = rest
            .split_once(" HTTP")
            .unwrap()
            .0
            .rsplit_once(':')
            .unwrap()
            .1;
        let port = port.parse::<u16>().unwrap();
        let mut onward = TcpStream::connect(("127.0.0.1", port)).await?;
        tokio::io::copy_bidirectional(&mut stream, &mut onward).await?;
    }
    Ok(())
}
