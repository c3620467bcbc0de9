//! The peer over a scripted link: every message has its outcome, and no call costs another.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod support;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use support::{Recorder, Wire, peer, scripted, settle, tell};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use trunkline_wire::peer::{RequestOptions, Silent};
use trunkline_wire::transport::{CloseReason, Closed, Incoming};
use trunkline_wire::{Json, Peer, RequestError, RpcError};

type Call = JoinHandle<Result<Json, RequestError>>;

/// What the peer serves at once (SEC-4).
const SERVED_AT_ONCE: usize = 64;
/// What is kept of progress nobody looks at.
const PROGRESS_KEPT: usize = 256;

fn call(peer: &Peer) -> Call {
    call_with(peer, RequestOptions::default())
}

fn call_with(peer: &Peer, options: RequestOptions) -> Call {
    let peer = peer.clone();
    tokio::spawn(async move { peer.request("m", Json::empty_object(), options).await })
}

/// Two calls, numbers 1 and 2, both sent.
async fn two_calls(peer: &Peer, wire: &mut Wire) -> (Call, Call) {
    let first = call(peer);
    assert_eq!(wire.request("m").await.0, 1);
    let second = call(peer);
    assert_eq!(wire.request("m").await.0, 2);
    (first, second)
}

fn within(limit: Duration) -> RequestOptions {
    RequestOptions {
        deadline: Some(Instant::now() + limit),
        ..RequestOptions::default()
    }
}

