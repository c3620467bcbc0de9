//! The sink that writes the audit log to files.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use trunkline_config::{AuditSettings, AuditSync};

use super::file::{self, Limits};
use super::{AuditEvent, AuditRecord, AuditSink};
use crate::logs::worker::{BatchWriter, Budget, Worker};

/// The memory of records that wait for the disk, in bytes.
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// A batch with more records is followed by a pause, so that the next one is worth its lock.
const BUSY: usize = 8;
const PAUSE: Duration = Duration::from_millis(4);

/// How often files are synced, unless before every call or never.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The audit log in a directory, which several processes may share (SEC-6).
///
/// Records pass through a bounded queue to a thread, so that no call waits for the disk.
///
/// ```no_run
/// use trunkline::Host;
/// use trunkline::audit::AuditLog;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let host = Host::builder().audit(AuditLog::at("/var/log/my-agent")).start();
/// # host.shutdown().await;
/// # }
/// ```
pub struct AuditLog {
    worker: Worker<AuditRecord>,
    shared: Arc<Shared>,
    sync: AuditSync,
    /// Who requires the log.
    required_by: Option<String>,
}

struct Shared {
    dir: PathBuf,
    budget: Budget,
    /// Records in the queue or not yet written.
    waiting: AtomicU64,
    /// Why the last write failed.
    problem: ArcSwapOption<String>,
}

impl AuditLog {
    /// Writes the log to files in `dir`, with the default limits. Failures to write refuse no call;
    /// see [`required`](Self::required).
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        let limits = Limits {
            file_bytes: 16 << 20,
            files: 64,
        };
        Self::new(dir.into(), limits, AuditSync::default(), None)
    }

    /// Refuses calls while the log cannot be written; `by` tells who requires that.
    #[must_use]
    pub fn required(mut self, by: impl Into<String>) -> Self {
        self.required_by = Some(by.into());
        self.shared.set_problem(probe(&self.shared.dir));
        self
    }

    /// Writes the log as settings ask for it.
    pub fn from_settings(settings: &AuditSettings) -> Self {
        let dir = settings.directory.clone();
        let log = Self::new(dir, limits_of(settings), settings.sync, None);
        if settings.required {
            // Calls are refused from the first one on.
            return log.required(&settings.source);
        }
        log
    }

    fn new(dir: PathBuf, limits: Limits, sync: AuditSync, required_by: Option<String>) -> Self {
        let shared = Arc::new(Shared {
            dir,
            budget: Budget::new(MAX_QUEUED_BYTES),
            waiting: AtomicU64::new(0),
            problem: ArcSwapOption::empty(),
        });
        let writer = LogWriter {
            shared: Arc::clone(&shared),
            limits,
            sync,
            unwritten: Vec::new(),
            synced: Instant::now(),
            is_dirty: false,
        };
        Self {
            worker: Worker::new("audit", writer),
            shared,
            sync,
            required_by,
        }
    }

    /// Returns the directory of the log.
    pub fn directory(&self) -> &Path {
        &self.shared.dir
    }

    /// Writes a record now, on this thread: for programs without a host.
    ///
    /// # Errors
    ///
    /// The record cannot be written.
    pub fn write(settings: &AuditSettings, record: &AuditRecord) -> io::Result<()> {
        let text = serde_json::to_string(record)?;
        let sync = settings.sync != AuditSync::Never;
        file::append(&settings.directory, &[text], limits_of(settings), sync)
    }
}

fn limits_of(settings: &AuditSettings) -> Limits {
    Limits {
        file_bytes: u64::from(settings.max_file_mb) << 20,
        files: settings.max_files as usize,
    }
}

impl AuditSink for AuditLog {
    fn record(&self, record: AuditRecord) {
        if !self.shared.budget.take(record.weight()) {
            self.shared.budget.count_lost(1);
            let full = io::Error::other("too many records wait for the disk");
            self.shared.set_problem(Err(full));
            return;
        }
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        self.worker.push(record);
    }

