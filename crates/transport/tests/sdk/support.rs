//! The embedding program, played by the test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use trunkline_transport::sdk::{Inquiries, SdkBridge};
use trunkline_wire::peer::{Handler, RequestOptions, ResponseFuture};
use trunkline_wire::{ByteString, Json, Peer, RequestError};

/// Time limit for anything on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The longest line that the bridge accepts here.
pub(crate) const LIMIT: usize = 64 * 1024;

pub(crate) struct Lab {
    pub(crate) bridge: SdkBridge,
    pub(crate) inquiries: Inquiries,
    pub(crate) embedder: Embedder,
    /// Reported lines.
    pub(crate) reported: Arc<Mutex<Vec<String>>>,
}

/// The embedding program's side of the streams.
pub(crate) struct Embedder {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

pub(crate) fn lab() -> Lab {
    lab_with_pipe(1024 * 1024)
}

/// A lab with streams of that capacity.
pub(crate) fn lab_with_pipe(bytes: usize) -> Lab {
    let (ours, theirs) = tokio::io::duplex(bytes);
    let (reader, writer) = tokio::io::split(ours);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&reported);
    let report = move |what: &str, _: &[u8]| report.lock().unwrap().push(what.to_owned());
    let (bridge, inquiries) = SdkBridge::start_with_limit(reader, writer, report, LIMIT);
    let (reader, writer) = tokio::io::split(theirs);
    Lab {
        bridge,
        inquiries,
        embedder: Embedder {
            reader: BufReader::new(reader),
            writer,
        },
        reported,
    }
}

impl Lab {
    pub(crate) fn peer(&self, server: &str) -> Peer {
        self.peer_with(server, Arc::new(Ears::default()))
    }

    pub(crate) fn peer_with(&self, server: &str, ears: Arc<Ears>) -> Peer {
        Peer::start(self.bridge.connect(server), ears)
    }
}

impl Embedder {
    /// Sends one line.
    pub(crate) async fn send_line(&mut self, line: impl AsRef<[u8]>) {
        let line = [line.as_ref(), b"\n"].concat();
        self.writer.write_all(&line).await.unwrap();
    }

    /// Sends a request.
    pub(crate) async fn ask(&mut self, id: &str, request: &Value) {
        let line = json!({"type": "control_request", "request_id": id, "request": request});
        self.send_line(line.to_string()).await;
    }

    /// Sends an MCP message of a server.
    pub(crate) async fn message(&mut self, id: &str, server: &str, message: &Value) {
        let request = json!({"subtype": "mcp_message", "server_name": server, "message": message});
        self.ask(id, &request).await;
    }

    /// Responds to a request.
    pub(crate) async fn answer(&mut self, id: &str, response: &Value) {
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        let line = json!({"type": "control_response", "response": response});
        self.send_line(line.to_string()).await;
    }

    /// Responds to an MCP request with a result.
    pub(crate) async fn result(&mut self, asked: &Value, result: &Value) {
        let message = &asked["request"]["message"];
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        let id = asked["request_id"].as_str().unwrap().to_owned();
        self.answer(&id, &json!({"mcp_response": answer})).await;
    }

    /// Responds to a request with an error.
    pub(crate) async fn refuse(&mut self, id: &str, error: &str) {
        let response = json!({"subtype": "error", "request_id": id, "error": error});
        let line = json!({"type": "control_response", "response": response});
        self.send_line(line.to_string()).await;
    }

    /// The next line of the bridge.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = soon(self.reader.read_line(&mut line)).await.unwrap();
        assert!(read > 0, "the bridge has closed its end");
        line
    }

    /// The same, as JSON.
    pub(crate) async fn hear(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Expects the end of the streams.
    pub(crate) async fn hears_the_end(&mut self) {
        let mut line = String::new();
        let read = soon(self.reader.read_line(&mut line)).await.unwrap();
        assert_eq!(read, 0, "{line}");
    }
}

/// Waits with a time limit.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future)
        .await
        .expect("it takes too long")
}

/// Sends a request and waits for its outcome.
pub(crate) async fn request(peer: &Peer, method: &'static str) -> Result<Json, RequestError> {
    let outcome = peer.request(method, Json::empty_object(), RequestOptions::default());
    soon(outcome).await
}

/// Sends a request from a new task.
pub(crate) fn requesting(
    peer: &Peer,
    method: &'static str,
) -> tokio::task::JoinHandle<Result<Json, RequestError>> {
    let peer = peer.clone();
    tokio::spawn(async move { request(&peer, method).await })
}

/// Records notifications, answers `echo`, and never answers `never`.
#[derive(Default)]
pub(crate) struct Ears {
    pub(crate) heard: Mutex<Vec<String>>,
    pub(crate) news: tokio::sync::Notify,
    pub(crate) dropped: Arc<tokio::sync::Notify>,
}

impl Handler for Ears {
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        match &*method {
            "echo" => Box::pin(async { Ok(params.unwrap_or_else(Json::null)) }),
            "never" => {
                let told = TellOnDrop(Arc::clone(&self.dropped));
                Box::pin(async move {
                    let _told = told;
                    std::future::pending().await
                })
            }
            other => {
                let error = trunkline_wire::RpcError::method_not_found(other);
                Box::pin(async { Err(error) })
            }
        }
    }

    fn notification(&self, method: &str, _: Option<Json>) {
        self.heard.lock().unwrap().push(method.to_owned());
        self.news.notify_one();
    }
}

struct TellOnDrop(Arc<tokio::sync::Notify>);

impl Drop for TellOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
