//! Requests and notifications from the peer.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use trunkline_wire::peer::DefaultHandler;
use trunkline_wire::{Json, Peer, RpcError};

use crate::support::{Recorder, peer, scripted, settle};

/// The concurrency limit of the peer (SEC-4).
const MAX_CONCURRENT: usize = 64;

/// A handler that responds to `fast` with its params, and to `slow` with `"done"` once per permit.
/// The channel reports each `slow` that was dropped.
fn slow_and_fast() -> (
    Arc<Recorder>,
    Arc<Semaphore>,
    mpsc::UnboundedReceiver<&'static str>,
) {
    struct Witness(Option<mpsc::UnboundedSender<&'static str>>);
    impl Drop for Witness {
        fn drop(&mut self) {
            if let Some(dropped) = self.0.take() {
                dropped.send("dropped").ok();
            }
        }
    }
    let go = Arc::new(Semaphore::new(0));
    let (dropped, drops) = mpsc::unbounded_channel();
    let permits = Arc::clone(&go);
    let handler = Recorder::answering(move |method, params| match method {
        "slow" => {
            let permits = Arc::clone(&permits);
            let mut witness = Witness(Some(dropped.clone()));
            Box::pin(async move {
                permits.acquire().await.unwrap().forget();
                witness.0.take();
                Ok(Json::parse(r#""done""#).unwrap())
            })
        }
        "fast" => Box::pin(async move { Ok(params.unwrap_or_else(Json::null)) }),
        other => {
            let error = RpcError::method_not_found(other);
            Box::pin(async move { Err(error) })
        }
    });
    (handler, go, drops)
}

#[tokio::test(start_paused = true)]
async fn notifications_reach_the_handler_in_order() {
    let handler = Recorder::new();
    let (_peer, wire) = peer(&handler);
    for number in 0..1000 {
        wire.feed(format!(
            r#"[{{"method":"a","params":{number}}},{{"method":"b","params":{{"n":{number}}}}}]"#
        ));
    }
    wire.feed(r#"{"method":"c"}"#);
    settle().await;
    let told = handler.notifications();
    let mut expected: Vec<_> = (0..1000)
        .flat_map(|number| [format!("a {number}"), format!(r#"b {{"n":{number}}}"#)])
        .collect();
    expected.push("c".to_owned());
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn responses_repeat_the_id_exactly() {
    let (handler, ..) = slow_and_fast();
    let (_peer, mut wire) = peer(&handler);
    for id in ["1", "1.0", "1e0", r#""1""#, r#""\u0041""#, "-3", "\"\""] {
        wire.feed(format!(r#"{{"id":{id},"method":"fast","params":[1]}}"#));
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[1]}}"#);
        assert_eq!(wire.sent_text().await, expected);
    }
    wire.feed(r#"{"id":2,"method":"what"}"#);
    assert_eq!(wire.sent().await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn a_peer_without_a_handler_rejects_requests() {
    let (transport, mut wire) = scripted();
    let _peer = Peer::start(transport, Arc::new(DefaultHandler));
    wire.feed(r#"{"id":"a","method":"roots/list"}"#);
    let answer = wire.sent().await;
    assert_eq!(answer["id"], "a");
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(answer["error"]["message"], "method not found: roots/list");
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_does_not_delay_a_fast_one() {
    let (handler, go, _drops) = slow_and_fast();
    let (_peer, mut wire) = peer(&handler);
    wire.feed(r#"{"id":"s","method":"slow"}"#);
    wire.feed(r#"{"id":2,"method":"fast"}"#);
    assert_eq!(wire.sent().await["id"], 2);
    go.add_permits(1);
    let answer = wire.sent().await;
    assert_eq!(
        (&answer["id"], &answer["result"]),
        (&"s".into(), &"done".into())
    );
}

#[tokio::test(start_paused = true)]
async fn requests_over_the_limit_are_rejected_except_ping() {
    let (handler, go, _drops) = slow_and_fast();
    let (_peer, mut wire) = peer(&handler);
    for id in 0..MAX_CONCURRENT {
        wire.feed(format!(r#"{{"id":{id},"method":"slow"}}"#));
    }
    settle().await;
    wire.assert_nothing_sent();
    wire.feed(r#"{"id":"p","method":"ping"}"#);
    assert_eq!(
        wire.sent_text().await,
        r#"{"jsonrpc":"2.0","id":"p","result":{}}"#
    );
    wire.feed(r#"{"id":"x","method":"slow"}"#);
    let refusal = wire.sent().await;
    assert_eq!(refusal["id"], "x");
    assert_eq!(refusal["error"]["code"], RpcError::INTERNAL_ERROR);
    assert_eq!(refusal["error"]["message"], "too many requests at once");
    assert_eq!(handler.requests().len(), MAX_CONCURRENT);
    go.add_permits(1);
    assert_eq!(wire.sent().await["result"], "done");
    wire.feed(r#"{"id":"y","method":"fast"}"#);
    assert_eq!(wire.sent().await["id"], "y", "there is room again");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_aborted_and_returns_its_permit() {
    let (handler, go, mut drops) = slow_and_fast();
    let (_peer, mut wire) = peer(&handler);
    for round in 0..3 * MAX_CONCURRENT {
        wire.feed(r#"{"id":"s","method":"slow"}"#);
        settle().await;
        wire.feed(r#"{"method":"notifications/cancelled","params":{"requestId":"s"}}"#);
        settle().await;
        assert_eq!(drops.try_recv(), Ok("dropped"), "round {round}");
    }
    wire.assert_nothing_sent();
    go.add_permits(1);
    wire.feed(r#"{"id":"s","method":"slow"}"#);
    assert_eq!(wire.sent().await["result"], "done");
    assert!(handler.take_invalid_messages().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_of_an_unknown_request_reaches_the_handler() {
    let handler = Recorder::new();
    let (_peer, wire) = peer(&handler);
    for params in [r#"{"requestId":9}"#, "{}", "7"] {
        wire.feed(format!(
            r#"{{"method":"notifications/cancelled","params":{params}}}"#
        ));
    }
    settle().await;
    assert_eq!(handler.notifications().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_an_id_in_use_is_reported_and_gets_no_response() {
    let (handler, go, _drops) = slow_and_fast();
    let (_peer, mut wire) = peer(&handler);
    wire.feed(r#"{"id":5,"method":"slow"}"#);
    wire.feed(r#"{"id":5,"method":"fast"}"#);
    settle().await;
    wire.assert_nothing_sent();
    let invalid_messages = handler.take_invalid_messages();
    assert_eq!(
        invalid_messages,
        ["a request with an id that is already in use"]
    );
    go.add_permits(1);
    assert_eq!(wire.sent().await["result"], "done");
    settle().await;
    wire.assert_nothing_sent();
    wire.feed(r#"{"id":5,"method":"fast","params":1}"#);
    assert_eq!(wire.sent().await["result"], 1, "the id is free again");
}

#[tokio::test(start_paused = true)]
async fn running_requests_are_dropped_when_the_connection_closes() {
    let (handler, _go, mut drops) = slow_and_fast();
    let (peer, mut wire) = peer(&handler);
    wire.feed(r#"{"id":5,"method":"slow"}"#);
    settle().await;
    peer.close().await;
    settle().await;
    assert_eq!(drops.try_recv(), Ok("dropped"));
    wire.assert_nothing_sent();
}
