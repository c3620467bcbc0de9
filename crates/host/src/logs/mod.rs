//! What servers say and what becomes of them, written down: a log per server, and a trace of every message.
//!
//! ```text
//! stderr, notices, states ─ ServerLog ─┐                     ┌─ <server>.log, <server>.log.1
//!                                      ├─▶ worker (a thread) ┤
//! messages ─ Traced ─ ServerTrace ─────┘                     └─ the trace's file
//! ```
//!
//! Nobody waits for a disk: lines go through a bounded queue to a thread, and where there is no room they are counted and
//! dropped. Whatever cannot be written does no harm but that it is missing.
//!
//! *Invariant:* a secret that we handed to a server is never written, and text that a server controls cannot steer the
//! terminal that shows it.

mod file;
mod lines;
mod messages;
mod read;
mod recorder;
mod redact;
mod time;
mod trace;
mod worker;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use file::Limits;
pub(crate) use file::{log_path, rotated_path};
pub use lines::LogKind;
pub use read::{Follow, LogLine, Since};
pub(crate) use recorder::Recorder;
pub(crate) use redact::Redactor;
pub(crate) use time::stamp;
pub use trace::Tracer;
use worker::{Budget, Worker};
use writer::{Writer, count_lines};

/// How many bytes of one server may wait to be written. One that floods costs its own lines, not those of others.
const MAX_QUEUED_BYTES: usize = 256 * 1024;

/// How long the end of a host waits for the disk.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Where servers' logs are kept: a directory with a file per server, which several processes may share. Clones are the same
/// store.
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

struct Inner {
    dir: PathBuf,
    worker: Worker<LogRecord>,
    problem: Arc<OnceLock<String>>,
}

/// What the writer knows of a server.
struct LogSource {
    name: Arc<str>,
    redactor: Redactor,
    budget: Budget,
}

/// Something to be written.
struct LogRecord {
    server: Arc<LogSource>,
    time: SystemTime,
    kind: LogKind,
    bytes: Vec<u8>,
    /// How many lines there was no room for since the one before.
    lost: u64,
}

impl LogStore {
    /// A store in this directory, which need not exist; nothing is touched before there is something to write.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self::with_limits(dir.into(), Limits::default())
    }

    fn with_limits(dir: PathBuf, limits: Limits) -> Self {
        let problem = Arc::default();
        let writer = Writer::new(dir.clone(), limits, Arc::clone(&problem));
        Self(Arc::new(Inner {
            dir,
            worker: Worker::new("trunkline-logs", writer),
            problem,
        }))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The log of a server.
    pub fn server(&self, name: &str) -> ServerLog {
        self.redacted(name, Redactor::default())
    }

    /// The log of a server whose secrets are known.
    fn redacted(&self, name: &str, redactor: Redactor) -> ServerLog {
        let server = Arc::new(LogSource {
            name: name.into(),
            redactor,
            budget: Budget::new(MAX_QUEUED_BYTES),
        });
        ServerLog(Some((server, Arc::clone(&self.0))))
    }

    /// Waits until everything said so far is in its file, or the disk has taken too long.
    pub async fn flush(&self) {
        self.0.worker.flush(FLUSH_TIMEOUT).await;
    }

    /// The first thing that kept lines from being written, if anything did. A directory that cannot be made is none: then
    /// there are no logs.
    pub fn problem(&self) -> Option<&str> {
        self.0.problem.get().map(String::as_str)
    }
}

/// The log of one server. Cheap to clone and to call: nothing here waits. The default goes nowhere.
#[derive(Clone, Default)]
pub struct ServerLog(Option<(Arc<LogSource>, Arc<Inner>)>);

impl ServerLog {
    /// Whether anything is written at all.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Learns a secret, which is then written as `***`.
    pub fn hide(&self, secret: &str) {
        if let Some((server, _)) = &self.0 {
            server.redactor.hide(secret);
        }
    }

    /// What it wrote to stderr, in pieces as they come.
    pub fn stderr(&self, bytes: &[u8]) {
        self.push(LogKind::Stderr, bytes);
    }

    /// Something worth knowing about what it sent.
    pub fn notice(&self, text: &str) {
        self.push(LogKind::Notice, text.as_bytes());
    }

    /// What became of the connection to it.
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
            // What became of a server is what one looks for first, and is never much.
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
