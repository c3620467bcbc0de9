//! Running servers, and ways to wait.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use trunkline_testkit::{MODERN_VERSION, Marker, Script, bin, processes_in_group};
use trunkline_transport::StdioServer;
use trunkline_transport::stdio::{
    INTERRUPT_GRACE, KILL_GRACE, STDIN_GRACE, StderrLog, TERMINATE_GRACE,
};
use trunkline_wire::peer::{Handler, RequestOptions};
use trunkline_wire::transport::{CloseReason, Closed};
use trunkline_wire::{Json, Peer, RequestError};

/// Time limit for anything on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The longest time that closing may take.
fn closing_limit() -> Duration {
    STDIN_GRACE + INTERRUPT_GRACE + TERMINATE_GRACE + KILL_GRACE + Duration::from_secs(3)
}

/// Records invalid messages.
#[derive(Default)]
pub(crate) struct Nonsense(pub(crate) Mutex<Vec<String>>);

impl Handler for Nonsense {
    fn invalid_message(&self, what: &str, _frame: &[u8]) {
        self.0.lock().unwrap().push(what.to_owned());
    }
}

/// A running server, whose processes are killed on drop.
pub(crate) struct Child {
    pub(crate) peer: Peer,
    pub(crate) pid: u32,
    pub(crate) stderr: StderrLog,
    pub(crate) nonsense: Arc<Nonsense>,
    pub(crate) leftovers: Leftovers,
}

/// All processes of one server.
pub(crate) struct Leftovers(pub(crate) Marker);

impl Drop for Leftovers {
    fn drop(&mut self) {
        self.0.kill_all();
    }
}

pub(crate) fn scripted(script: &Value) -> StdioServer {
    let script: Script = script.clone().into();
    StdioServer {
        command: bin("testkit-server").to_str().unwrap().to_owned(),
        args: vec!["--inline".to_owned(), script.to_json()],
        ..StdioServer::default()
    }
}

pub(crate) fn shell(line: &str) -> StdioServer {
    StdioServer {
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), line.to_owned()],
        ..StdioServer::default()
    }
}

/// A server with one tool `t` that does `actions`.
pub(crate) fn tool(actions: &Value) -> Value {
    json!({"tools": [{"name": "t", "inputSchema": {}, "do": actions}]})
}

impl Child {
    pub(crate) fn start(mut server: StdioServer) -> Self {
        let marker = Marker::new();
        let (variable, value) = marker.env();
        server.env.insert(variable.to_owned(), value.to_owned());
        let leftovers = Leftovers(marker);
        let transport = server.spawn().unwrap();
        let (pid, stderr) = (transport.pid(), transport.stderr());
        let nonsense = Arc::<Nonsense>::default();
        Self {
            peer: Peer::start(transport, nonsense.clone()),
            pid,
            stderr,
            nonsense,
            leftovers,
        }
    }

    pub(crate) fn scripted(script: &Value) -> Self {
        Self::start(scripted(script))
    }

    /// Calls `t`.
    pub(crate) fn call(
        &self,
        arguments: Value,
        options: RequestOptions,
    ) -> JoinHandle<Result<Json, RequestError>> {
        let peer = self.peer.clone();
        tokio::spawn(async move {
            peer.request("tools/call", call_of(&arguments), options)
                .await
        })
    }

    /// Calls `t` and returns its text.
    pub(crate) async fn call_text(&self, arguments: Value) -> Result<String, RequestError> {
        let call = self.call(arguments, RequestOptions::default());
        let result = soon(call).await.unwrap()?;
        let result = result.to_value().unwrap();
        Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
    }

    /// The reason for the end of the link.
    pub(crate) async fn closed(&self) -> Closed {
        soon(self.peer.closed()).await
    }

    /// Closes, and asserts the time limit and that no process is left.
    pub(crate) async fn close(&self) {
        let start = Instant::now();
        soon(self.peer.close()).await;
        let took = start.elapsed();
        assert!(took < closing_limit(), "closing took {took:?}");
        self.assert_gone().await;
    }

    pub(crate) async fn assert_gone(&self) {
        let left = || (processes_in_group(self.pid), self.leftovers.0.processes());
        until(|| left() == (vec![], vec![])).await;
    }
}

/// The params of a modern call of `t`.
pub(crate) fn call_of(arguments: &Value) -> Json {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"name": "t", "arguments": arguments, "_meta": meta}).into()
}

pub(crate) fn within(limit: Duration) -> RequestOptions {
    RequestOptions {
        deadline: Some(tokio::time::Instant::now() + limit),
        ..RequestOptions::default()
    }
}

/// Fails the test when `future` hangs.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it hangs")
}

/// Waits for a condition.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited in vain");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

pub(crate) fn exited(code: i32) -> CloseReason {
    CloseReason::Exited {
        code: Some(code),
        signal: None,
    }
}
