//! Connections are kept and used again for as long as they can be.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::Instant;
use trunkline_testkit::Script;
use trunkline_testkit::net::{Answers, HttpServer};
use trunkline_wire::transport::DeliveryErrorKind;

use crate::inline::{Answer, Inline, Seen, Step, bytes, event, reply, streamed, whole};
use crate::lab::{call, calling, connect, delivery_error, eventually, in_time, pass};

/// A modern server, so that there are no connections but those of calls.
async fn answering(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Inline {
    Inline::modern(answer).await
}

#[tokio::test]
async fn a_hundred_calls_in_a_row_take_one_connection() {
    let kinds: [fn(&Seen) -> Answer; 5] = [
        |seen| reply(200, &seen.text("done")),
        |seen| streamed(&event(&seen.text("done"))),
        // Without chunks.
        |seen| {
            whole(
                200,
                &[("content-type", "text/event-stream")],
                event(&seen.text("done")),
            )
        },
        // The end of the stream comes a little later than the answer.
        |seen| {
            let mut steps = crate::inline::stream(&event(&seen.text("done")));
            steps.push(Step::Wait(Duration::from_millis(1)));
            steps.push(bytes("0\r\n\r\n"));
            steps
        },
        |seen| reply(400, &seen.error(-32602, "bad")),
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        let server = answering(kind).await;
        let client = connect(&server.url()).await;
        for _ in 0..100 {
            assert_eq!(call(&client, "t").await.is_ok(), n < 4);
        }
        assert_eq!(server.accepted(), 1, "{n}");
        client.peer().close().await;
        eventually("every connection to end", || server.open() == 0).await;
    }
}

#[tokio::test]
async fn after_a_pause_in_which_the_server_closed_all_a_burst_takes_new_connections() {
    const BURST: usize = 128;
    let server = answering(|seen| reply(200, &seen.text("done"))).await;
    let client = connect(&server.url()).await;
    for round in 0..4 {
        let calls: Vec<_> = (0..BURST).map(|_| calling(&client, "t")).collect();
        for call in join_all(calls).await {
            assert_eq!(call.unwrap().unwrap(), "done", "round {round}");
        }
        server.close_unused();
        eventually("every connection to end", || server.open() == 0).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_end_its_streams_costs_no_more_than_one_wait() {
    let server = answering(|seen| {
        let mut steps = crate::inline::stream(&event(&seen.text("done")));
        steps.push(Step::Hold);
        steps
    })
    .await;
    let client = connect(&server.url()).await;
    call(&client, "t").await.unwrap();
    eventually("the first stream to be given up", || server.open() == 0).await;
    let started = Instant::now();
    for _ in 0..20 {
        call(&client, "t").await.unwrap();
    }
    assert!(
        started.elapsed() < Duration::from_millis(1500),
        "{:?}",
        started.elapsed()
    );
    eventually("the streams to be given up", || server.open() <= 1).await;
}

#[tokio::test]
async fn so_it_is_with_a_server_that_has_threads_of_its_own() {
    for answers in [Answers::Json, Answers::Sse] {
        let script = Script::default().tool("t", json!([{"replyText": "done"}]));
        let server = HttpServer::builder(script).answers(answers).start();
        let client = connect(&server.url()).await;
        for _ in 0..100 {
            assert_eq!(call(&client, "t").await.unwrap(), "done");
        }
        assert_eq!(server.connections(), 1, "{answers:?}");
        client.peer().close().await;
    }
}

#[tokio::test]
async fn calls_at_once_take_as_many_as_they_need_and_leave_them_to_others() {
    let server = answering(|seen| {
        let mut steps = vec![Step::Wait(Duration::from_millis(50))];
        steps.extend(reply(200, &seen.text("done")));
        steps
    })
    .await;
    let client = connect(&server.url()).await;
    for _ in 0..3 {
        let calls = join_all((0..64).map(|_| call(&client, "t"))).await;
        assert!(calls.iter().all(Result::is_ok), "{calls:?}");
    }
    assert!(server.accepted() <= 65, "{}", server.accepted());
    // More than a hundred and twenty-eight wait for their turn.
    let calls = join_all((0..300).map(|_| call(&client, "t"))).await;
    assert!(calls.iter().all(Result::is_ok));
    assert!(server.accepted() <= 128, "{}", server.accepted());
}

#[tokio::test]
async fn a_connection_that_the_server_closes_is_not_used_again() {
    let kinds: [fn(&Seen) -> Answer; 3] = [
        |seen| {
            let headers = [
                ("content-type", "application/json"),
                ("connection", "close"),
            ];
            let mut steps = whole(200, &headers, seen.text("done").to_string());
            steps.push(Step::Close);
            steps
        },
        // Without a word.
        |seen| {
            let mut steps = reply(200, &seen.text("done"));
            steps.push(Step::Close);
            steps
        },
        // A body that ends with the connection.
        |seen| {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
            vec![
                bytes(head.to_owned() + &seen.text("done").to_string()),
                Step::Close,
            ]
        },
    ];
    for kind in kinds {
        let server = answering(kind).await;
        let client = connect(&server.url()).await;
        for _ in 0..10 {
            assert_eq!(call(&client, "t").await.unwrap(), "done");
            eventually("the end of its connection", || server.open() == 0).await;
        }
        assert_eq!(server.of("tools/call").len(), 10, "none was sent twice");
    }
}

#[tokio::test]
async fn a_server_says_how_long_it_keeps_a_connection() {
    let server = answering(|seen| {
        let headers = [
            ("content-type", "application/json"),
            ("keep-alive", "timeout=5, max=100"),
        ];
        whole(200, &headers, seen.text("done").to_string())
    })
    .await;
    let client = connect(&server.url()).await;
    call(&client, "t").await.unwrap();
    pass(Duration::from_millis(3500)).await;
    call(&client, "t").await.unwrap();
    assert_eq!(server.accepted(), 1);
    pass(Duration::from_millis(4500)).await;
    call(&client, "t").await.unwrap();
    assert_eq!(
        server.accepted(),
        2,
        "a second before its end it is no longer used"
    );
}

#[tokio::test]
async fn what_nobody_uses_is_let_go() {
    let server = answering(|seen| reply(200, &seen.text("done"))).await;
    let client = connect(&server.url()).await;
    call(&client, "t").await.unwrap();
    assert_eq!(server.open(), 1);
    pass(Duration::from_secs(61)).await;
    eventually("the connection to be let go", || server.open() == 0).await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn a_connection_that_dies_under_a_call_is_an_error_that_says_so() {
    let server = answering(|seen| match seen.body["params"]["name"].as_str() {
        Some("dies") => vec![Step::Close],
        _ => reply(200, &seen.text("done")),
    })
    .await;
    let client = connect(&server.url()).await;
    let failure = delivery_error(call(&client, "dies").await);
    assert_eq!(failure.kind, DeliveryErrorKind::Broken);
    assert_eq!(
        failure.to_string(),
        "the server closed the connection before it had answered"
    );
    assert!(failure.may_have_run);
    assert_eq!(server.of("tools/call").len(), 1, "never sent twice");
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn a_server_that_is_gone_ends_the_link_once_nothing_else_is_under_way() {
    let script = Script::default()
        .tool("t", json!([{"replyText": "done"}]))
        .tool(
            "slow",
            json!([{"progress": {"steps": 1}}, {"sleepMs": 60_000}]),
        );
    let server = HttpServer::builder(script).answers(Answers::Json).start();
    let client = connect(&server.url()).await;
    call(&client, "t").await.unwrap();
    server.stop();
    TcpStream::connect(server.address()).await.unwrap_err();
    let failure = delivery_error(call(&client, "t").await);
    assert_eq!(failure.kind, DeliveryErrorKind::Unreachable, "{failure}");
    assert!(!failure.may_have_run);
    in_time("the end", client.peer().closed()).await;
    let error = call(&client, "t").await.unwrap_err();
    assert!(!error.may_have_run());
}

#[tokio::test]
async fn a_call_that_is_given_up_does_not_spoil_the_next_one() {
    let server = answering(|seen| match seen.body["params"]["name"].as_str() {
        Some("slow") => {
            let mut steps = vec![Step::Wait(Duration::from_secs(30))];
            steps.extend(reply(200, &seen.text("too late")));
            steps
        }
        _ => reply(200, &seen.text("done")),
    })
    .await;
    let client = connect(&server.url()).await;
    for n in 1..=20 {
        let slow = calling(&client, "slow");
        eventually("the slow call", || {
            server.of("tools/call").len() == 2 * n - 1
        })
        .await;
        slow.abort();
        assert_eq!(call(&client, "t").await.unwrap(), "done");
    }
    eventually("only one connection", || server.open() == 1).await;
}
