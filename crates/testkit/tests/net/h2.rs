//! HTTP/2 in front of a server.

use std::{future::poll_fn, task::Poll};

use ::h2::client::SendRequest;
use ::http::{Request, StatusCode};
use bytes::Bytes;
use serde_json::json;
use tokio::net::TcpStream;
use trunkline_testkit::{
    Scratch, Script,
    net::{Answers, Http2Front, HttpServer, RawHttp, TestCa, TlsOptions},
    wait_until,
};

use crate::browser::LIMIT;

/// Runs a test with an HTTP/2 connection to a front.
fn connected<F: Future<Output = ()>>(
    front: &Http2Front,
    test: impl FnOnce(SendRequest<Bytes>) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(async {
        let socket = TcpStream::connect(front.address()).await.unwrap();
        let (client, connection) = ::h2::client::handshake(socket).await.unwrap();
        let driver = tokio::spawn(connection);
        test(client).await;
        driver.abort();
    });
}

fn post(url: &str, method: &str, params: serde_json::Value) -> (Request<()>, Bytes) {
    let mut params = params;
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let name = params["name"].as_str().unwrap_or("-").to_owned();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = Request::post(url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", name)
        .body(())
        .unwrap();
    (request, body.to_string().into())
}

async fn fetch(
    client: &SendRequest<Bytes>,
    (request, body): (Request<()>, Bytes),
) -> (StatusCode, Vec<u8>) {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut stream) = client.send_request(request, false).unwrap();
    stream.send_data(body, true).unwrap();
    let (head, mut body) = response.await.unwrap().into_parts();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    (head.status, bytes)
}

#[test]
fn many_requests_share_one_connection_in_both_forms() {
    let script = Script::default().tool("echo", json!([{"echo": true}]));
    for answers in [Answers::Json, Answers::Sse] {
        let server = HttpServer::builder(script.clone()).answers(answers).start();
        let front = Http2Front::to(server.address(), None);
        let url = front.through(&server.url());
        connected(&front, async |client| {
            for _ in 0..3 {
                let call = json!({"name": "echo", "arguments": {"big": "x".repeat(100_000)}});
                let (status, body) = fetch(&client, post(&url, "tools/call", call)).await;
                assert_eq!(status, 200);
                assert!(body.len() > 100_000);
            }
            let (status, _) = fetch(&client, post(&url, "no/such", json!({}))).await;
            assert_eq!(status, 404);
        });
        assert_eq!((front.connections(), front.requests()), (1, 4));
        assert_eq!(server.requests().len(), 4);
    }
}

#[test]
fn resetting_a_stream_cancels_the_call() {
    let scratch = Scratch::new();
    let script = Script {
        cancel_log: Some(scratch.join("cancelled")),
        ..Script::default().tool("hang", json!([{"silence": true}]))
    };
    let server = HttpServer::start(script);
    let front = Http2Front::to(server.address(), None);
    let url = front.through(&server.url());
    connected(&front, async |client| {
        let (request, body) = post(&url, "tools/call", json!({"name": "hang"}));
        let mut client = client.ready().await.unwrap();
        let (response, mut stream) = client.send_request(request, false).unwrap();
        stream.send_data(body, true).unwrap();
        assert_eq!(response.await.unwrap().status(), 200);
        stream.send_reset(::h2::Reason::CANCEL);
        // The frame is written while something is awaited.
        let waiting = scratch.path().join("cancelled");
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if waiting.exists() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
    wait_until(LIMIT, || scratch.read("cancelled") == "1\n");
}

#[test]
fn tls_offers_h2_and_a_broken_body_is_a_reset() {
    let ca = TestCa::new();
    let server = RawHttp::start(|_, reply| reply.sse().chunk("data: half").close());
    let front = Http2Front::to(server.address(), Some(&TlsOptions::new(&ca)));
    assert!(front.through(&server.url()).starts_with("https://"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut config = crate::browser::client_config(&ca, None);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let socket = TcpStream::connect(front.address()).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let socket = connector.connect(name, socket).await.unwrap();
        assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (client, connection) = ::h2::client::handshake::<_>(socket).await.unwrap();
        tokio::spawn(connection);
        let mut client: SendRequest<Bytes> = client.ready().await.unwrap();
        let request = Request::get("https://localhost/").body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        // The reset may overtake what was sent before it, even the head.
        let broken = async {
            let mut body = response.await?.into_body();
            while let Some(piece) = body.data().await {
                piece?;
            }
            Ok::<_, ::h2::Error>(())
        };
        assert!(broken.await.unwrap_err().is_reset());
    });
    front.stop();
    wait_until(LIMIT, || {
        std::net::TcpStream::connect(front.address()).is_err()
    });
}
