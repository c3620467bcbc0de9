//! What a server writes to stderr: kept, never shown on the user's terminal by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::process::Life;
use super::{DRAIN, relevant};

/// How much of a server's stderr is kept; the oldest gives way to the newest (TRN-1).
pub const STDERR_CAP: usize = 64 * 1024 * 1024;

/// How much is read at once, and kept together.
const CHUNK: usize = 4 * 1024;

/// How many chunks at either end are searched for the lines that explain a failure.
const SEARCHED: usize = 32;

/// Bytes that are read before other tasks get to run.
const TURN: usize = 8 * CHUNK;

/// Bytes that are read at full speed, and the rate beyond them (CALL-7).
const BURST: u64 = 64 * 1024 * 1024;
const BYTES_PER_SECOND: u64 = 32 * 1024 * 1024;

/// How long one of the lines in [`StderrLog::last_lines`] may be, in bytes.
const MAX_LINE: usize = 2000;

/// Who gets what a server writes to stderr besides its being kept, in pieces as they come. It must not wait.
pub type Tee = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A server's stderr. Clones look at the same log.
#[derive(Clone)]
pub struct StderrLog {
    kept: Arc<Mutex<Kept>>,
    open: watch::Receiver<bool>,
}

#[derive(Default)]
struct Kept {
    /// Full but for the last, each of [`CHUNK`] bytes, so that what is kept takes about its own size.
    chunks: VecDeque<Vec<u8>>,
    /// How many bytes have come in all.
    total: u64,
}

impl StderrLog {
    /// Reads `stderr` in the background, so that the server never has to wait for us: to its end, or until shortly after
    /// the server is gone, since a process that escaped it may hold it open for ever.
    pub(super) fn start(
        mut stderr: ChildStderr,
        mut life: watch::Receiver<Life>,
        tee: Option<Tee>,
    ) -> Self {
        let (closed, open) = watch::channel(true);
        let log = Self {
            kept: Arc::default(),
            open,
        };
        let kept = Arc::clone(&log.kept);
        tokio::spawn(async move {
            let mut buffer = vec![0; CHUNK];
            let mut pace = Pace::default();
            let mut read_on = async || {
                while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
                    lock(&kept).push(&buffer[..count], STDERR_CAP);
                    if let Some(tee) = &tee {
                        tee(&buffer[..count]);
                    }
                    pace.keep(count).await;
                }
            };
            let limit = async {
                let _ = life.wait_for(|life| *life == Life::Gone).await;
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

    /// The newest `count` lines.
    pub fn last_lines(&self, count: usize) -> Vec<String> {
        lock(&self.kept).last_lines(count)
    }

    /// The lines that may explain a failure: the first, the last, and those that look like an error.
    pub fn relevant_lines(&self) -> Vec<String> {
        lock(&self.kept).relevant_lines()
    }

    /// How many bytes the server has written, kept or not.
    pub fn total_bytes(&self) -> u64 {
        lock(&self.kept).total
    }

    /// How many bytes are kept.
    pub fn kept_bytes(&self) -> usize {
        lock(&self.kept).chunks.iter().map(Vec::len).sum()
    }

    /// Waits until stderr has ended, but not longer than `limit`: a grandchild may hold it open.
    pub(super) async fn ended(&mut self, limit: Duration) {
        let _ = tokio::time::timeout(limit, self.open.wait_for(|open| !open)).await;
    }
}

/// Keeps a flood of stderr from taking all of the time.
#[derive(Default)]
struct Pace {
    turn: usize,
    /// Bytes above what the rate allows.
    level: u64,
    looked: Option<Instant>,
}

impl Pace {
    async fn keep(&mut self, count: usize) {
        self.turn += count;
        if self.turn < TURN {
            return;
        }
        let now = Instant::now();
        let elapsed = self.looked.map_or(Duration::ZERO, |looked| now - looked);
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let leaked = millis.saturating_mul(BYTES_PER_SECOND / 1000);
        self.level = self.level.saturating_sub(leaked) + self.turn as u64;
        if self.looked.is_none() || millis > 0 {
            self.looked = Some(now);
        }
        self.turn = 0;
        if self.level <= BURST {
            tokio::task::yield_now().await;
        } else {
            let excess = (self.level - BURST) * 1000 / BYTES_PER_SECOND;
            tokio::time::sleep(Duration::from_millis(excess.clamp(1, 50))).await;
        }
    }
}

impl Kept {
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
        let head = count.min(SEARCHED);
        let tail = count.saturating_sub(SEARCHED).max(head);
        let join = |range| self.chunks.range(range).flatten().copied().collect();
        let texts: [Vec<u8>; 2] = [join(0..head), join(tail..count)];
        // Where both ends meet, a line may run from the one into the other.
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
        let cap = 3 * CHUNK;
        for number in 0..5000 {
            kept.push(format!("line {number}\n").as_bytes(), cap);
        }
        assert_eq!(kept.chunks.len(), 3);
        assert_eq!(kept.last_lines(2), ["line 4998", "line 4999"]);
        assert_eq!(kept.total, 48_890);
    }

    #[test]
    fn lines_may_be_split_over_chunks_and_are_shortened_at_whole_characters() {
        let mut kept = Kept::default();
        let long = "x".repeat(CHUNK - 3);
        for text in ["first\n\n  \nsec", "ond \u{e9}\n", &long, "abcdef"] {
            kept.push(text.as_bytes(), STDERR_CAP);
        }
        let lines = kept.last_lines(5);
        assert_eq!(lines[..2], ["first", "second é"]);
        assert!(lines[2].starts_with("xxx") && lines[2].ends_with("x…"));
        kept.push(format!("\n{}", "é".repeat(MAX_LINE)).as_bytes(), STDERR_CAP);
        let last = kept.last_lines(1).remove(0);
        assert!(last.ends_with("é…") && last.len() < MAX_LINE + 4);
    }
}
