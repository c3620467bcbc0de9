//! Elicitations of servers: every kind of field, queues, withdrawal (ELI-1, ELI-2, ELI-5).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;
use trunkline::elicit::{Ask, ElicitAnswer, ElicitQueue, Elicitation};
use trunkline::permission::AllowAll;
use trunkline::{CallOptions, Host};
use trunkline_testkit::Script;

use crate::lab::{Lab, call, in_time};

fn question(params: &Value) -> Value {
    json!({"method": "elicitation/create", "params": params})
}

fn form(message: &str) -> Value {
    json!({"message": message, "requestedSchema": {"type": "object"}})
}

/// A server whose tool asks and answers with what it was told.
fn asking(era: &str, params: &Value) -> Script {
    let question = question(params);
    let actions = match era {
        "modern" => {
            json!([{"inputRequired": {"inputRequests": {"q": question}}}, {"replyInputs": true}])
        }
        _ => json!([{"request": question}, {"replyAnswer": true}]),
    };
    json!({"era": era, "tools": [{"name": "ask", "do": actions}]}).into()
}

#[tokio::test]
async fn every_kind_of_field_is_asked_for_and_sent() {
    let option = |value: &str, title: &str| json!({"const": value, "title": title});
    let params = json!({"message": "fill this in", "requestedSchema": {"type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 2},
            "mail": {"type": "string", "format": "email"},
            "day": {"type": "string", "format": "date"},
            "number": {"type": "number"},
            "count": {"type": "integer", "minimum": 1},
            "sure": {"type": "boolean"},
            "size": {"type": "string", "enum": ["s", "m"]},
            "colour": {"type": "string", "oneOf": [option("r", "Red"), option("g", "Green")]},
            "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["Alpha", "Beta"]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
            "titled": {"type": "array", "items": {"anyOf": [option("1", "One"), option("2", "Two")]}},
            "preset": {"type": "string", "default": "here"},
            "__proto__": {"type": "string"},
        }, "required": ["text", "count"]}});
    let typed = [
        ("text", "ab"),
        ("mail", "ada@example.com"),
        ("day", "2026-01-31"),
        ("number", "1.5"),
        ("count", "3"),
        ("sure", "yes"),
        ("size", "m"),
        ("colour", "Green"),
        ("old", "beta"),
        ("tags", "y, x"),
        ("titled", "Two"),
        ("__proto__", "p"),
    ];
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let builder = Host::builder()
            .permit(AllowAll)
            .server(lab.server("s", asking(era, &params)))
            .elicit(move |elicitation: Elicitation| {
                let Ask::Form(form) = elicitation.ask else {
                    panic!("a form");
                };
                let mut values = serde_json::Map::new();
                for (name, text) in typed {
                    let value = form.field(name).unwrap().parse(text).unwrap().unwrap();
                    values.insert(name.to_owned(), value);
                }
                let answer = form.check(&values).unwrap();
                std::future::ready(ElicitAnswer::Accept(answer))
            });
        let host = lab.ready(builder).await;
        let said = call(&host, "mcp__s__ask", json!({})).await.unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        let content = match era {
            "modern" => &said["inputResponses"]["q"]["content"],
            _ => &said["content"],
        };
        let expected = json!({
            "text": "ab", "mail": "ada@example.com", "day": "2026-01-31", "number": 1.5,
            "count": 3, "sure": true, "size": "m", "colour": "g", "old": "b",
            "tags": ["y", "x"], "titled": ["2"], "__proto__": "p", "preset": "here",
        });
        assert_eq!(content, &expected, "{era}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn several_requests_wait_in_a_queue() {
    let requests: serde_json::Map<String, Value> = (0..5)
        .map(|n| (format!("q{n}"), question(&form(&format!("question {n}")))))
        .collect();
    let actions = json!([{"inputRequired": {"inputRequests": requests}}, {"replyInputs": true}]);
    let lab = Lab::new();
    let (queue, mut pending) = ElicitQueue::new();
    let builder = Host::builder()
        .permit(AllowAll)
        .server(lab.server("s", Script::default().tool("ask", actions)))
        .elicit(queue);
    let host = lab.ready(builder).await;
    let call = call(&host, "mcp__s__ask", json!({}));
    let user = async {
        let mut asked = Vec::new();
        for n in 0..5 {
            let request = pending.next().await.unwrap();
            asked.push(request.elicitation().message.clone());
            match n {
                0 => request.answer(ElicitAnswer::Decline),
                // A dialog that is closed answers nothing.
                1 => drop(request),
                _ => request.answer(ElicitAnswer::Accept(serde_json::Map::new())),
            }
        }
        asked
    };
    let both = Box::pin(async { tokio::join!(call, user) });
    let (said, asked) = in_time("all answers", both).await;
    assert_eq!(
        asked,
        [
            "question 0",
            "question 1",
            "question 2",
            "question 3",
            "question 4"
        ]
    );
    let said: Value = serde_json::from_str(&said.unwrap()).unwrap();
    let action = |n: usize| said["inputResponses"][format!("q{n}")]["action"].clone();
    assert_eq!(
        [action(0), action(1), action(4)],
        ["decline", "cancel", "accept"]
    );
    lab.end(host).await;
}

