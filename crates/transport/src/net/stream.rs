//! Streams: TCP, TLS over TCP, or TLS through a tunnel of a TLS proxy.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::halves::{ReadHalf, WriteHalf};
use super::tls;

/// A stream to a server, with or without TLS.
pub struct Stream(Inner);

enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    pub(crate) fn plain(tcp: TcpStream) -> Self {
        Self(Inner::Plain(tcp))
    }

    pub(super) fn tls(tls: TlsStream<Self>) -> Self {
        Self(Inner::Tls(Box::new(tls)))
    }

    /// Splits the stream for two tasks.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self.0 {
            Inner::Plain(tcp) => {
                let (read, write) = tcp.into_split();
                (ReadHalf::Plain(read), WriteHalf::Plain(write))
            }
            // TLS has one state for both directions.
            tls @ Inner::Tls(_) => {
                let (read, write) = tokio::io::split(Self(tls));
                (ReadHalf::Tls(read), WriteHalf::Tls(write))
            }
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Plain(_) => "Stream(plain)",
            Inner::Tls(_) => "Stream(TLS)",
        })
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            // In TLS 1.3 a server rejects a client certificate only after the handshake.
            Inner::Tls(tls) => Pin::new(tls)
                .poll_read(cx, buffer)
                .map_err(tls::clarify_alert),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Inner::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        slices: &[IoSlice],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Inner::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Inner::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Inner::Plain(tcp) => tcp.is_write_vectored(),
            Inner::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Inner::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
