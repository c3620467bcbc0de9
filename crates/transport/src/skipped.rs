//! The ends of a message that was skipped for its length.

use bytes::BytesMut;
use trunkline_wire::transport::Incoming;

/// Bytes kept of each end, to find the id.
const KEPT: usize = 512;

/// A message that is being skipped.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    bytes: u64,
    head: BytesMut,
    tail: BytesMut,
}

impl Skipped {
    /// Skips some bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let more = bytes.len().min(KEPT - self.head.len());
        self.head.extend_from_slice(&bytes[..more]);
        let newest = &bytes[bytes.len().saturating_sub(KEPT)..];
        let keep = self.tail.len().min(KEPT - newest.len());
        let _ = self.tail.split_to(self.tail.len() - keep);
        self.tail.extend_from_slice(newest);
    }

    /// The report at its end.
    pub(crate) fn report(self, limit: usize) -> Incoming {
        Incoming::Oversize {
            bytes: self.bytes,
            limit,
            head: self.head.freeze(),
            tail: self.tail.freeze(),
        }
    }
}
