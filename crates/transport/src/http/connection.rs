//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! Nothing is spawned, and nothing changes hands: the task that waits for an answer also moves the bytes, one write and one read for
//! a short call. A connection that nobody uses costs nothing.

use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::time::Instant;

use super::client::Place;
use super::framing::{Found, Framing};
use super::head::{Head, Search};
use super::letter::Letter;
use crate::net::{Dialed, Forward, Stream};

/// How long an unused connection is kept when the server does not say.
const KEPT: Duration = Duration::from_mins(1);

/// How much sooner than the server we let go of one, so that no request meets its end.
const MARGIN: Duration = Duration::from_secs(1);

/// How much is read at a time: little at first, more where much comes.
const LEAST_READ: usize = 8 * 1024;
const MOST_READ: usize = 256 * 1024;

/// Up to which length a body is written together with its head; to put them together is cheaper than to tell the system of two.
const COPIED: usize = 16 * 1024;

const ENDED: &str = "the server closed the connection before it had answered";

/// A connection to a server or to a proxy.
pub(super) struct Connection {
    stream: Stream,
    /// What was read and not yet used.
    input: BytesMut,
    /// How much to make room for.
    room: usize,
    /// What is sent: a head, with its body unless that is long.
    output: Vec<u8>,
    /// A long body.
    apart: Bytes,
    /// How many bytes of both were written.
    written: usize,
    sending: Sending,
    /// Where the answer that is being read ends.
    framing: Framing,
    /// It can take another request once that answer is read.
    lasting: bool,
    /// Set when the other end is a proxy that wants to hear the whole URL.
    forward: Option<Forward>,
    /// How long it may be left unused.
    keep_for: Duration,
    /// Since when it has been unused.
    unused_since: Instant,
}

/// Why a request has no answer.
pub(super) struct Lost {
    /// Whether a byte of it was sent.
    pub(super) sent: bool,
    pub(super) reason: String,
}

/// How far sending a request has come.
enum Sending {
    UnderWay,
    Done,
    /// The rest cannot be sent; what comes back may say why.
    Failed(String),
    /// The rest is not wanted.
    Stopped,
}

impl Connection {
    pub(super) fn new(dialed: Dialed) -> Self {
        Self {
            stream: dialed.stream,
            input: BytesMut::new(),
            room: LEAST_READ,
            output: Vec::new(),
            apart: Bytes::new(),
            written: 0,
            sending: Sending::Done,
            framing: Framing::Ended,
            lasting: true,
            forward: dialed.forward,
            keep_for: KEPT,
            unused_since: Instant::now(),
        }
    }

    /// Whether it can take another request. The other end may have closed it while nobody looked, or have said something that
    /// nobody asked for.
    pub(super) fn is_usable(&mut self, context: &mut Context) -> bool {
        self.lasting
            && matches!(self.sending, Sending::Done)
            && self.framing == Framing::Ended
            && self.input.is_empty()
            && self.unused_since.elapsed() < self.keep_for
            && self.poll_fill(context).is_pending()
    }

    /// When it is to be let go if nobody uses it.
    pub(super) fn expires(&self) -> Instant {
        self.unused_since + self.keep_for
    }

    /// Sends a request, and reads the head of its answer.
    pub(super) async fn send(
        &mut self,
        letter: &Letter<'_>,
        place: &Place,
    ) -> Result<(StatusCode, HeaderMap), Lost> {
        self.output.clear();
        letter.write_head(place, self.forward.as_ref(), &mut self.output);
        if letter.body.len() <= COPIED {
            self.output.extend_from_slice(letter.body);
        } else {
            self.apart = letter.body.clone();
        }
        self.written = 0;
        self.sending = Sending::UnderWay;
        // What is cut off in the middle must not be used again.
        self.lasting = false;
        let mut search = Search::default();
        let answered = poll_fn(|context| self.poll_answer(&mut search, context)).await;
        answered.map_err(|reason| Lost {
            sent: self.written > 0,
            reason,
        })
    }

