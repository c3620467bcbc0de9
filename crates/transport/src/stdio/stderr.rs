//! What a server writes to stderr: kept, never shown on the user's terminal by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::watch;

/// How much of a server's stderr is kept; the oldest gives way to the newest (TRN-1).
pub const STDERR_CAP: usize = 64 * 1024 * 1024;

/// How much is read at once.
const READ_BYTES: usize = 4 * 1024;

/// How long one of the lines in [`StderrLog::last_lines`] may be, in bytes.
const MAX_LINE: usize = 2000;

/// A server's stderr. Clones look at the same log.
#[derive(Clone)]
pub struct StderrLog {
    kept: Arc<Mutex<Kept>>,
    open: watch::Receiver<bool>,
}

#[derive(Default)]
struct Kept {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    /// How many bytes have come in all.
    total: u64,
}

impl StderrLog {
    /// Reads `stderr` to its end in the background, so that the server never has to wait for us.
    pub(super) fn start(mut stderr: ChildStderr) -> Self {
        let (closed, open) = watch::channel(true);
        let log = Self {
            kept: Arc::default(),
            open,
        };
        let kept = Arc::clone(&log.kept);
        tokio::spawn(async move {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(READ_BYTES);
                match stderr.read_buf(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => lock(&kept).push(buffer.split().freeze(), STDERR_CAP),
                }
            }
            closed.send_replace(false);
        });
        log
    }

    /// The newest `count` lines.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        lock(&self.kept).last_lines(count)
    }

    /// How many bytes the server has written, kept or not.
    pub fn total_bytes(&self) -> u64 {
        lock(&self.kept).total
    }

    /// How many bytes are kept.
    pub fn kept_bytes(&self) -> usize {
        lock(&self.kept).bytes
    }

    /// Waits until stderr has ended, but not longer than `limit`: a grandchild may hold it open.
    pub(super) async fn ended(&mut self, limit: Duration) {
        let _ = tokio::time::timeout(limit, self.open.wait_for(|open| !open)).await;
    }
}

impl Kept {
    fn push(&mut self, chunk: Bytes, cap: usize) {
        self.total += chunk.len() as u64;
        self.bytes += chunk.len();
        self.chunks.push_back(chunk);
        while self.bytes > cap {
            let Some(oldest) = self.chunks.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
    }

    fn last_lines(&self, count: usize) -> Vec<String> {
        // Far enough back for that many lines of the greatest length.
        let wanted = count * MAX_LINE;
        let mut from = self.chunks.len();
        let mut bytes = 0;
        while from > 0 && bytes < wanted {
            from -= 1;
            bytes += self.chunks[from].len();
        }
        let text: Vec<u8> = self.chunks.range(from..).flatten().copied().collect();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let newest = lines.len().saturating_sub(count);
        lines[newest..].iter().map(|line| shorten(line)).collect()
    }
}

fn shorten(line: &str) -> String {
    if line.len() <= MAX_LINE {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(MAX_LINE);
    format!("{}…", &line[..end])
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_kept_and_the_oldest_gives_way() {
        let mut kept = Kept::default();
        for number in 0..100 {
            kept.push(Bytes::from(format!("line {number}\n")), 50);
        }
        assert!(kept.bytes <= 50);
        assert_eq!(kept.last_lines(2), ["line 98", "line 99"]);
        assert_eq!(kept.total, 790);
    }

    #[test]
    fn lines_may_be_split_over_chunks_and_are_shortened_whole_characters() {
        let mut kept = Kept::default();
        kept.push(Bytes::from_static(b"first\n\n  \nsec"), 1000);
        kept.push(Bytes::from_static("ond \u{e9}".as_bytes()), 1000);
        assert_eq!(kept.last_lines(5), ["first", "second é"]);
        kept.push(Bytes::from(format!("\n{}", "é".repeat(MAX_LINE))), 10_000);
        let last = kept.last_lines(1).remove(0);
        assert!(last.ends_with("é…") && last.len() < MAX_LINE + 4);
    }
}
