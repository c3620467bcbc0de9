//! The interface of every transport's lab and the server they share.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::server::{Connected, Era, State};
use trunkline::tool::tool_name;
use trunkline::{CallError, CallOptions, Host, HostBuilder, Settings};
use trunkline_testkit::{Scratch, Script};

use crate::waiting::{SOON, eventually, in_time};

/// More than the maximum message size (SEC-4).
pub(crate) const TOO_LONG: usize = 64 * 1024 * 1024 + 1;

/// The effect of garbage before a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// The garbage is skipped.
    Skipped,
    /// The garbage replaces the response.
    EndsTheCall,
}

/// A server behind one transport, with ways to harm it.
pub(crate) trait Lab: Sized {
    /// The server's name.
    const SERVER: &'static str = "s";
    /// The server's era.
    const ERA: Era;
    /// The effect of garbage.
    const GARBAGE: Garbage = Garbage::Skipped;
    /// The tool whose response is slow after [`Lab::slow`].
    const SLOW: &'static str = "echo";

    /// Whether connections can be counted on the server's side.
    const COUNTED: bool = true;

    /// The tools, sorted.
    fn tools() -> Vec<&'static str> {
        vec!["drip", "echo", "garbage", "huge", "steps", "wait"]
    }
    /// Starts the server.
    fn start() -> Self;
    /// The files of this test.
    fn scratch(&self) -> &Scratch;
    /// A host with the server.
    fn builder(&self) -> HostBuilder;
    /// Kills the server immediately.
    fn crash(&self);
    /// Makes the server reachable again.
    fn revive(&self) {}
    /// Breaks the connections; new ones can be made.
    fn cut(&self) {
        unreachable!("there is nothing between the two")
    }
    /// Slows down responses.
    fn slow(&self) {}
    /// Stops all traffic without closing anything.
    fn stall(&self);
    /// Resumes traffic.
    fn resume(&self);
    /// Discards recordings, which would look like a leak.
    fn forget(&self) {}
    /// Returns the number of connections or processes on the server's side.
    fn connections(&self) -> usize;
}

/// The script of every lab's server.
pub(crate) fn script(scratch: &Scratch) -> Script {
    let answer = json!({"jsonrpc": "2.0", "id": "ID", "result": {"resultType": "complete",
        "content": [{"type": "text", "text": "x".repeat(500)}]}});
    let answer = answer.to_string().replace("\"ID\"", "$ID");
    let mut script = Script::default()
        .tool("drip", json!([{"slowWrite": {"text": answer, "chunk": 20, "everyMs": 5}}]))
        .tool("echo", json!([{"echo": true}]))
        .tool(
            "garbage",
            json!([{"garbage": 3000}, {"write": "DEBUG: connecting"}, {"echo": true}]),
        )
        .tool("huge", json!([{"hugeText": TOO_LONG}]))
        .tool(
            "steps",
            json!([{"progress": {"steps": 5, "everyMs": 2, "total": true}}, {"replyText": "done"}]),
        )
        .tool(
            "wait",
            json!([{"countFile": scratch.join("waiting")}, {"waitForFile": scratch.join("go")}, {"echo": true}]),
        );
    script.page_size = Some(2);
    script.cancel_log = Some(scratch.join("cancelled"));
    script
}

/// A host that reconnects quickly.
pub(crate) fn builder() -> HostBuilder {
    Host::builder()
        .permit(trunkline::permission::AllowAll)
        .settings(Settings::default().reconnect_delay(Duration::from_millis(20)))
}

/// A host and the lab of its server.
pub(crate) struct Bench<L> {
    pub(crate) lab: L,
    pub(crate) host: Host,
}

impl<L: Lab> Bench<L> {
    /// Starts both and waits until they are connected.
    pub(crate) async fn start() -> Self {
        Self::with(L::start()).await
    }

    pub(crate) async fn with(lab: L) -> Self {
        let host = lab.builder().start();
        in_time("the host to be ready", host.ready()).await;
        let bench = Self { lab, host };
        bench.connected();
        bench
    }

    /// Returns the established connection.
    pub(crate) fn connected(&self) -> Arc<Connected> {
        let status = self.host.server(L::SERVER).expect("a server");
        match &status.state {
            State::Connected(connected) => Arc::clone(connected),
            state => panic!("the server is {state:?}"),
        }
    }

    /// Calls a tool and returns its text.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<String, CallError> {
        call::<L>(&self.host, tool, arguments, CallOptions::new()).await
    }

    /// Calls a tool in a separate task.
    pub(crate) fn calling(
        &self,
        tool: &'static str,
    ) -> tokio::task::JoinHandle<Result<String, CallError>> {
        let host = self.host.clone();
        let work = async move { call::<L>(&host, tool, json!({}), CallOptions::new()).await };
        tokio::spawn(work)
    }

    /// Checks that the server answers, allowing for a broken pooled connection.
    pub(crate) async fn answers_again(&self) {
        for _ in 0..20 {
            // A stalled connection is detected by its timeout.
            let options = CallOptions::new().timeout(Duration::from_secs(2));
            let outcome = call::<L>(&self.host, "echo", json!({"still": "there"}), options).await;
            if let Ok(answer) = outcome {
                assert_eq!(answer, r#"{"still":"there"}"#);
                return;
            }
        }
        panic!("the server does not answer any more");
    }

    /// Checks that the server answers at the first attempt.
    pub(crate) async fn answers(&self) {
        let outcome = self.call("echo", json!({"still": "there"})).await;
        assert_eq!(outcome.expect("an answer"), r#"{"still":"there"}"#);
    }

    /// Waits until that many calls of `wait` have reached the server.
    pub(crate) async fn waiting(&self, calls: u32) {
        let count = || self.lab.scratch().read("waiting").trim().parse();
        eventually("the calls to arrive", || count() == Ok(calls)).await;
    }

    /// Shuts down promptly and checks that nothing is left.
    pub(crate) async fn end(self) {
        let shutdown = tokio::time::timeout(Duration::from_secs(5), self.host.shutdown());
        shutdown.await.expect("a prompt shutdown");
        drop(self.host);
        // Release calls that still wait at an abandoned server.
        self.lab.scratch().write("go", "");
        eventually("all connections to be closed", || {
            self.lab.connections() == 0
        })
        .await;
    }
}

pub(crate) async fn call<L: Lab>(
    host: &Host,
    tool: &str,
    arguments: Value,
    options: CallOptions<'_>,
) -> Result<String, CallError> {
    let name = tool_name(L::SERVER, tool);
    let outcome = tokio::time::timeout(SOON, host.call(&name, arguments, options)).await;
    let outcome = outcome.unwrap_or_else(|_| panic!("{tool} neither answered nor failed"));
    outcome.map(|output| output.text())
}