    fn refusal(&self) -> Option<String> {
        let by = self.required_by.as_ref()?;
        let problem = self.shared.problem.load();
        let problem = problem.as_ref()?;
        let dir = self.shared.dir.display();
        Some(format!(
            "the audit log in {dir}, which {by} requires, cannot be written: {problem}"
        ))
    }

    fn problem(&self) -> Option<String> {
        let problem = self.shared.problem.load();
        let problem = problem.as_ref()?;
        let dir = self.shared.dir.display();
        Some(format!(
            "the audit log in {dir} cannot be written: {problem}"
        ))
    }

    fn is_synchronous(&self) -> bool {
        self.sync == AuditSync::Always
    }

    fn flush(&self, limit: Duration) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            self.worker.flush(limit).await;
            self.shared.waiting.load(Ordering::Acquire) == 0
        })
    }
}

impl Shared {
    fn set_problem(&self, written: io::Result<()>) {
        match written {
            Ok(()) if self.problem.load().is_some() => self.problem.store(None),
            Ok(()) => {}
            Err(error) => self.problem.store(Some(Arc::new(error.to_string()))),
        }
    }
}

/// Checks that a directory can hold the log.
fn probe(dir: &Path) -> io::Result<()> {
    file::create_dir(dir)?;
    let _lock = file::lock(dir)?;
    file::sync(dir)
}

/// Writes batches on the thread.
struct LogWriter {
    shared: Arc<Shared>,
    limits: Limits,
    sync: AuditSync,
    /// The records that could not be written, with their weights: they come first next time.
    unwritten: Vec<(String, usize)>,
    synced: Instant,
    is_dirty: bool,
}

impl LogWriter {
    fn write(&mut self) {
        let lost = self.shared.budget.take_lost();
        if self.unwritten.is_empty() && lost == 0 {
            return;
        }
        let record = AuditRecord::now(AuditEvent::Lost { count: lost });
        let note = (lost > 0).then(|| serde_json::to_string(&record).unwrap_or_default());
        let texts = self.unwritten.iter().map(|(text, _)| text.as_str());
        let texts: Vec<&str> = note.as_deref().into_iter().chain(texts).collect();
        let is_due = match self.sync {
            AuditSync::Always => true,
            AuditSync::Never => false,
            _ => self.synced.elapsed() >= SYNC_INTERVAL,
        };
        let written = file::append(&self.shared.dir, &texts, self.limits, is_due);
        if written.is_ok() {
            if is_due {
                self.synced = Instant::now();
            }
            self.is_dirty = !is_due;
            let count = self.unwritten.len() as u64;
            let weight = self.unwritten.iter().map(|(_, weight)| weight).sum();
            self.unwritten.clear();
            self.shared.budget.release(weight);
            self.shared.waiting.fetch_sub(count, Ordering::Release);
        } else {
            self.shared.budget.count_lost(lost);
        }
        self.shared.set_problem(written);
    }
}

impl BatchWriter<AuditRecord> for LogWriter {
    fn write_batch(&mut self, records: Vec<AuditRecord>) {
        let count = records.len();
        for record in records {
            let weight = record.weight();
            if let Ok(text) = serde_json::to_string(&record) {
                self.unwritten.push((text, weight));
            } else {
                self.shared.budget.release(weight);
                self.shared.budget.count_lost(1);
                self.shared.waiting.fetch_sub(1, Ordering::Release);
            }
        }
        self.write();
        if count >= BUSY && self.sync != AuditSync::Always {
            std::thread::sleep(PAUSE);
        }
    }

    fn flush(&mut self) {
        self.write();
        if self.is_dirty && self.sync != AuditSync::Never {
            let synced = file::sync(&self.shared.dir);
            self.is_dirty = synced.is_err();
            self.shared.set_problem(synced);
        }
    }
}
