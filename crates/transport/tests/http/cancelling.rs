//! Cancellation of calls.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use trunkline_testkit::net::{Answers, HttpServer};
use trunkline_testkit::{Era, Scratch, Script};
use trunkline_wire::RequestError;
use trunkline_wire::client::{Arguments, CallRequest};

use crate::inline::{InlineServer, Step, reply, status, stream};
use crate::support::{call, calling, connect, eventually, in_time};

/// A server with one endless tool and one that ends.
fn endless(era: Era, scratch: &Scratch) -> Script {
    let mut script = Script::default()
        .era(era)
        .tool("endless", json!([{"sleepMs": 600_000}]))
        .tool("t", json!([{"replyText": "done"}]));
    script.cancel_log = Some(scratch.join("cancelled"));
    script
}

/// The ids of the cancelled requests.
fn cancelled(scratch: &Scratch) -> Vec<Value> {
    let text = scratch.read("cancelled");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_in_both_eras_and_response_forms() {
    for era in [Era::Legacy, Era::Modern] {
        for answers in [Answers::Json, Answers::Sse] {
            let scratch = Scratch::new();
            let server = HttpServer::builder(endless(era, &scratch))
                .answers(answers)
                .start();
            let client = connect(&server.url()).await;
            server.clear_requests();
            let given_up = calling(&client, "endless");
            eventually("the call", || {
                server
                    .requests()
                    .iter()
                    .any(|seen| seen.rpc_method() == "tools/call")
            })
            .await;
            given_up.abort();
            eventually("the server to notice", || cancelled(&scratch).len() == 1).await;
            assert_eq!(call(&client, "t").await.unwrap(), "done");
            let told = server
                .requests()
                .iter()
                .any(|seen| seen.rpc_method() == "notifications/cancelled");
            assert_eq!(told, era == Era::Legacy, "{era:?} {answers:?}");
            in_time("closing", client.peer().close()).await;
        }
    }
}

#[tokio::test]
async fn a_call_that_times_out_is_cancelled() {
    for era in [Era::Legacy, Era::Modern] {
        let scratch = Scratch::new();
        let server = HttpServer::start(endless(era, &scratch));
        let client = connect(&server.url()).await;
        let arguments = Arguments::from(json!({}));
        let request = CallRequest {
            tool: "endless",
            arguments: Some(&arguments),
            deadline: Some(tokio::time::Instant::now() + Duration::from_millis(300)),
            ..CallRequest::default()
        };
        let error = in_time("the deadline", client.call_tool(request))
            .await
            .unwrap_err();
        assert!(
            matches!(error, RequestError::Timeout { sent: true, .. }),
            "{error:?}"
        );
        eventually("the server to notice", || cancelled(&scratch).len() == 1).await;
        in_time("closing", client.peer().close()).await;
    }
}

#[tokio::test]
async fn a_legacy_cancellation_names_request_and_session() {
    let server = InlineServer::session(|seen| match seen.what() {
        "tools/call" => {
            let mut steps = stream(": wait\n\n");
            steps.push(Step::Hold);
            steps
        }
        "GET" => status(405),
        _ => status(202),
    })
    .await;
    let client = connect(&server.url()).await;
    let given_up = calling(&client, "t");
    eventually("the call", || server.of("tools/call").len() == 1).await;
    given_up.abort();
    eventually("the word", || {
        server.of("notifications/cancelled").len() == 1
    })
    .await;
    let (called, told) = (
        &server.of("tools/call")[0],
        &server.of("notifications/cancelled")[0],
    );
    assert_eq!(told.body["params"]["requestId"], called.body["id"]);
    assert_eq!(told.header("mcp-session-id"), Some("s1"));
    assert_eq!(told.header("mcp-protocol-version"), Some("2025-06-18"));
    eventually("the stream to be closed", || server.open() <= 1).await;
}

#[tokio::test]
async fn an_unsent_call_is_dropped_without_a_cancellation() {
    // Calls wait for the GET stream, which the server never opens.
    let server = InlineServer::legacy(|seen| match seen.what() {
        "GET" => vec![Step::Hold],
        "tools/call" => reply(200, &seen.text("done")),
        _ => status(202),
    })
    .await;
    let client = connect(&server.url()).await;
    eventually("the request for the stream", || server.of("GET").len() == 1).await;
    let given_up = calling(&client, "withdrawn");
    tokio::task::yield_now().await;
    given_up.abort();
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    let calls = server.of("tools/call");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].body["params"]["name"], "t");
    assert!(server.of("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn hundreds_of_cancellations_leave_nothing_behind() {
    for era in [Era::Legacy, Era::Modern] {
        let scratch = Scratch::new();
        let server = HttpServer::start(endless(era, &scratch));
        let client = connect(&server.url()).await;
        call(&client, "t").await.unwrap();
        let before = server.open_connections();
        for _ in 0..6 {
            let calls: Vec<_> = (0..50).map(|_| calling(&client, "endless")).collect();
            tokio::time::sleep(Duration::from_millis(1)).await;
            calls.iter().for_each(tokio::task::JoinHandle::abort);
            join_all(calls).await;
        }
        assert_eq!(call(&client, "t").await.unwrap(), "done");
        eventually("the connections of the given up", || {
            server.open_connections() <= before + 32
        })
        .await;
        in_time("closing", client.peer().close()).await;
        eventually("every connection to end", || server.open_connections() == 0).await;
    }
}
