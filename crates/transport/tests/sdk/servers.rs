//! Requests and notifications of servers, and the end of connections.

use std::sync::Arc;

use serde_json::json;
use trunkline_wire::peer::RequestOptions;
use trunkline_wire::transport::CloseReason;
use trunkline_wire::{Json, RequestError};

use crate::support::{Ears, lab, requesting, soon};

#[tokio::test]
async fn notifications_arrive_in_order_and_are_acknowledged() {
    let mut lab = lab();
    let ears = Arc::new(Ears::default());
    let _peer = lab.peer_with("calc", Arc::clone(&ears));
    for (id, method) in [("n1", "notifications/a"), ("n2", "notifications/b")] {
        let message = json!({"jsonrpc": "2.0", "method": method});
        lab.embedder.message(id, "calc", &message).await;
        assert_eq!(
            lab.embedder.hear().await,
            json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": {}}})
        );
    }
    while ears.heard.lock().unwrap().len() < 2 {
        soon(ears.news.notified()).await;
    }
    assert_eq!(
        *ears.heard.lock().unwrap(),
        ["notifications/a", "notifications/b"]
    );
}

#[tokio::test]
async fn progress_precedes_its_response() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let options = RequestOptions {
        progress_token: Some(1),
        ..RequestOptions::default()
    };
    let call = tokio::spawn(async move {
        let mut steps = Vec::new();
        let outcome = peer
            .request_with_progress("m", Json::empty_object(), options, |step| {
                steps.push(step.progress);
            })
            .await;
        (outcome.unwrap(), steps)
    });
    let asked = lab.embedder.hear().await;
    for step in 0..500 {
        let progress = json!({"method": "notifications/progress", "params": {"progressToken": 1, "progress": step}});
        lab.embedder
            .message(&format!("p{step}"), "calc", &progress)
            .await;
    }
    lab.embedder.result(&asked, &json!({})).await;
    let (_, steps) = soon(call).await.unwrap();
    assert_eq!(steps.last(), Some(&499.0));
    assert!(steps.is_sorted());
}

#[tokio::test]
async fn a_server_request_is_answered_in_its_control_response() {
    let mut lab = lab();
    let _peer = lab.peer("calc");
    let message = json!({"jsonrpc": "2.0", "id": "x", "method": "echo", "params": {"a": 1}});
    lab.embedder.message("r1", "calc", &message).await;
    assert_eq!(
        lab.embedder.line().await,
        "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"r1\",\"response\":\
         {\"mcp_response\":{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"a\":1}}}}}\n"
    );
    let message = json!({"jsonrpc": "2.0", "id": "x", "method": "sampling/createMessage"});
    lab.embedder.message("r1", "calc", &message).await;
    let answer = lab.embedder.hear().await;
    assert_eq!(
        answer["response"]["response"]["mcp_response"]["error"]["code"],
        -32601
    );
}

