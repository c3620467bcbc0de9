//! What every test here needs: a client of a server behind HTTP, and ways to wait.

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

/// How long anything may take on a busy machine before it counts as hanging.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A dialer that sees no variables.
pub(crate) fn dialer() -> Dialer {
    Dialer::with_vars(|_| None)
}

pub(crate) fn at(url: &str) -> HttpServer {
    HttpServer::new(url.parse().unwrap())
}

/// Hears everything, and answers questions with what it was asked.
#[derive(Default)]
pub(crate) struct Ears {
    heard: Mutex<Vec<String>>,
    nonsense: Mutex<Vec<String>>,
}

impl Ears {
    /// The methods of the notifications so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// What came that was no use to anyone.
    pub(crate) fn nonsense(&self) -> Vec<String> {
        self.nonsense.lock().unwrap().clone()
    }
}

impl Handler for Ears {
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
        self.heard.lock().unwrap().push(method.to_owned());
    }

    fn invalid_message(&self, what: &str, _: &[u8]) {
        self.nonsense.lock().unwrap().push(what.to_owned());
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
    }
}

/// Connects over a transport, with these ears.
pub(crate) async fn over(
    transport: impl Transport,
    ears: &Arc<Ears>,
) -> Result<Client, ConnectError> {
    let handler: Arc<dyn Handler> = ears.clone();
    let peer = Peer::start(transport, Arc::clone(&handler));
    in_time("the handshake", client::connect(peer, handler, &options())).await
}

/// Connects by Streamable HTTP, or says why that does not work.
pub(crate) async fn try_connect(server: &HttpServer) -> Result<Client, ConnectError> {
    over(server.streamable(&dialer()).unwrap(), &Arc::default()).await
}

/// Connects by Streamable HTTP, with these ears.
pub(crate) async fn connect_with(server: &HttpServer, ears: &Arc<Ears>) -> Client {
    over(server.streamable(&dialer()).unwrap(), ears)
        .await
        .unwrap()
}

/// Connects by Streamable HTTP.
pub(crate) async fn connect(url: &str) -> Client {
    try_connect(&at(url)).await.unwrap()
}

/// Calls a tool and gives its text.
pub(crate) async fn call(client: &Client, tool: &str) -> Result<String, RequestError> {
    call_with(client, tool, json!({})).await
}

/// Calls a tool with arguments and gives its text.
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

/// Begins a call.
pub(crate) fn calling(
    client: &Client,
    tool: &'static str,
) -> tokio::task::JoinHandle<Result<String, RequestError>> {
    let client = client.clone();
    tokio::spawn(async move { call(&client, tool).await })
}

/// Why a request was not delivered.
#[track_caller]
pub(crate) fn delivery_error<T: std::fmt::Debug>(
    outcome: Result<T, RequestError>,
) -> DeliveryError {
    match outcome {
        Err(RequestError::Delivery(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

/// That a request met this status, and what it says.
#[track_caller]
pub(crate) fn status_of<T: std::fmt::Debug>(
    outcome: Result<T, RequestError>,
    status: u16,
) -> String {
    let failure = delivery_error(outcome);
    assert_eq!(failure.kind, DeliveryErrorKind::Status(status), "{failure}");
    failure.to_string()
}

/// The outcome of `work`, which must come.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    // A deadline of the test's own clock: time that a test lets pass does not count.
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

/// Waits for `condition`, letting everybody work meanwhile.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < SOON, "waited for {what}, in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Lets `time` pass at once for every timer; only on a runtime with one thread.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Lets `time` pass in sixty steps, with room for everybody to act after each of them.
pub(crate) async fn pass_slowly(time: Duration) {
    for _ in 0..60 {
        pass(time / 60).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
