//! However a connection closes, every call fails with the reason.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_wire::peer::RequestOptions;
use trunkline_wire::transport::{CloseReason, Closed};
use trunkline_wire::{Json, RequestError};

use crate::harness::{call, call_with, seconds, two_calls, within};
use crate::support::{Recorder, outcome_text, peer, settle};

fn exited(code: i32) -> Closed {
    let reason = CloseReason::Exited {
        code: Some(code),
        signal: None,
    };
    Closed::with_stderr(reason, vec!["out of cheese".to_owned()])
}

#[tokio::test(start_paused = true)]
async fn closing_fails_pending_calls_and_reports_which_may_have_run() {
    let (peer, mut wire) = peer(&Recorder::new());
    let answered_never = call(&peer);
    wire.request("m").await;
    wire.stall();
    let handed_over = call(&peer);
    settle().await;
    let queued = call(&peer);
    settle().await;
    peer.close().await;
    wire.transport_closed().await;
    for (call, expected) in [(answered_never, true), (handed_over, true), (queued, false)] {
        let error = call.await.unwrap().unwrap_err();
        let RequestError::Closed { cause, sent } = &error else {
            panic!("{error}")
        };
        assert_eq!(*cause.reason(), CloseReason::ByUs);
        assert_eq!(*sent, expected);
        assert_eq!(error.may_have_run(), expected);
        assert_eq!(error.to_string(), "the connection was closed");
    }
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn every_call_gets_the_reason_of_a_broken_connection() {
    let killed = Closed::new(CloseReason::Exited {
        code: None,
        signal: Some("SIGKILL".to_owned()),
    });
    let cases = [
        (exited(3), "the server's process exited with status 3"),
        (killed, "the server's process was killed by SIGKILL"),
        (
            Closed::new(CloseReason::ByPeer),
            "the server closed the connection",
        ),
        (
            Closed::new(CloseReason::Io("reset".to_owned())),
            "the connection broke: reset",
        ),
    ];
    for (cause, text) in cases {
        let (peer, mut wire) = peer(&Recorder::new());
        let (first, second) = two_calls(&peer, &mut wire).await;
        wire.end(cause.clone());
        for call in [first, second] {
            let error = call.await.unwrap().unwrap_err();
            let RequestError::Closed {
                cause: seen,
                sent: true,
            } = &error
            else {
                panic!("{error:?}")
            };
            assert_eq!(error.to_string(), text);
            assert_eq!(seen.stderr(), cause.stderr());
        }
        assert_eq!(peer.closed().await.reason(), cause.reason());
        wire.transport_closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn responses_before_the_close_count() {
    let (peer, mut wire) = peer(&Recorder::new());
    let (first, second) = two_calls(&peer, &mut wire).await;
    wire.answer(1, "1");
    wire.end(exited(0));
    assert_eq!(outcome_text(first.await.unwrap()), "1");
    assert!(second.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_failed_send_closes_the_connection_with_its_reason() {
    let (peer, mut wire) = peer(&Recorder::new());
    let (first, _second) = two_calls(&peer, &mut wire).await;
    wire.break_sending(exited(4));
    let third = call(&peer);
    for call in [first, third] {
        let text = outcome_text(call.await.unwrap());
        assert_eq!(text, "the server's process exited with status 4");
    }
    wire.transport_closed().await;
}

#[tokio::test(start_paused = true)]
async fn after_the_close_everything_fails_immediately_with_the_reason() {
    let (peer, mut wire) = peer(&Recorder::new());
    let notifier = peer.notifier();
    wire.end(exited(3));
    assert_eq!(peer.closed().await.stderr(), ["out of cheese"]);
    assert!(peer.is_closed());
    let start = Instant::now();
    for options in [RequestOptions::default(), within(seconds(60))] {
        let error = call_with(&peer, options).await.unwrap().unwrap_err();
        assert!(!error.may_have_run());
        assert_eq!(
            error.to_string(),
            "the server's process exited with status 3"
        );
    }
    for error in [
        peer.notify("n", None).await.unwrap_err(),
        notifier.notify("n", None).await.unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "the server's process exited with status 3"
        );
    }
    peer.close().await;
    peer.close().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(
        *peer.closed().await.reason(),
        *exited(3).reason(),
        "the first cause counts"
    );
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn the_connection_closes_when_the_last_peer_is_dropped() {
    let (peer, mut wire) = peer(&Recorder::new());
    let (clone, notifier) = (peer.clone(), peer.notifier());
    drop(peer);
    settle().await;
    clone.notify("n", None).await.unwrap();
    assert_eq!(wire.sent_text().await, r#"{"jsonrpc":"2.0","method":"n"}"#);
    drop(clone);
    wire.transport_closed().await;
    assert!(notifier.notify("n", None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn notifications_wait_for_a_permit_and_are_sent_in_order() {
    let (peer, mut wire) = peer(&Recorder::new());
    wire.stall();
    let sender = tokio::spawn({
        let peer = peer.clone();
        async move {
            for number in 0_u64..5000 {
                let params = Json::encode(&number).unwrap();
                peer.notify("n", Some(params)).await.unwrap();
            }
        }
    });
    settle().await;
    assert!(!sender.is_finished(), "the queue is bounded");
    wire.resume();
    for number in 0..5000 {
        assert_eq!(wire.sent().await["params"], number);
    }
    sender.await.unwrap();
}
