//! Calls that become tasks in both eras: outcomes and progress.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use trunkline_wire::client::CallRequest;
use trunkline_wire::mcp::CallToolResult;
use trunkline_wire::transport::{CloseReason, Closed, DeliveryError, DeliveryErrorKind, Incoming};
use trunkline_wire::{ByteString, Client, Json, RequestError};

use crate::harness::{assert_modern, done, legacy_offering, modern_offering, text};
use crate::support::{Recorder, Wire, settle};

fn extension() -> Value {
    json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn capability() -> Value {
    json!({"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}})
}

fn responsive_handler() -> Arc<Recorder> {
    Recorder::answering(|_, _| Box::pin(async { Ok(Json::from(json!({"action": "accept"}))) }))
}

type Calling = JoinHandle<Result<CallToolResult, RequestError>>;

/// The side effects of a call.
#[derive(Clone, Default)]
struct Left {
    task: Arc<Mutex<Option<ByteString>>>,
    told: Arc<Mutex<Vec<String>>>,
    /// Keeps the connection open.
    client: Arc<Mutex<Option<Client>>>,
}

impl Left {
    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

fn call(client: &Client, left: &Left, timeout: Option<u64>) -> Calling {
    let (client, left) = (client.clone(), left.clone());
    *left.client.lock().unwrap() = Some(client.clone());
    tokio::spawn(async move {
        let mut task = left.task.lock().unwrap().clone();
        let told = Arc::clone(&left.told);
        let mut on_progress = move |step: trunkline_wire::peer::Progress| {
            let message = step.message.unwrap_or_default();
            told.lock()
                .unwrap()
                .push(format!("{} {message}", step.progress));
        };
        let request = CallRequest {
            tool: "t",
            needs_task: true,
            deadline: timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            task: Some(&mut task),
            on_progress: Some(&mut on_progress),
            ..CallRequest::default()
        };
        let outcome = client.call_tool(request).await;
        *left.task.lock().unwrap() = task;
        outcome
    })
}

fn task(status: &str) -> Value {
    json!({"resultType": "complete", "taskId": "t1", "status": status, "ttlMs": null, "pollIntervalMs": 100, "pollInterval": 100})
}

fn with(mut task: Value, member: &str, value: Value) -> Value {
    task[member] = value;
    task
}

/// Starts a modern call and responds with a task.
async fn start_call(handler: &Arc<Recorder>, left: &Left, timeout: Option<u64>) -> (Wire, Calling) {
    let (client, mut wire) = modern_offering(handler, &extension()).await;
    let calling = call(&client, left, timeout);
    let (id, params) = wire.request("tools/call").await;
    assert_eq!(params.get("task"), None, "the server alone decides");
    wire.answer(id, with(task("working"), "resultType", json!("task")));
    (wire, calling)
}

/// Starts a legacy call and responds with a task.
async fn start_legacy_call(
    handler: &Arc<Recorder>,
    left: &Left,
    timeout: Option<u64>,
) -> (Wire, Calling) {
    let (client, mut wire) = legacy_offering(handler, &capability()).await;
    let calling = call(&client, left, timeout);
    let (id, params) = wire.request("tools/call").await;
    assert_eq!(params["task"], json!({}));
    wire.answer(id, json!({"task": task("working")}));
    (wire, calling)
}

/// Expects `tasks/get` as the next message, and returns its id.
async fn poll(wire: &mut Wire) -> u64 {
    let (id, params) = wire.request("tasks/get").await;
    assert_eq!(params["taskId"], "t1");
    id
}

#[tokio::test(start_paused = true)]
async fn a_modern_task_is_polled_to_its_result() {
    let left = Left::default();
    let (mut wire, calling) = start_call(&Recorder::new(), &left, None).await;
    let started = Instant::now();
    for said in ["reading", "reading", "writing"] {
        let (id, params) = wire.request("tasks/get").await;
        assert_modern(&params);
        wire.answer(id, with(task("working"), "statusMessage", json!(said)));
    }
    let id = poll(&mut wire).await;
    assert_eq!(
        started.elapsed().as_millis() / 10,
        40,
        "as often as it wishes"
    );
    wire.answer(id, with(task("completed"), "result", done("all of it")));
    assert_eq!(text(&calling.await.unwrap().unwrap()), "all of it");
    assert_eq!(left.told(), ["1 reading", "2 writing"]);
    settle().await;
    wire.assert_nothing_sent();
}

#[tokio::test(start_paused = true)]
async fn a_legacy_task_is_polled_and_its_result_fetched_with_progress_throughout() {
    let left = Left::default();
    let (client, mut wire) = legacy_offering(&Recorder::new(), &capability()).await;
    let calling = call(&client, &left, None);
    let (id, params) = wire.request("tools/call").await;
    let token = params["_meta"]["progressToken"].clone();
    let progress = |step: u32| {
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": step, "message": "p"}})
        .to_string()
    };
    wire.feed(progress(1));
    wire.answer(id, json!({"task": task("working")}));
    wire.feed(progress(2));
    let id = poll(&mut wire).await;
    wire.feed(progress(3));
    wire.answer(id, with(task("completed"), "statusMessage", json!("ready")));
    let (id, params) = wire.request("tasks/result").await;
    assert_eq!(params["taskId"], "t1");
    wire.feed(progress(4));
    wire.answer(
        id,
        json!({"content": [{"type": "text", "text": "r"}], "isError": true}),
    );
    let result = calling.await.unwrap().unwrap();
    assert!(result.is_error && text(&result) == "r");
    assert_eq!(left.told(), ["1 p", "2 p", "3 p", "4 p"]);
}

#[tokio::test(start_paused = true)]
async fn a_notification_replaces_a_poll() {
    for (legacy, method) in [
        (true, "notifications/tasks/status"),
        (false, "notifications/tasks"),
    ] {
        let left = Left::default();
        let handler = Recorder::new();
        let (mut wire, calling) = if legacy {
            start_legacy_call(&handler, &left, None).await
        } else {
            start_call(&handler, &left, None).await
        };
        settle().await;
        let state = with(task("completed"), "result", done("told"));
        wire.feed(json!({"jsonrpc": "2.0", "method": method, "params": state}).to_string());
        if legacy {
            let (id, _) = wire.request("tasks/result").await;
            wire.answer(id, done("told"));
        }
        assert_eq!(text(&calling.await.unwrap().unwrap()), "told");
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn input_is_provided_once_per_key() {
    let handler = responsive_handler();
    let left = Left::default();
    let (mut wire, calling) = start_call(&handler, &left, None).await;
    let ask = |keys: &[&str]| {
        let requests: serde_json::Map<_, _> = keys
            .iter()
            .map(|key| ((*key).to_owned(), json!({"method": "elicitation/create"})))
            .collect();
        with(
            task("input_required"),
            "inputRequests",
            Value::Object(requests),
        )
    };
    let id = poll(&mut wire).await;
    wire.answer(id, ask(&["a"]));
    let (id, params) = wire.request("tasks/update").await;
    assert_eq!(params["inputResponses"], json!({"a": {"action": "accept"}}));
    wire.answer(id, json!({"resultType": "complete"}));
    // The server has not processed the input yet, then asks for more.
    let id = poll(&mut wire).await;
    wire.answer(id, ask(&["a"]));
    let id = poll(&mut wire).await;
    wire.answer(id, ask(&["a", "b"]));
    let (id, params) = wire.request("tasks/update").await;
    assert_eq!(params["inputResponses"], json!({"b": {"action": "accept"}}));
    wire.answer(id, json!({"resultType": "complete"}));
    let id = poll(&mut wire).await;
    wire.answer(id, with(task("completed"), "result", done("thanks")));
    assert_eq!(text(&calling.await.unwrap().unwrap()), "thanks");
    assert_eq!(handler.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_task_requests_input_while_its_result_is_pending() {
    let handler = responsive_handler();
    let (mut wire, calling) = start_legacy_call(&handler, &Left::default(), None).await;
    let id = poll(&mut wire).await;
    wire.answer(id, task("input_required"));
    let (id, _) = wire.request("tasks/result").await;
    wire.feed(r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#);
    let answer = wire.sent().await;
    assert_eq!(
        (&answer["id"], &answer["result"]),
        (&json!("q"), &json!({"action": "accept"}))
    );
    wire.answer(id, done("asked"));
    assert_eq!(text(&calling.await.unwrap().unwrap()), "asked");
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_is_an_error_with_the_reason() {
    let gone = json!({"code": -32602, "message": "no such task"});
    let failed = with(
        task("failed"),
        "error",
        json!({"code": -32000, "message": "boom"}),
    );
    let cases = [
        (Ok(failed), "boom (error -32000)"),
        (
            Ok(with(task("failed"), "statusMessage", json!("it broke"))),
            "it broke",
        ),
        (
            Ok(with(
                task("cancelled"),
                "statusMessage",
                json!("maintenance"),
            )),
            "the server cancelled the task: maintenance",
        ),
        (Ok(task("completed")), "completed without a result"),
        (
            Ok(with(task("completed"), "result", json!(7))),
            "not an object",
        ),
        (
            Err(gone),
            "it became a task that the server no longer knows (no such task (error -32602)); the tool may have run",
        ),
    ];
    for (answer, expected) in cases {
        let (mut wire, calling) = start_call(&Recorder::new(), &Left::default(), None).await;
        let id = poll(&mut wire).await;
        match answer {
            Ok(answer) => wire.answer(id, answer),
            Err(error) => wire.refuse(id, error),
        }
        let error = calling.await.unwrap().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.may_have_run(), "{error}");
        settle().await;
        wire.assert_nothing_sent();
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_call_cancels_its_task() {
    for legacy in [false, true] {
        let (handler, left) = (Recorder::new(), Left::default());
        let (mut wire, calling) = if legacy {
            start_legacy_call(&handler, &left, None).await
        } else {
            start_call(&handler, &left, None).await
        };
        settle().await;
        calling.abort();
        let (_, params) = wire.request("tasks/cancel").await;
        assert_eq!(params["taskId"], "t1");

        let (mut wire, calling) = start_call(&handler, &left, Some(1)).await;
        // The task never ends.
        let error = loop {
            let message = wire.sent().await;
            let id = message["id"].as_u64().unwrap();
            if message["method"] == "tasks/cancel" {
                wire.answer(id, json!({"resultType": "complete"}));
                break calling.await.unwrap().unwrap_err();
            }
            wire.answer(id, task("working"));
        };
        assert!(
            matches!(error, RequestError::Timeout { sent: true, .. }),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_without_responses_ends_at_the_deadline() {
    let (mut wire, calling) = start_call(&Recorder::new(), &Left::default(), Some(3)).await;
    let id = poll(&mut wire).await;
    wire.cancellation_of(id).await;
    wire.request("tasks/cancel").await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(
        matches!(error, RequestError::Timeout { sent: true, .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_poll_is_retried_a_limited_number_of_times() {
    let lose = |wire: &Wire, to: u64| {
        let failure = DeliveryError::new(DeliveryErrorKind::Broken, "cut off".to_owned(), true);
        wire.receive(Incoming::DeliveryFailed { to, failure });
    };
    let (mut wire, calling) = start_call(&Recorder::new(), &Left::default(), None).await;
    for _ in 0..3 {
        let id = poll(&mut wire).await;
        lose(&wire, id);
    }
    let id = poll(&mut wire).await;
    wire.answer(id, with(task("completed"), "result", done("still there")));
    assert_eq!(text(&calling.await.unwrap().unwrap()), "still there");

    let (mut wire, calling) = start_call(&Recorder::new(), &Left::default(), None).await;
    for _ in 0..5 {
        let id = poll(&mut wire).await;
        lose(&wire, id);
    }
    let (id, _) = wire.request("tasks/cancel").await;
    wire.answer(id, json!({}));
    let error = calling.await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("cut off") && error.may_have_run(),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn another_connection_resumes_the_task() {
    let left = Left::default();
    let (mut wire, calling) = start_call(&Recorder::new(), &left, None).await;
    poll(&mut wire).await;
    wire.end(Closed::new(CloseReason::ByPeer));
    let error = calling.await.unwrap().unwrap_err();
    assert!(
        matches!(error, RequestError::Closed { sent: true, .. }),
        "{error}"
    );
    assert_eq!(left.task.lock().unwrap().as_deref(), Some("t1"));

    let (client, mut wire) = modern_offering(&Recorder::new(), &extension()).await;
    let calling = call(&client, &left, None);
    let id = poll(&mut wire).await;
    wire.answer(id, with(task("completed"), "result", done("found again")));
    assert_eq!(text(&calling.await.unwrap().unwrap()), "found again");
}

#[tokio::test(start_paused = true)]
async fn no_task_is_requested_without_the_capability() {
    let (client, mut wire) = legacy_offering(&Recorder::new(), &json!({"tools": {}})).await;
    let calling = call(&client, &Left::default(), None);
    let (id, params) = wire.request("tools/call").await;
    assert_eq!(params.get("task"), None);
    wire.answer(id, done("plain"));
    assert_eq!(text(&calling.await.unwrap().unwrap()), "plain");
}
