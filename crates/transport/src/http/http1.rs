//! One HTTP/1.1 connection, driven by the task that uses it.
//!
//! The task that waits for a response also moves the bytes: a short call takes one write and one
//! read. No task is spawned, and an idle connection costs nothing.

use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::time::Instant;

use super::connection_pool::ExchangeError;
use super::framing::{Decoded, Framing};
use super::request::HttpRequest;
use crate::net::{Dialed, Forward, Stream};
use crate::response_head::{HeadReader, ResponseHead};

/// How long an idle connection is kept unless the server names a shorter time.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// How much earlier than the server we close an idle connection, so that no request is lost.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// Read sizes; they double while reads are full.
const MIN_READ: usize = 8 * 1024;
const MAX_READ: usize = 256 * 1024;

/// Bodies up to this length are copied behind their head: cheaper than a vectored write.
const MAX_COPIED_BODY: usize = 16 * 1024;

const CLOSED: &str = "the server closed the connection before it responded";

/// A connection to a server or to a proxy.
pub(super) struct Http1Connection {
    stream: Stream,
    /// Bytes received and not consumed yet.
    input: BytesMut,
    read_size: usize,
    /// The request's head, and its body unless that is long.
    output: Vec<u8>,
    long_body: Bytes,
    /// Bytes of `output` and `long_body` that were written.
    written: usize,
    write_state: WriteState,
    /// Framing of the body that is being read.
    framing: Framing,
    /// The connection can take another request once the body is read.
    reusable: bool,
    /// Set when the peer is a proxy that takes absolute URLs.
    forward: Option<Forward>,
    idle_timeout: Duration,
    idle_since: Instant,
}

enum WriteState {
    Writing,
    Done,
    /// The rest cannot be sent; the response may say why.
    Failed(String),
    /// The server does not want the rest.
    Stopped,
}

impl Http1Connection {
    pub(super) fn new(dialed: Dialed) -> Self {
        Self {
            stream: dialed.stream,
            input: BytesMut::new(),
            read_size: MIN_READ,
            output: Vec::new(),
            long_body: Bytes::new(),
            written: 0,
            write_state: WriteState::Done,
            framing: Framing::Ended,
            reusable: true,
            forward: dialed.forward,
            idle_timeout: IDLE_TIMEOUT,
            idle_since: Instant::now(),
        }
    }

    /// Whether it can take another request: the server has neither closed it nor sent anything.
    pub(super) fn is_reusable(&mut self, context: &mut Context) -> bool {
        self.reusable
            && matches!(self.write_state, WriteState::Done)
            && self.framing == Framing::Ended
            && self.input.is_empty()
            && self.idle_since.elapsed() < self.idle_timeout
            && self.poll_fill(context).is_pending()
    }

    /// When its idle timeout ends.
    pub(super) fn expires(&self) -> Instant {
        self.idle_since + self.idle_timeout
    }

    /// Sends a request and reads the head of the response.
    pub(super) async fn send(
        &mut self,
        request: &HttpRequest<'_>,
    ) -> Result<(StatusCode, HeaderMap), ExchangeError> {
        self.output.clear();
        request.write_head(self.forward.as_ref(), &mut self.output);
        if request.body.len() <= MAX_COPIED_BODY {
            self.output.extend_from_slice(&request.body);
        } else {
            self.long_body = request.body.clone();
        }
        self.written = 0;
        self.write_state = WriteState::Writing;
        // A connection that is dropped half-way must not be reused.
        self.reusable = false;
        let mut reader = HeadReader::default();
        let head = poll_fn(|context| self.poll_head(&mut reader, context)).await;
        head.map_err(|reason| ExchangeError {
            reason,
            unsent: self.written == 0,
            may_have_run: self.written > 0,
        })
    }