#[tokio::test]
async fn a_cancelled_call_withdraws_its_request() {
    for era in ["modern", "legacy"] {
        let lab = Lab::new();
        let (queue, mut pending) = ElicitQueue::new();
        let builder = Host::builder()
            .permit(AllowAll)
            .server(lab.server("s", asking(era, &form("who?"))))
            .elicit(queue);
        let host = lab.ready(builder).await;
        let stop = Notify::new();
        let options = CallOptions::new().cancel(stop.notified());
        let call = host.call("mcp__s__ask", json!({}), options);
        let user = async {
            let mut request = pending.next().await.unwrap();
            assert!(!request.is_withdrawn());
            stop.notify_one();
            request.withdrawn().await;
            request.answer(ElicitAnswer::Decline);
        };
        let both = Box::pin(async { tokio::join!(call, user) });
        let (error, ()) = in_time(era, both).await;
        assert!(error.unwrap_err().is_cancelled(), "{era}");
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_callback_that_passes_leaves_the_request_to_the_next() {
    let lab = Lab::new();
    let order: Arc<Mutex<Vec<u32>>> = Arc::default();
    let noting = |number: u32, answer: fn() -> ElicitAnswer| {
        let order = Arc::clone(&order);
        move |_: Elicitation| {
            order.lock().unwrap().push(number);
            std::future::ready(answer())
        }
    };
    let builder = Host::builder()
        .permit(AllowAll)
        .server(lab.server("s", asking("legacy", &form("who?"))))
        .elicit(noting(1, || ElicitAnswer::Pass))
        .elicit(noting(2, || ElicitAnswer::Decline))
        .elicit(noting(3, || ElicitAnswer::Cancel));
    let host = lab.ready(builder).await;
    let said = call(&host, "mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(said, r#"{"action":"decline"}"#);
    assert_eq!(*order.lock().unwrap(), [1, 2]);
    lab.end(host).await;
}

#[tokio::test]
async fn a_page_is_waited_for_only_where_the_call_is_repeated() {
    for (era, repeats) in [("modern", true), ("legacy", false)] {
        let lab = Lab::new();
        let page = json!({"mode": "url", "message": "sign", "url": "https://example.com/s",
            "elicitationId": "e1"});
        let seen: Arc<Mutex<Vec<Elicitation>>> = Arc::default();
        let asked = Arc::clone(&seen);
        let builder = Host::builder()
            .permit(AllowAll)
            .server(lab.server("s", asking(era, &page)))
            .elicit(move |elicitation: Elicitation| {
                asked.lock().unwrap().push(elicitation);
                std::future::ready(ElicitAnswer::Accept(serde_json::Map::new()))
            });
        let host = lab.ready(builder).await;
        let said = call(&host, "mcp__s__ask", json!({})).await.unwrap();
        assert!(said.contains(r#"{"action":"accept"}"#), "{said}");
        let asked = seen.lock().unwrap().remove(0);
        assert_eq!(asked.repeats_call, repeats, "{era}");
        assert!(matches!(asked.ask, Ask::Url(url) if url == "https://example.com/s"));
        lab.end(host).await;
    }
}

#[tokio::test]
async fn a_thousand_requests_at_once_harm_nobody() {
    let mut actions: Vec<Value> = (0..1000)
        .map(|n| {
            let mut request = question(&form(&format!("question {n}")));
            request["jsonrpc"] = json!("2.0");
            request["id"] = json!(format!("flood {n}"));
            json!({"write": request.to_string()})
        })
        .collect();
    actions.push(json!({"replyText": "done"}));
    let lab = Lab::new();
    let script = json!({"era": "legacy", "tools": [{"name": "ask", "do": actions}]});
    let (queue, mut pending) = ElicitQueue::new();
    let builder = Host::builder()
        .permit(AllowAll)
        .server(lab.server("s", script))
        .server(lab.server(
            "t",
            Script::default().tool("ok", json!([{"replyText": "ok"}])),
        ))
        .elicit(queue);
    let host = lab.ready(builder).await;
    let said = call(&host, "mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(said, "done");
    assert_eq!(call(&host, "mcp__t__ok", json!({})).await.unwrap(), "ok");
    // The call has ended, so its questions are withdrawn, all those that the queue took.
    in_time("the end of the questions", async {
        while let Some(request) = pending.try_next() {
            request.answer(ElicitAnswer::Decline);
        }
    })
    .await;
    lab.end(host).await;
}
