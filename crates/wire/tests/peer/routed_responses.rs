//! Transports on which each request travels alone: responses and failures of one request.

use bytes::Bytes;
use trunkline_wire::RequestError;
use trunkline_wire::transport::{DeliveryError, DeliveryErrorKind, Incoming};

use crate::harness::{call, call_with, idle, seconds, two_calls};
use crate::support::{Recorder, outcome_text, peer, settle};

fn reply(to: u64, frame: &str) -> Incoming {
    Incoming::Reply {
        to,
        frame: Bytes::copy_from_slice(frame.as_bytes()),
    }
}

#[tokio::test]
async fn a_response_with_an_unknown_id_completes_the_request_it_was_sent_for() {
    for id in ["\"server-error\"", "null", "-1", "{}"] {
        let (peer, mut wire) = peer(&Recorder::new());
        let (first, second) = two_calls(&peer, &mut wire).await;
        let error = r#"{"code":-32000,"message":"no"}"#;
        wire.receive(reply(
            2,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
        ));
        assert_eq!(
            outcome_text(second.await.unwrap()),
            "no (error -32000)",
            "{id}"
        );
        wire.answer(1, "1");
        assert_eq!(outcome_text(first.await.unwrap()), "1");
    }
    // The same without an id.
    let (peer, mut wire) = peer(&Recorder::new());
    let waiting = call(&peer);
    wire.request("m").await;
    wire.receive(reply(1, r#"{"error":{"code":1,"message":"no"}}"#));
    assert_eq!(outcome_text(waiting.await.unwrap()), "no (error 1)");
}

#[tokio::test]
async fn a_response_with_a_known_id_completes_that_request() {
    let recorder = Recorder::new();
    let (peer, mut wire) = peer(&recorder);
    let (first, second) = two_calls(&peer, &mut wire).await;
    wire.receive(reply(1, r#"{"id":2,"result":"two"}"#));
    assert_eq!(outcome_text(second.await.unwrap()), "\"two\"");
    // A response to a completed request does not complete another.
    wire.receive(reply(1, r#"{"id":2,"result":"late"}"#));
    settle().await;
    assert!(!first.is_finished());
    assert_eq!(recorder.take_invalid_messages().len(), 1);
    wire.receive(reply(1, r#"{"method":"n"}"#));
    wire.receive(reply(1, r#"{"id":1,"result":"one"}"#));
    assert_eq!(outcome_text(first.await.unwrap()), "\"one\"");
    assert_eq!(recorder.notifications().len(), 1);
}

#[tokio::test]
async fn a_delivery_error_fails_only_its_request() {
    let (peer, mut wire) = peer(&Recorder::new());
    let (first, second) = two_calls(&peer, &mut wire).await;
    let failure = DeliveryError::new(DeliveryErrorKind::Status(500), "status 500", true);
    let lost = Incoming::DeliveryFailed { to: 1, failure };
    wire.receive(lost.clone());
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "status 500");
    assert!(error.may_have_run());
    let RequestError::Delivery(failure) = error else {
        panic!("{error:?}")
    };
    assert_eq!(failure.status(), Some(500));
    // A repeated failure has no effect.
    wire.receive(lost);
    wire.answer(2, "2");
    assert_eq!(outcome_text(second.await.unwrap()), "2");
    assert!(!peer.is_closed());
}

#[tokio::test(start_paused = true)]
async fn activity_of_one_request_does_not_extend_another() {
    let (peer, mut wire) = peer(&Recorder::new());
    let busy = call_with(&peer, idle(seconds(10)));
    let stuck = call_with(&peer, idle(seconds(10)));
    wire.request("m").await;
    wire.request("m").await;
    for _ in 0..3 {
        tokio::time::sleep(seconds(6)).await;
        wire.receive(Incoming::Activity { to: Some(1) });
        settle().await;
    }
    assert!(matches!(
        stuck.await.unwrap().unwrap_err(),
        RequestError::Idle { .. }
    ));
    assert!(!busy.is_finished());
    wire.receive(Incoming::Activity { to: None });
    wire.answer(1, "1");
    assert_eq!(outcome_text(busy.await.unwrap()), "1");
}

#[tokio::test]
async fn a_transport_sees_whether_a_call_still_waits() {
    let (peer, mut wire) = peer(&Recorder::new());
    let (answered, dropped) = two_calls(&peer, &mut wire).await;
    let waiting = wire.calls();
    assert!(
        waiting
            .iter()
            .all(trunkline_wire::peer::CallStatus::is_waiting)
    );
    wire.answer(1, "1");
    answered.await.unwrap().unwrap();
    dropped.abort();
    settle().await;
    assert!(
        !waiting
            .iter()
            .any(trunkline_wire::peer::CallStatus::is_waiting)
    );
}