    fn poll_answer(
        &mut self,
        search: &mut Search,
        context: &mut Context,
    ) -> Poll<Result<(StatusCode, HeaderMap), String>> {
        self.write(context);
        loop {
            if let Some(head) = search.head(&mut self.input)? {
                self.framing = Framing::of(head.status, &head.headers, head.is_old())?;
                self.keep(&head);
                // Whoever turns a request down before it has heard all of it does not want the rest.
                if !head.status.is_success() && matches!(self.sending, Sending::UnderWay) {
                    self.sending = Sending::Stopped;
                }
                return Poll::Ready(Ok((head.status, head.headers)));
            }
            let reason = match ready!(self.poll_fill(context)) {
                Ok(0) => ENDED.to_owned(),
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Poll::Ready(Err(match &self.sending {
                Sending::Failed(reason) => reason.clone(),
                _ => reason,
            }));
        }
    }

    /// Writes what can be written now. A server may answer before it has heard everything, so this goes on while the answer is read.
    fn write(&mut self, context: &mut Context) {
        let mut stream = Pin::new(&mut self.stream);
        while matches!(self.sending, Sending::UnderWay) {
            let head = self.output.get(self.written..).unwrap_or_default();
            let body_from = self.written.saturating_sub(self.output.len());
            let body = self.apart.get(body_from..).unwrap_or_default();
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
                    self.sending = Sending::Done;
                    self.apart = Bytes::new();
                }
                Poll::Ready(Ok(Some(0))) => self.sending = Sending::Failed(ENDED.to_owned()),
                Poll::Ready(Ok(Some(count))) => self.written += count,
                Poll::Ready(Err(error)) => self.sending = Sending::Failed(error.to_string()),
            }
        }
    }

    /// Whether and how long the connection can be kept.
    fn keep(&mut self, head: &Head) {
        self.lasting = self.framing != Framing::UntilClose && head.is_lasting();
        if self.forward.is_some() && !head.promises_more() {
            // Some proxies take one request for each connection and do not say so.
            self.keep_for = Duration::ZERO;
        } else if let Some(limit) = head.keep_alive() {
            self.keep_for = limit.saturating_sub(MARGIN).min(KEPT);
        }
    }

    /// The next piece of the answer's body.
    pub(super) fn poll_body(
        &mut self,
        context: &mut Context,
    ) -> Poll<Option<Result<Bytes, String>>> {
        self.write(context);
        loop {
            match self.framing.take(&mut self.input) {
                Ok(Found::Piece(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(Found::End) => {
                    self.unused_since = Instant::now();
                    if self.input.is_empty() && self.input.capacity() > MOST_READ / 4 {
                        self.input = BytesMut::new();
                    }
                    return Poll::Ready(None);
                }
                Ok(Found::Nothing) => {}
                Err(reason) => return Poll::Ready(Some(Err(reason.to_owned()))),
            }
            match ready!(self.poll_fill(context)) {
                Ok(0) if self.framing == Framing::UntilClose => self.framing = Framing::Ended,
                Ok(0) => return Poll::Ready(Some(Err(ENDED.to_owned()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.to_string()))),
            }
        }
    }

    /// How much is left of a body whose length is known.
    pub(super) fn left(&self) -> Option<usize> {
        match self.framing {
            Framing::Length(left) => Some(usize::try_from(left).unwrap_or(usize::MAX)),
            _ => None,
        }
    }

    /// Adds to `whole` what comes next of a body whose length is known; false once it is all there. It goes where it is to stay, not
    /// through a buffer of ours.
    pub(super) fn poll_into(
        &mut self,
        whole: &mut BytesMut,
        context: &mut Context,
    ) -> Poll<Result<bool, String>> {
        self.write(context);
        let Framing::Length(left) = &mut self.framing else {
            self.unused_since = Instant::now();
            return Poll::Ready(Ok(false));
        };
        let at_most = usize::try_from(*left).unwrap_or(usize::MAX);
        let count = if self.input.is_empty() {
            let mut room = (&mut *whole).limit(at_most);
            let reading = pin!(self.stream.read_buf(&mut room));
            match ready!(reading.poll(context)) {
                Ok(0) => return Poll::Ready(Err(ENDED.to_owned())),
                Ok(count) => count,
                Err(error) => return Poll::Ready(Err(error.to_string())),
            }
        } else {
            let count = self.input.len().min(at_most);
            whole.extend_from_slice(&self.input[..count]);
            self.input.advance(count);
            count
        };
        *left -= count as u64;
        if *left == 0 {
            self.framing = Framing::Ended;
        }
        Poll::Ready(Ok(true))
    }

    /// Reads once; zero at the end.
    fn poll_fill(&mut self, context: &mut Context) -> Poll<io::Result<usize>> {
        self.input.reserve(self.room);
        let room = self.input.capacity() - self.input.len();
        let reading = pin!(self.stream.read_buf(&mut self.input));
        let count = ready!(reading.poll(context))?;
        self.room = if count == room {
            (room * 2).min(MOST_READ)
        } else {
            LEAST_READ
        };
        Poll::Ready(Ok(count))
    }
}

/// The status and the body of an answer that arrives in these pieces, for fuzz targets.
pub(crate) fn read_http1(pieces: &[&[u8]]) -> Result<(u16, Vec<u8>), String> {
    let (mut search, mut input) = (Search::default(), BytesMut::new());
    let mut found: Option<(StatusCode, Framing)> = None;
    let mut body = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        if found.is_none() {
            let head = search.head(&mut input)?;
            found = match head {
                Some(head) => {
                    let framing = Framing::of(head.status, &head.headers, head.is_old())?;
                    Some((head.status, framing))
                }
                None => continue,
            };
        }
        let Some((status, framing)) = &mut found else {
            continue;
        };
        loop {
            match framing.take(&mut input)? {
                Found::Piece(piece) => body.extend_from_slice(&piece),
                Found::Nothing => break,
                Found::End => return Ok((status.as_u16(), body)),
            }
        }
    }
    match found {
        Some((status, Framing::UntilClose | Framing::Ended)) => Ok((status.as_u16(), body)),
        _ => Err(ENDED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use url::Url;

    use super::super::letter::Prepared;
    use super::*;

    /// A connection, and the other end of it.
    async fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (theirs, _) = listener.accept().await.unwrap();
        let dialed = Dialed {
            stream: Stream::plain(ours.unwrap()),
            http2: false,
            forward: None,
        };
        (Connection::new(dialed), theirs)
    }

    async fn send(connection: &mut Connection, body: Bytes) -> Result<StatusCode, Lost> {
        let place = Place::new(&Url::parse("http://h/mcp").unwrap()).unwrap();
        let letter = Letter {
            method: &Method::POST,
            headers: &Prepared::from(HeaderMap::new()),
            more: &[],
            token: None,
            body: &body,
        };
        let sent = connection.send(&letter, &place).await;
        sent.map(|(status, _)| status)
    }

    async fn whole(connection: &mut Connection) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(piece) = poll_fn(|context| connection.poll_body(context)).await {
            whole.extend_from_slice(&piece.unwrap());
        }
        whole
    }

    #[tokio::test]
    async fn the_rest_of_a_request_is_sent_while_the_answer_is_read() {
        const LENGTH: usize = 8 << 20;
        let (mut connection, mut server) = pair().await;
        let serving = tokio::spawn(async move {
            // The head of the answer comes before a byte of the request is read.
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
        assert_eq!(whole(&mut connection).await, b"done");
        let (_server, read) = serving.await.unwrap();
        assert!(read > LENGTH);
        let usable = poll_fn(|context| Poll::Ready(connection.is_usable(context))).await;
        assert!(usable);
    }

    #[tokio::test]
    async fn who_turns_a_request_down_at_once_is_heard_and_not_used_again() {
        let (mut connection, mut server) = pair().await;
        let head = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n";
        server.write_all(head).await.unwrap();
        let status = send(&mut connection, vec![b'x'; 32 << 20].into()).await;
        assert_eq!(status.ok(), Some(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(whole(&mut connection).await, b"");
        let usable = poll_fn(|context| Poll::Ready(connection.is_usable(context))).await;
        assert!(!usable);
    }

    #[tokio::test]
    async fn empty_lines_before_an_answer_take_no_memory() {
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
        assert!(connection.input.capacity() <= 2 * MOST_READ);
        drop(serving.await);
    }

    #[tokio::test]
    async fn a_request_is_sent_as_soon_as_a_byte_of_it_is() {
        let (mut connection, server) = pair().await;
        drop(server);
        let lost = send(&mut connection, Bytes::new()).await.unwrap_err();
        assert!(lost.sent, "{}", lost.reason);
    }
}
