//! A gateway with one server, on a port of loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};
use trunkline::permission::AllowAll;
use trunkline::{Builtin, Host};
use trunkline_gateway::http::{HttpOptions, HttpServer};
use trunkline_gateway::store::{NewToken, Stores};
use trunkline_gateway::{Gateway, GatewayOptions};
use trunkline_testkit::wait_until;

use crate::raw::{Connection, Reply, SOON};

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#;

/// A running endpoint.
pub(crate) struct Lab {
    pub(crate) address: SocketAddr,
    pub(crate) stores: Stores,
    pub(crate) gate: Arc<Gate>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    gateway: Gateway,
    pub(crate) runtime: Runtime,
}

/// Holds the calls of `slow` back.
pub(crate) struct Gate {
    open: Semaphore,
    pub(crate) waiting: AtomicUsize,
}

struct Waiting(Arc<Gate>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    pub(crate) fn release(&self, calls: usize) {
        self.open.add_permits(calls);
    }

    pub(crate) fn wait_for(&self, calls: usize) {
        wait_until(SOON, || self.waiting.load(Ordering::SeqCst) == calls);
    }
}

fn server(gate: &Arc<Gate>) -> Builtin {
    let any = json!({"type": "object"});
    let gate = Arc::clone(gate);
    Builtin::new("lab")
        .tool("echo", "Returns its arguments", &any, |call| async move {
            Ok(call.arguments.to_string().into())
        })
        .tool("big", "Returns n bytes", &any, |call| async move {
            let bytes: usize = call.arguments.field("n").unwrap_or_default();
            Ok("x".repeat(bytes).into())
        })
        .tool("slow", "Waits", &any, move |call| {
            let gate = Arc::clone(&gate);
            async move {
                gate.waiting.fetch_add(1, Ordering::SeqCst);
                let waiting = Waiting(Arc::clone(&gate));
                let steps: u32 = call.arguments.field("steps").unwrap_or_default();
                for step in 1..=steps {
                    call.progress(f64::from(step), None, "step").await;
                }
                gate.open.acquire().await.unwrap().forget();
                drop(waiting);
                Ok("done".into())
            }
        })
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut HttpOptions)) -> Self {
        Self::with_stores(Stores::in_memory(), change)
    }

    pub(crate) fn with_stores(stores: Stores, change: impl FnOnce(&mut HttpOptions)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let gate = Arc::new(Gate {
            open: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
        });
        let mut options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let (gateway, server) = runtime.block_on(async {
            let builder = Host::builder().builtin(server(&gate)).permit(AllowAll);
            let gateway = Gateway::start(builder, GatewayOptions::default());
            gateway.host().ready().await;
            let server = HttpServer::bind(gateway.clone(), stores.clone(), options).await;
            (gateway, server.unwrap())
        });
        let address = server.local_addr();
        let (stop, ended) = oneshot::channel::<()>();
        let serving = runtime.spawn(server.run(async {
            let _ = ended.await;
        }));
        Self {
            address,
            stores,
            gate,
            stop: Some(stop),
            served: Some(serving),
            gateway,
            runtime,
        }
    }

    /// Begins the shutdown.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end of the shutdown.
    pub(crate) fn stopped(&mut self) {
        self.stop();
        if let Some(served) = self.served.take() {
            self.runtime
                .block_on(async { tokio::time::timeout(SOON, served).await })
                .unwrap()
                .unwrap();
        }
    }

    pub(crate) fn token(&self, label: &str) -> String {
        let new = NewToken::generate(label, None, 0, None).unwrap();
        let inserted = self.stores.tokens.insert(new.record);
        self.runtime.block_on(inserted).unwrap();
        new.token
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Sends one request on a connection of its own.
    pub(crate) fn send(&self, request: impl AsRef<[u8]>) -> Reply {
        let mut connection = self.connect();
        connection.send(request);
        connection.reply()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// Proves that other clients are unharmed.
    pub(crate) fn assert_works(&self) {
        let session = self.initialize("");
        let reply = self.call(&session, "mcp__lab__echo", &json!({"a": 1}));
        assert_eq!(reply.json()["result"]["content"][0]["text"], r#"{"a":1}"#);
    }

    /// Opens a legacy session and returns its id.
    pub(crate) fn initialize(&self, headers: &str) -> String {
        let reply = self.send(post("/mcp", headers, INITIALIZE));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply
            .header("mcp-session-id")
            .expect("a session")
            .to_owned()
    }

    pub(crate) fn call(&self, session: &str, tool: &str, arguments: &Value) -> Reply {
        self.send(post(
            "/mcp",
            &in_session(session),
            &call(1, tool, arguments),
        ))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stopped();
        let gateway = self.gateway.clone();
        self.runtime
            .block_on(async move { gateway.shutdown().await });
    }
}

pub(crate) fn in_session(session: &str) -> String {
    format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n")
}

pub(crate) fn call(id: u32, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

/// Returns a POST as an ordinary client sends it. Each of `headers` ends with a line break.
pub(crate) fn post(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len(),
    )
}

/// Returns a GET for events.
pub(crate) fn get_events(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{headers}\r\n")
}

/// Returns a modern request with its headers.
pub(crate) fn modern(path: &str, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "raw", "version": "1"});
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let name = match params["name"].as_str() {
        Some(name) => format!("Mcp-Name: {name}\r\n"),
        None => String::new(),
    };
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    post(path, &headers, &body.to_string())
}
