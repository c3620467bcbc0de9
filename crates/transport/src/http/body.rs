//! The body of an answer: read piece by piece, unpacked, and bounded.

use std::future::poll_fn;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use hyper::body::{Body as _, Incoming};

use super::connection::Connection;
use super::framing::COPIED;
use super::http2::explain;

/// How much packed data is unpacked at a time: a little of it can become very much.
const UNPACK_AT_ONCE: usize = 4 * 1024;

/// From which length on an answer is read to where it stays, and for how much of it room is made at once.
const LONG: usize = 16 * 1024;
const MOST_AT_ONCE: usize = 4 * 1024 * 1024;

/// The body of an answer.
pub(super) struct Body {
    source: Source,
    packing: Packing,
    /// How long it will be, where that was said.
    length: Option<usize>,
    ended: bool,
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
        loop {
            let Some(piece) = self.raw_piece().await? else {
                return Ok(None);
            };
            let piece = match &mut self.packing {
                Packing::Gzip(gzip) => unpack(gzip, &piece, crate::MAX_MESSAGE_BYTES)?,
                _ => piece,
            };
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    /// All of it, if it is no longer than `limit`. What comes in many pieces may take its time: `alive` is called with each.
    pub(super) async fn whole(
        &mut self,
        limit: usize,
        mut alive: impl FnMut(),
    ) -> Result<Bytes, BodyError> {
        let packed = !matches!(self.packing, Packing::None);
        if self.length.is_some_and(|length| length > limit) && !packed {
            return Err(BodyError::TooLong(limit));
        }
        if let (Source::Http1(connection), Packing::None) = (&self.source, &self.packing)
            && let Some(length @ LONG..) = connection.left()
        {
            return Box::pin(self.whole_at_once(length, alive)).await;
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
        let expected = self.length.filter(|_| !packed).unwrap_or(0);
        let mut whole = BytesMut::with_capacity(expected.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        loop {
            if whole.len() > limit {
                return Err(BodyError::TooLong(limit));
            }
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
        mut alive: impl FnMut(),
    ) -> Result<Bytes, BodyError> {
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
                Ok(true) => alive(),
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

fn unpack(
    gzip: &mut MultiGzDecoder<Vec<u8>>,
    packed: &[u8],
    limit: usize,
) -> Result<Bytes, BodyError> {
    let broken = |error: std::io::Error| {
        BodyError::Broken(format!("its answer cannot be unpacked: {error}"))
    };
    for part in packed.chunks(UNPACK_AT_ONCE) {
        gzip.write_all(part).map_err(broken)?;
        gzip.flush().map_err(broken)?;
        if gzip.get_ref().len() > limit {
            return Err(BodyError::TooLong(limit));
        }
    }
    Ok(std::mem::take(gzip.get_mut()).into())
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn packed_data_is_unpacked_as_it_comes_and_no_further_than_the_limit() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(b"first").unwrap();
        packer.flush().unwrap();
        let first = std::mem::take(packer.get_mut());
        packer.write_all(&vec![b'x'; 1 << 20]).unwrap();
        let rest = packer.finish().unwrap();
        let mut gzip = MultiGzDecoder::new(Vec::new());
        assert_eq!(&unpack(&mut gzip, &first, 100).unwrap()[..], b"first");
        assert_eq!(
            unpack(&mut gzip, &rest, 1 << 16),
            Err(BodyError::TooLong(1 << 16))
        );
        let mut gzip = MultiGzDecoder::new(Vec::new());
        assert!(matches!(
            unpack(&mut gzip, b"no gzip at all", 100),
            Err(BodyError::Broken(_))
        ));
    }
}
