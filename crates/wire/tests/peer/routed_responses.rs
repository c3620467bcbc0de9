//! Where every request travels by itself: replies bound to one, and failures of one.

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
async fn an_answer_under_a_foreign_id_is_for_the_request_that_it_came_for() {
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
    // Without an id at all, too.
    let (peer, mut wire) = peer(&Recorder::new());
    let waiting = call(&peer);
    wire.request("m").await;
    wire.receive(reply(1, r#"{"error":{"code":1,"message":"no"}}"#));
    assert_eq!(outcome_text(waiting.await.unwrap()), "no (error 1)");
}

#[tokio::test]
async fn an_answer_that_names_its_request_is_for_that_one() {
    let recorder = Recorder::new();
    let (peer, mut wire) = peer(&recorder);
    let (first, second) = two_calls(&peer, &mut wire).await;
    wire.receive(reply(1, r#"{"id":2,"result":"two"}"#));
    assert_eq!(outcome_text(second.await.unwrap()), "\"two\"");
    // One that nobody waits for is not taken for another's.
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
async fn a_request_that_cannot_be_delivered_fails_alone() {
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
    // Said twice, it harms nobody.
    wire.receive(lost);
    wire.answer(2, "2");
    assert_eq!(outcome_text(second.await.unwrap()), "2");
    assert!(!peer.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_for_one_request_does_not_keep_another_alive() {
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
async fn a_transport_can_tell_whether_an_answer_is_still_wanted() {
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
