//! A server in an embedding program, played by a task that relays messages between the bridge and a
//! scripted server.

use std::collections::HashMap;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream, Split};
use tokio::net::UnixStream;
use tokio::sync::watch;
use trunkline::config::TransportEntry;
use trunkline::server::Era;
use trunkline::transport::sdk::SdkBridge;
use trunkline::{HostBuilder, ServerEntry};
use trunkline_testkit::{Scratch, Script, scripted};

use crate::lab::{self, Lab};

pub(crate) struct Sdk {
    scratch: Scratch,
    script: Script,
    orders: watch::Sender<Order>,
    embedders: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Pass,
    Stall,
    /// Kill the server but not the embedder; another is started.
    Crash,
}

impl Lab for Sdk {
    const ERA: Era = Era::Modern;
    const SLOW: &'static str = "drip";

    fn start() -> Self {
        let scratch = Scratch::new();
        Self {
            script: lab::script(&scratch),
            scratch,
            orders: watch::Sender::new(Order::Pass),
            embedders: Arc::default(),
        }
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn builder(&self) -> HostBuilder {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(ours);
        let (bridge, _) = SdkBridge::start(reader, writer, |_, _| {});
        let here = Here::new(&self.embedders);
        let embedder = Embedder::new(theirs, self.script.clone(), self.orders.subscribe());
        tokio::spawn(async move {
            let _here = here;
            embedder.run().await;
        });
        let entry = ServerEntry::new("s", TransportEntry::Sdk);
        lab::builder().server(entry).sdk(bridge)
    }

    fn crash(&self) {
        self.orders.send_replace(Order::Crash);
    }

    fn stall(&self) {
        self.orders.send_replace(Order::Stall);
    }

    fn resume(&self) {
        self.orders.send_replace(Order::Pass);
    }

    fn connections(&self) -> usize {
        self.embedders.load(Ordering::SeqCst)
    }
}

/// Counts running embedders.
struct Here(Arc<AtomicUsize>);

impl Here {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Splits bytes into lines.
type Reading<S> = Split<BufReader<tokio::io::ReadHalf<S>>>;

struct Embedder {
    from_bridge: Reading<DuplexStream>,
    to_bridge: tokio::io::WriteHalf<DuplexStream>,
    from_server: Reading<UnixStream>,
    to_server: tokio::io::WriteHalf<UnixStream>,
    script: Script,
    orders: watch::Receiver<Order>,
    /// The bridge's requests by the ID of the unanswered MCP request.
    asked: HashMap<String, Value>,
    told: usize,
}

fn lines<S: AsyncRead>(half: tokio::io::ReadHalf<S>) -> Reading<S> {
    BufReader::new(half).split(b'\n')
}

/// Runs a scripted server on threads of this process.
fn serve(script: Script) -> (Reading<UnixStream>, tokio::io::WriteHalf<UnixStream>) {
    let socket: StdUnixStream = scripted::in_process(script);
    socket.set_nonblocking(true).unwrap();
    let (reader, writer) = tokio::io::split(UnixStream::from_std(socket).unwrap());
    (lines(reader), writer)
}

impl Embedder {
    fn new(bridge: DuplexStream, script: Script, orders: watch::Receiver<Order>) -> Self {
        let (from_bridge, to_bridge) = tokio::io::split(bridge);
        let (from_server, to_server) = serve(script.clone());
        Self {
            from_bridge: lines(from_bridge),
            to_bridge,
            from_server,
            to_server,
            script,
            orders,
            asked: HashMap::new(),
            told: 0,
        }
    }

    /// Relays everything until the bridge closes.
    async fn run(mut self) {
        loop {
            let stalled = *self.orders.borrow() == Order::Stall;
            tokio::select! {
                line = self.from_bridge.next_segment() => match line {
                    Ok(Some(line)) => self.tell_server(&line).await,
                    _ => return,
                },
                line = self.from_server.next_segment(), if !stalled => match line {
                    Ok(Some(line)) => self.tell_bridge(line).await,
                    _ => self.start_again().await,
                },
                changed = self.orders.changed() => {
                    let order = *self.orders.borrow_and_update();
                    if changed.is_err() {
                        return;
                    }
                    if order == Order::Crash {
                        self.start_again().await;
                    }
                }
            }
        }
    }

    async fn tell_server(&mut self, line: &[u8]) {
        let line: Value = serde_json::from_slice(line).expect("the bridge speaks JSON");
        let message = &line["request"]["message"];
        if line["type"] != "control_request" || message.is_null() {
            return;
        }
        if let Some(id) = message.get("id") {
            self.asked
                .insert(id.to_string(), line["request_id"].clone());
        }
        let text = format!("{message}\n");
        self.to_server.write_all(text.as_bytes()).await.ok();
    }

    /// Relays the server's output: responses to their requests, everything else verbatim, even
    /// garbage.
    async fn tell_bridge(&mut self, line: Vec<u8>) {
        let line = String::from_utf8_lossy(&line).into_owned();
        let message: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
        let asked = message
            .get("id")
            .and_then(|id| self.asked.remove(&id.to_string()));
        let line = match asked {
            Some(id) if message.get("method").is_none() => {
                // As text: parsing a long response would take long.
                format!(
                    r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{id},"response":{{"mcp_response":{line}}}}}}}"#
                )
            }
            _ if message.is_object() => {
                self.told += 1;
                let request =
                    json!({"subtype": "mcp_message", "server_name": "s", "message": message});
                let id = format!("told_{}", self.told);
                json!({"type": "control_request", "request_id": id, "request": request}).to_string()
            }
            _ => line,
        };
        self.say(&line).await;
    }

    async fn say(&mut self, line: &str) {
        self.to_bridge.write_all(line.as_bytes()).await.ok();
        self.to_bridge.write_all(b"\n").await.ok();
    }

    /// Reports the server's death to waiting requests and starts another.
    async fn start_again(&mut self) {
        (self.from_server, self.to_server) = serve(self.script.clone());
        for id in std::mem::take(&mut self.asked).into_values() {
            let response =
                json!({"subtype": "error", "request_id": id, "error": "the server has crashed"});
            self.say(&json!({"type": "control_response", "response": response}).to_string())
                .await;
        }
    }
}