    fn poll_head(
        &mut self,
        reader: &mut HeadReader,
        context: &mut Context,
    ) -> Poll<Result<(StatusCode, HeaderMap), String>> {
        self.write(context);
        loop {
            let head = reader.read(&mut self.input);
            if let Some(head) = head.map_err(|error| error.to_string())? {
                self.framing = Framing::of(&head)?;
                self.set_idle_timeout(&head);
                // An early error response means the server has stopped reading; stop sending.
                if !head.status.is_success() && matches!(self.write_state, WriteState::Writing) {
                    self.write_state = WriteState::Stopped;
                }
                return Poll::Ready(Ok((head.status, head.headers)));
            }
            let reason = match ready!(self.poll_fill(context)) {
                Ok(0) => CLOSED.to_owned(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Poll::Ready(Err(match &self.write_state {
                WriteState::Failed(reason) => reason.clone(),
                _ => reason,
            }));
        }
    }

    /// Writes without waiting. A server may respond early, so this also runs while the response is
    /// read.
    fn write(&mut self, context: &mut Context) {
        let mut stream = Pin::new(&mut self.stream);
        while matches!(self.write_state, WriteState::Writing) {
            let head = self.output.get(self.written..).unwrap_or_default();
            let body_from = self.written.saturating_sub(self.output.len());
            let body = self.long_body.get(body_from..).unwrap_or_default();
            let step = match (head, body) {
                ([], []) => stream.as_mut().poll_flush(context).map_ok(|()| None),
                (bytes, []) | ([], bytes) => {
                    stream.as_mut().poll_write(context, bytes).map_ok(Some)
                }
                (head, body) => {
                    let both = [IoSlice::new(head), IoSlice::new(body)];
                    let written = stream.as_mut().poll_write_vectored(context, &both);
                    written.map_ok(Some)
                }
            };
            match step {
                Poll::Pending => return,
                Poll::Ready(Ok(None)) => {
                    self.write_state = WriteState::Done;
                    self.long_body = Bytes::new();
                }
                Poll::Ready(Ok(Some(0))) => {
                    self.write_state = WriteState::Failed(CLOSED.to_owned());
                }
                Poll::Ready(Ok(Some(count))) => self.written += count,
                Poll::Ready(Err(error)) => self.write_state = WriteState::Failed(error.to_string()),
            }
        }
    }

    fn set_idle_timeout(&mut self, head: &ResponseHead) {
        self.reusable = self.framing != Framing::UntilClose && head.allows_reuse();
        if self.forward.is_some() && !head.promises_keep_alive() {
            // Some proxies take one request per connection without saying so.
            self.idle_timeout = Duration::ZERO;
        } else if let Some(limit) = head.keep_alive_timeout() {
            self.idle_timeout = limit.saturating_sub(IDLE_MARGIN).min(IDLE_TIMEOUT);
        }
    }

    /// The next part of the response body.
    pub(super) fn poll_body(
        &mut self,
        context: &mut Context,
    ) -> Poll<Option<Result<Bytes, String>>> {
        self.write(context);
        loop {
            match self.framing.decode(&mut self.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(Decoded::End) => {
                    self.idle_since = Instant::now();
                    if self.input.is_empty() && self.input.capacity() > MAX_READ / 4 {
                        self.input = BytesMut::new();
                    }
                    return Poll::Ready(None);
                }
                Ok(Decoded::NeedMore) => {}
                Err(reason) => return Poll::Ready(Some(Err(reason.to_owned()))),
            }
            match ready!(self.poll_fill(context)) {
                Ok(0) if self.framing == Framing::UntilClose => self.framing = Framing::Ended,
                Ok(0) => return Poll::Ready(Some(Err(CLOSED.to_owned()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.to_string()))),
            }
        }
    }

    /// The remaining bytes of a body of known length.
    pub(super) fn remaining(&self) -> Option<usize> {
        match self.framing {
            Framing::Length(left) => Some(usize::try_from(left).unwrap_or(usize::MAX)),
            _ => None,
        }
    }

    /// Reads a body of known length straight into `out`, bypassing the input buffer; false at its
    /// end.
    pub(super) fn poll_read_into(
        &mut self,
        out: &mut BytesMut,
        context: &mut Context,
    ) -> Poll<Result<bool, String>> {
        self.write(context);
        let Framing::Length(left) = &mut self.framing else {
            self.idle_since = Instant::now();
            return Poll::Ready(Ok(false));
        };
        let at_most = usize::try_from(*left).unwrap_or(usize::MAX);
        let count = if self.input.is_empty() {
            let mut room = (&mut *out).limit(at_most);
            let reading = pin!(self.stream.read_buf(&mut room));
            match ready!(reading.poll(context)) {
                Ok(0) => return Poll::Ready(Err(CLOSED.to_owned())),
                Ok(count) => count,
                Err(error) => return Poll::Ready(Err(error.to_string())),
            }
        } else {
            let count = self.input.len().min(at_most);
            out.extend_from_slice(&self.input[..count]);
            self.input.advance(count);
            count
        };
        *left -= count as u64;
        if *left == 0 {
            self.framing = Framing::Ended;
            // A larger read of the next head would also read its body, which is then copied.
            self.read_size = MIN_READ;
        }
        Poll::Ready(Ok(true))
    }

    /// Reads once; zero at the end.
    fn poll_fill(&mut self, context: &mut Context) -> Poll<io::Result<usize>> {
        self.input.reserve(self.read_size);
        let room = self.input.capacity() - self.input.len();
        let reading = pin!(self.stream.read_buf(&mut self.input));
        let count = ready!(reading.poll(context))?;
        self.read_size = if count == room {
            (room * 2).min(MAX_READ)
        } else {
            MIN_READ
        };
        Poll::Ready(Ok(count))
    }
}

/// Decodes a response that arrives in these chunks, for fuzz targets.
pub(crate) fn read_http1(chunks: &[&[u8]]) -> Result<(u16, Vec<u8>), String> {
    let (mut reader, mut input) = (HeadReader::default(), BytesMut::new());
    let mut found: Option<(StatusCode, Framing)> = None;
    let mut body = Vec::new();
    for chunk in chunks {
        input.extend_from_slice(chunk);
        if found.is_none() {
            let head = reader.read(&mut input);
            found = match head.map_err(|error| error.to_string())? {
                Some(head) => {
                    let framing = Framing::of(&head)?;
                    Some((head.status, framing))
                }
                None => continue,
            };
        }
        let Some((status, framing)) = &mut found else {
            continue;
        };
        loop {
            match framing.decode(&mut input)? {
                Decoded::Data(data) => body.extend_from_slice(&data),
                Decoded::NeedMore => break,
                Decoded::End => return Ok((status.as_u16(), body)),
            }
        }
    }
    match found {
        Some((status, Framing::UntilClose | Framing::Ended)) => Ok((status.as_u16(), body)),
        _ => Err(CLOSED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Method;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use url::Url;

    use super::super::request::RequestTarget;
    use super::*;

    /// A connection and its peer.
    async fn pair() -> (Http1Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (theirs, _) = listener.accept().await.unwrap();
        let dialed = Dialed {
            stream: Stream::plain(ours.unwrap()),
            http2: false,
            forward: None,
        };
        (Http1Connection::new(dialed), theirs)
    }

    async fn send(
        connection: &mut Http1Connection,
        body: Bytes,
    ) -> Result<StatusCode, ExchangeError> {
        let request = HttpRequest {
            method: Method::POST,
            target: &RequestTarget::new(&Url::parse("http://h/mcp").unwrap()).unwrap(),
            headers: Arc::new(HeaderMap::new().into()),
            extra: Vec::new(),
            token: None,
            body,
            timeout: None,
        };
        let sent = connection.send(&request).await;
        sent.map(|(status, _)| status)
    }

    async fn read_body(connection: &mut Http1Connection) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(data) = poll_fn(|context| connection.poll_body(context)).await {
            body.extend_from_slice(&data.unwrap());
        }
        body
    }

    #[tokio::test]
    async fn the_rest_of_a_request_is_sent_while_the_response_is_read() {
        const LENGTH: usize = 8 << 20;
        let (mut connection, mut server) = pair().await;
        let serving = tokio::spawn(async move {
            // The head of the response precedes the first read of the request.
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n";
            server.write_all(head).await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"END") {
                server.read_buf(&mut read).await.unwrap();
            }
            server.write_all(b"done").await.unwrap();
            (server, read.len())
        });
        let mut body = vec![b'x'; LENGTH - 3];
        body.extend_from_slice(b"END");
        let status = send(&mut connection, body.into()).await;
        assert_eq!(status.ok(), Some(StatusCode::OK));
        assert_eq!(read_body(&mut connection).await, b"done");
        let (_server, read) = serving.await.unwrap();
        assert!(read > LENGTH);
        let usable = poll_fn(|context| Poll::Ready(connection.is_reusable(context))).await;
        assert!(usable);
    }

    #[tokio::test]
    async fn an_early_error_response_is_read_and_the_connection_not_reused() {
        let (mut connection, mut server) = pair().await;
        let head = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n";
        server.write_all(head).await.unwrap();
        let status = send(&mut connection, vec![b'x'; 32 << 20].into()).await;
        assert_eq!(status.ok(), Some(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(read_body(&mut connection).await, b"");
        let usable = poll_fn(|context| Poll::Ready(connection.is_reusable(context))).await;
        assert!(!usable);
    }

    #[tokio::test]
    async fn blank_lines_before_a_response_take_no_memory() {
        let (mut connection, mut server) = pair().await;
        let serving = tokio::spawn(async move {
            for _ in 0..7 {
                server.write_all(&b"\r\n".repeat(16 << 10)).await.unwrap();
            }
            let early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
            server.write_all(early).await.unwrap();
            server
        });
        let status = send(&mut connection, Bytes::new()).await;
        assert_eq!(status.ok(), Some(StatusCode::NO_CONTENT));
        assert!(connection.input.capacity() <= 2 * MAX_READ);
        drop(serving.await);
    }

    #[tokio::test]
    async fn long_bodies_do_not_enlarge_the_reads_of_heads() {
        const LENGTH: usize = 4 * MIN_READ;
        let (mut connection, mut server) = pair().await;
        for _ in 0..3 {
            let mut response = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
            response.push_str(&"x".repeat(LENGTH));
            server.write_all(response.as_bytes()).await.unwrap();
            let status = send(&mut connection, Bytes::new()).await;
            assert_eq!(status.ok(), Some(StatusCode::OK));
            let mut body = BytesMut::with_capacity(LENGTH);
            while poll_fn(|context| connection.poll_read_into(&mut body, context))
                .await
                .unwrap()
            {}
            assert_eq!(body.len(), LENGTH);
            assert_eq!(connection.read_size, MIN_READ);
        }
    }

    #[tokio::test]
    async fn a_request_counts_as_sent_once_a_byte_is_written() {
        let (mut connection, server) = pair().await;
        drop(server);
        let error = send(&mut connection, Bytes::new()).await.unwrap_err();
        assert!(error.may_have_run && !error.unsent, "{error}");
    }
}
