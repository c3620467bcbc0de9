//! Requests of the server during a call, on every channel.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testkit::net::{Answers, HttpServer, RawHttp, SseServer};
use trunkline_testkit::{Era, Script};

use crate::inline::{InlineServer, Step, bytes, chunk, event, initialized, reply, status, stream};
use crate::support::{
    RecordingHandler, at, call, calling, connect, connect_with, dialer, eventually, over,
};

fn question() -> Value {
    json!({"method": "elicitation/create",
        "params": {"message": "who?", "requestedSchema": {"type": "object"}}})
}

fn asks(era: Era) -> Script {
    let ask = match era {
        Era::Modern => {
            json!([{"inputRequired": {"inputRequests": {"q": question()}, "requestState": "s"}},
            {"replyInputs": true}])
        }
        _ => json!([{"request": question()}, {"replyAnswer": true}]),
    };
    Script::default().era(era).tool("ask", ask)
}

#[tokio::test]
async fn a_request_on_the_stream_of_a_call_is_answered() {
    let server = HttpServer::builder(asks(Era::Legacy))
        .answers(Answers::Sse)
        .get_stream(false)
        .start();
    let client = connect(&server.url()).await;
    let answer: Value = serde_json::from_str(&call(&client, "ask").await.unwrap()).unwrap();
    assert_eq!(
        answer,
        json!({"action": "accept", "content": {"asked": "who?"}})
    );
    let requests = server.requests();
    let answered = requests
        .iter()
        .find(|seen| seen.json().get("result").is_some())
        .unwrap();
    assert!(answered.header("mcp-session-id").is_some());
    assert_eq!(answered.header("mcp-protocol-version"), Some("2025-11-25"));
}

#[tokio::test]
async fn a_request_on_the_get_stream_is_answered() {
    let server = HttpServer::builder(asks(Era::Legacy))
        .answers(Answers::Json)
        .start();
    let client = connect(&server.url()).await;
    for _ in 0..3 {
        let answer: Value = serde_json::from_str(&call(&client, "ask").await.unwrap()).unwrap();
        assert_eq!(answer["content"]["asked"], "who?");
    }
}

#[tokio::test]
async fn an_input_required_result_is_answered_with_a_second_request() {
    for answers in [Answers::Json, Answers::Sse] {
        let server = HttpServer::builder(asks(Era::Modern))
            .answers(answers)
            .start();
        let client = connect(&server.url()).await;
        let said: Value = serde_json::from_str(&call(&client, "ask").await.unwrap()).unwrap();
        assert_eq!(said["inputResponses"]["q"]["content"]["asked"], "who?");
        assert_eq!(said["requestState"], "s");
        let requests = server.requests();
        let calls: Vec<_> = requests
            .iter()
            .filter(|seen| seen.rpc_method() == "tools/call")
            .collect();
        assert_eq!(calls.len(), 2);
        assert_ne!(calls[0].rpc_id(), calls[1].rpc_id());
        for call in calls {
            assert_eq!(call.header("mcp-name"), Some("ask"));
        }
    }
}

#[tokio::test]
async fn a_request_over_http_and_sse_is_answered() {
    let server = SseServer::start(asks(Era::Legacy));
    let transport = at(&server.url()).sse(&dialer()).await.unwrap();
    let client = over(transport, &Arc::<RecordingHandler>::default())
        .await
        .unwrap();
    let answer: Value = serde_json::from_str(&call(&client, "ask").await.unwrap()).unwrap();
    assert_eq!(answer["content"]["asked"], "who?");
}

