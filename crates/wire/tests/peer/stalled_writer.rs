//! A server that does not read delays only itself.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_wire::RequestError;

use crate::harness::{call, call_with, idle, seconds, two_calls, within};
use crate::support::{Recorder, outcome_text, peer, settle};

#[tokio::test(start_paused = true)]
async fn calls_to_a_stalled_server_end_at_their_deadlines() {
    let (peer, mut wire) = peer(&Recorder::new());
    wire.stall();
    let start = Instant::now();
    let limit = |number: u64| Duration::from_millis(1000 + 50 * (number % 20));
    let mut calls = vec![(limit(0), call_with(&peer, within(limit(0))))];
    settle().await;
    // The writer is blocked with the first message. Far more follow than the queue holds.
    for number in 1..3000 {
        let limit = limit(number);
        calls.push((limit, call_with(&peer, within(limit))));
    }
    calls.sort_by_key(|(limit, _)| *limit);
    let mut handed_over = 0;
    for (limit, call) in calls {
        let outcome = call.await.unwrap();
        let Err(RequestError::Timeout { sent, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        handed_over += usize::from(sent);
        let waited = start.elapsed();
        let slack = Duration::from_millis(10);
        assert!(waited <= limit + slack, "{limit:?}: {waited:?}");
    }
    assert_eq!(handed_over, 1, "only what the writer took may have run");
    peer.close().await;
    wire.transport_closed().await;
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_stalled_server() {
    let (peer, mut wire) = peer(&Recorder::new());
    wire.stall();
    let calls: Vec<_> = (0..3000).map(|_| call(&peer)).collect();
    settle().await;
    let start = Instant::now();
    peer.close().await;
    wire.transport_closed().await;
    for call in calls {
        let outcome = call.await.unwrap();
        assert!(
            matches!(outcome, Err(RequestError::Closed { .. })),
            "{outcome:?}"
        );
    }
    assert!(start.elapsed() < seconds(1));
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn after_a_stall_cancelled_calls_are_not_sent_and_all_permits_are_back() {
    let (peer, mut wire) = peer(&Recorder::new());
    for _ in 0..3 {
        wire.stall();
        let first = call_with(&peer, within(seconds(1)));
        settle().await;
        let calls: Vec<_> = (0..3000)
            .map(|_| call_with(&peer, within(seconds(1))))
            .collect();
        assert!(first.await.unwrap().is_err());
        for call in calls {
            assert!(call.await.unwrap().is_err());
        }
        wire.resume();
        let (id, _) = wire.request("m").await;
        wire.cancellation_of(id).await;
        settle().await;
        wire.assert_nothing_sent();
        let calls: Vec<_> = (0..3000).map(|_| call(&peer)).collect();
        for _ in &calls {
            let (id, _) = wire.request("m").await;
            wire.answer(id, id);
        }
        for call in calls {
            assert!(call.await.unwrap().is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_idle_timeout_also_ends_calls_that_wait_for_a_permit() {
    let (peer, wire) = peer(&Recorder::new());
    wire.stall();
    let calls: Vec<_> = (0..3000)
        .map(|_| call_with(&peer, idle(seconds(60))))
        .collect();
    tokio::time::sleep(seconds(61)).await;
    let waiting = calls.iter().filter(|call| !call.is_finished()).count();
    assert_eq!(
        waiting, 0,
        "calls still wait although nothing has arrived for their limit"
    );
}

#[tokio::test(start_paused = true)]
async fn messages_still_arrive_during_a_stall() {
    let handler = Recorder::new();
    let (peer, mut wire) = peer(&handler);
    let (first, _second) = two_calls(&peer, &mut wire).await;
    wire.stall();
    let _stuck = call(&peer);
    settle().await;
    wire.answer(1, "1");
    wire.feed(r#"{"method":"n"}"#);
    // Responses beyond the capacity of the queue are dropped.
    for id in 0..20_000 {
        wire.feed(format!(r#"{{"id":{id},"method":"ping"}}"#));
    }
    assert_eq!(outcome_text(first.await.unwrap()), "1");
    settle().await;
    assert_eq!(handler.notifications(), ["n"]);
    wire.resume();
    wire.request("m").await;
    settle().await;
    let mut pongs = 0;
    while let Some(answer) = wire.try_sent() {
        assert_eq!(answer["result"], serde_json::json!({}));
        pongs += 1;
    }
    assert!((1..5000).contains(&pongs), "{pongs}");
}
