//! Resources, prompts, completions, subscriptions and skills in both eras.

use serde_json::json;
use trunkline_wire::client::FetchOptions;
use trunkline_wire::mcp::{Completion, GetPromptResult, ReadResourceResult, Reference};
use trunkline_wire::{Client, Json, RequestError};

use crate::harness::{assert_modern, legacy, modern, modern_with};
use crate::support::{Recorder, Wire};

fn read(client: &Client) -> tokio::task::JoinHandle<Result<Json, RequestError>> {
    let client = client.clone();
    tokio::spawn(async move {
        client
            .read_resource("a:/..//b c", FetchOptions::default())
            .await
    })
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_read_by_its_exact_uri() {
    let (client, mut wire) = modern().await;
    let reading = read(&client);
    let (id, params) = wire.request("resources/read").await;
    assert_modern(&params);
    assert_eq!(params["uri"], "a:/..//b c");
    let result = json!({"resultType": "complete", "contents": [{"uri": "a:/..//b c", "text": "t"}], "ttlMs": 5});
    wire.answer(id, &result);
    let read_result = reading.await.unwrap().unwrap();
    assert_eq!(read_result.field("ttlMs"), Some(5));
    let contents = ReadResourceResult::from_json(&read_result, "")
        .unwrap()
        .contents;
    assert_eq!(contents.len(), 1);

    let (client, mut wire) = legacy().await;
    let reading = read(&client);
    let (id, _) = wire.request("resources/read").await;
    wire.refuse(id, json!({"code": -32002, "message": "not found"}));
    let error = reading.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("not found"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn reads_and_prompts_get_the_input_they_need_and_are_repeated() {
    let handler =
        Recorder::answering(|_, _| Box::pin(async { Ok(Json::parse(r#"{"ok":1}"#).unwrap()) }));
    let (client, mut wire) = modern_with(&handler).await;
    let ask = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}},"requestState":"s\u0041"}"#;
    let reading = read(&client);
    let prompting = {
        let client = client.clone();
        let arguments = [
            ("b".to_owned(), "2".to_owned()),
            ("a".to_owned(), "\"".to_owned()),
        ];
        tokio::spawn(async move {
            client
                .get_prompt("p", &arguments, FetchOptions::default())
                .await
        })
    };
    let (first, _) = wire.request("resources/read").await;
    let (second, params) = wire.request("prompts/get").await;
    assert_eq!(params["name"], "p");
    assert_eq!(params["arguments"].to_string(), r#"{"b":"2","a":"\""}"#);
    for id in [first, second] {
        wire.answer(id, ask);
        let again = wire.sent_text().await;
        assert!(again.contains(r#""requestState":"s\u0041""#), "{again}");
        let again: serde_json::Value = serde_json::from_str(&again).unwrap();
        assert_ne!(again["id"], id);
        assert_eq!(again["params"]["inputResponses"], json!({"k": {"ok": 1}}));
        let done = json!({"contents": [], "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]});
        wire.answer(again["id"].as_u64().unwrap(), done);
    }
    reading.await.unwrap().unwrap();
    let prompt = GetPromptResult::from_json(&prompting.await.unwrap().unwrap()).unwrap();
    assert_eq!(prompt.messages[0].content.text().as_deref(), Some("hi"));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_without_arguments_sends_an_empty_object_and_rejects_a_task() {
    let (client, mut wire) = modern().await;
    let prompting =
        tokio::spawn(async move { client.get_prompt("p", &[], FetchOptions::default()).await });
    let (id, params) = wire.request("prompts/get").await;
    assert_eq!(params.get("arguments"), Some(&json!({})));
    wire.answer(
        id,
        json!({"resultType": "task", "taskId": "t", "status": "working"}),
    );
    let error = prompting.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("unknown result type `task`"), "{error}");
}

/// Returns the request that `work` sends, and its result for the given response.
async fn exchange<T: Send + 'static>(
    wire: &mut Wire,
    method: &str,
    answer: serde_json::Value,
    work: impl Future<Output = T> + Send + 'static,
) -> (serde_json::Value, T) {
    let work = tokio::spawn(work);
    let (id, params) = wire.request(method).await;
    wire.answer(id, answer);
    (params, work.await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_completion_request_carries_the_reference_and_the_known_arguments() {
    let (client, mut wire) = legacy().await;
    let answer = json!({"completion": {"values": ["flask"], "total": 1, "hasMore": false}});
    let asking = client.clone();
    let (params, completion) = exchange(&mut wire, "completion/complete", answer, async move {
        let known = [("language".to_owned(), "python".to_owned())];
        let reference = Reference::Prompt("review".to_owned());
        asking
            .complete(&reference, ("framework", "fla"), &known, None)
            .await
    })
    .await;
    assert_eq!(
        params,
        json!({"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "framework", "value": "fla"},
            "context": {"arguments": {"language": "python"}}})
    );
    let completion: Completion = completion.unwrap();
    assert_eq!(completion.values, ["flask"]);
    assert_eq!((completion.total, completion.has_more), (Some(1), false));
}

#[tokio::test(start_paused = true)]
async fn legacy_subscriptions_are_per_resource() {
    let (client, mut wire) = legacy().await;
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let client = client.clone();
        let (params, outcome) = exchange(&mut wire, method, json!({}), async move {
            if method == "resources/subscribe" {
                client.subscribe("a:1", None).await
            } else {
                client.unsubscribe("a:1", None).await
            }
        })
        .await;
        assert_eq!(params, json!({"uri": "a:1"}));
        outcome.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn skills_are_paginated_and_an_invalid_one_costs_only_itself() {
    let (client, mut wire) = modern().await;
    let skill = |name: &str| json!({"uri": format!("skill://{name}/SKILL.md"), "frontmatter": {"name": name, "description": "d"}, "resources": "dynamic"});
    let listing = {
        let client = client.clone();
        tokio::spawn(async move { client.list_skills(None).await })
    };
    let (id, params) = wire.request("skills/list").await;
    assert_modern(&params);
    wire.answer(
        id,
        json!({"skills": [skill("a"), {"uri": "x"}], "nextCursor": "c"}),
    );
    let (id, params) = wire.request("skills/list").await;
    assert_eq!(params["cursor"], "c");
    wire.answer(id, json!({"skills": [skill("b")], "ttlMs": 7}));
    let listing = listing.await.unwrap().unwrap();
    let names: Vec<_> = listing
        .items
        .iter()
        .map(|skill| skill.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((listing.invalid.len(), listing.ttl_ms), (1, Some(7)));
    let answer = json!({"skill": skill("c")});
    let (params, got) = exchange(&mut wire, "skills/get", answer, async move {
        client.get_skill("skill://c/SKILL.md", None).await
    })
    .await;
    assert_eq!(params["uri"], "skill://c/SKILL.md");
    assert_eq!(got.unwrap().name, "c");
}
