//! The scripted server: one reader, one thread per scripted request, one writer of whole lines.

mod answers;
mod environment;
mod grandchild;
mod lists;
mod output;
mod run;
mod running_request;
mod tasks;

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Sender,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::{
    output::{LineSink, Output},
    running_request::RunningRequest,
};
use crate::{Action, Era, OnEof, RpcError, Script, Tool};

pub use self::grandchild::run as run_grandchild;
pub(crate) use self::{
    environment::Environment,
    output::{Exchange, Out, Sink},
};

/// How long processes survive that are told to, so that none leaks forever.
pub(crate) const LINGER: Duration = Duration::from_mins(2);

/// Serves a script over any streams until the reader ends. Actions that would end the process close
/// the streams instead.
pub fn serve(
    script: Script,
    reader: impl BufRead + Send + 'static,
    writer: impl Write + Send + 'static,
) {
    Server::new(
        &Common::new(script),
        LineSink::new(writer),
        Environment::Streams,
    )
    .serve(reader);
}

/// Serves a script on threads of this process; returns the client's end.
pub fn in_process(script: Script) -> UnixStream {
    let (client, server) = UnixStream::pair().expect("a socket pair");
    let writer = server.try_clone().expect("a second handle");
    let environment = Environment::Socket(server.try_clone().expect("a third handle"));
    thread::spawn(move || {
        let session = Server::new(&Common::new(script), LineSink::new(writer), environment);
        session.serve(BufReader::new(&server));
        // Running requests end as they would with a process. Until they do, their threads hold
        // handles, but the client must see the end now.
        session.abandon();
        server.shutdown(std::net::Shutdown::Both).ok();
    });
    client
}

/// Serves a script on this process's stdin and stdout, then exits.
pub fn serve_process(script: Script) -> ! {
    let server = Server::new(
        &Common::new(script),
        LineSink::new(environment::Stdout),
        Environment::Process,
    );
    server.serve(BufReader::with_capacity(64 << 10, environment::Stdin));
    std::process::exit(0)
}

/// A request, or a notification when it has no id.
#[derive(Debug)]
struct Request {
    exchange: Exchange,
    id: Option<Value>,
    method: String,
    params: Value,
    modern: bool,
}

struct Listener {
    exchange: Exchange,
    id: Value,
    filter: Value,
}

/// State shared by the sessions of one server.
pub(crate) struct Common {
    script: Script,
    tools: Mutex<Vec<Tool>>,
    tasks: Mutex<HashMap<String, tasks::Task>>,
    sessions: Mutex<Vec<Weak<Server>>>,
}

impl Common {
    pub(crate) fn new(script: Script) -> Arc<Self> {
        Arc::new(Self {
            tools: Mutex::new(script.tools.clone()),
            script,
            tasks: Mutex::default(),
            sessions: Mutex::default(),
        })
    }

    /// The listed members of a tool besides its name.
    pub(crate) fn tool(&self, name: &str) -> Option<Value> {
        let tools = self.tools.lock().unwrap();
        let tool = tools.iter().find(|tool| tool.name == name)?;
        Some(Value::Object(tool.rest.clone()))
    }

    /// Sends a notification to the subscribers of every session.
    pub(crate) fn publish(&self, method: &str, params: &Value) {
        let sessions: Vec<_> = {
            let sessions = self.sessions.lock().unwrap();
            sessions.iter().filter_map(Weak::upgrade).collect()
        };
        for session in sessions {
            session.publish(method, params);
        }
    }
}

/// One session with a client.
pub(crate) struct Server {
    common: Arc<Common>,
    output: Output,
    environment: Environment,
    /// Set by `initialize`: legacy requests are served and plain notifications sent from then on.
    initialized: AtomicBool,
    stopped: AtomicBool,
    closed: AtomicBool,
    jobs: Mutex<Vec<Arc<RunningRequest>>>,
    listeners: Mutex<Vec<Listener>>,
    waiting: Mutex<HashMap<String, Sender<Value>>>,
    next_id: AtomicU64,
}

impl std::ops::Deref for Server {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Server {
    pub(crate) fn new(
        common: &Arc<Common>,
        sink: impl Sink + 'static,
        environment: Environment,
    ) -> Arc<Self> {
        let server = Arc::new(Self {
            common: Arc::clone(common),
            output: Output::new(sink),
            environment,
            initialized: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            jobs: Mutex::default(),
            listeners: Mutex::default(),
            waiting: Mutex::default(),
            next_id: AtomicU64::new(1),
        });
        let mut sessions = common.sessions.lock().unwrap();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(&server));
        drop(sessions);
        server
    }

    /// Runs `onStart`.
    pub(crate) fn begin(self: &Arc<Self>) {
        let start = Request {
            exchange: None,
            id: None,
            method: "onStart".into(),
            params: json!({}),
            modern: false,
        };
        run::all(
            self,
            &RunningRequest::new(start, true),
            &self.script.on_start,
        );
    }

    /// Handles a numbered message, unless the script has stopped reading. True if it got a default
    /// response immediately.
    pub(crate) fn deliver(self: &Arc<Self>, exchange: Exchange, message: &[u8]) -> bool {
        !self.stopped.load(Ordering::Acquire)
            && !self.closed.load(Ordering::Acquire)
            && self.receive(exchange, message)
    }

    /// Serves legacy requests without a handshake.
    pub(crate) fn skip_handshake(&self) {
        self.initialized.store(true, Ordering::Release);
    }

