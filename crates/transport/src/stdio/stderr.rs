//! A server's stderr: buffered, never printed by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::process::ProcessState;
use super::{DRAIN, relevant};

/// The most bytes kept; the oldest are dropped (TRN-1).
pub const STDERR_CAP: usize = 64 * 1024 * 1024;

/// The size of reads and of buffered chunks.
const CHUNK: usize = 4 * 1024;

/// Chunks at either end that are searched for relevant lines.
const SEARCHED_CHUNKS: usize = 32;

/// Bytes that are read before the task yields.
const BYTES_PER_YIELD: usize = 8 * CHUNK;

/// Bytes read at full speed, and the rate limit beyond them (CALL-7).
const BURST: u64 = 64 * 1024 * 1024;
const BYTES_PER_SECOND: u64 = 32 * 1024 * 1024;

/// The longest line of [`StderrLog::last_lines`], in bytes.
const MAX_LINE: usize = 2000;

/// A callback for a server's stderr, in chunks. It must not block.
pub type Tee = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A server's stderr. Clones share the log.
#[derive(Clone)]
pub struct StderrLog {
    buffer: Arc<Mutex<StderrBuffer>>,
    open: watch::Receiver<bool>,
}

#[derive(Default)]
struct StderrBuffer {
    /// All but the last have [`CHUNK`] bytes, so that memory matches content.
    chunks: VecDeque<Vec<u8>>,
    /// Bytes received in total.
    total: u64,
}

impl StderrLog {
    /// Reads `stderr` in the background, so that the server never blocks on it: to its end, or
    /// until shortly after the server is gone, since an escaped process may hold it open.
    pub(super) fn start(
        mut stderr: ChildStderr,
        mut state: watch::Receiver<ProcessState>,
        tee: Option<Tee>,
    ) -> Self {
        let (closed, open) = watch::channel(true);
        let log = Self {
            buffer: Arc::default(),
            open,
        };
        let buffer = Arc::clone(&log.buffer);
        tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK];
            let mut rate_limiter = RateLimiter::default();
            let mut read_on = async || {
                while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
                    lock(&buffer).push(&chunk[..count], STDERR_CAP);
                    if let Some(tee) = &tee {
                        tee(&chunk[..count]);
                    }
                    rate_limiter.throttle(count).await;
                }
            };
            let limit = async {
                let _ = state.wait_for(|state| *state == ProcessState::Gone).await;
                tokio::time::sleep(DRAIN).await;
            };
            tokio::select! {
                () = read_on() => {}
                () = limit => {}
            }
            closed.send_replace(false);
        });
        log
    }

    /// Returns the last `count` lines.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        lock(&self.buffer).last_lines(count)
    }

    /// Returns the lines that may explain a failure: the first, the last, and those that look like
    /// errors.
    pub fn relevant_lines(&self) -> Vec<String> {
        lock(&self.buffer).relevant_lines()
    }

    /// Bytes that the server has written.
    pub fn total_bytes(&self) -> u64 {
        lock(&self.buffer).total
    }

    /// Bytes in the buffer.
    pub fn kept_bytes(&self) -> usize {
        lock(&self.buffer).chunks.iter().map(Vec::len).sum()
    }

    /// Waits for the end of stderr, up to `limit`: a grandchild may hold it open.
    pub(super) async fn ended(&mut self, limit: Duration) {
        let _ = tokio::time::timeout(limit, self.open.wait_for(|open| !open)).await;
    }
}

/// Limits the rate of reading.
#[derive(Default)]
struct RateLimiter {
    unaccounted: usize,
    /// Bytes above the rate.
    level: u64,
    last_check: Option<Instant>,
}

impl RateLimiter {
    async fn throttle(&mut self, count: usize) {
        self.unaccounted += count;
        if self.unaccounted < BYTES_PER_YIELD {
            return;
        }
        let now = Instant::now();
        let elapsed = self
            .last_check
            .map_or(Duration::ZERO, |last_check| now - last_check);
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let leaked = millis.saturating_mul(BYTES_PER_SECOND / 1000);
        self.level = self.level.saturating_sub(leaked) + self.unaccounted as u64;
        if self.last_check.is_none() || millis > 0 {
            self.last_check = Some(now);
        }
        self.unaccounted = 0;
        if self.level <= BURST {
            tokio::task::yield_now().await;
        } else {
            let excess = (self.level - BURST) * 1000 / BYTES_PER_SECOND;
            tokio::time::sleep(Duration::from_millis(excess.clamp(1, 50))).await;
        }
    }
}

impl StderrBuffer {
    fn push(&mut self, mut bytes: &[u8], cap: usize) {
        self.total += bytes.len() as u64;
        while !bytes.is_empty() {
            match self.chunks.back_mut() {
                Some(last) if last.len() < CHUNK => {
                    let (fits, rest) = bytes.split_at(bytes.len().min(CHUNK - last.len()));
                    last.extend_from_slice(fits);
                    bytes = rest;
                }
                _ => {
                    if (self.chunks.len() + 1) * CHUNK > cap {
                        self.chunks.pop_front();
                    }
                    self.chunks.push_back(Vec::with_capacity(CHUNK));
                }
            }
        }
    }

    fn relevant_lines(&self) -> Vec<String> {
        let count = self.chunks.len();
        let head = count.min(SEARCHED_CHUNKS);
        let tail = count.saturating_sub(SEARCHED_CHUNKS).max(head);
        let join = |range| self.chunks.range(range).flatten().copied().collect();
        let texts: [Vec<u8>; 2] = [join(0..head), join(tail..count)];
        // A line may span both ends where they meet.
        let texts = if head == tail {
            vec![texts.concat()]
        } else {
            texts.to_vec()
        };
        let texts: Vec<_> = texts.iter().map(|it| String::from_utf8_lossy(it)).collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
        let relevant = relevant::relevant_lines(&lines).into_iter();
        relevant.map(|line| shorten(&line)).collect()
    }

    fn last_lines(&self, count: usize) -> Vec<String> {
        // Enough bytes for that many lines of maximum length.
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

fn lock(buffer: &Mutex<StderrBuffer>) -> MutexGuard<'_, StderrBuffer> {
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_are_dropped() {
        let mut buffer = StderrBuffer::default();
        let cap = 3 * CHUNK;
        for number in 0..5000 {
            buffer.push(format!("line {number}\n").as_bytes(), cap);
        }
        assert_eq!(buffer.chunks.len(), 3);
        assert_eq!(buffer.last_lines(2), ["line 4998", "line 4999"]);
        assert_eq!(buffer.total, 48_890);
    }

    #[test]
    fn lines_may_span_chunks_and_are_truncated_at_characters() {
        let mut buffer = StderrBuffer::default();
        let long = "x".repeat(CHUNK - 3);
        for text in ["first\n\n  \nsec", "ond \u{e9}\n", &long, "abcdef"] {
            buffer.push(text.as_bytes(), STDERR_CAP);
        }
        let lines = buffer.last_lines(5);
        assert_eq!(lines[..2], ["first", "second é"]);
        assert!(lines[2].starts_with("xxx") && lines[2].ends_with("x…"));
        buffer.push(format!("\n{}", "é".repeat(MAX_LINE)).as_bytes(), STDERR_CAP);
        let last = buffer.last_lines(1).remove(0);
        assert!(last.ends_with("é…") && last.len() < MAX_LINE + 4);
    }
}
