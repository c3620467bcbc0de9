//! A panicking handler leaves nobody waiting, neither the peer nor a caller.

use std::sync::Arc;

use trunkline_wire::peer::{Handler, ResponseFuture};
use trunkline_wire::transport::CloseReason;
use trunkline_wire::{ByteString, Json, Peer, RequestError, RpcError};

use crate::harness::{call, seconds, two_calls};
use crate::support::{Wire, outcome_text, scripted};

/// Panics in `boom` and on every notification; responds to everything else with its params.
struct Panicking;

impl Handler for Panicking {
    fn request(&self, method: ByteString, params: Option<Json>) -> ResponseFuture {
        Box::pin(async move {
            assert_ne!(&*method, "boom", "as the test wants it");
            Ok(params.unwrap_or_else(Json::null))
        })
    }

    /// One, so that a lost permit shows immediately.
    fn max_concurrent_requests(&self) -> usize {
        1
    }

    fn notification(&self, method: &str, _params: Option<Json>) {
        panic!("as the test wants it: {method}");
    }
}

fn panicking_peer() -> (Peer, Wire) {
    let (transport, wire) = scripted();
    (Peer::start(transport, Arc::new(Panicking)), wire)
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_request_becomes_an_error_response() {
    let (peer, mut wire) = panicking_peer();
    let (first, second) = two_calls(&peer, &mut wire).await;
    for id in ["a", "b"] {
        wire.feed(format!(r#"{{"id":"{id}","method":"boom"}}"#));
        let answer = wire.sent().await;
        assert_eq!(answer["id"], id);
        assert_eq!(answer["error"]["code"], RpcError::INTERNAL_ERROR);
        assert_eq!(answer["error"]["message"], "the request handler failed");
    }
    wire.feed(r#"{"id":"c","method":"fine","params":[1]}"#);
    assert_eq!(
        wire.sent_text().await,
        r#"{"jsonrpc":"2.0","id":"c","result":[1]}"#
    );
    wire.answer(1, "1");
    wire.answer(2, "2");
    assert_eq!(outcome_text(first.await.unwrap()), "1");
    assert_eq!(outcome_text(second.await.unwrap()), "2");
    assert!(!peer.is_closed());
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_notification_closes_the_connection() {
    let (peer, mut wire) = panicking_peer();
    let (first, second) = two_calls(&peer, &mut wire).await;
    wire.feed(r#"{"method":"n"}"#);
    for (call, was_sent) in [(first, true), (second, true), (call(&peer), false)] {
        let outcome = tokio::time::timeout(seconds(1), call).await;
        let error = outcome.expect("it hangs").unwrap().unwrap_err();
        let RequestError::Closed { cause, sent } = &error else {
            panic!("{error:?}")
        };
        let expected = CloseReason::Io("the message handler panicked".to_owned());
        assert_eq!(*cause.reason(), expected);
        assert_eq!(*sent, was_sent);
    }
    wire.transport_closed().await;
    wire.assert_nothing_sent();
}
