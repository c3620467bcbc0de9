//! The scripted server itself: one reader, one thread for each scripted request, one writer of whole lines.

mod answers;
mod grandchild;
mod job;
mod lists;
mod output;
mod place;
mod run;

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Sender,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::{job::Job, output::Output, place::Place};
use crate::{Action, Era, OnEof, RpcError, Script, Tool};

pub use self::grandchild::run as run_grandchild;

/// How long a process that was told to outlive its welcome does so, so that none leaks for ever.
const LINGER: Duration = Duration::from_mins(2);

/// Serves a script over any streams until the reader ends. Actions that would end or harm the process close the
/// streams instead.
pub fn serve(
    script: Script,
    reader: impl BufRead + Send + 'static,
    writer: impl Write + Send + 'static,
) {
    Server::new(script, writer, Place::Streams).serve(reader);
}

/// Serves a script on threads of this process and gives the client's end: both what it writes and what it reads.
pub fn in_process(script: Script) -> UnixStream {
    let (client, server) = UnixStream::pair().expect("a socket pair");
    let writer = server.try_clone().expect("a second handle");
    let place = Place::Socket(server.try_clone().expect("a third handle"));
    thread::spawn(move || {
        Server::new(script, writer, place).serve(BufReader::new(&server));
        // Threads in flight may still hold handles; the client must see the end now.
        server.shutdown(std::net::Shutdown::Both).ok();
    });
    client
}

/// Serves a script on this process's stdin and stdout, then exits.
pub fn serve_process(script: Script) -> ! {
    let server = Server::new(script, place::Stdout, Place::Process);
    server.serve(BufReader::with_capacity(64 << 10, place::Stdin));
    std::process::exit(0)
}

/// A message that asks for something: a request, or a notification when it has no id.
#[derive(Debug)]
struct Request {
    id: Option<Value>,
    method: String,
    params: Value,
    modern: bool,
}

struct Listener {
    id: Value,
    filter: Value,
}

struct Server {
    script: Script,
    tools: Mutex<Vec<Tool>>,
    output: Output,
    place: Place,
    /// Whether `initialize` was seen: legacy requests are served and plain notifications sent from then on.
    initialized: AtomicBool,
    stopped: AtomicBool,
    closed: AtomicBool,
    jobs: Mutex<HashMap<String, Arc<Job>>>,
    listeners: Mutex<Vec<Listener>>,
    waiting: Mutex<HashMap<String, Sender<Value>>>,
    next_id: AtomicU64,
}

impl Server {
    fn new(script: Script, writer: impl Write + Send + 'static, place: Place) -> Arc<Self> {
        Arc::new(Self {
            tools: Mutex::new(script.tools.clone()),
            script,
            output: Output::new(writer),
            place,
            initialized: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            jobs: Mutex::default(),
            listeners: Mutex::default(),
            waiting: Mutex::default(),
            next_id: AtomicU64::new(1),
        })
    }