fn idle(limit: Duration) -> RequestOptions {
    RequestOptions {
        idle: Some(limit),
        ..RequestOptions::default()
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn exited(code: i32) -> Closed {
    let reason = CloseReason::Exited {
        code: Some(code),
        signal: None,
    };
    Closed::with_stderr(reason, vec!["out of cheese".to_owned()])
}

/// A handler that answers `fast` at once with its params, and `slow` with `"done"` for each permit given.
/// The channel tells of each `slow` that was dropped before its time.
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

mod answers {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_matched_however_its_id_is_spelt() {
        let (peer, mut wire) = peer(&Recorder::new());
        for spelling in ["$", "$.0", "$e0", "\"$\"", "\"$.0\"", " $ "] {
            let one = call(&peer);
            let (id, _) = wire.request("m").await;
            let spelt = spelling.replace('$', &id.to_string());
            wire.feed(format!(r#"{{"id":{spelt},"result":"ok"}}"#));
            assert_eq!(tell(one.await.unwrap()), r#""ok""#, "{spelling}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_may_come_in_any_order() {
        let (peer, mut wire) = peer(&Recorder::new());
        let calls: Vec<_> = (0..100).map(|_| call(&peer)).collect();
        for _ in &calls {
            wire.request("m").await;
        }
        for id in (1..=100).rev() {
            wire.answer(id, id);
        }
        for (call, id) in calls.into_iter().zip(1..) {
            assert_eq!(tell(call.await.unwrap()), format!("{id}"));
        }
    }

    /// What arrives while calls 1 and 2 wait, what that makes of call 1 (`None`: it still waits), and how many frames were
    /// reported as nonsense.
    struct Case {
        what: &'static str,
        frames: Vec<Vec<u8>>,
        first: Option<&'static str>,
        reported: usize,
    }

    fn case(
        what: &'static str,
        frames: &[&[u8]],
        first: Option<&'static str>,
        reported: usize,
    ) -> Case {
        Case {
            what,
            frames: frames.iter().map(|frame| frame.to_vec()).collect(),
            first,
            reported,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_odd_message_has_its_outcome_and_costs_no_other_call() {
        let no_outcome =
            "the server's answer cannot be read: it has no method, no result and no error";
        let cases = [
            case("unknown id", &[br#"{"id":99,"result":1}"#], None, 1),
            case("id of a later call", &[br#"{"id":3,"result":1}"#], None, 1),
            case("foreign id", &[br#"{"id":"abc","result":1}"#], None, 1),
            case("half an id", &[br#"{"id":1.5,"result":1}"#], None, 1),
            case("object as id", &[br#"{"id":{"a":1},"result":1}"#], None, 1),
            case(
                "error without id",
                &[br#"{"id":null,"error":{"code":-32700,"message":"m"}}"#],
                None,
                1,
            ),
            case(
                "duplicate answer",
                &[br#"{"id":1,"result":"a"}"#, br#"{"id":1,"result":"b"}"#],
                Some(r#""a""#),
                1,
            ),
            case(
                "only error null",
                &[br#"{"id":1,"error":null}"#],
                Some(no_outcome),
                0,
            ),
            case(
                "error null beside a result",
                &[br#"{"jsonrpc":"2.0","id":1,"result":"a","error":null}"#],
                Some(r#""a""#),
                0,
            ),
            case("nothing but an id", &[br#"{"id":1}"#], Some(no_outcome), 0),
            case(
                "missing jsonrpc",
                &[br#"{"id":1,"result":"a"}"#],
                Some(r#""a""#),
                0,
            ),
            case(
                "wrong jsonrpc and extra keys",
                &[br#"{"jsonrpc":1.0,"x":[],"id":1,"result":"a"}"#],
                Some(r#""a""#),
                0,
            ),
            case(
                "an error",
                &[br#"{"id":1,"error":{"code":-5,"message":"no"}}"#],
                Some("no (error -5)"),
                0,
            ),
            case("text", &[b"Server listening on port 3000"], None, 1),
            case("broken JSON", &[br#"{"id":1,"result":{"#], None, 1),
            case("two values", &[br#"{"id":1,"result":1}{"id":2}"#], None, 1),
            case(
                "a batch, partly bad",
                &[br#"[7,{"id":1,"result":"a"},{"id":98,"result":1}]"#],
                Some(r#""a""#),
                2,
            ),
            case("an empty batch", &[b"[]"], None, 0),
            case("a broken batch", &[br#"[{"id":1,"result":1},"#], None, 1),
            case(
                "not UTF-8 within an answer",
                &[b"{\"id\":1,\"result\":\"a\xff\"}"],
                Some("\"a\u{fffd}\""),
                0,
            ),
            case("not UTF-8 at all", &[b"\xff\xfe\x00{\x80"], None, 1),
            case("nothing", &[b""], None, 1),
        ];
        for Case {
            what,
            frames,
            first: expected,
            reported,
        } in cases
        {
            let handler = Recorder::new();
            let (peer, mut wire) = peer(&handler);
            let (first, second) = two_calls(&peer, &mut wire).await;
            for frame in frames {
                wire.feed(frame);
            }
            settle().await;
            assert_eq!(handler.take_nonsense().len(), reported, "{what}");
            assert_eq!(first.is_finished(), expected.is_some(), "{what}");
            assert!(!second.is_finished(), "{what}");
            wire.answer(1, r#""late""#);
            wire.answer(2, r#""unharmed""#);
            let first = tell(first.await.unwrap());
            assert_eq!(first, expected.unwrap_or(r#""late""#), "{what}");
            assert_eq!(tell(second.await.unwrap()), r#""unharmed""#, "{what}");
            wire.assert_silent();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_oversize_message_fails_the_call_it_answers_and_no_other() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":1,"result":"#, "…", true),
            (
                r#"{"result":{"id":2,"#,
                r#"…"},"id":1,"jsonrpc":"2.0"}"#,
                true,
            ),
            (r#"{"result":{"#, "…}}", false),
            (r#"{"jsonrpc":"2.0","id":77,"result":"#, "…", false),
        ];
        for (head, tail, salvaged) in cases {
            let handler = Recorder::new();
            let (peer, mut wire) = peer(&handler);
            let (first, second) = two_calls(&peer, &mut wire).await;
            wire.receive(Incoming::Oversize {
                bytes: 70_000_000,
                limit: 67_108_864,
                head: Bytes::copy_from_slice(head.as_bytes()),
                tail: Bytes::copy_from_slice(tail.as_bytes()),
            });
            settle().await;
            let expected = "a message of 70000000 bytes is over the limit of 67108864";
            if salvaged {
                let outcome = tell(first.await.unwrap());
                assert!(outcome.ends_with(expected), "{head}: {outcome}");
            } else {
                assert_eq!(handler.take_nonsense(), [expected], "{head}");
                wire.answer(1, "1");
                assert_eq!(tell(first.await.unwrap()), "1", "{head}");
            }
            wire.answer(2, "2");
            assert_eq!(tell(second.await.unwrap()), "2", "{head}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn absurd_nesting_arrives_as_it_is() {
        let (peer, mut wire) = peer(&Recorder::new());
        let (first, second) = two_calls(&peer, &mut wire).await;
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        wire.answer(1, &deep);
        wire.answer(2, "2");
        assert_eq!(first.await.unwrap().unwrap().as_str(), deep);
        assert_eq!(tell(second.await.unwrap()), "2");
    }
}

mod giving_up {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_ends_the_call_and_tells_the_server() {
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
            handler.take_nonsense().len(),
            1,
            "a late answer is reported"
        );
        wire.answer(1, "1");
        assert_eq!(tell(patient.await.unwrap()), "1");
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_deadline_than_the_one_waited_for_is_kept() {
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
    async fn dropping_the_future_cancels_on_the_server() {
        let (peer, mut wire) = peer(&Recorder::new());
        let (first, second) = two_calls(&peer, &mut wire).await;
        first.abort();
        wire.cancellation_of(1).await;
        wire.answer(2, "2");
        assert_eq!(tell(second.await.unwrap()), "2");
        settle().await;
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_not_be_cancelled_is_given_up_in_silence() {
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
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_was_never_sent_is_withdrawn_without_a_word() {
        let (peer, mut wire) = peer(&Recorder::new());
        wire.stick();
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
        wire.unstick();
        assert_eq!(wire.request("m").await.0, 1);
        assert_eq!(wire.request("m").await.0, 4);
        settle().await;
        wire.assert_silent();
    }
}

mod stuck {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_to_a_server_that_does_not_read_end_by_their_deadlines() {
        let (peer, mut wire) = peer(&Recorder::new());
        wire.stick();
        let start = Instant::now();
        let limit = |number: u64| Duration::from_millis(1000 + 50 * (number % 20));
        let mut calls = vec![(limit(0), call_with(&peer, within(limit(0))))];
        settle().await;
        // The writer has the first and is stuck with it. Far more follow than the queue holds.
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
    async fn closing_does_not_wait_for_a_server_that_does_not_read() {
        let (peer, mut wire) = peer(&Recorder::new());
        wire.stick();
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
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_reads_again_gets_nothing_that_was_withdrawn_and_all_room_is_back() {
        let (peer, mut wire) = peer(&Recorder::new());
        for _ in 0..3 {
            wire.stick();
            let first = call_with(&peer, within(seconds(1)));
            settle().await;
            let calls: Vec<_> = (0..3000)
                .map(|_| call_with(&peer, within(seconds(1))))
                .collect();
            assert!(first.await.unwrap().is_err());
            for call in calls {
                assert!(call.await.unwrap().is_err());
            }
            wire.unstick();
            let (id, _) = wire.request("m").await;
            wire.cancellation_of(id).await;
            settle().await;
            wire.assert_silent();
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
    async fn the_idle_limit_also_ends_calls_that_wait_for_room() {
        let (peer, wire) = peer(&Recorder::new());
        wire.stick();
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
    async fn what_arrives_is_still_delivered() {
        let handler = Recorder::new();
        let (peer, mut wire) = peer(&handler);
        let (first, _second) = two_calls(&peer, &mut wire).await;
        wire.stick();
        let _stuck = call(&peer);
        settle().await;
        wire.answer(1, "1");
        wire.feed(r#"{"method":"n"}"#);
        // Far more answers than the queue holds: they are dropped, not hoarded.
        for id in 0..20_000 {
            wire.feed(format!(r#"{{"id":{id},"method":"ping"}}"#));
        }
        assert_eq!(tell(first.await.unwrap()), "1");
        settle().await;
        assert_eq!(handler.notifications(), ["n"]);
        wire.unstick();
        wire.request("m").await;
        settle().await;
        let mut pongs = 0;
        while let Some(answer) = wire.try_sent() {
            assert_eq!(answer["result"], serde_json::json!({}));
            pongs += 1;
        }
        assert!((1..5000).contains(&pongs), "{pongs}");
    }
}

mod progress {
    use super::*;

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
    async fn it_comes_in_order_before_the_result_and_to_its_own_call() {
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
                    (steps, tell(result))
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
    async fn a_flood_to_a_caller_that_does_not_look_is_bounded_and_the_newest_is_kept() {
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
        assert_eq!(tell(result), "1");
        let newest: Vec<_> = (10_000 - PROGRESS_KEPT..10_000)
            .map(|number| format!("at {number}"))
            .collect();
        assert_eq!(steps, newest);
    }

    #[tokio::test(start_paused = true)]
    async fn odd_progress_harms_nothing() {
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
        assert_eq!(tell(first.await.unwrap()), "1");
    }
}

mod idle_limit {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_ends_the_call_and_tells_the_server() {
        let (peer, mut wire) = peer(&Recorder::new());
        let call = call_with(&peer, idle(seconds(300)));
        let started = Instant::now();
        wire.request("m").await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the server has sent nothing for 300 s");
        assert!(matches!(error, RequestError::Idle { sent: true, .. }));
        assert!(started.elapsed() < seconds(301));
        wire.cancellation_of(1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn any_message_resets_it() {
        let messages = [
            r#"{"method":"n"}"#,
            r#"{"method":"notifications/progress","params":{"progressToken":5,"progress":1}}"#,
            r#"{"id":1,"method":"ping"}"#,
            r#"{"id":99,"result":1}"#,
            "garbage",
        ];
        for message in messages {
            let (peer, mut wire) = peer(&Recorder::new());
            let call = call_with(&peer, idle(seconds(10)));
            let started = Instant::now();
            wire.request("m").await;
            for _ in 0..5 {
                tokio::time::sleep(seconds(8)).await;
                wire.feed(message);
            }
            settle().await;
            assert!(!call.is_finished(), "{message}");
            let error = call.await.unwrap().unwrap_err();
            assert!(matches!(error, RequestError::Idle { .. }), "{error}");
            let waited = started.elapsed();
            assert!(
                (seconds(49)..seconds(51)).contains(&waited),
                "{message}: {waited:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_put_off_the_deadline() {
        let (peer, mut wire) = peer(&Recorder::new());
        let options = RequestOptions {
            idle: Some(seconds(10)),
            ..within(seconds(25))
        };
        let call = call_with(&peer, options);
        wire.request("m").await;
        for _ in 0..4 {
            tokio::time::sleep(seconds(6)).await;
            wire.feed(r#"{"method":"n"}"#);
        }
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, RequestError::Timeout { .. }), "{error}");
    }
}

mod serving {
    use super::*;

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
    async fn requests_are_answered_under_their_id_to_the_letter() {
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
    async fn a_peer_that_serves_nothing_says_so() {
        let (transport, mut wire) = scripted();
        let _peer = Peer::start(transport, Arc::new(Silent));
        wire.feed(r#"{"id":"a","method":"roots/list"}"#);
        let answer = wire.sent().await;
        assert_eq!(answer["id"], "a");
        assert_eq!(answer["error"]["code"], -32601);
        assert_eq!(answer["error"]["message"], "method not found: roots/list");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_request_does_not_hold_up_a_fast_one() {
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
    async fn more_than_the_cap_is_refused_while_ping_is_always_answered() {
        let (handler, go, _drops) = slow_and_fast();
        let (_peer, mut wire) = peer(&handler);
        for id in 0..SERVED_AT_ONCE {
            wire.feed(format!(r#"{{"id":{id},"method":"slow"}}"#));
        }
        settle().await;
        wire.assert_silent();
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
        assert_eq!(handler.requests().len(), SERVED_AT_ONCE);
        go.add_permits(1);
        assert_eq!(wire.sent().await["result"], "done");
        wire.feed(r#"{"id":"y","method":"fast"}"#);
        assert_eq!(wire.sent().await["id"], "y", "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_is_aborted_and_makes_room() {
        let (handler, go, mut drops) = slow_and_fast();
        let (_peer, mut wire) = peer(&handler);
        for round in 0..3 * SERVED_AT_ONCE {
            wire.feed(r#"{"id":"s","method":"slow"}"#);
            settle().await;
            wire.feed(r#"{"method":"notifications/cancelled","params":{"requestId":"s"}}"#);
            settle().await;
            assert_eq!(drops.try_recv(), Ok("dropped"), "round {round}");
        }
        wire.assert_silent();
        go.add_permits(1);
        wire.feed(r#"{"id":"s","method":"slow"}"#);
        assert_eq!(wire.sent().await["result"], "done");
        assert!(handler.take_nonsense().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancellation_of_nothing_is_a_notification_like_any_other() {
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
    async fn a_second_request_with_an_id_in_use_is_reported_and_the_first_is_answered_once() {
        let (handler, go, _drops) = slow_and_fast();
        let (_peer, mut wire) = peer(&handler);
        wire.feed(r#"{"id":5,"method":"slow"}"#);
        wire.feed(r#"{"id":5,"method":"fast"}"#);
        settle().await;
        wire.assert_silent();
        let nonsense = handler.take_nonsense();
        assert_eq!(
            nonsense,
            ["a second request with an id that is being answered"]
        );
        go.add_permits(1);
        assert_eq!(wire.sent().await["result"], "done");
        settle().await;
        wire.assert_silent();
        wire.feed(r#"{"id":5,"method":"fast","params":1}"#);
        assert_eq!(wire.sent().await["result"], 1, "the id is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_answered_is_dropped_when_the_link_ends() {
        let (handler, _go, mut drops) = slow_and_fast();
        let (peer, mut wire) = peer(&handler);
        wire.feed(r#"{"id":5,"method":"slow"}"#);
        settle().await;
        peer.close().await;
        settle().await;
        assert_eq!(drops.try_recv(), Ok("dropped"));
        wire.assert_silent();
    }
}

mod the_end {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn closing_fails_what_is_pending_and_tells_what_may_have_run() {
        let (peer, mut wire) = peer(&Recorder::new());
        let answered_never = call(&peer);
        wire.request("m").await;
        wire.stick();
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
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn the_cause_of_a_broken_link_reaches_every_call() {
        let killed = Closed::new(CloseReason::Exited {
            code: None,
            signal: Some("SIGKILL".to_owned()),
        });
        let cases = [
            (exited(3), "the server's process exited with status 3"),
            (killed, "the server's process was ended by SIGKILL"),
            (
                Closed::new(CloseReason::Ended),
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
    async fn answers_before_the_end_count() {
        let (peer, mut wire) = peer(&Recorder::new());
        let (first, second) = two_calls(&peer, &mut wire).await;
        wire.answer(1, "1");
        wire.end(exited(0));
        assert_eq!(tell(first.await.unwrap()), "1");
        assert!(second.await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_send_ends_the_link_with_its_cause() {
        let (peer, mut wire) = peer(&Recorder::new());
        let (first, _second) = two_calls(&peer, &mut wire).await;
        wire.break_sending(exited(4));
        let third = call(&peer);
        for call in [first, third] {
            let text = tell(call.await.unwrap());
            assert_eq!(text, "the server's process exited with status 4");
        }
        wire.transport_closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_end_everything_fails_at_once_with_the_cause() {
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
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn the_link_closes_with_the_last_peer_and_not_before() {
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
    async fn notifications_wait_for_room_and_leave_in_order() {
        let (peer, mut wire) = peer(&Recorder::new());
        wire.stick();
        let sender = tokio::spawn({
            let peer = peer.clone();
            async move {
                for number in 0_u64..5000 {
                    let params = Json::of(&number).unwrap();
                    peer.notify("n", Some(params)).await.unwrap();
                }
            }
        });
        settle().await;
        assert!(!sender.is_finished(), "the queue is bounded");
        wire.unstick();
        for number in 0..5000 {
            assert_eq!(wire.sent().await["params"], number);
        }
        sender.await.unwrap();
    }
}
