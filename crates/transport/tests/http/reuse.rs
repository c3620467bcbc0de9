//! Reuse of connections.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::Instant;
use trunkline_testkit::Script;
use trunkline_testkit::net::{Answers, HttpServer};
use trunkline_wire::transport::DeliveryErrorKind;

use crate::inline::{
    InlineServer, ReceivedRequest, Step, Steps, bytes, event, reply, streamed, whole,
};
use crate::support::{call, calling, connect, delivery_error, eventually, in_time, pass};

/// A modern server, whose only connections are those of calls.
async fn answering(
    answer: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::modern(answer).await
}

#[tokio::test]
async fn sequential_calls_share_one_connection() {
    let kinds: [fn(&ReceivedRequest) -> Steps; 5] = [
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
        // The stream ends a little after the response.
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
async fn a_burst_after_the_server_closed_its_connections_uses_new_ones() {
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
async fn a_server_that_never_ends_streams_costs_one_wait() {
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
async fn connections_are_reused_with_a_threaded_server() {
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
async fn concurrent_calls_open_connections_that_later_calls_reuse() {
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
    // Calls beyond 128 wait.
    let calls = join_all((0..300).map(|_| call(&client, "t"))).await;
    assert!(calls.iter().all(Result::is_ok));
    assert!(server.accepted() <= 128, "{}", server.accepted());
}

#[tokio::test]
async fn a_connection_closed_by_the_server_is_not_reused() {
    let kinds: [fn(&ReceivedRequest) -> Steps; 3] = [
        |seen| {
            let headers = [
                ("content-type", "application/json"),
                ("connection", "close"),
            ];
            let mut steps = whole(200, &headers, seen.text("done").to_string());
            steps.push(Step::Close);
            steps
        },
        // Without notice.
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
async fn the_keep_alive_timeout_is_honoured() {
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
async fn idle_connections_are_closed() {
    let server = answering(|seen| reply(200, &seen.text("done"))).await;
    let client = connect(&server.url()).await;
    call(&client, "t").await.unwrap();
    assert_eq!(server.open(), 1);
    pass(Duration::from_secs(61)).await;
    eventually("the connection to be let go", || server.open() == 0).await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn a_connection_lost_during_a_call_is_a_clear_error() {
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
        "the server closed the connection before it responded"
    );
    assert!(failure.may_have_run);
    assert_eq!(server.of("tools/call").len(), 1, "never sent twice");
    assert_eq!(call(&client, "t").await.unwrap(), "done");
}

#[tokio::test]
async fn a_server_that_is_gone_closes_the_link_once_nothing_is_in_flight() {
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
async fn a_dropped_call_does_not_affect_the_next_one() {
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
