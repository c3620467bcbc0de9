//! A byte-exact server inside the test's runtime. It records each request with the time on the
//! runtime's clock, for tests with paused time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// A step of a response.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    Wait(Duration),
    /// Waits until the client closes.
    Hold,
    /// Closes the connection.
    Close,
}

pub(crate) type Steps = Vec<Step>;

/// A request and its time.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) at: Instant,
    pub(crate) connection: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC method, `response`, or else the HTTP method.
    pub(crate) fn what(&self) -> &str {
        match self.body["method"].as_str() {
            Some(method) => method,
            None if self.body.get("id").is_some() => "response",
            None => &self.method,
        }
    }

    /// A response with this result.
    pub(crate) fn result(&self, result: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }

    /// A response with this error.
    pub(crate) fn error(&self, code: i64, message: &str) -> Value {
        let error = json!({"code": code, "message": message});
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error})
    }

    /// A response to a call with this text.
    pub(crate) fn text(&self, text: &str) -> Value {
        self.result(&json!({"content": [{"type": "text", "text": text}]}))
    }
}

/// The server, stopped on drop.
pub(crate) struct InlineServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

struct Shared {
    seen: Mutex<Vec<ReceivedRequest>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    closing: watch::Sender<()>,
    answer: Box<dyn Fn(&ReceivedRequest) -> Steps + Send + Sync>,
}

impl InlineServer {
    /// Starts a server that responds with `answer`.
    pub(crate) async fn start(
        answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            closing: watch::Sender::new(()),
            answer: Box::new(answer),
        });
        let own = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                let shared = Arc::clone(&own);
                let number = shared.accepted.fetch_add(1, Ordering::AcqRel);
                shared.open.fetch_add(1, Ordering::AcqRel);
                tokio::spawn(async move {
                    serve(socket, number, &shared).await;
                    shared.open.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// As [`InlineServer::start`], for the legacy era without a session; `answer` handles
    /// everything but the handshake.
    pub(crate) async fn legacy(
        answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| legacy(seen, None).unwrap_or_else(|| answer(seen))).await
    }

    /// As [`InlineServer::legacy`], with the session `s1`.
    pub(crate) async fn session(
        answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| legacy(seen, Some("s1")).unwrap_or_else(|| answer(seen))).await
    }

    /// As [`InlineServer::start`], for the modern era; `answer` handles everything but the probe.
    pub(crate) async fn modern(
        answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| match seen.what() {
            "server/discover" => reply(200, &seen.result(&discovered())),
            _ => answer(seen),
        })
        .await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<ReceivedRequest> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The requests of one kind; see [`ReceivedRequest::what`].
    pub(crate) fn of(&self, what: &str) -> Vec<ReceivedRequest> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.what() == what);
        seen
    }

    /// The number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Acquire)
    }

    /// Closes the idle connections.
    pub(crate) fn close_unused(&self) {
        self.shared.closing.send_replace(());
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Acquire)
    }
}

impl Drop for InlineServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut socket: TcpStream, connection: usize, shared: &Shared) {
    let mut buffer = Vec::new();
    let mut closing = shared.closing.subscribe();
    loop {
        let seen = tokio::select! {
            seen = read(&mut socket, &mut buffer, connection) => seen,
            _ = closing.changed() => return,
        };
        let Some(seen) = seen else {
            return;
        };
        shared.seen.lock().unwrap().push(seen.clone());
        for step in (shared.answer)(&seen) {
            match step {
                Step::Bytes(bytes) => {
                    if socket.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Wait(time) => {
                    tokio::select! {
                        () = tokio::time::sleep(time) => {}
                        () = gone(&socket) => return,
                    }
                }
                Step::Hold => return gone(&socket).await,
                Step::Close => return,
            }
        }
    }
}

/// Waits until the client closes; it sends nothing while it waits for a response.
async fn gone(socket: &TcpStream) {
    let mut byte = [0];
    while !matches!(socket.peek(&mut byte).await, Ok(0) | Err(_)) {
        tokio::task::yield_now().await;
    }
}

async fn read(
    socket: &mut TcpStream,
    buffer: &mut Vec<u8>,
    connection: usize,
) -> Option<ReceivedRequest> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer.drain(..end).collect()).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut first = lines.next()?.split(' ');
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut seen = ReceivedRequest {
        at: Instant::now(),
        connection,
        method: first.next()?.to_owned(),
        path: first.next()?.to_owned(),
        headers,
        body: Value::Null,
    };
    let length = seen.header("content-length");
    let length = length.map_or(0, |length| length.parse::<usize>().unwrap());
    while buffer.len() < length {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body: Vec<u8> = buffer.drain(..length).collect();
    seen.body = serde_json::from_slice(&body).unwrap_or_default();
    Some(seen)
}

/// The handshake of a legacy server; `None` for other requests.
fn legacy(seen: &ReceivedRequest, session: Option<&str>) -> Option<Steps> {
    Some(match seen.what() {
        "server/discover" => reply(200, &seen.error(-32601, "no such method")),
        "initialize" => {
            let mut headers = vec![("content-type", "application/json")];
            headers.extend(session.map(|session| ("mcp-session-id", session)));
            whole(200, &headers, seen.result(&initialized()).to_string())
        }
        "notifications/initialized" => status(202),
        "DELETE" => status(200),
        _ => return None,
    })
}

/// The result of `initialize`.
pub(crate) fn initialized() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "inline", "version": "1"}})
}

/// The result of `server/discover`.
pub(crate) fn discovered() -> Value {
    json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "serverInfo": {"name": "inline", "version": "1"}})
}

pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> Step {
    Step::Bytes(bytes.into())
}

/// A complete response.
pub(crate) fn whole(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Steps {
    let body = body.as_ref();
    let length = body.len().to_string();
    let mut text = head(status, headers, &[("content-length", &length)]).into_bytes();
    text.extend_from_slice(body);
    vec![Step::Bytes(text)]
}

/// A complete JSON response.
pub(crate) fn reply(status: u16, body: &Value) -> Steps {
    whole(
        status,
        &[("content-type", "application/json")],
        body.to_string(),
    )
}

/// A response without a body.
pub(crate) fn status(status: u16) -> Steps {
    whole(status, &[], "")
}

/// The start of a chunked event stream.
pub(crate) fn stream(text: &str) -> Steps {
    let head = head(
        200,
        &[("content-type", "text/event-stream")],
        &[("transfer-encoding", "chunked")],
    );
    vec![bytes(head + &chunk(text))]
}

/// A complete event stream.
pub(crate) fn streamed(text: &str) -> Steps {
    let mut steps = stream(text);
    steps.push(bytes("0\r\n\r\n"));
    steps
}

/// One chunk of a body.
pub(crate) fn chunk(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// An event with this message.
pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn head(status: u16, headers: &[(&str, &str)], more: &[(&str, &str)]) -> String {
    let mut text = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers.iter().chain(more) {
        text.extend([*name, ": ", *value, "\r\n"]);
    }
    text + "\r\n"
}
