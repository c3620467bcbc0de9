//! HTTP/2: one shared connection, and its loss.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::join_all;
use h2::Reason;
use h2::server::SendResponse;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use trunkline_testkit::net::{Answers, Http2Front, TestCa, TlsOptions};
use trunkline_testkit::{Era, Scratch, Script};
use trunkline_transport::http::HttpServer;
use trunkline_wire::Client;
use trunkline_wire::transport::DeliveryErrorKind;

use crate::certs::Ca;
use crate::inline::discovered;
use crate::support::{at, call, calling, delivery_error, eventually, in_time, try_connect};

/// The reaction of a server to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Steps,
    /// Waits until it is released.
    Hold,
    /// Refuses the stream unprocessed.
    Refuse,
}

/// The reaction of a server to a connection.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Sends GOAWAY and ends with the last stream.
    GoAway,
    Cut,
}

/// A modern HTTP/2 server inside the test's runtime.
struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    ca: Ca,
}

/// Chooses the reaction to a request.
type Acting = Box<dyn Fn(&str) -> Act + Send>;

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    open: AtomicUsize,
    calls: AtomicUsize,
    /// Streams that the client has reset.
    reset: AtomicUsize,
    acts: Mutex<Option<Acting>>,
    let_go: tokio::sync::Notify,
    orders: Mutex<Vec<mpsc::UnboundedSender<Order>>>,
}

impl Server {
    async fn start(act: impl Fn(&str) -> Act + Send + 'static) -> Self {
        let ca = Ca::new();
        let mut config = ca.server();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            acts: Mutex::new(Some(Box::new(act))),
            ..Shared::default()
        });
        let own = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                own.accepted.fetch_add(1, Ordering::AcqRel);
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&own));
                tokio::spawn(async move {
                    shared.open.fetch_add(1, Ordering::AcqRel);
                    if let Ok(stream) = acceptor.accept(socket).await {
                        converse(stream, &shared).await;
                    }
                    shared.open.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        Self {
            address,
            shared,
            ca,
        }
    }

    fn entry(&self) -> HttpServer {
        let mut entry = at(&format!("https://{}/mcp", self.address));
        entry.tls_files.ca = Some(self.ca.trust());
        entry
    }

    async fn connect(&self) -> Client {
        try_connect(&self.entry()).await.unwrap()
    }

    fn order(&self, order: Order) {
        for connection in &*self.shared.orders.lock().unwrap() {
            let _ = connection.send(order);
        }
    }

    fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Acquire)
    }

    fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::Acquire)
    }
}

async fn converse(
    stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    shared: &Arc<Shared>,
) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    let (sender, mut orders) = mpsc::unbounded_channel();
    shared.orders.lock().unwrap().push(sender);
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let shared = Arc::clone(shared);
                    tokio::spawn(async move { answer(request, respond, &shared).await });
                }
                _ => return,
            },
            Some(order) = orders.recv() => match order {
                Order::GoAway => connection.graceful_shutdown(),
                Order::Cut => return,
            },
        }
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: &Shared,
) {
    let mut body = request.into_body();
    let mut text = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        let _ = body.flow_control().release_capacity(piece.len());
        text.extend_from_slice(&piece);
    }
    let message: Value = serde_json::from_slice(&text).unwrap_or_default();
    let id = &message["id"];
    let result = if message["method"] == "server/discover" {
        discovered()
    } else {
        let name = message["params"]["name"].as_str().unwrap_or_default();
        let act = shared.acts.lock().unwrap().as_ref().unwrap()(name);
        let let_go = shared.let_go.notified();
        shared.calls.fetch_add(1, Ordering::AcqRel);
        match act {
            Act::Refuse => return respond.send_reset(Reason::REFUSED_STREAM),
            Act::Hold => {
                tokio::select! {
                    () = let_go => {}
                    _ = poll_fn(|context| respond.poll_reset(context)) => {
                        shared.reset.fetch_add(1, Ordering::AcqRel);
                        return;
                    }
                }
            }
            Act::Steps => {}
        }
        json!({"content": [{"type": "text", "text": name}]})
    };
    let head = http::Response::builder().header("content-type", "application/json");
    if let Ok(mut stream) = respond.send_response(head.body(()).unwrap(), false) {
        let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let _ = stream.send_data(text.into(), true);
    }
}

#[tokio::test]
async fn concurrent_calls_share_one_connection() {
    let server = Server::start(|_| Act::Hold).await;
    let client = server.connect().await;
    let calls: Vec<_> = (0..64).map(|_| calling(&client, "t")).collect();
    // Responses are sent once all requests are there.
    eventually("all calls", || server.calls() == 64).await;
    server.shared.let_go.notify_waiters();
    for answer in in_time("the answers", join_all(calls)).await {
        assert_eq!(answer.unwrap().unwrap(), "t");
    }
    assert_eq!(server.accepted(), 1);
    in_time("closing", client.peer().close()).await;
    eventually("the connection to end", || {
        server.shared.open.load(Ordering::Acquire) == 0
    })
    .await;
}