    fn serve(self: &Arc<Self>, mut reader: impl BufRead) {
        let start = Request {
            id: None,
            method: "onStart".into(),
            params: json!({}),
            modern: false,
        };
        run::all(self, &Job::new(start, true), &self.script.on_start);
        let mut line = Vec::new();
        while !self.stopped.load(Ordering::Acquire) && !self.closed.load(Ordering::Acquire) {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(1..) => self.receive(line.trim_ascii()),
                Ok(0) | Err(_) => break,
            }
        }
        if self.stopped.load(Ordering::Acquire) {
            self.linger(|| false);
        } else {
            match self.script.on_eof {
                OnEof::Exit => {}
                OnEof::Finish => self.linger(|| self.jobs.lock().unwrap().is_empty()),
                OnEof::Ignore => self.linger(|| false),
            }
        }
        self.output.close();
    }

    fn linger(&self, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() && !self.closed.load(Ordering::Acquire) && start.elapsed() < LINGER {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn receive(self: &Arc<Self>, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        if let Some(path) = &self.script.received_log {
            place::append(path, &[line, b"\n"].concat());
        }
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(e) => {
                return self
                    .reply_error(&Value::Null, &error(-32700, &format!("parse error: {e}")));
            }
        };
        let id = message.get("id").cloned();
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), id) => {
                let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
                let modern = params["_meta"].get(answers::VERSION_KEY).is_some();
                self.dispatch(Request {
                    id,
                    method: method.to_owned(),
                    params,
                    modern,
                });
            }
            (None, Some(id)) => {
                let waiting = self.waiting.lock().unwrap().remove(&id.to_string());
                // Nobody waiting is fine: the request was abandoned.
                waiting.and_then(|sender| sender.send(message).ok());
            }
            (None, None) => self.reply_error(
                &Value::Null,
                &error(-32600, "not a request, notification or response"),
            ),
        }
    }

    fn dispatch(self: &Arc<Self>, request: Request) {
        let overridden = self.script.on.get(&request.method).cloned();
        if request.method == "initialize" && self.script.era != Era::Modern {
            self.initialized.store(true, Ordering::Release);
        } else if let (None, Some(id)) = (&overridden, &request.id)
            && let Err(refusal) = self.admit(&request)
        {
            return self.reply_error(id, &refusal);
        }
        match overridden.or_else(|| self.scripted(&request)) {
            Some(actions) => self.start(request, actions),
            None => self.answer_default(&request),
        }
    }

    /// Runs actions on a thread of their own; here, when they are to stop the reader before its next read.
    fn start(self: &Arc<Self>, request: Request, actions: Vec<Action>) {
        let inline = actions
            .iter()
            .any(|action| matches!(action, Action::StopReading(true)));
        let job = Arc::new(Job::new(request, inline));
        if let Some(id) = &job.request.id {
            self.jobs
                .lock()
                .unwrap()
                .insert(id.to_string(), Arc::clone(&job));
        }
        let server = Arc::clone(self);
        let work = move || {
            run::all(&server, &job, &actions);
            if let Some(id) = &job.request.id {
                server.jobs.lock().unwrap().remove(&id.to_string());
            }
        };
        if inline {
            work();
        } else {
            thread::spawn(work);
        }
    }

    fn cancel(&self, id: &Value) {
        if let Some(path) = &self.script.cancel_log {
            place::append(path, format!("{id}\n").as_bytes());
        }
        self.listeners
            .lock()
            .unwrap()
            .retain(|listener| listener.id != *id);
        if let Some(job) = self.jobs.lock().unwrap().remove(&id.to_string()) {
            job.cancel();
        }
    }

    /// Sends a notification to modern listeners that asked for it, and plainly to a legacy client.
    fn publish(&self, method: &str, params: &Value) {
        if self.initialized.load(Ordering::Acquire) {
            self.output
                .message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        let listeners = self.listeners.lock().unwrap();
        for listener in listeners
            .iter()
            .filter(|listener| wants(&listener.filter, method, params))
        {
            let mut params = params.clone();
            params["_meta"][answers::SUBSCRIPTION_KEY] = listener.id.clone();
            self.output
                .message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }

    fn reply_error(&self, id: &Value, error: &RpcError) {
        self.output
            .message(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    /// Sends a result, given as JSON text.
    fn reply_result(&self, id: &Value, result: &str) {
        self.output
            .line(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes());
    }

    /// Ends the server as far as its place allows.
    fn end(&self, code: i32) {
        self.place.end(code);
        self.closed.store(true, Ordering::Release);
        self.output.close();
    }
}

fn wants(filter: &Value, method: &str, params: &Value) -> bool {
    match method {
        "notifications/tools/list_changed" => filter["toolsListChanged"] == true,
        "notifications/prompts/list_changed" => filter["promptsListChanged"] == true,
        "notifications/resources/list_changed" => filter["resourcesListChanged"] == true,
        "notifications/resources/updated" => filter["resourceSubscriptions"]
            .as_array()
            .is_some_and(|uris| uris.contains(&params["uri"])),
        _ => true,
    }
}

fn error(code: i64, message: &str) -> RpcError {
    RpcError {
        code,
        message: message.to_owned(),
        data: None,
    }
}
