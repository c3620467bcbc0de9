//! What every transport's lab can do, and the server that all of them have.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline::server::{Connected, Era, State};
use trunkline::tool::tool_name;
use trunkline::{CallError, CallOptions, Host, HostBuilder, Settings};
use trunkline_testkit::{Scratch, Script};

use crate::waiting::{SOON, eventually, in_time};

/// More than one message may be (SEC-4).
pub(crate) const TOO_LONG: usize = 64 * 1024 * 1024 + 1;

/// What becomes of a call when nonsense comes before its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// The nonsense is skipped.
    Skipped,
    /// It stands where the answer should, so there is none.
    EndsTheCall,
}

/// One server behind one transport, and the means to harm them.
pub(crate) trait Lab: Sized {
    /// The server's name.
    const SERVER: &'static str = "s";
    /// What it speaks.
    const ERA: Era;
    /// What nonsense does to the call that it comes with.
    const GARBAGE: Garbage = Garbage::Skipped;
    /// The tool whose answer comes slowly once [`Lab::slow`] was called.
    const SLOW: &'static str = "echo";

    /// Whether the server's side can be counted while it stands.
    const COUNTED: bool = true;

    /// Its tools, sorted.
    fn tools() -> Vec<&'static str> {
        vec!["drip", "echo", "garbage", "huge", "steps", "wait"]
    }
    /// Starts the server.
    fn start() -> Self;
    /// The files of this test.
    fn scratch(&self) -> &Scratch;
    /// A host that has the server.
    fn builder(&self) -> HostBuilder;
    /// The server dies at once, whatever it is doing.
    fn crash(&self);
    /// It can be reached again.
    fn revive(&self) {}
    /// The connections break; new ones can be made.
    fn cut(&self) {
        unreachable!("there is nothing between the two")
    }
    /// Answers come slowly from now on.
    fn slow(&self) {}
    /// Nothing goes through any more, though nothing is closed.
    fn stall(&self);
    /// Everything goes through again.
    fn resume(&self);
    /// Forgets what was recorded, which would look like a leak.
    fn forget(&self) {}
    /// How many connections, or processes, there are on the server's side.
    fn connections(&self) -> usize;
}

/// What the server of every lab does.
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

/// A host that does not wait long before it connects again.
pub(crate) fn builder() -> HostBuilder {
    Host::builder()
        .permit(trunkline::permission::AllowAll)
        .settings(Settings {
            reconnect_after: Duration::from_millis(20),
            ..Settings::default()
        })
}

/// A host, with the lab that its server is in.
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

    /// The connection, which stands.
    pub(crate) fn connected(&self) -> Arc<Connected> {
        let status = self.host.server(L::SERVER).expect("a server");
        match &status.state {
            State::Connected(connected) => Arc::clone(connected),
            state => panic!("the server is {state:?}"),
        }
    }

    /// Calls a tool and gives its text.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<String, CallError> {
        call::<L>(&self.host, tool, arguments, CallOptions::new()).await
    }

    /// Calls a tool from a task of its own.
    pub(crate) fn calling(
        &self,
        tool: &'static str,
    ) -> tokio::task::JoinHandle<Result<String, CallError>> {
        let host = self.host.clone();
        let work = async move { call::<L>(&host, tool, json!({}), CallOptions::new()).await };
        tokio::spawn(work)
    }

    /// The server answers, if not at the first try: a connection that was kept may have been broken before.
    pub(crate) async fn answers_again(&self) {
        for _ in 0..20 {
            // One that was stalled before is found out by its time.
            let options = CallOptions::new().timeout(Duration::from_secs(2));
            let outcome = call::<L>(&self.host, "echo", json!({"still": "there"}), options).await;
            if let Ok(answer) = outcome {
                assert_eq!(answer, r#"{"still":"there"}"#);
                return;
            }
        }
        panic!("the server does not answer any more");
    }

    /// The server answers, at the first try.
    pub(crate) async fn answers(&self) {
        let outcome = self.call("echo", json!({"still": "there"})).await;
        assert_eq!(outcome.expect("an answer"), r#"{"still":"there"}"#);
    }

    /// Waits until that many calls of `wait` have reached the server.
    pub(crate) async fn waiting(&self, calls: u32) {
        let count = || self.lab.scratch().read("waiting").trim().parse();
        eventually("the calls to arrive", || count() == Ok(calls)).await;
    }

    /// Shuts down promptly, and nothing of the connection is left.
    pub(crate) async fn end(self) {
        let shutdown = tokio::time::timeout(Duration::from_secs(5), self.host.shutdown());
        shutdown.await.expect("a prompt shutdown");
        drop(self.host);
        // Whatever still waits at a server that has been forgotten ends too.
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