#[tokio::test]
async fn a_server_request_can_be_cancelled_in_two_ways() {
    let mut lab = lab();
    let ears = Arc::new(Ears::default());
    let _peer = lab.peer_with("calc", Arc::clone(&ears));
    let never = json!({"jsonrpc": "2.0", "id": 1, "method": "never"});
    // By a control message: there is no response.
    lab.embedder.message("r1", "calc", &never).await;
    lab.embedder
        .send_line(r#"{"type":"control_cancel_request","request_id":"r1"}"#)
        .await;
    soon(ears.dropped.notified()).await;
    // By an MCP notification: the control request gets a response.
    lab.embedder.message("r2", "calc", &never).await;
    let cancelled = json!({"method": "notifications/cancelled", "params": {"requestId": 1}});
    lab.embedder.message("n1", "calc", &cancelled).await;
    soon(ears.dropped.notified()).await;
    let withdrawn = lab.embedder.hear().await;
    assert_eq!(withdrawn["response"]["request_id"], "r2");
    assert_eq!(withdrawn["response"]["code"], "cancelled");
    assert_eq!(lab.embedder.hear().await["response"]["request_id"], "n1");
    // The id can be reused.
    let echo = json!({"id": 1, "method": "echo"});
    lab.embedder.message("r1", "calc", &echo).await;
    let answer = lab.embedder.hear().await;
    assert_eq!(answer["response"]["response"]["mcp_response"]["id"], 1);
}

#[tokio::test]
async fn undeliverable_messages_are_refused_with_a_reason() {
    let mut lab = lab();
    let _peer = lab.peer("calc");
    let never = json!({"id": 1, "method": "never"});
    lab.embedder.message("r0", "calc", &never).await;
    let cases = [
        (
            json!({"subtype": "mcp_message"}),
            "bad_request",
            "an mcp_message needs a \"server_name\" and a \"message\"",
        ),
        (
            json!({"subtype": "mcp_message", "server_name": "other", "message": never}),
            "not_connected",
            "the server \"other\" is not connected",
        ),
        (
            json!({"subtype": "mcp_message", "server_name": "calc", "message": never}),
            "bad_request",
            "a message with this id is being answered",
        ),
        (
            json!({"subtype": "mcp_message", "server_name": "calc", "message": {"id": 1, "result": {}}}),
            "bad_request",
            "an answer belongs into the control_response to the request that it answers",
        ),
        (
            json!({"subtype": "mcp_message", "server_name": "calc", "message": [never]}),
            "bad_request",
            "its message is not a JSON-RPC request or notification",
        ),
        (json!({}), "bad_request", "its request has no \"subtype\""),
        (json!(7), "bad_request", "it has no \"request\" object"),
    ];
    for (request, code, error) in cases {
        lab.embedder.ask("r1", &request).await;
        assert_eq!(
            lab.embedder.hear().await["response"],
            json!({"subtype": "error", "request_id": "r1", "error": error, "code": code})
        );
    }
}

#[tokio::test]
async fn a_flood_from_one_server_is_bounded_and_does_not_affect_others() {
    let mut lab = lab();
    // Messages of this one are not read.
    let _flooded = lab.bridge.connect("flooded");
    let peer = lab.peer("calc");
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..90 {
        for n in 0..100 {
            let message = json!({"method": "notifications/n"});
            lab.embedder
                .message(&format!("{round}.{n}"), "flooded", &message)
                .await;
        }
        for _ in 0..100 {
            match lab.embedder.hear().await["response"]["code"].as_str() {
                None => accepted += 1,
                Some("too_many") => refused += 1,
                Some(other) => panic!("{other}"),
            }
        }
    }
    assert_eq!((accepted, refused), (8192, 808));
    let call = requesting(&peer, "m");
    let asked = lab.embedder.hear().await;
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_embedder_that_never_reads_is_still_read() {
    let mut lab = crate::support::lab_with_pipe(512);
    let ears = Arc::new(Ears::default());
    let _peer = lab.peer_with("calc", Arc::clone(&ears));
    for n in 0..5000 {
        let message = json!({"method": "notifications/n"});
        soon(lab.embedder.message(&n.to_string(), "calc", &message)).await;
    }
    while ears.heard.lock().unwrap().len() < 5000 {
        soon(ears.news.notified()).await;
    }
    assert_eq!(lab.embedder.hear().await["response"]["request_id"], "0");
}

#[tokio::test]
async fn closing_one_connection_cancels_only_its_requests() {
    let mut lab = lab();
    let (a, b) = (lab.peer("a"), lab.peer("b"));
    let lost = requesting(&a, "m");
    lab.embedder.hear().await;
    let kept = requesting(&b, "m");
    let asked = lab.embedder.hear().await;
    lab.embedder
        .message("r1", "a", &json!({"id": 1, "method": "never"}))
        .await;
    lab.embedder
        .message("n1", "a", &json!({"method": "notifications/n"}))
        .await;
    lab.embedder.hear().await;
    soon(a.close()).await;
    assert!(matches!(
        lost.await.unwrap(),
        Err(RequestError::Closed { sent: true, .. })
    ));
    assert_eq!(
        lab.embedder.hear().await,
        json!({"type": "control_cancel_request", "request_id": "req_1_1"})
    );
    let refused = lab.embedder.hear().await;
    assert_eq!(refused["response"]["request_id"], "r1");
    assert_eq!(
        refused["response"]["error"],
        "the connection to the server \"a\" has ended"
    );
    lab.embedder.result(&asked, &json!({})).await;
    kept.await.unwrap().unwrap();
    // It can be connected again.
    let again = lab.peer("a");
    let call = requesting(&again, "m");
    let asked = lab.embedder.hear().await;
    assert_eq!(asked["request_id"], "req_3_1");
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_second_connection_to_a_server_closes_the_first() {
    let mut lab = lab();
    let first = lab.peer("calc");
    let second = lab.peer("calc");
    assert_eq!(*soon(first.closed()).await.reason(), CloseReason::ByUs);
    drop(first);
    let call = requesting(&second, "m");
    let asked = lab.embedder.hear().await;
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
}
