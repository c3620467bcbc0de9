//! Response bodies: read incrementally, decompressed and bounded.

use std::future::poll_fn;
use std::io::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use hyper::body::{Body as _, Incoming};

use super::framing::MAX_COPIED;
use super::http1::Http1Connection;
use super::http2::explain;

/// The most compressed bytes in a row that may decompress to nothing.
const MAX_EMPTY: usize = 64 * 1024;

/// Chunks and bytes that are read before the task yields (CALL-7).
const CHUNKS_PER_YIELD: usize = 16;
const BYTES_PER_YIELD: usize = 64 * 1024;

/// Bodies at least this long are read straight into their final buffer.
const LONG_BODY: usize = 16 * 1024;

/// The most memory that is reserved on the word of a `Content-Length`.
const MAX_RESERVED: usize = 4 * 1024 * 1024;

/// Bytes of unfinished messages that one server may occupy (SEC-4).
const MAX_BUFFERED: usize = 4 * crate::MAX_MESSAGE_BYTES;

/// The body of a response.
pub(super) struct Body {
    source: Source,
    encoding: ContentEncoding,
    /// Received bytes that are not decompressed yet.
    compressed: Bytes,
    /// The `Content-Length`, if there is one.
    length: Option<usize>,
    ended: bool,
    /// Chunks and bytes since the last yield.
    chunks: usize,
    bytes: usize,
}

enum Source {
    Http1(Box<Http1Connection>),
    Http2(Incoming),
    /// The connection was released or is broken.
    Gone,
}

enum ContentEncoding {
    Identity,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Unknown(String),
}

/// An error of reading a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("{0}")]
    Broken(String),
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    #[error("the unfinished responses of the server exceed {MAX_BUFFERED} bytes")]
    BudgetExceeded,
}

/// Counts the bytes of unfinished messages from one server.
#[derive(Debug, Default)]
pub(super) struct BufferBudget(AtomicUsize);

impl BufferBudget {
    /// An empty reservation for one message.
    pub(super) fn reservation(&self) -> BufferReservation<'_> {
        BufferReservation {
            budget: self,
            bytes: 0,
        }
    }
}

/// The share of a [`BufferBudget`] that one message takes, until this is dropped.
#[derive(Debug)]
pub(super) struct BufferReservation<'b> {
    budget: &'b BufferBudget,
    bytes: usize,
}

impl BufferReservation<'_> {
    /// Changes the size; fails if all messages together exceed the budget.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), BodyError> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes <= before {
            self.budget.0.fetch_sub(before - bytes, Ordering::Relaxed);
            return Ok(());
        }
        let more = bytes - before;
        if self.budget.0.fetch_add(more, Ordering::Relaxed) + more > MAX_BUFFERED {
            return Err(BodyError::BudgetExceeded);
        }
        Ok(())
    }
}

