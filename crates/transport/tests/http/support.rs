//! Helpers: clients over HTTP, and ways to wait.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_transport::Transport;
use trunkline_transport::http::HttpServer;
use trunkline_transport::net::Dialer;
use trunkline_wire::client::{self, Arguments, CallRequest, ConnectError, ConnectOptions};
use trunkline_wire::mcp::{Content, Implementation};
use trunkline_wire::peer::{Handler, ResponseFuture};
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind};
use trunkline_wire::{ByteString, Client, Json, Peer, RequestError, RpcError};

/// Time limit for anything on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A dialer without environment variables.
pub(crate) fn dialer() -> Dialer {
    Dialer::with_vars(|_| None)
}

pub(crate) fn at(url: &str) -> HttpServer {
    HttpServer::new(url.parse().unwrap())
}

/// Records notifications and accepts elicitations with the message as content.
#[derive(Default)]
pub(crate) struct RecordingHandler {
    notifications: Mutex<Vec<String>>,
    invalid_messages: Mutex<Vec<String>>,
}

impl RecordingHandler {
    /// The methods of the notifications so far.
    pub(crate) fn notifications(&self) -> Vec<String> {
        self.notifications.lock().unwrap().clone()
    }

    /// The invalid messages so far.
    pub(crate) fn invalid_messages(&self) -> Vec<String> {
        self.invalid_messages.lock().unwrap().clone()
    }
}

impl Handler for RecordingHandler {
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        let asked = params.and_then(|params| params.field::<String>("message"));
        Box::pin(async move {
            match &*method {
                "elicitation/create" => {
                    Ok(json!({"action": "accept", "content": {"asked": asked}}).into())
                }
                method => Err(RpcError::method_not_found(method)),
            }
        })
    }

    fn notification(&self, method: &str, _: Option<Json>) {
        self.notifications.lock().unwrap().push(method.to_owned());
    }

    fn invalid_message(&self, what: &str, _: &[u8]) {
        self.invalid_messages.lock().unwrap().push(what.to_owned());
    }
}

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions {
        client_info: Implementation {
            name: "lab".into(),
            title: None,
            version: "1".into(),
        },
        capabilities: json!({"elicitation": {}}).into(),
        skip_probe: false,
        legacy_only: false,
        read_check: None,
    }
}

/// Connects over a transport with this handler.
pub(crate) async fn over(
    transport: impl Transport,
    recorder: &Arc<RecordingHandler>,
) -> Result<Client, ConnectError> {
    let handler: Arc<dyn Handler> = recorder.clone();
    let peer = Peer::start(transport, Arc::clone(&handler));
    in_time("the handshake", client::connect(peer, handler, &options())).await
}

/// Connects by Streamable HTTP.
pub(crate) async fn try_connect(server: &HttpServer) -> Result<Client, ConnectError> {
    over(server.streamable(&dialer()).unwrap(), &Arc::default()).await
}

/// Connects by Streamable HTTP with this handler.
pub(crate) async fn connect_with(server: &HttpServer, recorder: &Arc<RecordingHandler>) -> Client {
    over(server.streamable(&dialer()).unwrap(), recorder)
        .await
        .unwrap()
}

/// Connects by Streamable HTTP.
pub(crate) async fn connect(url: &str) -> Client {
    try_connect(&at(url)).await.unwrap()
}

/// Calls a tool and returns its text.
pub(crate) async fn call(client: &Client, tool: &str) -> Result<String, RequestError> {
    call_with(client, tool, json!({})).await
}

/// Calls a tool with arguments and returns its text.
pub(crate) async fn call_with(
    client: &Client,
    tool: &str,
    arguments: Value,
) -> Result<String, RequestError> {
    let arguments = Arguments::from(arguments);
    let request = CallRequest {
        tool,
        arguments: Some(&arguments),
        ..CallRequest::default()
    };
    let result = in_time(tool, client.call_tool(request)).await?;
    let texts: Vec<_> = result.content.iter().filter_map(Content::text).collect();
    Ok(texts.join("\n"))
}

/// Starts a call.
pub(crate) fn calling(
    client: &Client,
    tool: &'static str,
) -> tokio::task::JoinHandle<Result<String, RequestError>> {
    let client = client.clone();
    tokio::spawn(async move { call(&client, tool).await })
}

/// Unwraps a delivery error.
#[track_caller]
pub(crate) fn delivery_error<T: std::fmt::Debug>(
    outcome: Result<T, RequestError>,
) -> DeliveryError {
    match outcome {
        Err(RequestError::Delivery(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

/// Asserts that a request got this status and returns the message.
#[track_caller]
pub(crate) fn status_of<T: std::fmt::Debug>(
    outcome: Result<T, RequestError>,
    status: u16,
) -> String {
    let failure = delivery_error(outcome);
    assert_eq!(failure.kind, DeliveryErrorKind::Status(status), "{failure}");
    failure.to_string()
}

/// Awaits `work`, which must finish.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    // A deadline in real time: paused time does not count.
    let started = std::time::Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            outcome = &mut work => return outcome,
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        assert!(started.elapsed() < SOON, "waited for {what}, in vain");
    }
}

/// Waits for `condition` while other tasks run.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < SOON, "waited for {what}, in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Advances the clock; only on a single-threaded runtime.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Advances the clock in sixty steps, with time for other tasks after each.
pub(crate) async fn pass_slowly(time: Duration) {
    for _ in 0..60 {
        pass(time / 60).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
