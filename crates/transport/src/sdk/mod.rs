//! Servers inside the embedding program (TRN-1, sdk): MCP messages travel inside control messages,
//! one JSON object per line, over one pair of streams shared by all servers. No process is started.
//!
//! A program in another language starts `trunkline sdk` as its child and uses its stdin and stdout;
//! `docs/sdk.md` describes the protocol. Any pair of streams works:
//!
//! ```
//! use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! use trunkline_transport::sdk::SdkBridge;
//! use trunkline_wire::{Json, Peer, peer::DefaultHandler};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
//!     let answer = r#"{"type":"control_response","response":{
//!         "subtype":"success","request_id":"req_1_1",
//!         "response":{"mcp_response":{"jsonrpc":"2.0","id":1,"result":{"sum":5}}}}}"#;
//!     let answer = answer.replace('\n', "");
//!     theirs.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
//! });
//! let sum = peer.request("add", Json::empty_object(), Default::default()).await?;
//! assert_eq!(sum.as_str(), r#"{"sum":5}"#);
//! # Ok(()) }
//! ```
//!
//! All servers share the streams, so none may affect another. The reader never waits for a
//! consumer; a failed request fails alone; only the end of the streams ends all connections.

pub(crate) mod control;
mod inquiry;
mod output_lines;
mod router;
mod routing;
mod tasks;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use trunkline_wire::Json;
use trunkline_wire::transport::{CloseReason, Closed};

use control::OutboundId;
pub use inquiry::{Inquiries, Inquiry, Refusal};
use output_lines::OutputLines;
use router::{MAX_INBOUND, Router};
pub use transport::{SdkReceiver, SdkSender, SdkTransport};

use crate::MAX_MESSAGE_BYTES;

/// The most queued writes; further writers wait.
const MAX_QUEUED_WRITES: usize = 64;

/// Invalid lines that are reported individually; later ones are sampled.
const MAX_REPORTED: u64 = 1000;

/// Values of `code` in our error responses.
pub mod codes {
    /// The request is malformed or names something unknown.
    pub const BAD_REQUEST: &str = "bad_request";
    /// `initialize` must come first.
    pub const NOT_INITIALIZED: &str = "not_initialized";
    /// The server is not connected.
    pub const NOT_CONNECTED: &str = "not_connected";
    /// The server needs a sign-in.
    pub const NEEDS_AUTH: &str = "needs_auth";
    /// Refused by policy or for lack of approval.
    pub const REFUSED: &str = "refused";
    /// It timed out.
    pub const TIMED_OUT: &str = "timed_out";
    /// The request was cancelled.
    pub const CANCELLED: &str = "cancelled";
    /// The line is over the limit.
    pub const TOO_LARGE: &str = "too_large";
    /// Too many requests are in flight.
    pub const TOO_MANY: &str = "too_many";
    /// It failed for another reason.
    pub const FAILED: &str = "failed";
}

/// The connection to the embedding program, shared by all servers in it. Clones share it; it closes
/// when the last clone, transport and [`Inquiries`] are dropped.
#[derive(Clone)]
pub struct SdkBridge(Arc<BridgeHandle>);

/// Owns the tasks.
pub(crate) struct BridgeHandle {
    router: Arc<Router>,
    tasks: [AbortHandle; 2],
}

impl Drop for BridgeHandle {
    fn drop(&mut self) {
        self.router.close(&Closed::new(CloseReason::ByUs));
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// An error of a request to the embedding program.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestFailure {
    /// It responded with an error; untrusted text.
    #[error("{0}")]
    Refused(String),
    /// The connection is closed.
    #[error("{0}")]
    Closed(Closed),
}

impl SdkBridge {
    /// Starts the bridge on the current Tokio runtime. `report` is called with invalid lines on the
    /// reader task: it must not block.
    pub fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        report: impl Fn(&str, &[u8]) + Send + Sync + 'static,
    ) -> (Self, Inquiries) {
        Self::start_with_limit(reader, writer, report, MAX_MESSAGE_BYTES)
    }

    /// As [`SdkBridge::start`], with another limit on the length of a line.
    pub fn start_with_limit(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        report: impl Fn(&str, &[u8]) + Send + Sync + 'static,
        limit: usize,
    ) -> (Self, Inquiries) {
        let (written, to_write) = mpsc::channel(MAX_QUEUED_WRITES);
        // As many as can be in flight, so that there is always room.
        let (inquiries, message_ids) = mpsc::channel(MAX_INBOUND);
        let junk = AtomicU64::new(0);
        let report = move |what: &str, line: &[u8]| {
            let number = junk.fetch_add(1, Ordering::Relaxed) + 1;
            if number <= MAX_REPORTED || number.is_power_of_two() {
                report(what, line);
            }
        };
        let router = Arc::new(Router::new(written.clone(), inquiries, Box::new(report)));
        let reader = tokio::spawn(tasks::read(reader, limit, Arc::clone(&router), written));
        let writer = tokio::spawn(tasks::write(writer, to_write, Arc::clone(&router)));
        let tasks = [reader.abort_handle(), writer.abort_handle()];
        let bridge = Self(Arc::new(BridgeHandle { router, tasks }));
        let inquiries = Inquiries::new(message_ids, Arc::clone(&bridge.0));
        (bridge, inquiries)
    }

    /// Creates a transport to a server in the embedding program. Whether that server exists shows
    /// with the first request. A second transport to the same server closes the first.
    pub fn connect(&self, server: &str) -> SdkTransport {
        SdkTransport::new(server, Arc::clone(&self.0))
    }

    /// Sends a request to the embedding program itself: an object with a `subtype`. Dropping the
    /// future cancels the request.
    pub async fn request(&self, request: &Json) -> Result<Json, RequestFailure> {
        let router = &self.0.router;
        let (request_id, answered) = router.register_request().map_err(RequestFailure::Closed)?;
        let _cancel = CancelOnDrop { router, request_id };
        let mut lines = OutputLines::default();
        lines.request(request_id, request);
        let written = router.write(lines).await;
        written.map_err(RequestFailure::Closed)?;
        let outcome = answered.await;
        outcome.unwrap_or_else(|_| Err(RequestFailure::Closed(router.close_reason())))
    }

    /// Sends a line that is neither request nor response: an object with a `type`.
    pub async fn send_line(&self, line: &Json) -> Result<(), Closed> {
        let mut lines = OutputLines::default();
        lines.other(line);
        self.0.router.write(lines).await
    }

    /// Waits until the connection is closed and returns the reason.
    pub async fn closed(&self) -> Closed {
        let mut closed = self.0.router.closed.subscribe();
        // The router owns the sender, so waiting cannot fail.
        let _ = closed.wait_for(Option::is_some).await;
        self.0.router.close_reason()
    }

    /// Waits until everything queued so far is written.
    pub async fn flush(&self) {
        self.0.router.flush().await;
    }
}

struct CancelOnDrop<'a> {
    router: &'a Router,
    request_id: OutboundId,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.router.cancel_request(self.request_id);
    }
}
