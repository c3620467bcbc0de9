//! Decodes HTTP/1.1 responses with hyper, as an oracle.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};

/// A connection that returns these bytes after the first write, then ends.
struct Canned {
    bytes: Vec<u8>,
    read: usize,
    asked: bool,
}

impl Read for Canned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !self.asked {
            return Poll::Pending;
        }
        let from = self.read;
        let count = into.remaining().min(self.bytes.len() - from);
        into.put_slice(&self.bytes[from..from + count]);
        self.read += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Canned {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns status and body.
pub(crate) fn hyper_reads(bytes: &[u8]) -> Result<(u16, Vec<u8>), String> {
    let asking = async {
        let started = http1::handshake::<_, Empty<Bytes>>(Canned {
            bytes: bytes.to_vec(),
            read: 0,
            asked: false,
        })
        .await;
        let (mut sender, connection) = started.map_err(|error| error.to_string())?;
        let request = hyper::Request::post("/mcp").body(Empty::<Bytes>::new());
        let request = request.map_err(|error| error.to_string())?;
        let answering = async {
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await;
            let body = body.map_err(|error| error.to_string())?;
            Ok((status, body.to_bytes().to_vec()))
        };
        let mut connection = pin!(connection);
        let mut answering = pin!(answering);
        let mut ended = false;
        std::future::poll_fn(move |context| {
            if !ended {
                ended = connection.as_mut().poll(context).is_ready();
            }
            match answering.as_mut().poll(context) {
                Poll::Pending if ended => Poll::Ready(Err("it hangs".to_owned())),
                polled => polled,
            }
        })
        .await
    };
    let mut asking = pin!(asking);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        if let Poll::Ready(outcome) = asking.as_mut().poll(&mut context) {
            return outcome;
        }
    }
    Err("it never ends".to_owned())
}