    fn serve(self: &Arc<Self>, mut reader: impl BufRead) {
        self.begin();
        let mut line = Vec::new();
        while !self.stopped.load(Ordering::Acquire) && !self.closed.load(Ordering::Acquire) {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(1..) => {
                    self.receive(None, line.trim_ascii());
                }
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

    fn receive(self: &Arc<Self>, exchange: Exchange, line: &[u8]) -> bool {
        if line.is_empty() {
            return false;
        }
        if let Some(path) = &self.script.received_log {
            environment::append(path, &[line, b"\n"].concat());
        }
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(e) => {
                let refusal = error(-32700, &format!("parse error: {e}"));
                self.refuse(exchange, &Value::Null, &refusal);
                return true;
            }
        };
        let id = message.get("id").cloned();
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), id) => {
                let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
                let modern = params["_meta"].get(answers::VERSION_KEY).is_some();
                return self.dispatch(Request {
                    exchange,
                    id,
                    method: method.to_owned(),
                    params,
                    modern,
                });
            }
            (None, Some(id)) => {
                let waiting = self.waiting.lock().unwrap().remove(&id.to_string());
                // The request may have been abandoned.
                waiting.and_then(|sender| sender.send(message).ok());
            }
            (None, None) => {
                let refusal = error(-32600, "not a request, notification or response");
                self.refuse(exchange, &Value::Null, &refusal);
            }
        }
        true
    }

    fn dispatch(self: &Arc<Self>, request: Request) -> bool {
        let overridden = self.script.on.get(&request.method).cloned();
        if request.method == "initialize" && self.script.era != Era::Modern {
            self.initialized.store(true, Ordering::Release);
        } else if let (None, Some(id)) = (&overridden, &request.id)
            && let Err(refusal) = self.admit(&request)
        {
            self.refuse(request.exchange, id, &refusal);
            return true;
        }
        if let Some(actions) = overridden.or_else(|| self.scripted(&request)) {
            self.start(request, actions);
            return false;
        }
        if request.method == "tasks/result" && !request.modern {
            self.start(request, vec![Action::Default(true)]);
            return false;
        }
        self.answer_default(&request);
        self.output.put(request.exchange, Out::Settled);
        true
    }

    fn refuse(&self, to: Exchange, id: &Value, refusal: &RpcError) {
        self.reply_error(to, id, refusal);
        self.output.put(to, Out::Settled);
    }

    /// Runs actions on a thread, or on the reader if they stop it.
    fn start(self: &Arc<Self>, request: Request, actions: Vec<Action>) {
        let inline = actions
            .iter()
            .any(|action| matches!(action, Action::StopReading(true)));
        let running = Arc::new(RunningRequest::new(request, inline));
        self.jobs.lock().unwrap().push(Arc::clone(&running));
        let server = Arc::clone(self);
        let work = move || {
            run::all(&server, &running, &actions);
            server
                .jobs
                .lock()
                .unwrap()
                .retain(|other| !Arc::ptr_eq(other, &running));
            server.output.put(running.request.exchange, Out::Settled);
        };
        if inline {
            work();
        } else {
            thread::spawn(work);
        }
    }

    /// Cancels a request by its id.
    fn cancel(&self, id: &Value) {
        self.log_cancel(id);
        self.cancel_where(|_, other| other == Some(id));
    }

    /// Logs a cancellation by the client.
    pub(crate) fn log_cancel(&self, id: &Value) {
        if let Some(path) = &self.script.cancel_log {
            environment::append(path, format!("{id}\n").as_bytes());
        }
    }

    /// Cancels the request of a delivery.
    pub(crate) fn cancel_exchange(&self, number: u64) {
        self.cancel_where(|exchange, _| exchange == Some(number));
    }

    fn cancel_where(&self, meant: impl Fn(Exchange, Option<&Value>) -> bool) {
        let mut listeners = self.listeners.lock().unwrap();
        listeners.retain(|listener| !meant(listener.exchange, Some(&listener.id)));
        drop(listeners);
        let mut jobs = self.jobs.lock().unwrap();
        jobs.retain(|running| {
            let request = &running.request;
            let hit = request.id.is_some() && meant(request.exchange, request.id.as_ref());
            if hit {
                running.cancel();
                self.output.put(request.exchange, Out::Cancelled);
            }
            !hit
        });
    }

    /// Cancels all requests of a session.
    pub(crate) fn abandon(&self) {
        self.listeners.lock().unwrap().clear();
        for running in self.jobs.lock().unwrap().drain(..) {
            running.cancel();
            self.output.put(running.request.exchange, Out::Cancelled);
        }
    }

    /// Sends a notification to subscribed modern listeners, and plainly to a legacy client.
    fn publish(&self, method: &str, params: &Value) {
        if self.initialized.load(Ordering::Acquire) {
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            self.output.message(None, &message);
        }
        let listeners = self.listeners.lock().unwrap();
        for listener in listeners
            .iter()
            .filter(|listener| wants(&listener.filter, method, params))
        {
            let mut params = params.clone();
            params["_meta"][answers::SUBSCRIPTION_KEY] = listener.id.clone();
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            self.output.message(listener.exchange, &message);
        }
    }

    fn reply_error(&self, to: Exchange, id: &Value, error: &RpcError) {
        let reply = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.output
            .put(to, Out::Reply(reply.to_string().into_bytes()));
    }

    /// Sends a result, given as JSON text.
    fn reply_result(&self, to: Exchange, id: &Value, result: &str) {
        let reply = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        self.output.put(to, Out::Reply(reply.into_bytes()));
    }

    /// Ends the server as far as its environment allows.
    fn end(&self, code: i32) {
        self.environment.end(code);
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
