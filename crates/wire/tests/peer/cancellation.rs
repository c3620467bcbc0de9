//! A call that ends early is cancelled on the server.

use tokio::time::Instant;
use trunkline_wire::RequestError;
use trunkline_wire::peer::RequestOptions;

use crate::harness::{call, call_with, seconds, two_calls, within};
use crate::support::{Recorder, outcome_text, peer, settle};

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_call_and_notifies_the_server() {
    let handler = Recorder::new();
    let (peer, mut wire) = peer(&handler);
    let patient = call(&peer);
    wire.request("m").await;
    let started = Instant::now();
    let hasty = call_with(&peer, within(seconds(5)));
    let (id, _) = wire.request("m").await;
    let Err(RequestError::Timeout { after, sent: true }) = hasty.await.unwrap() else {
        panic!()
    };
    for waited in [after, started.elapsed()] {
        assert!((seconds(5)..seconds(6)).contains(&waited), "{waited:?}");
    }
    wire.cancellation_of(id).await;
    wire.answer(id, r#""too late""#);
    settle().await;
    assert_eq!(
        handler.take_invalid_messages().len(),
        1,
        "a late answer is reported"
    );
    wire.answer(1, "1");
    assert_eq!(outcome_text(patient.await.unwrap()), "1");
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn an_earlier_deadline_rearms_the_clock() {
    let (peer, mut wire) = peer(&Recorder::new());
    let mut calls = Vec::new();
    for limit in [500, 30, 400, 1, 2, 60] {
        calls.push((
            limit,
            Instant::now(),
            call_with(&peer, within(seconds(limit))),
        ));
        wire.request("m").await;
    }
    calls.sort_by_key(|(limit, ..)| *limit);
    for (limit, started, call) in calls {
        assert!(call.await.unwrap().is_err());
        let waited = started.elapsed();
        let expected = seconds(limit)..seconds(limit + 1);
        assert!(expected.contains(&waited), "{limit}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_cancels_the_call_on_the_server() {
    let (peer, mut wire) = peer(&Recorder::new());
    let (first, second) = two_calls(&peer, &mut wire).await;
    first.abort();
    wire.cancellation_of(1).await;
    wire.answer(2, "2");
    assert_eq!(outcome_text(second.await.unwrap()), "2");
    settle().await;
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn an_uncancellable_call_ends_without_a_notification() {
    let (peer, mut wire) = peer(&Recorder::new());
    let options = |deadline| RequestOptions {
        deadline,
        cancellable: false,
        ..RequestOptions::default()
    };
    let dropped = call_with(&peer, options(None));
    wire.request("m").await;
    dropped.abort();
    let late = call_with(&peer, options(Some(Instant::now() + seconds(1))));
    wire.request("m").await;
    assert!(late.await.unwrap().is_err());
    settle().await;
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn an_unsent_call_is_removed_from_the_queue() {
    let (peer, mut wire) = peer(&Recorder::new());
    wire.stall();
    let _first = call(&peer);
    settle().await;
    let (dropped, late) = (call(&peer), call_with(&peer, within(seconds(1))));
    settle().await;
    dropped.abort();
    let outcome = late.await.unwrap();
    assert!(
        matches!(outcome, Err(RequestError::Timeout { sent: false, .. })),
        "{outcome:?}"
    );
    let _last = call(&peer);
    settle().await;
    wire.resume();
    assert_eq!(wire.request("m").await.0, 1);
    assert_eq!(wire.request("m").await.0, 4);
    settle().await;
    wire.assert_nothing_sent();
}
