//! A log per server and a trace of every message.
//!
//! ```text
//! stderr, notices, states ─ ServerLog ─┐                     ┌─ <server>.log, <server>.log.1
//!                                      ├─▶ worker (a thread) ┤
//! messages ─ Traced ─ ServerTrace ─────┘                     └─ the trace's file
//! ```
//!
//! Callers never wait for the disk: lines pass through a bounded queue to a thread, and lines that
//! do not fit are counted and dropped. Write errors only lose lines.
//!
//! *Invariant:* a secret passed to a server is never written, and text from a server cannot control
//! the terminal that shows it.

mod file;
#[cfg(any(feature = "http", feature = "ws"))]
mod headers;
mod lines;
mod messages;
mod read;
mod recorder;
mod redact;
mod tap;
mod time;
mod trace;
pub(crate) mod worker;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use file::Limits;
pub(crate) use file::{log_path, rotated_path};
pub use lines::LogKind;
pub use read::{Follow, LogLine, Since};
pub(crate) use recorder::Recorder;
pub(crate) use redact::Redactor;
pub(crate) use tap::MessageTap;
pub use tap::{Direction, Message};
pub(crate) use time::stamp;
pub use trace::Tracer;
use worker::{Budget, Worker};
use writer::{Writer, count_lines};

/// Maximum number of queued bytes per server; a flood only loses its own lines.
const MAX_QUEUED_BYTES: usize = 256 * 1024;

/// Maximum time that shutdown waits for the disk.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A directory with one log file per server, which several processes may share. Clones refer to the
/// same store.
///
/// ```no_run
/// use trunkline::log::LogStore;
/// use trunkline::Host;
///
/// # async fn example() {
/// let logs = LogStore::at("/var/lib/example/logs");
/// let host = Host::builder().logs(logs.clone()).start();
/// // …
/// host.shutdown().await;
/// for line in logs.read(None, Some(20), None) {
///     println!("{} {}: {}", line.time, line.server, line.text);
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct LogStore(Arc<Inner>);

/// A callback for each line.
pub(crate) type LogSink = Box<dyn Fn(LogLine) + Send>;

type Sinks = Arc<Mutex<Vec<LogSink>>>;

struct Inner {
    dir: PathBuf,
    sinks: Sinks,
    worker: Worker<LogRecord>,
    problem: Arc<OnceLock<String>>,
}

/// A server as known to the writer.
struct LogSource {
    name: Arc<str>,
    redactor: Redactor,
    budget: Budget,
}

/// A record to be written.
struct LogRecord {
    server: Arc<LogSource>,
    time: SystemTime,
    kind: LogKind,
    bytes: Vec<u8>,
    /// Lines dropped since the previous record.
    lost: u64,
}

impl LogStore {
    /// Creates a store in `dir`, which need not exist. Nothing is created before the first write.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::with_limits(dir.into(), Limits::default())
    }

    fn with_limits(dir: PathBuf, limits: Limits) -> Self {
        let problem = Arc::default();
        let sinks = Sinks::default();
        let writer = Writer::new(
            dir.clone(),
            limits,
            Arc::clone(&problem),
            Arc::clone(&sinks),
        );
        Self(Arc::new(Inner {
            dir,
            sinks,
            worker: Worker::new("trunkline-logs", writer),
            problem,
        }))
    }

    /// A store without files: its lines go only to sinks.
    pub(crate) fn without_files() -> Self {
        Self::at(PathBuf::new())
    }

    /// Passes every further line to `sink`, on the thread that writes logs.
    pub(crate) fn add_sink(&self, sink: LogSink) {
        let mut sinks = self.0.sinks.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.push(sink);
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Returns the log of a server.
    pub fn server(&self, name: &str) -> ServerLog {
        self.redacted(name, Redactor::default())
    }

    /// Returns the log of a server with known secrets.
    fn redacted(&self, name: &str, redactor: Redactor) -> ServerLog {
        let server = Arc::new(LogSource {
            name: name.into(),
            redactor,
            budget: Budget::new(MAX_QUEUED_BYTES),
        });
        ServerLog(Some((server, Arc::clone(&self.0))))
    }

    /// Waits until all records so far are written or a timeout expires.
    pub async fn flush(&self) {
        self.0.worker.flush(FLUSH_TIMEOUT).await;
    }

    /// Returns the first problem that prevented writing. A directory that cannot be created is not
    /// a problem: it disables logging.
    pub fn problem(&self) -> Option<&str> {
        self.0.problem.get().map(String::as_str)
    }
}

/// The log of one server. Cheap to clone, and calls never block. The default discards everything.
#[derive(Clone, Default)]
pub struct ServerLog(Option<(Arc<LogSource>, Arc<Inner>)>);

impl ServerLog {
    /// Returns whether anything is written.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Adds a secret, which is then written as `***`.
    pub fn hide(&self, secret: &str) {
        if let Some((server, _)) = &self.0 {
            server.redactor.hide(secret);
        }
    }

    /// Adds bytes that the server wrote to stderr.
    pub fn stderr(&self, bytes: &[u8]) {
        self.push(LogKind::Stderr, bytes);
    }

    /// Adds a remark about the server's messages.
    pub fn notice(&self, text: &str) {
        self.push(LogKind::Notice, text.as_bytes());
    }

    /// Adds a state change of the connection.
    pub fn state(&self, text: &str) {
        self.push(LogKind::State, text.as_bytes());
    }

    fn push(&self, kind: LogKind, bytes: &[u8]) {
        let Some((server, store)) = &self.0 else {
            return;
        };
        if bytes.is_empty() {
            return;
        }
        if !server.budget.take(bytes.len()) {
            // State changes matter most and are small.
            if kind != LogKind::State {
                server.budget.count_lost(count_lines(bytes).max(1));
                return;
            }
            server.budget.overdraw(bytes.len());
        }
        store.worker.push(LogRecord {
            lost: server.budget.take_lost(),
            server: Arc::clone(server),
            time: SystemTime::now(),
            kind,
            bytes: bytes.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests;
