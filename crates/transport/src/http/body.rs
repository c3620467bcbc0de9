//! The body of an answer: read piece by piece, unpacked, and bounded.

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

use super::connection::Connection;
use super::framing::COPIED;
use super::http2::explain;

/// How much packed data may come that unpacks to nothing.
const MAX_EMPTY: usize = 64 * 1024;

/// Pieces and bytes that are read before other tasks get to run (CALL-7).
const PIECES_AT_ONCE: usize = 16;
const BYTES_AT_ONCE: usize = 64 * 1024;

/// From which length on an answer is read to where it stays, and for how much of it room is made at once.
const LONG: usize = 16 * 1024;
const MOST_AT_ONCE: usize = 4 * 1024 * 1024;

/// The body of an answer.
pub(super) struct Body {
    source: Source,
    packing: Packing,
    /// What has come and is not unpacked yet.
    packed: Bytes,
    /// How long it will be, where that was said.
    length: Option<usize>,
    ended: bool,
    /// Pieces and bytes since other tasks last ran.
    pieces: usize,
    bytes: usize,
}

enum Source {
    Http1(Box<Connection>),
    /// Of a connection that is shared.
    Http2(Incoming),
    /// The connection has been given back, or is of no more use.
    Gone,
}

enum Packing {
    None,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Unknown(String),
}

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("{0}")]
    Broken(String),
    #[error("its answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("its unfinished answers are longer than {MAX_HELD} bytes together")]
    TooMuch,
}

/// Bytes of unfinished messages that one server may have us hold (SEC-4).
const MAX_HELD: usize = 4 * crate::MAX_MESSAGE_BYTES;

/// The bytes of unfinished messages that are held for one server.
#[derive(Debug, Default)]
pub(super) struct Held(AtomicUsize);

impl Held {
    /// The share of one message, empty so far.
    pub(super) fn share(&self) -> Share<'_> {
        Share {
            held: self,
            bytes: 0,
        }
    }
}

/// What one message takes of [`Held`], until this is dropped.
#[derive(Debug)]
pub(super) struct Share<'h> {
    held: &'h Held,
    bytes: usize,
}

