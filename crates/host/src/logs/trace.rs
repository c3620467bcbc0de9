//! Every message of every connection, as JSON lines without secrets (`--trace`).

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
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

/// How many bytes of messages may wait to be written. More than for logs: a trace is asked for, and wanted whole.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// How much is shown of event is no message.
const MAX_TEXT: usize = 64 * 1024;

/// How much is written at once.
const WRITE_BATCH: usize = 256 * 1024;

/// Writes down every message that goes over any connection of a host. Clones write to the same place.
///
/// One JSON object a line: `time`, `server`, `direction` (`out` or `in`) and `message`; event is no JSON comes as `text`, and
/// event happened to the link as `note`. Secrets are masked: those that the server's entry holds wherever they are, and
/// whatever stands under a name like `password`.
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
    /// How many records there was no room for since the one before.
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
    /// Into this file, which is emptied if it exists, and which only its owner can read.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // Appending, too: two programs that are told the same file do not write over each other.
        options.append(true).create(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        let file = options.open(path)?;
        make_private(&file)?;
        Ok(Self::to(file))
    }

    /// Into something else.
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

    /// Who sees the messages of a server.
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

    /// Waits until everything so far is written, or that has taken too long.
    pub async fn flush(&self) {
        self.0.worker.flush(FLUSH_TIMEOUT).await;
    }

    /// The first thing that kept something from being written, if anything did.
    pub fn problem(&self) -> Option<&str> {
        self.0.problem.get().map(String::as_str)
    }
}

/// Empties a file and makes it its owner's; event is no file, a pipe or a terminal, is left as it is.
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

/// Sees the messages of one server.
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
                let note = format!("request {to} will not be answered: {failure}");
                self.push(TraceEvent::Note(note));
            }
            // TraceEvent it begins with would show secrets whose names are out of sight.
            Incoming::Oversize { bytes, limit, .. } => {
                let note = format!("a message of {bytes} bytes is over the limit of {limit}");
                self.push(TraceEvent::Note(note));
            }
            Incoming::Activity { .. } | Incoming::Partial { .. } | Incoming::Noise { .. } => {}
        }
    }

    fn closed(&self, cause: &Closed) {
        self.push(TraceEvent::Note(format!("the link ended: {cause}")));
    }
}

/// The work of the thread that writes the trace.
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
            "the trace is not complete: {count} messages came faster than it could be written"
        );
        let _ = self.problem.set(told);
    }

    fn write(&mut self) {
        if let Err(error) = self.out.write_all(self.lines.as_bytes()) {
            let _ = self
                .problem
                .set(format!("the trace is not complete: {error}"));
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
