//! Masking of client frames (RFC 6455, 5.3).

use std::io;

use rustls::crypto::SecureRandom;

/// Random masks, fetched from the system in blocks.
pub(super) struct Masks {
    source: &'static dyn SecureRandom,
    pool: [u8; 1024],
    used: usize,
}

impl Masks {
    pub(super) fn new() -> Self {
        let pool = [0; 1024];
        Self {
            source: rustls::crypto::ring::default_provider().secure_random,
            used: pool.len(),
            pool,
        }
    }

    pub(super) fn next(&mut self) -> io::Result<[u8; 4]> {
        loop {
            let left = self.pool.get(self.used..).unwrap_or_default();
            if let Some(mask) = left.first_chunk() {
                self.used += mask.len();
                return Ok(*mask);
            }
            fill(self.source, &mut self.pool)?;
            self.used = 0;
        }
    }
}

fn fill(source: &dyn SecureRandom, out: &mut [u8]) -> io::Result<()> {
    let filled = source.fill(out);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))
}

/// A random nonce for the handshake.
pub(super) fn nonce() -> io::Result<[u8; 16]> {
    let mut nonce = [0; 16];
    let source = rustls::crypto::ring::default_provider().secure_random;
    fill(source, &mut nonce)?;
    Ok(nonce)
}

/// Masks or unmasks `bytes`.
pub(super) fn apply(bytes: &mut [u8], mask: [u8; 4]) {
    let wide = u64::from_ne_bytes([
        mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3],
    ]);
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}
