//! A scripted server of the HTTP+SSE transport.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};

use super::{
    body::{self, BodyStyle},
    builder::{BaseOptions, ServerBuilder},
    channel::{Channel, ChannelKind},
    crash_handle::CrashHandle,
    http::Request,
    raw::RawHttp,
    reply::Reply,
    streams::Streams,
    token::Token,
};
use crate::{
    Script,
    scripted::{Common, Exchange, Out, Server, Sink},
};

/// The options of HTTP+SSE.
#[derive(Debug)]
pub struct SseOptions {
    endpoint: String,
    retry: Option<u64>,
    post_status: u16,
}

impl Default for SseOptions {
    fn default() -> Self {
        Self {
            endpoint: "/messages?sessionId={id}".into(),
            retry: None,
            post_status: 405,
        }
    }
}

impl ServerBuilder<SseOptions> {
    /// Sets the data of the `endpoint` event, by default `/messages?sessionId={id}`; `{id}` is the
    /// session.
    pub fn endpoint(mut self, endpoint: &str) -> Self {
        endpoint.clone_into(&mut self.options.endpoint);
        self
    }

    /// Sets the status of a POST to the path of the stream, by which clients detect this transport;
    /// by default 405.
    pub fn post_status(mut self, status: u16) -> Self {
        self.options.post_status = status;
        self
    }

    /// Sets the `retry` at the start of streams, in milliseconds.
    pub fn retry(mut self, milliseconds: u64) -> Self {
        self.options.retry = Some(milliseconds);
        self
    }

    /// Starts the server.
    pub fn start(self) -> SseServer {
        let crash = CrashHandle::new(self.base.process);
        let common = crash.start_script(&self.base.script);
        let state = Arc::new(State {
            base: self.base,
            options: self.options,
            crash,
            common: Mutex::new(common),
            sessions: Mutex::default(),
            numbers: AtomicU64::new(1),
            streams: Streams::default(),
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
                state.lose();
            }
        });
        SseServer { raw, state }
    }
}

struct State {
    base: BaseOptions,
    options: SseOptions,
    crash: CrashHandle,
    common: Mutex<Arc<Common>>,
    sessions: Mutex<HashMap<String, Session>>,
    numbers: AtomicU64,
    streams: Streams,
}

#[derive(Clone)]
struct Session {
    server: Arc<Server>,
    channel: Arc<Channel>,
}

impl State {
    fn handle(&self, request: &Request, reply: &mut Reply) {
        if !self.base.token.admit(request, reply) {
            return;
        }
        let (path, query) = request
            .path
            .split_once('?')
            .unwrap_or((request.path.as_str(), ""));
        match request.method.as_str() {
            "GET" if path == self.base.path => self.open(reply),
            "POST" if path == self.base.path => {
                reply.status(self.options.post_status);
            }
            "POST" => {
                let id = query.rsplit('=').next().unwrap_or_default();
                let session = self.sessions.lock().unwrap().get(id).cloned();
                let Some(session) = session else {
                    reply.respond(404, &[("content-type", "text/plain")], "no such session");
                    return;
                };
                session.server.deliver(None, &request.body);
                reply.respond(202, &[("content-type", "text/plain")], "Accepted");
            }
            _ => {
                reply.respond(404, &[("content-type", "text/plain")], "Not Found");
            }
        }
    }

    fn open(&self, reply: &mut Reply) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", std::process::id());
        let channel = Channel::new(number, ChannelKind::Lasting);
        let common = Arc::clone(&self.common.lock().unwrap());
        let server = Server::new(
            &common,
            ChannelSink(Arc::clone(&channel)),
            self.crash.environment(),
        );
        let session = Session {
            server,
            channel: Arc::clone(&channel),
        };
        self.sessions
            .lock()
            .unwrap()
            .insert(id.clone(), session.clone());
        let endpoint = self.options.endpoint.replace("{id}", &id);
        let retry = self
            .options
            .retry
            .map_or_else(String::new, |retry| format!("retry: {retry}\n"));
        let preamble = format!("{retry}event: endpoint\ndata: {endpoint}\n\n");
        let style = BodyStyle {
            gzip: false,
            event_ids: false,
        };
        let counted = self.streams.guard();
        let reader = channel.read(0, reply.client());
        body::stream(reply, reader, style, &[], &preamble, || counted.open());
        self.sessions.lock().unwrap().remove(&id);
        session.server.abandon();
    }

    /// Stops all work, as in a crash.
    fn lose(&self) {
        for (_, session) in self.sessions.lock().unwrap().drain() {
            session.server.abandon();
        }
    }
}

struct ChannelSink(Arc<Channel>);

impl Sink for ChannelSink {
    fn put(&self, _: Exchange, out: Out) {
        self.0.push(out);
    }

    fn close(&self) {
        self.0.end();
    }
}

/// An HTTP+SSE server on loopback, stopped on drop: a GET opens a stream whose first event is the
/// endpoint to POST to. A session lives as long as its stream. See [`RawHttp`] for requests,
/// connections and ports.
pub struct SseServer {
    raw: RawHttp,
    state: Arc<State>,
}

impl SseServer {
    /// Returns a builder.
    pub fn builder(script: impl Into<Script>) -> ServerBuilder<SseOptions> {
        ServerBuilder::new(script.into(), "/sse")
    }

    /// Starts a server with default options.
    pub fn start(script: impl Into<Script>) -> Self {
        Self::builder(script).start()
    }

    /// The URL of its stream.
    pub fn url(&self) -> String {
        self.raw.url_of(&self.state.base.path)
    }

    /// The number of open streams, and so of sessions.
    pub fn streams(&self) -> usize {
        self.state.streams.count()
    }

    /// Sends a notification, `{method, params}`, to every initialized session.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`json!` at the call reads better without a borrow"
    )]
    pub fn push(&self, notification: Value) {
        let method = notification["method"].as_str().expect("a method");
        let params = notification.get("params").cloned().unwrap_or(json!({}));
        let common = Arc::clone(&self.state.common.lock().unwrap());
        common.publish(method, &params);
    }

    /// Ends every stream cleanly, and with it its session.
    pub fn drop_streams(&self) {
        for session in self.state.sessions.lock().unwrap().values() {
            session.channel.end();
        }
    }

    /// Changes the required token; `None` requires none.
    pub fn accept_token(&self, token: Option<Token>) {
        self.state.base.token.accept(token);
    }

    /// Crashes: closes the listener and every connection.
    pub fn stop(&self) {
        self.raw.stop();
        self.state.lose();
    }

    /// Restarts on the same port, crashing first if it is running. All state is lost.
    pub fn restart(&self) {
        self.stop();
        let common = self.state.crash.start_script(&self.state.base.script);
        *self.state.common.lock().unwrap() = common;
        self.raw.listener().listen();
    }
}

impl std::ops::Deref for SseServer {
    type Target = RawHttp;

    fn deref(&self) -> &RawHttp {
        &self.raw
    }
}

impl Drop for SseServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for SseServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SseServer({})", self.url())
    }
}
