//! The other side is a client: its requests are the traffic.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use trunkline_wire::peer::{Handler, PeerRole, ResponseFuture};
use trunkline_wire::transport::Incoming;
use trunkline_wire::{ByteString, Json, Peer};

use crate::support::{Wire, scripted, settle};

/// Responds with as many bytes as the params say.
struct Bytes;

impl Handler for Bytes {
    fn request(&self, _: ByteString, params: Option<Json>) -> ResponseFuture {
        let bytes = params.and_then(|params| params.field("n")).unwrap_or(1);
        Box::pin(async move { Ok(Json::from(json!("x".repeat(bytes)))) })
    }

    fn peer_role(&self) -> PeerRole {
        PeerRole::Client
    }
}

fn serve() -> (Peer, Wire) {
    let (transport, wire) = scripted();
    (Peer::start(transport, Arc::new(Bytes)), wire)
}

async fn error(wire: &mut Wire, frame: &str) -> (Value, i64) {
    wire.feed(frame);
    let answer = wire.sent().await;
    (
        answer["id"].clone(),
        answer["error"]["code"].as_i64().unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_answered_have_no_rate_limit() {
    let (_peer, mut wire) = serve();
    let started = Instant::now();
    for id in 0..20_000 {
        wire.feed(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#));
        assert_eq!(wire.sent().await["id"], id);
    }
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn notifications_keep_their_rate_limit() {
    let (_peer, mut wire) = serve();
    let started = Instant::now();
    for _ in 0..14_000 {
        wire.feed(r#"{"jsonrpc":"2.0","method":"n"}"#);
    }
    wire.feed(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
    assert_eq!(wire.sent().await["id"], 1);
    assert!(
        started.elapsed() > Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_read_is_answered() {
    let (_peer, mut wire) = serve();
    let sent = &mut wire;
    assert_eq!(error(sent, "{nonsense").await, (Value::Null, -32700));
    assert_eq!(error(sent, "[]").await, (Value::Null, -32600));
    let no_method = r#"{"jsonrpc":"2.0","id":7,"method":7}"#;
    assert_eq!(error(sent, no_method).await.1, -32600);
    wire.receive(Incoming::Oversize {
        bytes: 100_000_000,
        limit: 67_108_864,
        head: br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"#
            .as_slice()
            .into(),
        tail: b"}}".as_slice().into(),
    });
    let answer = wire.sent().await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("100000000 bytes is over the limit"),
        "{message}"
    );
    // A late response is no request, and gets no answer.
    wire.feed(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    settle().await;
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut_by_bytes() {
    let (peer, wire) = serve();
    wire.stall();
    let mib = 1 << 20;
    for id in 0..300 {
        wire.feed(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"n":{mib}}}}}"#
        ));
        settle().await;
        if id == 200 {
            assert!(!peer.is_closed());
        }
    }
    let cause = peer.closed().await.to_string();
    assert!(cause.contains("does not read"), "{cause}");
}

#[tokio::test(start_paused = true)]
async fn one_response_may_be_longer_than_the_bound() {
    let (_peer, mut wire) = serve();
    let bytes = 300 << 20;
    wire.feed(format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"n":{bytes}}}}}"#
    ));
    assert!(wire.sent_text().await.len() > bytes);
}
