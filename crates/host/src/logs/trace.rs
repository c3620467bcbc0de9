//! Traces every message of every connection as JSON lines without secrets (`--trace`).

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use trunkline_transport::Trace;
use trunkline_wire::transport::{Closed, Incoming};
use trunkline_wire::{ByteString, Json};

use super::FLUSH_TIMEOUT;
use super::redact::{Redactor, put_quoted};
use super::time::stamp;
use super::worker::{BatchWriter, Budget, Worker};
use crate::disk::private_options;

/// Maximum number of queued bytes. Higher than for logs, since a trace should be complete.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Maximum length of text that is not a message.
const MAX_TEXT: usize = 64 * 1024;

/// Bytes per write.
const WRITE_BATCH: usize = 256 * 1024;

/// Traces every message of a host's connections. Clones share the destination.
///
/// Each line is a JSON object with `time`, `server`, `direction` (`out` or `in`) and `message`.
/// Invalid JSON appears as `text`, and link events as `note`. Secrets of the server's entry are
/// masked everywhere, and so are values under names like `password`.
///
/// ```no_run
/// use trunkline::log::Tracer;
/// use trunkline::Host;
///
/// # fn example() -> std::io::Result<()> {
/// let tracer = Tracer::to_file("trace.jsonl".as_ref())?;
/// let host = Host::builder().trace(tracer).start();
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Tracer(Arc<Inner>);

struct Inner {
    worker: Worker<Record>,
    budget: Arc<Budget>,
    problem: Arc<OnceLock<String>>,
}

struct Record {
    time: SystemTime,
    server: Arc<TraceSource>,
    event: TraceEvent,
    bytes: usize,
    /// Records dropped since the previous one.
    lost: u64,
}

struct TraceSource {
    name: String,
    redactor: Redactor,
}

enum TraceEvent {
    Sent(Bytes),
    Received(Bytes),
    Note(String),
}

impl Tracer {
    /// Creates a tracer that writes to a private file, truncating an existing one.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        let mut options = private_options();
        // Append mode: two programs given the same file do not overwrite each other.
        let file = options.append(true).create(true).open(path)?;
        make_private(&file)?;
        Ok(Self::to(file))
    }

    /// Creates a tracer with another destination.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        let problem = Arc::<OnceLock<String>>::default();
        let budget = Arc::new(Budget::new(MAX_QUEUED_BYTES));
        let writer = Writer {
            out: Box::new(out),
            budget: Arc::clone(&budget),
            problem: Arc::clone(&problem),
            lines: String::new(),
        };
        Self(Arc::new(Inner {
            worker: Worker::new("trunkline-trace", writer),
            budget,
            problem,
        }))
    }

    /// Returns the trace of a server.
    pub(super) fn server(&self, name: &str, redactor: Redactor) -> Arc<dyn Trace> {
        let server = Arc::new(TraceSource {
            name: name.to_owned(),
            redactor,
        });
        Arc::new(ServerTrace {
            server,
            tracer: self.clone(),
        })
    }

    /// Waits until all records so far are written or a timeout expires.
    pub async fn flush(&self) {
        self.0.worker.flush(FLUSH_TIMEOUT).await;
    }

    /// Returns the first problem that prevented writing.
    pub fn problem(&self) -> Option<&str> {
        self.0.problem.get().map(String::as_str)
    }
}

/// Truncates a regular file and makes it private; pipes and terminals are left alone.
fn make_private(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = found.permissions().mode();
        if mode & 0o077 != 0 {
            file.set_permissions(PermissionsExt::from_mode(mode & 0o700))?;
        }
    }
    file.set_len(0)
}

/// Traces one server.
struct ServerTrace {
    server: Arc<TraceSource>,
    tracer: Tracer,
}