/// An HTTP+SSE server that holds every POST of a call until its question is answered or `calls` of
/// them are cancelled.
fn holds_calls(calls: usize, asks: bool) -> RawHttp {
    #[derive(Default)]
    struct Known {
        events: String,
        held: usize,
        cancelled: usize,
        answered: bool,
    }
    let known = Mutex::<Known>::default();
    RawHttp::start(move |request, reply| {
        if request.method == "GET" {
            reply.sse().chunk("event: endpoint\ndata: /post\n\n");
            while reply.wait_until(|| !known.lock().unwrap().events.is_empty()) {
                let events = std::mem::take(&mut known.lock().unwrap().events);
                reply.chunk(events);
            }
            return;
        }
        let message = request.json();
        let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
        match request.rpc_method().as_str() {
            "initialize" => answer["result"] = initialized(),
            "tools/call" => {
                let mut now = known.lock().unwrap();
                now.held += 1;
                if asks && now.held == calls {
                    let mut asked = question();
                    asked["jsonrpc"] = json!("2.0");
                    asked["id"] = json!("q");
                    now.events += &event(&asked);
                }
                drop(now);
                let over = || {
                    let now = known.lock().unwrap();
                    now.answered || now.cancelled == calls
                };
                if !reply.wait_until(over) {
                    return;
                }
                answer["result"] = json!({"content": [{"type": "text", "text": "done"}]});
            }
            "notifications/cancelled" => known.lock().unwrap().cancelled += 1,
            "server/discover" => {
                answer["error"] = json!({"code": -32601, "message": "unknown method"});
            }
            _ => known.lock().unwrap().answered |= message["id"] == "q",
        }
        if answer.get("result").or(answer.get("error")).is_some() {
            known.lock().unwrap().events += &event(&answer);
        }
        reply.status(202);
    })
}

#[tokio::test]
async fn over_http_and_sse_responses_do_not_wait_for_requests() {
    const CALLS: usize = 12;
    let server = holds_calls(CALLS, true);
    let transport = at(&server.url()).sse(&dialer()).await.unwrap();
    let client = over(transport, &Arc::<RecordingHandler>::default())
        .await
        .unwrap();
    let calls: Vec<_> = (0..CALLS).map(|_| calling(&client, "t")).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "done");
    }
}

#[tokio::test]
async fn over_http_and_sse_cancellations_do_not_wait_for_requests() {
    const CALLS: usize = 12;
    let server = holds_calls(CALLS, false);
    let transport = at(&server.url()).sse(&dialer()).await.unwrap();
    let client = over(transport, &Arc::<RecordingHandler>::default())
        .await
        .unwrap();
    let calls: Vec<_> = (0..CALLS).map(|_| calling(&client, "t")).collect();
    let count = |what: &str| {
        let requests = server.requests();
        let found = requests.iter().filter(|seen| seen.rpc_method() == what);
        found.count()
    };
    eventually("the calls", || count("tools/call") == CALLS).await;
    for call in calls {
        call.abort();
    }
    eventually("word of their end", || {
        count("notifications/cancelled") == CALLS
    })
    .await;
}

#[tokio::test]
async fn a_server_that_rejects_responses_still_serves_calls() {
    let server = InlineServer::legacy(|seen| match seen.what() {
        "GET" => {
            let asked = json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create",
                "params": {"message": "who?"}});
            let mut steps = stream(&event(&asked));
            steps.push(Step::Wait(Duration::from_millis(20)));
            let news = json!({"jsonrpc": "2.0", "method": "notifications/after"});
            steps.push(bytes(chunk(&event(&news))));
            steps.push(Step::Hold);
            steps
        }
        "response" => status(500),
        _ => reply(200, &seen.text("done")),
    })
    .await;
    let recorder = Arc::<RecordingHandler>::default();
    let client = connect_with(&at(&server.url()), &recorder).await;
    eventually("the answer to be refused", || {
        server.of("response").len() == 1
    })
    .await;
    let answered = &server.of("response")[0];
    assert_eq!(answered.body["id"], "q1");
    assert_eq!(answered.body["result"]["content"]["asked"], "who?");
    eventually("what comes after", || {
        recorder.notifications() == ["notifications/after"]
    })
    .await;
    assert_eq!(call(&client, "t").await.unwrap(), "done");
    assert_eq!(server.of("response").len(), 1, "an answer is given once");
}