#[tokio::test]
async fn event_streams_and_the_get_stream_work_over_http2() {
    for era in [Era::Legacy, Era::Modern] {
        let script = Script::default().era(era).tool(
            "t",
            json!([{"progress": {"steps": 3}}, {"replyText": "done"}]),
        );
        let server = trunkline_testkit::net::HttpServer::builder(script)
            .answers(Answers::Sse)
            .start();
        let (ca, scratch) = (TestCa::new(), Scratch::new());
        let front = Http2Front::to(server.address(), Some(&TlsOptions::new(&ca)));
        let mut entry = at(&front.through(&server.url()));
        entry.tls_files.ca = Some(ca.write(&scratch));
        let client = try_connect(&entry).await.unwrap();
        for outcome in join_all((0..64).map(|_| call(&client, "t"))).await {
            assert_eq!(outcome.unwrap(), "done");
        }
        assert_eq!(front.connections(), 1, "{era:?}");
        in_time("closing", client.peer().close()).await;
        eventually("every stream to end", || server.open_connections() == 0).await;
    }
}

#[tokio::test]
async fn after_goaway_open_streams_finish_and_new_calls_reconnect() {
    let server = Server::start(|name| match name {
        "held" => Act::Hold,
        _ => Act::Steps,
    })
    .await;
    let client = server.connect().await;
    let held: Vec<_> = (0..5).map(|_| calling(&client, "held")).collect();
    eventually("the held calls", || server.calls() == 5).await;
    server.order(Order::GoAway);
    for n in 0..20 {
        // None fails, though the first may use the old connection.
        assert_eq!(call(&client, "t").await.unwrap(), "t", "{n}");
    }
    assert_eq!(server.accepted(), 2);
    server.shared.let_go.notify_waiters();
    for answer in in_time("the held calls", join_all(held)).await {
        assert_eq!(answer.unwrap().unwrap(), "held");
    }
}

#[tokio::test]
async fn an_unfinished_call_after_goaway_may_have_run() {
    let server = Server::start(|_| Act::Hold).await;
    let client = server.connect().await;
    let held: Vec<_> = (0..5).map(|_| calling(&client, "held")).collect();
    eventually("the held calls", || server.calls() == 5).await;
    server.order(Order::GoAway);
    server.order(Order::Cut);
    for outcome in in_time("the held calls", join_all(held)).await {
        let failure = delivery_error(outcome.unwrap());
        assert!(failure.may_have_run, "{failure}");
    }
}

#[tokio::test]
async fn a_refused_stream_has_not_run() {
    let server = Server::start(|name| match name {
        "refused" => Act::Refuse,
        _ => Act::Steps,
    })
    .await;
    let client = server.connect().await;
    let failure = delivery_error(call(&client, "refused").await);
    assert_eq!(failure.kind, DeliveryErrorKind::Broken);
    assert!(!failure.may_have_run, "{failure}");
    assert_eq!(call(&client, "t").await.unwrap(), "t");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_lost_connection_is_replaced_by_one() {
    let server = Server::start(|name| match name {
        "held" => Act::Hold,
        _ => Act::Steps,
    })
    .await;
    let client = server.connect().await;
    for round in 1..=3 {
        let before = server.calls();
        let held: Vec<_> = (0..5).map(|_| calling(&client, "held")).collect();
        eventually("the held calls", || server.calls() == before + 5).await;
        server.order(Order::Cut);
        for outcome in in_time("the held calls", join_all(held)).await {
            let failure = delivery_error(outcome.unwrap());
            assert_eq!(failure.kind, DeliveryErrorKind::Broken);
            assert!(failure.may_have_run, "{failure}");
        }
        for outcome in join_all((0..12).map(|_| call(&client, "t"))).await {
            assert_eq!(outcome.unwrap(), "t");
        }
        assert_eq!(
            server.accepted(),
            1 + round,
            "all over one connection again"
        );
    }
    assert!(!client.peer().is_closed());
}

#[tokio::test]
async fn a_dropped_call_resets_its_stream_and_keeps_the_connection() {
    let server = Server::start(|name| match name {
        "held" => Act::Hold,
        _ => Act::Steps,
    })
    .await;
    let client = server.connect().await;
    for n in 1..=20 {
        let held = calling(&client, "held");
        eventually("the call", || server.calls() == 2 * n - 1).await;
        held.abort();
        eventually("the server to notice", || {
            server.shared.reset.load(Ordering::Acquire) == n
        })
        .await;
        assert_eq!(call(&client, "t").await.unwrap(), "t");
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_dropped_link_leaves_nothing_behind() {
    let server = Server::start(|_| Act::Hold).await;
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = alive();
    for _ in 0..5 {
        let client = server.connect().await;
        let calls = server.calls();
        let held = calling(&client, "held");
        eventually("the call", || server.calls() > calls).await;
        drop(client);
        held.abort();
    }
    eventually("every connection to end", || {
        server.shared.open.load(Ordering::Acquire) == 0
    })
    .await;
    eventually("every task to end", || alive() <= before).await;
}

#[tokio::test]
async fn a_tls_server_without_http2_gets_http1() {
    let (ca, scratch) = (TestCa::new(), Scratch::new());
    let script = Script::default().tool("t", json!([{"replyText": "done"}]));
    for protocols in [&["http/1.1"][..], &[]] {
        let server = trunkline_testkit::net::HttpServer::builder(script.clone())
            .tls(TlsOptions::new(&ca).alpn(protocols))
            .start();
        let mut entry = at(&server.url());
        entry.tls_files.ca = Some(ca.write(&scratch));
        let client = try_connect(&entry).await.unwrap();
        for _ in 0..10 {
            assert_eq!(call(&client, "t").await.unwrap(), "done");
        }
        assert_eq!(server.connections(), 1);
        in_time("closing", client.peer().close()).await;
        eventually("the connection to end", || server.open_connections() == 0).await;
    }
}
