//! Sessions: sent with every request, deleted on close, and lost by the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use serde_json::json;
use trunkline_wire::RequestError;
use trunkline_wire::transport::{CloseReason, DeliveryErrorKind};

use crate::inline::{InlineServer, ReceivedRequest, Step, Steps, reply, status, whole};
use crate::support::{
    at, call, calling, connect, connect_with, delivery_error, eventually, in_time, status_of,
};

#[tokio::test]
async fn without_a_session_a_404_fails_only_its_own_call() {
    let server = InlineServer::legacy(|seen| match seen.body["params"]["name"].as_str() {
        Some("lost") => whole(404, &[("content-type", "text/plain")], "no such thing"),
        Some(_) => reply(200, &seen.text("done")),
        None => status(405),
    })
    .await;
    let client = connect(&server.url()).await;
    let text = status_of(call(&client, "lost").await, 404);
    assert_eq!(text, "the server answered with status 404: no such thing");
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    assert!(!client.peer().is_closed());
}

#[tokio::test]
async fn a_json_rpc_error_with_status_404_is_the_response() {
    let server =
        InlineServer::modern(|seen| reply(404, &seen.error(-32601, "Method not found"))).await;
    let client = connect(&server.url()).await;
    let error = call(&client, "t").await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Rpc(error) if error.code == -32601),
        "{error:?}"
    );
    assert!(!client.peer().is_closed());
}

/// A server that loses its session with the first call.
async fn forgetful(
    lost: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static,
) -> InlineServer {
    InlineServer::session(move |seen| match seen.what() {
        "GET" => status(405),
        _ => lost(seen),
    })
    .await
}

/// Asserts that the link closes with the session and no call has run.
async fn is_over(lost: impl Fn(&ReceivedRequest) -> Steps + Send + Sync + 'static) {
    let server = forgetful(lost).await;
    let client = connect(&server.url()).await;
    let failure = delivery_error(call(&client, "t").await);
    assert_eq!(failure.kind, DeliveryErrorKind::SessionExpired);
    assert!(!failure.may_have_run);
    let closed = in_time("the end", client.peer().closed()).await;
    assert_eq!(closed.reason(), &CloseReason::SessionExpired);
    client.peer().close().await;
    // There is nothing to delete.
    assert!(server.of("DELETE").is_empty());
}

#[tokio::test]
async fn with_a_session_a_404_expires_it() {
    is_over(|seen| reply(404, &seen.error(-32001, "Session not found"))).await;
    is_over(|_| status(404)).await;
    is_over(|_| whole(404, &[("content-type", "text/html")], "<h1>Not Found</h1>")).await;
}

#[tokio::test]
async fn a_400_about_the_session_expires_it() {
    is_over(|_| {
        let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
        reply(400, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
    })
    .await;
}

#[tokio::test]
async fn any_other_400_does_not_expire_the_session() {
    let server = forgetful(|seen| reply(400, &seen.error(-32602, "bad arguments"))).await;
    let client = connect(&server.url()).await;
    let error = call(&client, "t").await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Rpc(error) if error.code == -32602),
        "{error:?}"
    );
    assert!(!client.peer().is_closed());
    let server = forgetful(|_| status(400)).await;
    let client = connect(&server.url()).await;
    status_of(call(&client, "t").await, 400);
    assert!(!client.peer().is_closed());
}

#[tokio::test]
async fn concurrent_calls_with_a_lost_session_have_not_run() {
    let server = forgetful(|_| status(404)).await;
    let client = connect(&server.url()).await;
    let calls = join_all((0..12).map(|_| call(&client, "t"))).await;
    for outcome in calls {
        let error = outcome.unwrap_err();
        assert!(!error.may_have_run(), "{error:?}");
    }
    in_time("the end", client.peer().closed()).await;
}

#[tokio::test]
async fn a_call_in_flight_ends_soon_after_the_session_is_lost() {
    let server = forgetful(|seen| match seen.body["params"]["name"].as_str() {
        Some("slow") => vec![Step::Hold],
        _ => status(404),
    })
    .await;
    let client = connect(&server.url()).await;
    let slow = calling(&client, "slow");
    eventually("the slow call", || server.of("tools/call").len() == 1).await;
    let failure = delivery_error(call(&client, "t").await);
    assert_eq!(failure.kind, DeliveryErrorKind::SessionExpired);
    let error = in_time("the slow call", slow).await.unwrap().unwrap_err();
    assert!(error.may_have_run(), "{error:?}");
    let closed = in_time("the end", client.peer().closed()).await;
    assert_eq!(closed.reason(), &CloseReason::SessionExpired);
}

#[tokio::test]
async fn closing_deletes_the_session_whatever_the_server_responds() {
    let goodbyes: [fn() -> Steps; 3] = [|| status(200), || status(405), || vec![Step::Hold]];
    for goodbye in goodbyes {
        let deleted = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&deleted);
        let server = InlineServer::start(move |seen| match seen.what() {
            "initialize" => {
                let hello = seen.result(&crate::inline::initialized()).to_string();
                let headers = [
                    ("content-type", "application/json"),
                    ("mcp-session-id", "s 1!"),
                ];
                whole(200, &headers, hello)
            }
            "DELETE" => {
                told.store(true, Ordering::Release);
                assert_eq!(seen.header("mcp-session-id"), Some("s 1!"));
                goodbye()
            }
            "notifications/initialized" => status(202),
            _ => status(404),
        })
        .await;
        let client = connect(&server.url()).await;
        in_time("closing", client.peer().close()).await;
        assert!(deleted.load(Ordering::Acquire));
    }
}

#[tokio::test]
async fn dropping_a_link_deletes_its_session() {
    let server = forgetful(|_| status(500)).await;
    drop(connect_with(&at(&server.url()), &Arc::default()).await);
    eventually("the end of the session", || server.of("DELETE").len() == 1).await;
    eventually("every connection to end", || server.open() == 0).await;
}