impl Drop for BufferReservation<'_> {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Body {
    pub(super) fn http1(connection: Box<Http1Connection>, headers: &HeaderMap) -> Self {
        Self::new(Source::Http1(connection), headers)
    }

    pub(super) fn http2(incoming: Incoming, headers: &HeaderMap) -> Self {
        Self::new(Source::Http2(incoming), headers)
    }

    fn new(source: Source, headers: &HeaderMap) -> Self {
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &http::HeaderValue| value.to_str().ok())
        };
        let encoding = match text(CONTENT_ENCODING).map(str::trim) {
            None | Some("" | "identity") => ContentEncoding::Identity,
            Some(name)
                if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") =>
            {
                ContentEncoding::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))
            }
            Some(other) => ContentEncoding::Unknown(other.chars().take(40).collect()),
        };
        Self {
            source,
            encoding,
            compressed: Bytes::new(),
            chunks: 0,
            bytes: 0,
            length: text(CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            ended: false,
        }
    }

    /// The next chunk, decompressed; `None` at the end.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        if let ContentEncoding::Unknown(name) = &self.encoding {
            return Err(BodyError::Broken(format!(
                "the response has an unsupported content encoding: {name:?}"
            )));
        }
        let chunk = match self.encoding {
            // Boxed to keep the future of an exchange small.
            ContentEncoding::Gzip(_) => Box::pin(self.next_decompressed()).await?,
            _ => self.next_raw().await?,
        };
        if let Some(chunk) = &chunk {
            self.yield_after(chunk.len()).await;
        }
        Ok(chunk)
    }

    /// Decompresses one buffer at a time: a short body can expand to a very long one.
    async fn next_decompressed(&mut self) -> Result<Option<Bytes>, BodyError> {
        let mut empty = 0;
        loop {
            if self.compressed.is_empty() {
                match self.next_raw().await? {
                    Some(chunk) => self.compressed = chunk,
                    None => return Ok(None),
                }
            }
            let ContentEncoding::Gzip(gzip) = &mut self.encoding else {
                return Ok(None);
            };
            let before = self.compressed.len();
            let chunk = decompress(gzip, &mut self.compressed)?;
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
            let consumed = before - self.compressed.len();
            empty += consumed;
            if empty > MAX_EMPTY {
                let reason = "the compressed response has no content".to_owned();
                return Err(BodyError::Broken(reason));
            }
            self.yield_after(consumed).await;
        }
    }

    /// Yields from time to time: buffered input never makes the task wait.
    async fn yield_after(&mut self, bytes: usize) {
        self.chunks += 1;
        self.bytes += bytes;
        if self.chunks >= CHUNKS_PER_YIELD || self.bytes >= BYTES_PER_YIELD {
            (self.chunks, self.bytes) = (0, 0);
            tokio::task::yield_now().await;
        }
    }

    /// Reads the whole body, up to `limit` bytes. `on_progress` is called after each chunk.
    pub(super) async fn collect(
        &mut self,
        limit: usize,
        budget: &BufferBudget,
        mut on_progress: impl FnMut(),
    ) -> Result<Bytes, BodyError> {
        let compressed = !matches!(self.encoding, ContentEncoding::Identity);
        // The framing decides, however the head spells the length.
        let framed = match &self.source {
            Source::Http1(connection) => connection.remaining(),
            _ => None,
        };
        if framed.or(self.length).is_some_and(|length| length > limit) && !compressed {
            return Err(BodyError::TooLong(limit));
        }
        if let Some(length @ LONG_BODY..) = framed
            && !compressed
        {
            return Box::pin(self.collect_long(length, budget, on_progress)).await;
        }
        let Some(first) = self.next_chunk().await? else {
            return Ok(Bytes::new());
        };
        // A single chunk, the usual case, is not copied.
        let Some(second) = self.next_chunk().await? else {
            return match first.len() {
                long if long > limit => Err(BodyError::TooLong(limit)),
                // A short body must not keep a large read buffer alive.
                0..=MAX_COPIED if matches!(self.source, Source::Http2(_)) => {
                    Ok(Bytes::copy_from_slice(&first))
                }
                _ => Ok(first),
            };
        };
        let expected = self.length.filter(|_| !compressed).unwrap_or(0);
        let room = expected.min(MAX_RESERVED);
        let mut whole = BytesMut::with_capacity(room.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        let mut reservation = budget.reservation();
        loop {
            if whole.len() > limit {
                return Err(BodyError::TooLong(limit));
            }
            reservation.resize(whole.len())?;
            on_progress();
            match self.next_chunk().await? {
                Some(chunk) => whole.extend_from_slice(&chunk),
                None => return Ok(whole.freeze()),
            }
        }
    }

    /// Reads a body of known length straight into its final buffer.
    async fn collect_long(
        &mut self,
        length: usize,
        budget: &BufferBudget,
        mut on_progress: impl FnMut(),
    ) -> Result<Bytes, BodyError> {
        let mut reservation = budget.reservation();
        let Source::Http1(connection) = &mut self.source else {
            return Ok(Bytes::new());
        };
        let mut whole = BytesMut::with_capacity(length.min(MAX_RESERVED));
        loop {
            if whole.capacity() == whole.len() && whole.len() < length {
                whole.reserve(whole.len().min(length - whole.len()));
            }
            match poll_fn(|context| connection.poll_read_into(&mut whole, context)).await {
                Ok(true) => {
                    reservation.resize(whole.len())?;
                    on_progress();
                }
                Ok(false) => break,
                Err(reason) => {
                    self.source = Source::Gone;
                    return Err(BodyError::Broken(reason));
                }
            }
        }
        self.ended = true;
        Ok(whole.freeze())
    }

    /// Discards the rest, up to about `limit` bytes.
    pub(super) async fn drain(&mut self, limit: usize) {
        let mut read = 0;
        while read <= limit {
            match self.next_raw().await {
                Ok(Some(chunk)) => read += chunk.len(),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Whether the body has an HTTP/1.1 connection to itself.
    pub(super) fn has_connection(&self) -> bool {
        matches!(self.source, Source::Http1(_))
    }

    /// Takes the connection, once the body was read to its end.
    pub(super) fn take_connection(&mut self) -> Option<Box<Http1Connection>> {
        if !self.ended || !self.has_connection() {
            return None;
        }
        match std::mem::replace(&mut self.source, Source::Gone) {
            Source::Http1(connection) => Some(connection),
            Source::Http2(_) | Source::Gone => None,
        }
    }

    async fn next_raw(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.ended {
            return Ok(None);
        }
        match poll_fn(|context| self.poll_raw(context)).await {
            Some(Ok(chunk)) => Ok(Some(chunk)),
            Some(Err(reason)) => {
                self.source = Source::Gone;
                Err(BodyError::Broken(reason))
            }
            None => {
                self.ended = true;
                Ok(None)
            }
        }
    }

    fn poll_raw(&mut self, context: &mut Context) -> Poll<Option<Result<Bytes, String>>> {
        let incoming = match &mut self.source {
            Source::Http1(connection) => return connection.poll_body(context),
            Source::Http2(incoming) => incoming,
            Source::Gone => return Poll::Ready(None),
        };
        loop {
            let frame = std::task::ready!(Pin::new(&mut *incoming).poll_frame(context));
            return Poll::Ready(match frame {
                None => None,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    Err(_) => continue,
                },
                Some(Err(error)) => Some(Err(explain(&error))),
            });
        }
    }
}

/// Decompresses as much of `compressed` as fits into the decoder's buffer.
fn decompress(
    gzip: &mut MultiGzDecoder<Vec<u8>>,
    compressed: &mut Bytes,
) -> Result<Bytes, BodyError> {
    let broken = |error: std::io::Error| {
        BodyError::Broken(format!("the response cannot be decompressed: {error}"))
    };
    let consumed = gzip.write(compressed).map_err(broken)?;
    compressed.advance(consumed);
    if compressed.is_empty() {
        gzip.flush().map_err(broken)?;
    }
    if consumed == 0 && gzip.get_ref().is_empty() {
        let reason = "the response has data after its compressed content".to_owned();
        return Err(BodyError::Broken(reason));
    }
    Ok(std::mem::take(gzip.get_mut()).into())
}

/// Decompresses a gzip stream that arrives in these chunks, for fuzz targets.
pub(crate) fn decompress_all(chunks: &[&[u8]]) -> Result<Vec<Bytes>, String> {
    let mut gzip = MultiGzDecoder::new(Vec::new());
    let mut decompressed = Vec::new();
    for chunk in chunks {
        let mut compressed = Bytes::copy_from_slice(chunk);
        while !compressed.is_empty() {
            let chunk =
                decompress(&mut gzip, &mut compressed).map_err(|error| error.to_string())?;
            decompressed.push(chunk);
        }
    }
    Ok(decompressed)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Decompresses input that arrives `size` bytes at a time: the longest chunk, and all of it.
    fn decompressed(compressed: &[u8], size: usize) -> Result<(usize, Vec<u8>), BodyError> {
        let mut gzip = MultiGzDecoder::new(Vec::new());
        let (mut longest, mut whole) = (0, Vec::new());
        for part in compressed.chunks(size) {
            let mut part = Bytes::copy_from_slice(part);
            while !part.is_empty() {
                let chunk = decompress(&mut gzip, &mut part)?;
                longest = longest.max(chunk.len());
                whole.extend_from_slice(&chunk);
            }
        }
        Ok((longest, whole))
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn a_body_is_decompressed_in_bounded_chunks_however_it_arrives() {
        let bomb = vec![b'x'; 8 << 20];
        for text in [&b""[..], b"first", &bomb] {
            let compressed = gzip(text);
            for size in [1, 7, 1000, compressed.len()] {
                let (longest, whole) = decompressed(&compressed, size).unwrap();
                assert!(longest <= 128 * 1024, "{longest} by {size}");
                assert_eq!(whole.len(), text.len());
            }
        }
        let two = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
        for size in 1..two.len() {
            assert_eq!(decompressed(&two, size).unwrap().1, b"one two");
        }
        assert!(decompressed(b"no gzip at all", 100).is_err());
    }

    #[test]
    fn flushed_data_is_decompressed_without_waiting_for_more() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(b"first").unwrap();
        packer.flush().unwrap();
        let (_, whole) = decompressed(packer.get_ref(), 1000).unwrap();
        assert_eq!(whole, b"first");
    }

    #[test]
    fn all_unfinished_messages_of_a_server_share_one_budget() {
        let budget = BufferBudget::default();
        let mut one = budget.reservation();
        let mut other = budget.reservation();
        assert_eq!(one.resize(MAX_BUFFERED), Ok(()));
        assert_eq!(other.resize(1), Err(BodyError::BudgetExceeded));
        drop(other);
        assert_eq!(one.resize(10), Ok(()));
        assert_eq!(budget.reservation().resize(MAX_BUFFERED - 10), Ok(()));
        drop(one);
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
