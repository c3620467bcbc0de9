//! A scripted WebSocket server.

mod frames;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};
use tungstenite::{
    Message,
    handshake::server::{ErrorResponse, Request as Upgrade, Response},
    http::{HeaderValue, StatusCode},
    protocol::WebSocketConfig,
};

use self::frames::{Duplex, Frames};
use super::{
    builder::{BaseOptions, ServerBuilder},
    crash_handle::CrashHandle,
    http::{Request, RequestLog},
    listener::Listener,
    stream::Stream,
    tls::TlsOptions,
    token::Token,
};
use crate::{
    Script,
    scripted::{Common, Exchange, Out, Server, Sink},
};

const SUBPROTOCOL: &str = "sec-websocket-protocol";

/// The options of WebSocket.
#[derive(Debug, Default)]
pub struct WsOptions {
    subprotocol: Option<String>,
    binary: bool,
    fragment: Option<usize>,
    mute: bool,
}

impl ServerBuilder<WsOptions> {
    /// Sets the subprotocol of the response, whatever was offered; `None` for none. By default
    /// `mcp` if it was offered.
    pub fn subprotocol(mut self, subprotocol: Option<&str>) -> Self {
        self.options.subprotocol = Some(subprotocol.unwrap_or_default().into());
        self
    }

    /// Sends messages as binary frames.
    pub fn binary(mut self, binary: bool) -> Self {
        self.options.binary = binary;
        self
    }

    /// Sends each message in fragments of at most this many bytes.
    pub fn fragments(mut self, size: usize) -> Self {
        self.options.fragment = Some(size);
        self
    }

    /// Never answers a ping.
    pub fn mute_pings(mut self, mute: bool) -> Self {
        self.options.mute = mute;
        self
    }

    /// Starts the server.
    pub fn start(self) -> WsServer {
        let crash = CrashHandle::new(self.base.process);
        let common = crash.start_script(&self.base.script);
        let state = Arc::new(State {
            base: self.base,
            options: self.options,
            crash,
            common: Mutex::new(common),
            log: RequestLog::default(),
            peers: Mutex::default(),
            pings: AtomicUsize::new(0),
            pongs: AtomicUsize::new(0),
            closes: Mutex::default(),
        });
        let own = Arc::clone(&state);
        let listener = Listener::start(
            state.base.tls.as_ref().map(TlsOptions::config),
            state.base.port,
            move |stream, number| own.converse(&stream, number),
        );
        let (stop, own) = (listener.stopper(), Arc::downgrade(&state));
        state.crash.on_crash(move || {
            stop();
            if let Some(state) = own.upgrade() {
                state.lose();
            }
        });
        WsServer {
            scheme: if state.base.tls.is_some() {
                "wss"
            } else {
                "ws"
            },
            listener,
            state,
        }
    }
}

struct State {
    base: BaseOptions,
    options: WsOptions,
    crash: CrashHandle,
    common: Mutex<Arc<Common>>,
    log: RequestLog,
    peers: Mutex<HashMap<usize, Peer>>,
    pings: AtomicUsize,
    pongs: AtomicUsize,
    closes: Mutex<Vec<Option<u16>>>,
}

#[derive(Clone)]
struct Peer {
    server: Arc<Server>,
    frames: Frames,
    stream: Stream,
}

struct FrameSink(Mutex<Option<Frames>>);

impl Sink for FrameSink {
    fn put(&self, _: Exchange, out: Out) {
        let frames = self.0.lock().unwrap().clone();
        if let Some(frames) = frames {
            frames.put(&out);
        }
    }

    fn close(&self) {
        *self.0.lock().unwrap() = None;
    }
}

impl State {
    fn converse(&self, stream: &Stream, number: usize) {
        let frames = Frames::new(stream.clone(), self.options.binary, self.options.fragment);
        let duplex = Duplex::new(stream.clone(), frames.clone());
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        #[expect(clippy::result_large_err, reason = "the library's own type")]
        let upgrade = |request: &Upgrade, response| self.upgrade(request, response, number);
        let accepted = tungstenite::accept_hdr_with_config(duplex, upgrade, Some(config));
        let Ok(mut socket) = accepted else {
            return stream.close();
        };
        if self.options.mute {
            socket.get_mut().mute();
        }
        let common = Arc::clone(&self.common.lock().unwrap());
        let sink = FrameSink(Mutex::new(Some(frames.clone())));
        let peer = Peer {
            server: Server::new(&common, sink, self.crash.environment()),
            frames,
            stream: stream.clone(),
        };
        self.peers.lock().unwrap().insert(number, peer.clone());
        while let Ok(message) = socket.read() {
            match message {
                Message::Text(text) => drop(peer.server.deliver(None, text.as_bytes())),
                Message::Binary(bytes) => drop(peer.server.deliver(None, &bytes)),
                Message::Ping(_) => drop(self.pings.fetch_add(1, Ordering::AcqRel)),
                Message::Pong(_) => drop(self.pongs.fetch_add(1, Ordering::AcqRel)),
                Message::Close(frame) => {
                    let code = frame.map(|frame| frame.code.into());
                    self.closes.lock().unwrap().push(code);
                }
                Message::Frame(_) => {}
            }
        }
        self.peers.lock().unwrap().remove(&number);
        peer.server.abandon();
        stream.close();
    }

