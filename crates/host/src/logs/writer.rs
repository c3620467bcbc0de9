//! The work of the thread that writes logs: jobs become lines, lines go into files, and what cannot be written is counted.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use super::file::{self, Limits, Unwritten};
use super::lines::{Lines, LogKind, put_text};
use super::time::{WIDTH, stamp};
use super::worker::Work;
use super::{Job, Server};

/// How much is written at once.
const PIECE: usize = 64 * 1024;

/// How long a disk that refused is left alone.
const REST: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    dir: PathBuf,
    limits: Limits,
    /// What went wrong first.
    problem: Arc<OnceLock<String>>,
    logs: HashMap<Arc<str>, Log>,
    /// Until when nothing is tried.
    resting: Option<Instant>,
    /// Whether anything was ever written.
    settled: bool,
    /// There is nowhere to write to.
    homeless: bool,
}

/// One server's log, as far as it is not in its file yet.
struct Log {
    server: Arc<Server>,
    lines: Lines,
    ready: String,
    /// Lines that could not be written, not yet told of.
    lost: u64,
    /// The file may end in half a line.
    torn: bool,
}

impl Writer {
    pub(super) fn new(dir: PathBuf, limits: Limits, problem: Arc<OnceLock<String>>) -> Self {
        Self {
            dir,
            limits,
            problem,
            logs: HashMap::new(),
            resting: None,
            settled: false,
            homeless: false,
        }
    }

    fn job(&mut self, job: Job) {
        let Job {
            server,
            time,
            kind,
            bytes,
            lost,
        } = job;
        let log = self
            .logs
            .entry(Arc::clone(&server.name))
            .or_insert_with(|| Log::of(&server));
        log.server = Arc::clone(&server);
        log.dropped(lost, time);
        let redactor = &server.redactor;
        if kind == LogKind::Stderr {
            log.lines.stderr(time, &bytes, redactor, &mut log.ready);
        } else {
            log.lines.break_off(time, redactor, &mut log.ready);
            let text = String::from_utf8_lossy(&bytes);
            put_text(time, kind, &text, redactor, &mut log.ready);
        }
        server.budget.give(bytes.len());
        let piece = usize::try_from(self.limits.file / 4).map_or(PIECE, |most| most.min(PIECE));
        if log.ready.len() >= piece {
            self.write(&server.name);
        }
    }

    /// Writes what is ready of a server's log, unless the disk has just refused something.
    fn write(&mut self, name: &str) {
        let resting = self.resting.is_some_and(|until| Instant::now() < until);
        if let Some(log) = self.logs.get_mut(name)
            && (resting || self.homeless)
        {
            log.give_up();
        } else {
            self.write_now(name);
        }
    }

    /// Writes what is ready of a server's log, and how much of it was lost before.
    fn write_now(&mut self, name: &str) {
        let Some(log) = self.logs.get_mut(name) else {
            return;
        };
        if log.ready.is_empty() && log.lost == 0 {
            return;
        }
        let mut lines = mem::take(&mut log.ready);
        let mut before = String::new();
        if log.torn {
            before.push('\n');
        }
        if log.lost > 0 {
            // At the time of what follows, since lines are sorted by it.
            let now = stamp(SystemTime::now());
            let next = lines.get(..WIDTH).unwrap_or(&now);
            before.push_str(&dropped_line(next, log.lost));
        }
        lines.insert_str(0, &before);
        let path = file::path_of(&self.dir, name);
        match put(&self.dir, &path, name, &lines, self.limits) {
            Ok(()) => {
                (log.lost, log.torn) = (0, false);
                (self.resting, self.settled) = (None, true);
                lines.clear();
                log.ready = lines;
            }
            Err(failed) => {
                lines.drain(..before.len());
                log.ready = lines;
                if failed.torn {
                    log.torn = true;
                    log.lost += count_lines(mem::take(&mut log.ready).as_bytes());
                }
                log.give_up();
                self.resting = Some(Instant::now() + REST);
                // A home that is not there, or no directory, is somebody's choice and no news.
                let kind = failed.error.kind();
                self.homeless |=
                    !self.settled && !self.dir.is_dir() && kind != ErrorKind::StorageFull;
                if !self.homeless {
                    let path = path.display();
                    let told = format!("logs cannot be written to {path}: {}", failed.error);
                    let _ = self.problem.set(told);
                }
            }
        }
    }
}

/// Appends to the file; makes its directory if that is not there, or not any more.
fn put(dir: &Path, path: &Path, name: &str, lines: &str, limits: Limits) -> Result<(), Unwritten> {
    let heading = file::heading(name, &stamp(SystemTime::now()));
    let append = || file::append(path, &heading, lines.as_bytes(), limits);
    match append() {
        Err(failed) if failed.error.kind() == ErrorKind::NotFound => {
            file::make_dir(dir)?;
            append()
        }
        outcome => outcome,
    }
}

impl Log {
    fn of(server: &Arc<Server>) -> Self {
        Self {
            server: Arc::clone(server),
            lines: Lines::default(),
            ready: String::new(),
            lost: 0,
            torn: false,
        }
    }

    /// Tells how many lines there was no room for.
    fn dropped(&mut self, count: u64, time: SystemTime) {
        if count > 0 {
            self.break_off(time);
            self.ready.push_str(&dropped_line(&stamp(time), count));
        }
    }

    /// Lets go of lines that cannot be written now, unless they are few.
    fn give_up(&mut self) {
        if self.ready.len() > PIECE {
            self.lost += count_lines(self.ready.as_bytes());
            self.ready.clear();
        }
    }

    /// Ends a line whose end has not come.
    fn break_off(&mut self, time: SystemTime) {
        let redactor = &self.server.redactor;
        self.lines.break_off(time, redactor, &mut self.ready);
    }
}

fn dropped_line(stamp: &str, count: u64) -> String {
    let lines = if count == 1 { "line" } else { "lines" };
    format!("{stamp} notice … {count} {lines} dropped\n")
}

/// How many lines there are; a beginning of one counts.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count();
    let begun = bytes.last().is_some_and(|last| *last != b'\n');
    ends as u64 + u64::from(begun)
}

impl Work<Job> for Writer {
    fn work(&mut self, jobs: Vec<Job>) {
        let mut names: Vec<Arc<str>> = Vec::new();
        for job in jobs {
            if !names.contains(&job.server.name) {
                names.push(Arc::clone(&job.server.name));
            }
            self.job(job);
        }
        for name in names {
            if let Some(log) = self.logs.get_mut(&name) {
                log.dropped(log.server.budget.take_lost(), SystemTime::now());
            }
            self.write(&name);
        }
    }

    fn finish(&mut self) {
        let names: Vec<Arc<str>> = self.logs.keys().cloned().collect();
        for name in names {
            if let Some(log) = self.logs.get_mut(&name) {
                log.break_off(SystemTime::now());
            }
            if !self.homeless {
                self.write_now(&name);
            }
        }
    }
}
