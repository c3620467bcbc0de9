//! Writes logs on the worker thread: formats records, appends them to files and counts lost lines.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::file::{self, AppendError, Limits};
use super::lines::{LineBuffer, LogKind, write_text};
use super::time::{STAMP_LEN, stamp};
use super::worker::BatchWriter;
use super::{LogRecord, LogSource, Sinks, read};
use crate::disk::create_private_dir;

/// Bytes per write.
const WRITE_BATCH: usize = 64 * 1024;

/// Delay after a failed write.
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    dir: PathBuf,
    limits: Limits,
    /// The first problem.
    problem: Arc<OnceLock<String>>,
    sinks: Sinks,
    logs: HashMap<Arc<str>, ServerBuffer>,
    /// No writes are attempted before this time.
    retry_at: Option<Instant>,
    has_written: bool,
    /// Whether there is no directory to write to.
    is_disabled: bool,
}

/// Lines of one server that are not in its file yet.
struct ServerBuffer {
    server: Arc<LogSource>,
    lines: LineBuffer,
    ready: String,
    /// Lost lines that were not reported yet.
    lost: u64,
    /// Whether the file may end with a partial line.
    is_torn: bool,
}

impl Writer {
    pub(super) fn new(
        dir: PathBuf,
        limits: Limits,
        problem: Arc<OnceLock<String>>,
        sinks: Sinks,
    ) -> Self {
        Self {
            dir,
            limits,
            problem,
            sinks,
            logs: HashMap::new(),
            retry_at: None,
            has_written: false,
            is_disabled: false,
        }
    }

    fn add(&mut self, record: LogRecord) {
        let LogRecord {
            server,
            time,
            kind,
            bytes,
            lost,
        } = record;
        let log = self
            .logs
            .entry(Arc::clone(&server.name))
            .or_insert_with(|| ServerBuffer::of(&server));
        log.server = Arc::clone(&server);
        let from = log.ready.len();
        log.dropped(lost, time);
        let redactor = &server.redactor;
        if kind == LogKind::Stderr {
            log.lines
                .push_stderr(time, &bytes, redactor, &mut log.ready);
        } else {
            log.lines.finish_line(time, redactor, &mut log.ready);
            let text = String::from_utf8_lossy(&bytes);
            write_text(time, kind, &text, redactor, &mut log.ready);
        }
        pass_on(&self.sinks, &server.name, &log.ready[from..]);
        server.budget.release(bytes.len());
        let piece =
            usize::try_from(self.limits.file / 4).map_or(WRITE_BATCH, |most| most.min(WRITE_BATCH));
        if log.ready.len() >= piece {
            self.write(&server.name);
        }
    }

    /// Writes pending lines, unless a write failed recently.
    fn write(&mut self, name: &str) {
        let retry_at = self.retry_at.is_some_and(|until| Instant::now() < until);
        if let Some(log) = self.logs.get_mut(name)
            && (retry_at || self.is_disabled)
        {
            log.drop_excess();
        } else {
            self.write_now(name);
        }
    }

    /// Writes pending lines and reports lost ones.
    fn write_now(&mut self, name: &str) {
        let Some(log) = self.logs.get_mut(name) else {
            return;
        };
        if log.ready.is_empty() && log.lost == 0 {
            return;
        }
        if self.dir.as_os_str().is_empty() {
            log.ready.clear();
            return;
        }
        let mut lines = mem::take(&mut log.ready);
        let mut before = String::new();
        if log.is_torn {
            before.push('\n');
        }
        if log.lost > 0 {
            // Use the time of the next line, since lines are sorted by time.
            let now = stamp(SystemTime::now());
            let next = lines.get(..STAMP_LEN).unwrap_or(&now);
            before.push_str(&dropped_line(next, log.lost));
        }
        lines.insert_str(0, &before);
        let path = file::log_path(&self.dir, name);
        match append(&self.dir, &path, name, &lines, self.limits) {
            Ok(()) => {
                (log.lost, log.is_torn) = (0, false);
                (self.retry_at, self.has_written) = (None, true);
                lines.clear();
                log.ready = lines;
            }
            Err(failed) => {
                lines.drain(..before.len());
                log.ready = lines;
                if failed.is_torn {
                    log.is_torn = true;
                    log.lost += count_lines(mem::take(&mut log.ready).as_bytes());
                }
                log.drop_excess();
                self.retry_at = Some(Instant::now() + RETRY_AFTER);
                // A missing or unusable directory is deliberate, not a problem.
                let kind = failed.error.kind();
                self.is_disabled |=
                    !self.has_written && !self.dir.is_dir() && kind != ErrorKind::StorageFull;
                if !self.is_disabled {
                    let path = path.display();
                    let told = format!("cannot write logs to {path}: {}", failed.error);
                    let _ = self.problem.set(told);
                }
            }
        }
    }
}

