//! A Streamable HTTP server, of either era, that does what a script says.

mod headers;
mod serve;
mod server_run;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use self::server_run::ServerRun;
use super::{
    builder::{BaseOptions, ServerBuilder},
    crash_handle::CrashHandle,
    raw::RawHttp,
    streams::Streams,
    token::Token,
};
use crate::Script;

/// How a server answers requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Answers {
    /// With one JSON body. Progress and the server's own requests go to the GET stream of a legacy client, if there is one.
    Json,
    /// With an event stream that carries progress and, in the legacy era, the server's own requests.
    #[default]
    Sse,
}

/// The options of Streamable HTTP.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    answers: Answers,
    sessions: bool,
    session_error: bool,
    get_stream: bool,
    event_ids: bool,
    retry: Option<u64>,
    gzip: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            answers: Answers::default(),
            sessions: true,
            session_error: true,
            get_stream: true,
            event_ids: false,
            retry: None,
            gzip: false,
        }
    }
}

impl ServerBuilder<HttpOptions> {
    /// How requests are answered; with event streams unless told.
    pub fn answers(mut self, answers: Answers) -> Self {
        self.options.answers = answers;
        self
    }

    /// Whether legacy clients get a session, which they must name from then on; they do unless told.
    pub fn sessions(mut self, sessions: bool) -> Self {
        self.options.sessions = sessions;
        self
    }

    /// Whether the 404 of an unknown session carries a JSON-RPC error −32001; it does unless told.
    pub fn session_error(mut self, session_error: bool) -> Self {
        self.options.session_error = session_error;
        self
    }

    /// Whether a legacy GET gives a stream of notifications, or 405; it does unless told.
    pub fn get_stream(mut self, get_stream: bool) -> Self {
        self.options.get_stream = get_stream;
        self
    }

    /// Whether legacy events carry ids by which a stream is resumed; they do not unless told.
    pub fn event_ids(mut self, event_ids: bool) -> Self {
        self.options.event_ids = event_ids;
        self
    }

    /// The `retry` that legacy streams begin with, in milliseconds.
    pub fn retry(mut self, milliseconds: u64) -> Self {
        self.options.retry = Some(milliseconds);
        self
    }

    /// Whether bodies are compressed for clients that accept it.
    pub fn gzip(mut self, gzip: bool) -> Self {
        self.options.gzip = gzip;
        self
    }

    /// Starts the server.
    pub fn start(self) -> HttpServer {
        let crash = CrashHandle::new(self.base.process);
        let state = Arc::new(State {
            run: Mutex::new(Arc::new(ServerRun::new(&self.base.script, &crash))),
            crash,
            base: self.base,
            options: self.options,
            streams: Streams::default(),
            deleted: AtomicUsize::new(0),
        });
        let own = Arc::clone(&state);
        let (tls, port) = (state.base.tls.as_ref(), state.base.port);
        let raw = RawHttp::start_with(tls, port, move |request, reply| {
            own.handle(request, reply);
        });
        let (stop, own) = (raw.listener().stopper(), Arc::downgrade(&state));
        state.crash.on_crash(move || {
            stop();
            if let Some(state) = own.upgrade() {
                state.current_run().abandon();
            }
        });
        HttpServer { raw, state }
    }
}

struct State {
    base: BaseOptions,
    options: HttpOptions,
    crash: CrashHandle,
    run: Mutex<Arc<ServerRun>>,
    streams: Streams,
    deleted: AtomicUsize,
}

impl State {
    fn current_run(&self) -> Arc<ServerRun> {
        Arc::clone(&self.run.lock().unwrap())
    }
}

/// A Streamable HTTP server on loopback. Stops when dropped. Requests, connections and ports are as in [`RawHttp`].
///
/// `exit` and `signal` in its script crash it as [`HttpServer::stop`] does; `onStart` runs at each start; tools that
/// a script adds are seen by every session. Refusals of the modern era have their own status (400, 404) where the
/// server itself refuses; an error that a script makes is sent with 200.
pub struct HttpServer {
    raw: RawHttp,
    state: Arc<State>,
}

impl HttpServer {
    /// Begins to describe a server.
    pub fn builder(script: impl Into<Script>) -> ServerBuilder<HttpOptions> {
        ServerBuilder::new(script.into(), "/mcp")
    }

    /// Starts a server with every option as it is unless told.
    pub fn start(script: impl Into<Script>) -> Self {
        Self::builder(script).start()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.raw.url_of(&self.state.base.path)
    }

    /// How many GET and `subscriptions/listen` streams are open: to wait for before a `push`.
    pub fn streams(&self) -> usize {
        self.state.streams.count()
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.state.current_run().count()
    }

    /// How many sessions were ended by DELETE so far.
    pub fn deleted(&self) -> usize {
        self.state.deleted.load(Ordering::Acquire)
    }

    /// Loses every session: naming one is a 404 from now on. Their streams stay open and silent.
    pub fn forget_sessions(&self) {
        self.state.current_run().forget();
    }

    /// Sends a notification, `{method, params}`, to every GET stream and to the listen streams that asked for it.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`json!` at the call reads better without a borrow"
    )]
    pub fn push(&self, notification: Value) {
        let method = notification["method"].as_str().expect("a method");
        let params = notification.get("params").cloned().unwrap_or(json!({}));
        self.state.current_run().common.publish(method, &params);
    }

    /// Ends every event stream in order. Requests go on; with event ids their streams can be resumed.
    pub fn drop_streams(&self) {
        self.state.current_run().cut();
    }

    /// Changes the token it wants; none to let everybody in.
    pub fn accept_token(&self, token: Option<Token>) {
        self.state.base.token.accept(token);
    }

    /// Crashes: the listener and every connection close at once.
    pub fn stop(&self) {
        self.raw.stop();
        self.state.current_run().abandon();
    }

    /// Starts again on the same port, after a crash if it is running. Everything it knew is lost.
    pub fn restart(&self) {
        self.stop();
        let run = ServerRun::new(&self.state.base.script, &self.state.crash);
        *self.state.run.lock().unwrap() = Arc::new(run);
        self.raw.listener().listen();
    }
}

impl std::ops::Deref for HttpServer {
    type Target = RawHttp;

    fn deref(&self) -> &RawHttp {
        &self.raw
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpServer({})", self.url())
    }
}
