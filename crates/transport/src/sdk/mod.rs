//! Servers that live in the embedding program (TRN-1, sdk): MCP messages travel inside control messages, one JSON object a
//! line, over one pair of streams that all servers share. Nothing is ever spawned.
//!
//! A program in another language starts `trunkline sdk` as its child, and the streams are the child's stdin and stdout;
//! `docs/sdk.md` has the protocol. Anything that can be read and written does as well:
//!
//! ```
//! use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! use trunkline_transport::sdk::SdkBridge;
//! use trunkline_wire::{Json, Peer, peer::DefaultHandler};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (ours, theirs) = tokio::io::duplex(4096);
//! let (reader, writer) = tokio::io::split(ours);
//! let (bridge, _inquiries) = SdkBridge::start(reader, writer, |_, _| {});
//! let peer = Peer::start(bridge.connect("calc"), std::sync::Arc::new(DefaultHandler));
//!
//! // The embedding program:
//! tokio::spawn(async move {
//!     let mut theirs = BufReader::new(theirs);
//!     let mut line = String::new();
//!     theirs.read_line(&mut line).await.unwrap();
//!     assert!(line.contains(r#""subtype":"mcp_message","server_name":"calc","message":{"jsonrpc":"2.0","id":1,"#));
//!     let answer = r#"{"type":"control_response","response":{"subtype":"success","request_id":"req_1_1",
//!         "response":{"mcp_response":{"jsonrpc":"2.0","id":1,"result":{"sum":5}}}}}"#.replace('\n', "");
//!     theirs.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
//! });
//! let sum = peer.request("add", Json::empty_object(), Default::default()).await?;
//! assert_eq!(sum.as_str(), r#"{"sum":5}"#);
//! # Ok(()) }
//! ```
//!
//! The streams carry all servers, so what one of them does must not touch another. The reader waits for nobody; a request that
//! fails, in whatever way, fails alone; only the end of the streams ends all connections.

pub(crate) mod control;
mod inquiry;
mod lines;
mod link;
mod router;
mod routing;
mod tasks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use trunkline_wire::Json;
use trunkline_wire::transport::{CloseReason, Closed};

use control::Ours;
pub use inquiry::{Inquiries, Inquiry, Refusal};
use lines::Lines;
pub use link::{SdkReceiver, SdkSender, SdkTransport};
use router::{MAX_SERVING, Router};

use crate::MAX_MESSAGE_BYTES;

/// How many writes may wait; whoever comes next waits for room.
const MAX_WRITES: usize = 64;

/// Useless lines that are reported one by one; later ones are sampled.
const REPORTED: u64 = 1000;

/// The words in the `code` of an error that we answer with.
pub mod codes {
    /// The request cannot be understood, or asks for what is not there.
    pub const BAD_REQUEST: &str = "bad_request";
    /// `initialize` must come first.
    pub const NOT_INITIALIZED: &str = "not_initialized";
    /// The server is not connected.
    pub const NOT_CONNECTED: &str = "not_connected";
    /// The server needs a sign-in.
    pub const NEEDS_AUTH: &str = "needs_auth";
    /// Policy, or a missing approval, is in the way.
    pub const REFUSED: &str = "refused";
    /// It took too long.
    pub const TIMED_OUT: &str = "timed_out";
    /// The request was cancelled.
    pub const CANCELLED: &str = "cancelled";
    /// The line is longer than the limit.
    pub const TOO_LARGE: &str = "too_large";
    /// Too many requests are under way.
    pub const TOO_MANY: &str = "too_many";
    /// It went wrong in another way.
    pub const FAILED: &str = "failed";
}

/// The streams to the embedding program, shared by all servers in it. Clones share them; when the last clone, connection and
/// [`Inquiries`] are dropped, they are let go.
#[derive(Clone)]
pub struct SdkBridge(Arc<Handle>);

/// Keeps the tasks running.
pub(crate) struct Handle {
    router: Arc<Router>,
    tasks: [AbortHandle; 2],
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.router.close(&Closed::new(CloseReason::ByUs));
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Why a request to the embedding program has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestFailure {
    /// It answered with an error; untrusted text.
    #[error("{0}")]
    Refused(String),
    /// It is gone.
    #[error("{0}")]
    Closed(Closed),
}

impl SdkBridge {
    /// Starts on the current Tokio runtime. `report` hears of lines that are of no use to anyone, on the reader's task: it must not
    /// wait.
    pub fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        report: impl Fn(&str, &[u8]) + Send + Sync + 'static,
    ) -> (Self, Inquiries) {
        Self::start_with_limit(reader, writer, report, MAX_MESSAGE_BYTES)
    }

    /// As [`SdkBridge::start`], with a limit of its own on the length of a line.
    pub fn start_with_limit(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        report: impl Fn(&str, &[u8]) + Send + Sync + 'static,
        limit: usize,
    ) -> (Self, Inquiries) {
        let (written, to_write) = mpsc::channel(MAX_WRITES);
        // As many as can be under way at all, so that there is always room.
        let (inquiries, asked) = mpsc::channel(MAX_SERVING);
        let junk = AtomicU64::new(0);
        let report = move |what: &str, line: &[u8]| {
            let number = junk.fetch_add(1, Ordering::Relaxed) + 1;
            if number <= REPORTED || number.is_power_of_two() {
                report(what, line);
            }
        };
        let router = Arc::new(Router::new(written.clone(), inquiries, Box::new(report)));
        let reader = tokio::spawn(tasks::read(reader, limit, Arc::clone(&router), written));
        let writer = tokio::spawn(tasks::write(writer, to_write, Arc::clone(&router)));
        let tasks = [reader.abort_handle(), writer.abort_handle()];
        let bridge = Self(Arc::new(Handle { router, tasks }));
        let inquiries = Inquiries::new(asked, Arc::clone(&bridge.0));
        (bridge, inquiries)
    }

    /// A connection to a server in the embedding program. Whether it has such a server is for it to say when it is first asked
    /// something. There is one connection to each: a second ends the first.
    pub fn connect(&self, server: &str) -> SdkTransport {
        SdkTransport::new(server, Arc::clone(&self.0))
    }

    /// Asks the embedding program itself something: an object with a `subtype`. Dropping the future withdraws the request.
    pub async fn request(&self, request: &Json) -> Result<Json, RequestFailure> {
        let router = &self.0.router;
        let (ours, answered) = router.ask().map_err(RequestFailure::Closed)?;
        let _withdraw = WithdrawOnDrop { router, ours };
        let mut lines = Lines::default();
        lines.request(ours, request);
        let written = router.write(lines).await;
        written.map_err(RequestFailure::Closed)?;
        let outcome = answered.await;
        outcome.unwrap_or_else(|_| Err(RequestFailure::Closed(router.why_closed())))
    }

    /// Says something that is neither request nor answer: an object with a `type`. Waits for room.
    pub async fn say(&self, line: &Json) -> Result<(), Closed> {
        let mut lines = Lines::default();
        lines.other(line);
        self.0.router.write(lines).await
    }

    /// Waits until the embedding program is gone, and says how it went.
    pub async fn closed(&self) -> Closed {
        let mut closed = self.0.router.closed.subscribe();
        // The sender lives in the router, so waiting cannot fail.
        let _ = closed.wait_for(Option::is_some).await;
        self.0.router.why_closed()
    }

    /// Waits until everything said so far has been written, however long the embedding program takes to read it.
    pub async fn flush(&self) {
        self.0.router.flush().await;
    }
}

struct WithdrawOnDrop<'a> {
    router: &'a Router,
    ours: Ours,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.router.withdraw(self.ours);
    }
}
