//! Calls and subscriptions in both eras.

use serde_json::json;
use trunkline_wire::client::{CallRequest, Subscription};
use trunkline_wire::mcp::{ListKind, Tool};
use trunkline_wire::version::MODERN;

use crate::harness::{
    VERSION_KEY, assert_modern, call_tool, done, legacy, modern, modern_with, text, unsupported,
};
use crate::support::{Recorder, settle};

#[tokio::test(start_paused = true)]
async fn a_call_carries_the_name_arguments_and_metadata_of_its_era() {
    let (client, mut wire) = modern().await;
    let call = call_tool(&client);
    let (id, params) = wire.request("tools/call").await;
    assert_modern(&params);
    assert_eq!(
        (&params["name"], &params["arguments"]),
        (&json!("t"), &json!({"a": 1}))
    );
    assert_eq!(params.get("inputResponses"), None);
    assert_eq!(params.get("requestState"), None);
    wire.answer(id, done("modern"));
    assert_eq!(text(&call.await.unwrap().unwrap()), "modern");

    let (client, mut wire) = legacy().await;
    let call = call_tool(&client);
    let (id, params) = wire.request("tools/call").await;
    assert_eq!(params["_meta"].get(VERSION_KEY), None);
    wire.answer(
        id,
        json!({"content": [{"type": "text", "text": "legacy"}], "isError": true}),
    );
    let result = call.await.unwrap().unwrap();
    assert!(result.is_error);
    assert_eq!(text(&result), "legacy");
}

#[tokio::test(start_paused = true)]
async fn every_modern_request_carries_the_client_identity() {
    let (client, mut wire) = modern().await;
    let kinds = [
        ListKind::Tools,
        ListKind::Resources,
        ListKind::ResourceTemplates,
        ListKind::Prompts,
    ];
    for kind in kinds {
        let list = tokio::spawn({
            let client = client.clone();
            async move { client.list::<Tool>(kind, None).await }
        });
        let (id, params) = wire.request(kind.method()).await;
        assert_modern(&params);
        wire.answer(
            id,
            json!({kind.member(): [{"name": "a"}], "nextCursor": "c"}),
        );
        let (id, params) = wire.request(kind.method()).await;
        assert_modern(&params);
        wire.answer(id, json!({kind.member(): []}));
        assert_eq!(list.await.unwrap().unwrap().items.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn progress_of_a_call_reaches_its_caller() {
    let (client, mut wire) = legacy().await;
    let call = tokio::spawn(async move {
        let mut steps = Vec::new();
        let mut on_progress =
            |step: trunkline_wire::peer::Progress| steps.push(step.message.unwrap());
        let call = CallRequest {
            tool: "t",
            on_progress: Some(&mut on_progress),
            ..CallRequest::default()
        };
        client.call_tool(call).await.unwrap();
        steps
    });
    let (id, params) = wire.request("tools/call").await;
    let token = &params["_meta"]["progressToken"];
    for step in ["one", "two"] {
        let params = json!({"progressToken": token, "progress": 1, "message": step});
        wire.feed(json!({"method": "notifications/progress", "params": params}).to_string());
    }
    wire.answer(id, done(""));
    assert_eq!(call.await.unwrap(), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_of_result_is_an_error() {
    let (client, mut wire) = modern().await;
    for (answer, expected) in [
        (
            json!({"resultType": "hologram", "content": []}),
            "invalid response from the server: unknown result type `hologram`",
        ),
        (
            json!([1]),
            "invalid response from the server: the result is not an object",
        ),
    ] {
        let call = call_tool(&client);
        let (id, _) = wire.request("tools/call").await;
        wire.answer(id, answer);
        assert_eq!(call.await.unwrap().unwrap_err().to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_version_is_retried_once() {
    let (client, mut wire) = modern().await;
    let call = call_tool(&client);
    let (first, _) = wire.request("tools/call").await;
    wire.refuse(first, unsupported(MODERN));
    let (second, params) = wire.request("tools/call").await;
    assert_ne!(first, second);
    assert_modern(&params);
    assert_eq!(params["arguments"], json!({"a": 1}));
    wire.answer(second, done("at last"));
    assert_eq!(text(&call.await.unwrap().unwrap()), "at last");

    for versions in [&["2027-01-01"][..], MODERN] {
        let call = call_tool(&client);
        let (id, _) = wire.request("tools/call").await;
        wire.refuse(id, unsupported(versions));
        if versions == MODERN {
            let (id, _) = wire.request("tools/call").await;
            wire.refuse(id, unsupported(versions));
        }
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "unsupported version (error -32022)");
        settle().await;
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_sends_its_filter_and_lasts_until_the_server_ends_it() {
    let wanted = [
        (Subscription::default(), json!({})),
        (
            Subscription {
                tools: true,
                resources: true,
                prompts: true,
                uris: vec!["file:///a\"b".to_owned(), "x:y".to_owned()],
            },
            json!({
                "toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true,
                "resourceSubscriptions": ["file:///a\"b", "x:y"],
            }),
        ),
        (
            Subscription {
                prompts: true,
                ..Subscription::default()
            },
            json!({"promptsListChanged": true}),
        ),
    ];
    let handler = Recorder::new();
    let (client, mut wire) = modern_with(&handler).await;
    for (subscription, filter) in wanted {
        let listening = tokio::spawn({
            let client = client.clone();
            async move { client.listen(&subscription).await }
        });
        let (id, params) = wire.request("subscriptions/listen").await;
        assert_eq!(params["notifications"], filter);
        assert_modern(&params);
        wire.feed(r#"{"method":"notifications/tools/list_changed"}"#);
        settle().await;
        assert!(!listening.is_finished());
        wire.answer(id, "{}");
        listening.await.unwrap().unwrap();
    }
    assert_eq!(handler.notifications().len(), 3);
}