impl Share<'_> {
    /// The message takes that many bytes now; fails if that is too much for all.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), BodyError> {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes <= before {
            self.held.0.fetch_sub(before - bytes, Ordering::Relaxed);
            return Ok(());
        }
        let more = bytes - before;
        if self.held.0.fetch_add(more, Ordering::Relaxed) + more > MAX_HELD {
            return Err(BodyError::TooMuch);
        }
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Body {
    pub(super) fn http1(connection: Box<Connection>, headers: &HeaderMap) -> Self {
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
        let packing = match text(CONTENT_ENCODING).map(str::trim) {
            None | Some("" | "identity") => Packing::None,
            Some(name)
                if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") =>
            {
                Packing::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))
            }
            Some(other) => Packing::Unknown(other.chars().take(40).collect()),
        };
        Self {
            source,
            packing,
            packed: Bytes::new(),
            pieces: 0,
            bytes: 0,
            length: text(CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            ended: false,
        }
    }

    /// The next piece; `None` at the end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        if let Packing::Unknown(name) = &self.packing {
            return Err(BodyError::Broken(format!(
                "its answer is packed in a way that was not asked for: {name:?}"
            )));
        }
        let piece = match self.packing {
            // Boxed to keep the future of an exchange small.
            Packing::Gzip(_) => Box::pin(self.unpacked_piece()).await?,
            _ => self.raw_piece().await?,
        };
        if let Some(piece) = &piece {
            self.rest_after(piece.len()).await;
        }
        Ok(piece)
    }

    /// The next piece of what the body unpacks to: a little packed data can become very much.
    async fn unpacked_piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        let mut empty = 0;
        loop {
            if self.packed.is_empty() {
                match self.raw_piece().await? {
                    Some(piece) => self.packed = piece,
                    None => return Ok(None),
                }
            }
            let Packing::Gzip(gzip) = &mut self.packing else {
                return Ok(None);
            };
            let before = self.packed.len();
            let piece = unpack(gzip, &mut self.packed)?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            let taken = before - self.packed.len();
            empty += taken;
            if empty > MAX_EMPTY {
                let reason = "its answer unpacks to nothing".to_owned();
                return Err(BodyError::Broken(reason));
            }
            self.rest_after(taken).await;
        }
    }

    /// Lets other tasks run when it is their turn: all that is read may be in our buffer already.
    async fn rest_after(&mut self, bytes: usize) {
        self.pieces += 1;
        self.bytes += bytes;
        if self.pieces >= PIECES_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
            (self.pieces, self.bytes) = (0, 0);
            tokio::task::yield_now().await;
        }
    }

    /// All of it, if it is no longer than `limit`. What comes in many pieces may take its time: `alive` is called with each.
    pub(super) async fn whole(
        &mut self,
        limit: usize,
        held: &Held,
        mut alive: impl FnMut(),
    ) -> Result<Bytes, BodyError> {
        let packed = !matches!(self.packing, Packing::None);
        // The length that counts is the one that the body is read by, however the head spells it.
        let framed = match &self.source {
            Source::Http1(connection) => connection.left(),
            _ => None,
        };
        if framed.or(self.length).is_some_and(|length| length > limit) && !packed {
            return Err(BodyError::TooLong(limit));
        }
        if let Some(length @ LONG..) = framed
            && !packed
        {
            return Box::pin(self.whole_at_once(length, held, alive)).await;
        }
        let Some(first) = self.piece().await? else {
            return Ok(Bytes::new());
        };
        // Mostly there is only one, which needs no copying.
        let Some(second) = self.piece().await? else {
            return match first.len() {
                long if long > limit => Err(BodyError::TooLong(limit)),
                // What is kept of a short answer must not keep the buffer that it was read into.
                0..=COPIED if matches!(self.source, Source::Http2(_)) => {
                    Ok(Bytes::copy_from_slice(&first))
                }
                _ => Ok(first),
            };
        };
        // A length is soon said; for what is very long there is room as it comes.
        let expected = self.length.filter(|_| !packed).unwrap_or(0);
        let room = expected.min(MOST_AT_ONCE);
        let mut whole = BytesMut::with_capacity(room.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        let mut share = held.share();
        loop {
            if whole.len() > limit {
                return Err(BodyError::TooLong(limit));
            }
            share.set(whole.len())?;
            alive();
            match self.piece().await? {
                Some(piece) => whole.extend_from_slice(&piece),
                None => return Ok(whole.freeze()),
            }
        }
    }

    /// All of a body of that length, read to where it stays.
    async fn whole_at_once(
        &mut self,
        length: usize,
        held: &Held,
        mut alive: impl FnMut(),
    ) -> Result<Bytes, BodyError> {
        let mut share = held.share();
        let Source::Http1(connection) = &mut self.source else {
            return Ok(Bytes::new());
        };
        // A length is soon said; for what is very long there is room as it comes.
        let mut whole = BytesMut::with_capacity(length.min(MOST_AT_ONCE));
        loop {
            if whole.capacity() == whole.len() && whole.len() < length {
                whole.reserve(whole.len().min(length - whole.len()));
            }
            match poll_fn(|context| connection.poll_into(&mut whole, context)).await {
                Ok(true) => {
                    share.set(whole.len())?;
                    alive();
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

    /// Reads what is left, if that is little, so that the connection can be used again.
    pub(super) async fn drain(&mut self, limit: usize) {
        let mut read = 0;
        while read <= limit {
            match self.raw_piece().await {
                Ok(Some(piece)) => read += piece.len(),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Whether it came over a connection of its own.
    pub(super) fn has_connection(&self) -> bool {
        matches!(self.source, Source::Http1(_))
    }

    /// The connection, once all was read.
    pub(super) fn spare_connection(&mut self) -> Option<Box<Connection>> {
        if !self.ended || !self.has_connection() {
            return None;
        }
        match std::mem::replace(&mut self.source, Source::Gone) {
            Source::Http1(connection) => Some(connection),
            Source::Http2(_) | Source::Gone => None,
        }
    }

    async fn raw_piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.ended {
            return Ok(None);
        }
        let piece = poll_fn(|context| self.poll_piece(context)).await;
        match piece {
            Some(Ok(piece)) => Ok(Some(piece)),
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

    fn poll_piece(&mut self, context: &mut Context) -> Poll<Option<Result<Bytes, String>>> {
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

/// Unpacks as much of `packed` as fits into the decoder's buffer, and takes it out of there.
fn unpack(gzip: &mut MultiGzDecoder<Vec<u8>>, packed: &mut Bytes) -> Result<Bytes, BodyError> {
    let broken = |error: std::io::Error| {
        BodyError::Broken(format!("its answer cannot be unpacked: {error}"))
    };
    let taken = gzip.write(packed).map_err(broken)?;
    packed.advance(taken);
    if packed.is_empty() {
        gzip.flush().map_err(broken)?;
    }
    if taken == 0 && gzip.get_ref().is_empty() {
        let reason = "its answer goes on behind its packed data".to_owned();
        return Err(BodyError::Broken(reason));
    }
    Ok(std::mem::take(gzip.get_mut()).into())
}

/// The pieces of what a gzip stream unpacks to, for fuzz targets.
pub(crate) fn unpack_all(pieces: &[&[u8]]) -> Result<Vec<Bytes>, String> {
    let mut gzip = MultiGzDecoder::new(Vec::new());
    let mut unpacked = Vec::new();
    for piece in pieces {
        let mut packed = Bytes::copy_from_slice(piece);
        while !packed.is_empty() {
            let piece = unpack(&mut gzip, &mut packed).map_err(|error| error.to_string())?;
            unpacked.push(piece);
        }
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// The longest piece of what `packed` unpacks to when it comes `at_once` bytes at a time, and all of it.
    fn unpacked(packed: &[u8], at_once: usize) -> Result<(usize, Vec<u8>), BodyError> {
        let mut gzip = MultiGzDecoder::new(Vec::new());
        let (mut longest, mut whole) = (0, Vec::new());
        for part in packed.chunks(at_once) {
            let mut part = Bytes::copy_from_slice(part);
            while !part.is_empty() {
                let piece = unpack(&mut gzip, &mut part)?;
                longest = longest.max(piece.len());
                whole.extend_from_slice(&piece);
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
    fn packed_data_is_unpacked_a_little_at_a_time_however_it_comes() {
        let bomb = vec![b'x'; 8 << 20];
        for text in [&b""[..], b"first", &bomb] {
            let packed = gzip(text);
            for at_once in [1, 7, 1000, packed.len()] {
                let (longest, whole) = unpacked(&packed, at_once).unwrap();
                assert!(longest <= 128 * 1024, "{longest} by {at_once}");
                assert_eq!(whole.len(), text.len());
            }
        }
        let two = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
        for at_once in 1..two.len() {
            assert_eq!(unpacked(&two, at_once).unwrap().1, b"one two");
        }
        assert!(unpacked(b"no gzip at all", 100).is_err());
    }

    #[test]
    fn what_is_flushed_in_the_middle_comes_out_at_once() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(b"first").unwrap();
        packer.flush().unwrap();
        let (_, whole) = unpacked(packer.get_ref(), 1000).unwrap();
        assert_eq!(whole, b"first");
    }

    #[test]
    fn the_unfinished_messages_of_a_server_have_one_limit() {
        let held = Held::default();
        let mut one = held.share();
        let mut other = held.share();
        assert_eq!(one.set(MAX_HELD), Ok(()));
        assert_eq!(other.set(1), Err(BodyError::TooMuch));
        drop(other);
        assert_eq!(one.set(10), Ok(()));
        assert_eq!(held.share().set(MAX_HELD - 10), Ok(()));
        drop(one);
        assert_eq!(held.0.load(Ordering::Relaxed), 0);
    }
}
