//! Calls that are rejected until the user has opened a URL (-32042).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_wire::client::{CallRequest, MAX_URL_ELICITATIONS};
use trunkline_wire::{Json, RequestError};

use crate::harness::{call_tool, done, legacy_offering, text};
use crate::support::{Recorder, settle};

fn deciding_user(action: &'static str) -> Arc<Recorder> {
    Recorder::answering(move |_, _| {
        Box::pin(async move { Ok(Json::from(json!({ "action": action }))) })
    })
}

fn absent_user() -> Arc<Recorder> {
    Recorder::answering(|_, _| Box::pin(std::future::pending()))
}

fn required(pages: &Value) -> Value {
    json!({"code": -32042, "message": "sign in first", "data": {"elicitations": pages}})
}

fn page(id: &str) -> Value {
    json!({"mode": "url", "elicitationId": id, "url": "https://h.example/x", "message": "please"})
}

#[tokio::test(start_paused = true)]
async fn the_user_opens_each_url_and_the_call_is_repeated() {
    let handler = deciding_user("accept");
    let (client, mut wire) = legacy_offering(&handler, &json!({})).await;
    let call = call_tool(&client);
    let (first, before) = wire.request("tools/call").await;
    let odd = json!({"elicitationId": "b", "url": "https://h.example/y", "mode": "form"});
    wire.refuse(first, required(&json!([page("a"), odd])));
    let (second, again) = wire.request("tools/call").await;
    assert_ne!(first, second);
    assert_eq!(before["arguments"], again["arguments"]);
    assert_eq!(
        handler.requests(),
        [
            r#"elicitation/create {"elicitationId":"a","url":"https://h.example/x","message":"please","mode":"url"}"#,
            r#"elicitation/create {"elicitationId":"b","url":"https://h.example/y","mode":"url"}"#,
        ]
    );
    wire.answer(second, done("in"));
    assert_eq!(text(&call.await.unwrap().unwrap()), "in");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_repeated_has_not_run_and_fails_with_the_reason() {
    let cases = [
        (
            deciding_user("decline"),
            json!([page("a")]),
            "sign in first; the user declined to visit the page it needs",
        ),
        (
            deciding_user("cancel"),
            json!([page("a")]),
            "sign in first; the page it needs was not visited",
        ),
        (
            Recorder::new(),
            json!([page("a")]),
            "the page it needs was not visited",
        ),
        (
            deciding_user("accept"),
            json!([]),
            "it does not say which page to visit",
        ),
        (
            deciding_user("accept"),
            json!([{"mode": "url"}]),
            "has no address",
        ),
    ];
    for (handler, pages, expected) in cases {
        let (client, mut wire) = legacy_offering(&handler, &json!({})).await;
        let call = call_tool(&client);
        let (id, _) = wire.request("tools/call").await;
        wire.refuse(id, required(&pages));
        let error = call.await.unwrap().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.may_have_run());
        settle().await;
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_retried_three_times() {
    let handler = deciding_user("accept");
    let (client, mut wire) = legacy_offering(&handler, &json!({})).await;
    let call = call_tool(&client);
    for _ in 0..=MAX_URL_ELICITATIONS {
        let (id, _) = wire.request("tools/call").await;
        wire.refuse(id, required(&json!([page("a")])));
    }
    let error = call.await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("a page that was visited"),
        "{error}"
    );
    assert_eq!(handler.requests().len(), MAX_URL_ELICITATIONS);
}

#[tokio::test(start_paused = true)]
async fn the_server_may_report_completion_before_the_user_answers() {
    let (client, mut wire) = legacy_offering(&absent_user(), &json!({})).await;
    let call = call_tool(&client);
    let (id, _) = wire.request("tools/call").await;
    wire.refuse(id, required(&json!([page("a")])));
    settle().await;
    let complete = |id: &str| {
        json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": id}}).to_string()
    };
    wire.feed(complete("another"));
    settle().await;
    wire.assert_nothing_sent();
    wire.feed(complete("a"));
    let (id, _) = wire.request("tools/call").await;
    wire.answer(id, done("in"));
    assert_eq!(text(&call.await.unwrap().unwrap()), "in");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_the_wait_for_the_user() {
    let (client, mut wire) = legacy_offering(&absent_user(), &json!({})).await;
    let call = tokio::spawn(async move {
        let request = CallRequest {
            tool: "t",
            deadline: Some(tokio::time::Instant::now() + Duration::from_secs(5)),
            ..CallRequest::default()
        };
        client.call_tool(request).await
    });
    let (id, _) = wire.request("tools/call").await;
    wire.refuse(id, required(&json!([page("a")])));
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, RequestError::Rpc(_)), "{error}");
    assert!(error.to_string().contains("timed out"), "{error}");
    assert!(!error.may_have_run());
}
