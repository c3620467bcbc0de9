//! Progress updates reach their own call, and unread ones are bounded.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use trunkline_wire::peer::RequestOptions;
use trunkline_wire::{Json, Peer};

use crate::harness::two_calls;
use crate::support::{Recorder, outcome_text, peer, settle};

/// The maximum number of unread progress updates.
const MAX_UNREAD: usize = 256;

fn step(token: impl std::fmt::Display, progress: usize) -> String {
    format!(
        r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress},"total":9,"message":"at {progress}"}}}}"#
    )
}

fn reporting(peer: &Peer) -> RequestOptions {
    RequestOptions {
        progress_token: Some(peer.progress_token()),
        ..RequestOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn progress_arrives_in_order_before_the_result_of_its_call() {
    let (peer, mut wire) = peer(&Recorder::new());
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let (peer, options) = (peer.clone(), reporting(&peer));
            tokio::spawn(async move {
                let mut steps = Vec::new();
                let result = peer
                    .request_with_progress("m", Json::empty_object(), options, |step| {
                        steps.push((step.progress.to_string(), step.total, step.message));
                    })
                    .await;
                (steps, outcome_text(result))
            })
        })
        .collect();
    for _ in &calls {
        wire.request("m").await;
    }
    for number in 1..=5 {
        wire.feed(step("1", number));
        wire.feed(step("\"2\"", number * 10));
        wire.feed(step("3.0", number * 100));
        wire.feed(step("77", number));
    }
    for id in 1..=3 {
        wire.answer(id, id);
        wire.feed(step(id, 999));
    }
    for (call, factor) in calls.into_iter().zip([1, 10, 100]) {
        let (steps, result) = call.await.unwrap();
        let expected: Vec<_> = (1..=5)
            .map(|number| {
                let at = (number * factor).to_string();
                let message = Some(format!("at {at}"));
                (at, Some(9.0), message)
            })
            .collect();
        assert_eq!(steps, expected);
        assert!(result.parse::<u64>().is_ok(), "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn unread_progress_is_bounded_and_the_newest_is_kept() {
    let (peer, mut wire) = peer(&Recorder::new());
    let options = reporting(&peer);
    let mut steps = Vec::new();
    let result = {
        let on_step = |step: trunkline_wire::peer::Progress| steps.push(step.message.unwrap());
        let mut call =
            pin!(peer.request_with_progress("m", Json::empty_object(), options, on_step));
        poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        wire.request("m").await;
        for number in 0..10_000 {
            wire.feed(step(1, number));
        }
        wire.answer(1, "1");
        settle().await;
        call.await
    };
    assert_eq!(outcome_text(result), "1");
    let newest: Vec<_> = (10_000 - MAX_UNREAD..10_000)
        .map(|number| format!("at {number}"))
        .collect();
    assert_eq!(steps, newest);
}

#[tokio::test(start_paused = true)]
async fn invalid_progress_is_ignored() {
    let handler = Recorder::new();
    let (peer, mut wire) = peer(&handler);
    let (first, _second) = two_calls(&peer, &mut wire).await;
    for params in [
        "",
        r#","params":7"#,
        r#","params":{}"#,
        r#","params":{"progressToken":null}"#,
        r#","params":{"progressToken":1,"progress":"x","total":[],"message":{}}"#,
    ] {
        wire.feed(format!(r#"{{"method":"notifications/progress"{params}}}"#));
    }
    wire.answer(1, "1");
    assert_eq!(outcome_text(first.await.unwrap()), "1");
}