impl ServerTrace {
    fn push(&self, event: TraceEvent) {
        let Inner { worker, budget, .. } = &*self.tracer.0;
        let bytes = match &event {
            TraceEvent::Sent(text) | TraceEvent::Received(text) => text.len(),
            TraceEvent::Note(text) => text.len(),
        };
        if budget.take(bytes) {
            worker.push(Record {
                time: SystemTime::now(),
                server: Arc::clone(&self.server),
                event,
                bytes,
                lost: budget.take_lost(),
            });
        } else {
            budget.count_lost(1);
        }
    }
}

impl Trace for ServerTrace {
    fn sent(&self, message: Bytes) {
        self.push(TraceEvent::Sent(message));
    }

    fn received(&self, incoming: &Incoming) {
        match incoming {
            Incoming::Frame(frame) | Incoming::Reply { frame, .. } => {
                self.push(TraceEvent::Received(frame.clone()));
            }
            Incoming::DeliveryFailed { to, failure } => {
                let note = format!("request {to} failed: {failure}");
                self.push(TraceEvent::Note(note));
            }
            // The start of a long message could show secrets without their names.
            Incoming::Oversize { bytes, limit, .. } => {
                let note = format!("message of {bytes} bytes exceeds the limit of {limit}");
                self.push(TraceEvent::Note(note));
            }
            Incoming::Activity { .. } | Incoming::Partial { .. } | Incoming::Noise { .. } => {}
        }
    }

    fn closed(&self, cause: &Closed) {
        self.push(TraceEvent::Note(format!("link closed: {cause}")));
    }
}

/// Writes trace records on the worker thread.
struct Writer {
    out: Box<dyn Write + Send>,
    budget: Arc<Budget>,
    problem: Arc<OnceLock<String>>,
    lines: String,
}

impl BatchWriter<Record> for Writer {
    fn write_batch(&mut self, records: Vec<Record>) {
        for record in records {
            if record.lost > 0 {
                self.lost(record.lost);
            }
            write_record(&record, &mut self.lines);
            self.budget.release(record.bytes);
            if self.lines.len() >= WRITE_BATCH {
                self.write();
            }
        }
        let lost = self.budget.take_lost();
        if lost > 0 {
            self.lost(lost);
        }
        self.write();
    }

    fn flush(&mut self) {
        let _ = self.out.flush();
    }
}

impl Writer {
    fn lost(&mut self, count: u64) {
        let time = stamp(SystemTime::now());
        let _ = writeln!(self.lines, r#"{{"time":"{time}","dropped":{count}}}"#);
        let told = format!(
            "the trace is incomplete: {count} messages came faster than they could be written"
        );
        let _ = self.problem.set(told);
    }

    fn write(&mut self) {
        if let Err(error) = self.out.write_all(self.lines.as_bytes()) {
            let _ = self
                .problem
                .set(format!("the trace is incomplete: {error}"));
        }
        self.lines.clear();
        self.lines.shrink_to(WRITE_BATCH);
    }
}

fn write_record(record: &Record, lines: &mut String) {
    let TraceSource { name, redactor } = &*record.server;
    let _ = write!(lines, r#"{{"time":"{}","server":"#, stamp(record.time));
    put_quoted(lines, name);
    match &record.event {
        TraceEvent::Sent(text) => write_message(text, "out", redactor, lines),
        TraceEvent::Received(text) => write_message(text, "in", redactor, lines),
        TraceEvent::Note(note) => {
            lines.push_str(r#","note":"#);
            put_quoted(lines, &redactor.text(note));
        }
    }
    lines.push_str("}\n");
}

fn write_message(text: &Bytes, direction: &str, redactor: &Redactor, lines: &mut String) {
    let _ = write!(lines, r#","direction":"{direction}","#);
    let json = ByteString::try_from(text.clone())
        .ok()
        .and_then(|text| Json::parse(text).ok());
    if let Some(json) = json {
        lines.push_str(r#""message":"#);
        lines.push_str(&redactor.message(&json));
    } else {
        let garbage = String::from_utf8_lossy(text);
        let garbage = redactor.text(&garbage);
        let end = garbage.floor_char_boundary(MAX_TEXT);
        lines.push_str(r#""text":"#);
        put_quoted(lines, &garbage[..end]);
    }
}
