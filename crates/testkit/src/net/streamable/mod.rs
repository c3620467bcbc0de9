//! A scripted Streamable HTTP server of either era.

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

/// The form of responses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Answers {
    /// One JSON body. Progress and requests go to the GET stream of a legacy client, if there is
    /// one.
    Json,
    /// An event stream, with progress and, in the legacy era, requests.
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
    /// Sets the form of responses; by default event streams.
    pub fn answers(mut self, answers: Answers) -> Self {
        self.options.answers = answers;
        self
    }

    /// Sets whether legacy clients get a session; by default they do.
    pub fn sessions(mut self, sessions: bool) -> Self {
        self.options.sessions = sessions;
        self
    }

    /// Sets whether the 404 for an unknown session has a JSON-RPC error −32001; by default it does.
    pub fn session_error(mut self, session_error: bool) -> Self {
        self.options.session_error = session_error;
        self
    }

    /// Sets whether a legacy GET opens a stream or gets 405; by default it opens one.
    pub fn get_stream(mut self, get_stream: bool) -> Self {
        self.options.get_stream = get_stream;
        self
    }

    /// Sets whether legacy events have ids to resume from; by default they do not.
    pub fn event_ids(mut self, event_ids: bool) -> Self {
        self.options.event_ids = event_ids;
        self
    }

    /// Sets the `retry` at the start of legacy streams, in milliseconds.
    pub fn retry(mut self, milliseconds: u64) -> Self {
        self.options.retry = Some(milliseconds);
        self
    }

    /// Sets whether bodies are compressed for clients that accept it.
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

/// A Streamable HTTP server on loopback, stopped on drop. See [`RawHttp`] for requests, connections
/// and ports.
///
/// `exit` and `signal` in its script crash it like [`HttpServer::stop`]; `onStart` runs at each
/// start; tools that a script adds are visible to every session. Protocol errors of the modern era
/// have a status (400, 404); errors of a script are sent with 200.
pub struct HttpServer {
    raw: RawHttp,
    state: Arc<State>,
}

impl HttpServer {
    /// Returns a builder.
    pub fn builder(script: impl Into<Script>) -> ServerBuilder<HttpOptions> {
        ServerBuilder::new(script.into(), "/mcp")
    }

    /// Starts a server with default options.
    pub fn start(script: impl Into<Script>) -> Self {
        Self::builder(script).start()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.raw.url_of(&self.state.base.path)
    }

    /// The number of open GET and `subscriptions/listen` streams, to wait for before a `push`.
    pub fn streams(&self) -> usize {
        self.state.streams.count()
    }

    /// The number of sessions.
    pub fn sessions(&self) -> usize {
        self.state.current_run().count()
    }

    /// The number of sessions ended by DELETE.
    pub fn deleted(&self) -> usize {
        self.state.deleted.load(Ordering::Acquire)
    }

    /// Forgets every session: they get 404 from now on. Their streams stay open and silent.
    pub fn forget_sessions(&self) {
        self.state.current_run().forget();
    }

    /// Sends a notification, `{method, params}`, to every GET stream and to the subscribed listen
    /// streams.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`json!` at the call reads better without a borrow"
    )]
    pub fn push(&self, notification: Value) {
        let method = notification["method"].as_str().expect("a method");
        let params = notification.get("params").cloned().unwrap_or(json!({}));
        self.state.current_run().common.publish(method, &params);
    }

    /// Ends every event stream cleanly. Requests continue; with event ids their streams can be
    /// resumed.
    pub fn drop_streams(&self) {
        self.state.current_run().cut();
    }

    /// Changes the required token; `None` requires none.
    pub fn accept_token(&self, token: Option<Token>) {
        self.state.base.token.accept(token);
    }

    /// Crashes: closes the listener and every connection.
    pub fn stop(&self) {
        self.raw.stop();
        self.state.current_run().abandon();
    }

    /// Restarts on the same port, crashing first if it is running. All state is lost.
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