/// Passes lines to every sink.
fn pass_on(sinks: &Sinks, server: &str, lines: &str) {
    let sinks = sinks.lock().unwrap_or_else(PoisonError::into_inner);
    if sinks.is_empty() {
        return;
    }
    for line in lines.lines().filter_map(|line| read::parse(server, line)) {
        sinks.iter().for_each(|sink| sink(line.clone()));
    }
}

/// Appends to the file, creating its directory if necessary.
fn append(
    dir: &Path,
    path: &Path,
    name: &str,
    lines: &str,
    limits: Limits,
) -> Result<(), AppendError> {
    let heading = file::heading(name, &stamp(SystemTime::now()));
    let try_append = || file::append(path, &heading, lines.as_bytes(), limits);
    match try_append() {
        Err(failed) if failed.error.kind() == ErrorKind::NotFound => {
            create_private_dir(dir)?;
            try_append()
        }
        outcome => outcome,
    }
}

impl ServerBuffer {
    fn of(server: &Arc<LogSource>) -> Self {
        Self {
            server: Arc::clone(server),
            lines: LineBuffer::default(),
            ready: String::new(),
            lost: 0,
            is_torn: false,
        }
    }

    /// Reports dropped lines.
    fn dropped(&mut self, count: u64, time: SystemTime) {
        if count > 0 {
            self.finish_line(time);
            self.ready.push_str(&dropped_line(&stamp(time), count));
        }
    }

    /// Drops pending lines if there are too many.
    fn drop_excess(&mut self) {
        if self.ready.len() > WRITE_BATCH {
            self.lost += count_lines(self.ready.as_bytes());
            self.ready.clear();
        }
    }

    fn finish_line(&mut self, time: SystemTime) {
        let redactor = &self.server.redactor;
        self.lines.finish_line(time, redactor, &mut self.ready);
    }
}

fn dropped_line(stamp: &str, count: u64) -> String {
    let lines = if count == 1 { "line" } else { "lines" };
    format!("{stamp} notice … {count} {lines} dropped\n")
}

/// Counts lines, including a partial last one.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count();
    let begun = bytes.last().is_some_and(|last| *last != b'\n');
    ends as u64 + u64::from(begun)
}

impl BatchWriter<LogRecord> for Writer {
    fn write_batch(&mut self, records: Vec<LogRecord>) {
        let mut names: Vec<Arc<str>> = Vec::new();
        for record in records {
            if !names.contains(&record.server.name) {
                names.push(Arc::clone(&record.server.name));
            }
            self.add(record);
        }
        for name in names {
            if let Some(log) = self.logs.get_mut(&name) {
                let from = log.ready.len();
                log.dropped(log.server.budget.take_lost(), SystemTime::now());
                pass_on(&self.sinks, &name, &log.ready[from..]);
            }
            self.write(&name);
        }
    }

    fn flush(&mut self) {
        let names: Vec<Arc<str>> = self.logs.keys().cloned().collect();
        for name in names {
            if let Some(log) = self.logs.get_mut(&name) {
                let from = log.ready.len();
                log.finish_line(SystemTime::now());
                pass_on(&self.sinks, &name, &log.ready[from..]);
            }
            if !self.is_disabled {
                self.write_now(&name);
            }
        }
    }
}