    #[expect(clippy::result_large_err, reason = "the library's own type")]
    fn upgrade(
        &self,
        request: &Upgrade,
        mut response: Response,
        number: usize,
    ) -> Result<Response, ErrorResponse> {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let seen = Request {
            connection: number,
            method: request.method().to_string(),
            path: request.uri().to_string(),
            headers: request
                .headers()
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            body: Vec::new(),
        };
        let offered = seen.lists(SUBPROTOCOL, "mcp");
        let good = self.base.token.is_accepted(seen.header("authorization"));
        let found = request.uri().path() == self.base.path;
        self.log.push(seen);
        if !found || !good {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = if found {
                StatusCode::UNAUTHORIZED
            } else {
                StatusCode::NOT_FOUND
            };
            if let Ok(challenge) = HeaderValue::from_str(&self.base.token.challenge) {
                refusal.headers_mut().insert("www-authenticate", challenge);
            }
            return Err(refusal);
        }
        let chosen = match &self.options.subprotocol {
            None => {
                if offered {
                    "mcp"
                } else {
                    ""
                }
            }
            Some(fixed) => fixed,
        };
        if !chosen.is_empty() {
            let chosen = HeaderValue::from_str(chosen).expect("a subprotocol");
            response.headers_mut().insert(SUBPROTOCOL, chosen);
        }
        Ok(response)
    }

    fn peers(&self) -> Vec<Peer> {
        self.peers.lock().unwrap().values().cloned().collect()
    }

    /// Stops all work, as a crash does.
    fn lose(&self) {
        for peer in self.peers() {
            peer.server.abandon();
        }
    }
}

/// A WebSocket server on loopback; each connection is a session. Stops when dropped.
pub struct WsServer {
    listener: Listener,
    state: Arc<State>,
    scheme: &'static str,
}

impl WsServer {
    /// Returns a builder.
    pub fn builder(script: impl Into<Script>) -> ServerBuilder<WsOptions> {
        ServerBuilder::new(script.into(), "/mcp")
    }

    /// Starts a server with default options.
    pub fn start(script: impl Into<Script>) -> Self {
        Self::builder(script).start()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!(
            "{}://{}{}",
            self.scheme,
            self.address(),
            self.state.base.path
        )
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// The upgrade requests so far, refused ones too; `sec-websocket-protocol` is what was offered.
    pub fn requests(&self) -> Vec<Request> {
        self.state.log.all()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.state.log.clear();
    }

    /// The number of accepted TCP connections.
    pub fn connections(&self) -> usize {
        self.listener.accepted()
    }

    /// The number of open TCP connections.
    pub fn open_connections(&self) -> usize {
        self.listener.open()
    }

    /// The number of sessions: upgraded connections.
    pub fn sessions(&self) -> usize {
        self.state.peers.lock().unwrap().len()
    }

    /// The number of pings from clients.
    pub fn pings(&self) -> usize {
        self.state.pings.load(Ordering::Acquire)
    }

    /// The number of pongs from clients.
    pub fn pongs(&self) -> usize {
        self.state.pongs.load(Ordering::Acquire)
    }

    /// The codes of the Close frames from clients so far.
    pub fn closes(&self) -> Vec<Option<u16>> {
        self.state.closes.lock().unwrap().clone()
    }

    /// Pings every client.
    pub fn ping(&self) {
        self.to_all(Frames::ping);
    }

    /// Sends every client a message as it is, in frames as told.
    pub fn send(&self, message: impl AsRef<[u8]>) {
        self.to_all(|frames| frames.message(message.as_ref()));
    }

    /// Writes bytes that need not be frames to every client.
    pub fn send_raw(&self, bytes: impl AsRef<[u8]>) {
        self.to_all(|frames| frames.raw(bytes.as_ref()));
    }

    /// Sends every client a Close frame.
    pub fn close(&self, code: u16, reason: &str) {
        self.to_all(|frames| frames.close(code, reason));
    }

    fn to_all(&self, act: impl Fn(&Frames) -> std::io::Result<()>) {
        for peer in self.state.peers() {
            // A client that has just gone needs nothing.
            act(&peer.frames).ok();
        }
    }

    /// Sends a notification, `{method, params}`, to every session that has shaken hands or listens.
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

    /// Changes the required token; `None` requires none.
    pub fn accept_token(&self, token: Option<Token>) {
        self.state.base.token.accept(token);
    }

    /// Closes every connection without a Close frame; new ones are accepted.
    pub fn drop_connections(&self) {
        self.listener.drop_connections();
    }

    /// Resets every connection; new ones are accepted.
    pub fn reset_connections(&self) {
        for peer in self.state.peers() {
            peer.stream.reset();
        }
    }

    /// Crashes: closes the listener and every connection.
    pub fn stop(&self) {
        self.listener.stop();
        self.state.lose();
    }

    /// Restarts on the same port, crashing first if it is running. All state is lost.
    pub fn restart(&self) {
        self.stop();
        let common = self.state.crash.start_script(&self.state.base.script);
        *self.state.common.lock().unwrap() = common;
        self.listener.listen();
    }
}

impl Drop for WsServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for WsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WsServer({})", self.url())
    }
}
