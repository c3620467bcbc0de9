//! Requests between host and embedding program.

use serde_json::json;
use trunkline_transport::sdk::{Refusal, RequestFailure, codes};
use trunkline_wire::Json;

use crate::support::{lab, soon};

#[tokio::test]
async fn an_inquiry_gets_a_result_or_an_error() {
    let mut lab = lab();
    lab.embedder
        .ask("a", &json!({"subtype": "tools", "server": "x"}))
        .await;
    lab.embedder
        .send_line(r#"{"type":"control_request","request_id":7,"request":{"subtype":"nothing"}}"#)
        .await;
    let first = lab.inquiries.next().await.unwrap();
    assert_eq!((first.subtype(), first.id().as_str()), ("tools", "\"a\""));
    assert_eq!(
        first.request().field::<String>("server").as_deref(),
        Some("x")
    );
    let second = lab.inquiries.next().await.unwrap();
    let refusal = Refusal {
        more: Some(Json::from(json!({"hint": "x"}))),
        ..Refusal::new(codes::BAD_REQUEST, "no such thing")
    };
    second.answer(Err(refusal)).await;
    first.answer(Ok(Json::parse("{\n}").unwrap())).await;
    assert_eq!(
        lab.embedder.hear().await["response"],
        json!({"subtype": "error", "request_id": 7, "error": "no such thing", "code": "bad_request", "hint": "x"})
    );
    assert_eq!(
        lab.embedder.hear().await["response"],
        json!({"subtype": "success", "request_id": "a", "response": {}})
    );
}

#[tokio::test]
async fn a_dropped_inquiry_gets_an_error() {
    let mut lab = lab();
    lab.embedder.ask("a", &json!({"subtype": "x"})).await;
    drop(soon(lab.inquiries.next()).await);
    let answer = lab.embedder.hear().await;
    assert_eq!(answer["response"]["code"], "failed");
    // Also when it was never received.
    lab.embedder.ask("b", &json!({"subtype": "x"})).await;
    lab.embedder.message("n", "nobody", &json!({})).await;
    assert_eq!(lab.embedder.hear().await["response"]["request_id"], "n");
    drop(lab.inquiries);
    assert_eq!(lab.embedder.hear().await["response"]["request_id"], "b");
    lab.embedder.ask("c", &json!({"subtype": "x"})).await;
    assert_eq!(lab.embedder.hear().await["response"]["request_id"], "c");
}

#[tokio::test]
async fn a_cancelled_inquiry_is_notified_and_gets_no_response() {
    let mut lab = lab();
    lab.embedder.ask("a", &json!({"subtype": "x"})).await;
    let inquiry = lab.inquiries.next().await.unwrap();
    lab.embedder
        .send_line(r#"{"type":"control_cancel_request","request_id":"a"}"#)
        .await;
    soon(inquiry.withdrawn()).await;
    inquiry.answer(Ok(Json::empty_object())).await;
    // Cancelling an unknown request is harmless.
    lab.embedder
        .send_line(r#"{"type":"control_cancel_request","request_id":"b"}"#)
        .await;
    lab.embedder.ask("c", &json!({"subtype": "x"})).await;
    lab.inquiries
        .next()
        .await
        .unwrap()
        .answer(Ok(Json::empty_object()))
        .await;
    assert_eq!(lab.embedder.hear().await["response"]["request_id"], "c");
}

#[tokio::test]
async fn an_id_cannot_be_used_twice_concurrently() {
    let mut lab = lab();
    lab.embedder.ask("a", &json!({"subtype": "first"})).await;
    lab.embedder.ask("a", &json!({"subtype": "second"})).await;
    lab.embedder.ask("b", &json!({"subtype": "third"})).await;
    let first = lab.inquiries.next().await.unwrap();
    assert_eq!(lab.inquiries.next().await.unwrap().subtype(), "third");
    assert_eq!(
        *lab.reported.lock().unwrap(),
        ["a second request with an id that is being answered"]
    );
    first.answer(Ok(Json::empty_object())).await;
    lab.embedder.ask("a", &json!({"subtype": "fourth"})).await;
    assert_eq!(lab.inquiries.next().await.unwrap().subtype(), "fourth");
}

#[tokio::test]
async fn excess_inquiries_are_refused() {
    let mut lab = lab();
    for n in 0..4097 {
        lab.embedder
            .ask(&n.to_string(), &json!({"subtype": "x"}))
            .await;
    }
    let refused = lab.embedder.hear().await;
    assert_eq!(refused["response"]["request_id"], "4096");
    assert_eq!(refused["response"]["code"], "too_many");
    let first = lab.inquiries.next().await.unwrap();
    first.answer(Ok(Json::empty_object())).await;
    assert_eq!(lab.embedder.hear().await["response"]["request_id"], "0");
    lab.embedder
        .ask("again", &json!({"subtype": "again"}))
        .await;
    let mut last = lab.inquiries.next().await.unwrap();
    while last.subtype() != "again" {
        last = lab.inquiries.next().await.unwrap();
    }
}

#[tokio::test]
async fn the_host_can_send_requests_to_the_embedding_program() {
    let mut lab = lab();
    let ask = |subtype: &'static str| {
        let bridge = lab.bridge.clone();
        tokio::spawn(async move {
            bridge
                .request(&Json::from(json!({"subtype": subtype})))
                .await
        })
    };
    let (first, second, third) = (ask("elicitation"), ask("other"), ask("third"));
    let asked = lab.embedder.hear().await;
    assert_eq!(asked["request"], json!({"subtype": "elicitation"}));
    lab.embedder
        .answer(
            asked["request_id"].as_str().unwrap(),
            &json!({"action": "accept"}),
        )
        .await;
    assert_eq!(
        first.await.unwrap().unwrap().as_str(),
        r#"{"action":"accept"}"#
    );

    let asked = lab.embedder.hear().await;
    lab.embedder
        .refuse(asked["request_id"].as_str().unwrap(), "nobody is here")
        .await;
    let Err(RequestFailure::Refused(reason)) = second.await.unwrap() else {
        panic!()
    };
    assert_eq!(reason, "nobody is here");

    let asked = lab.embedder.hear().await;
    third.abort();
    let withdrawn = lab.embedder.hear().await;
    assert_eq!(withdrawn["type"], "control_cancel_request");
    assert_eq!(withdrawn["request_id"], asked["request_id"]);
}

#[tokio::test]
async fn a_line_precedes_the_response_sent_after_it() {
    let mut lab = lab();
    lab.embedder.ask("a", &json!({"subtype": "x"})).await;
    let inquiry = lab.inquiries.next().await.unwrap();
    let progress = Json::from(json!({"type": "progress", "progress": 1}));
    lab.bridge.send_line(&progress).await.unwrap();
    inquiry.answer(Ok(Json::empty_object())).await;
    soon(lab.bridge.flush()).await;
    assert_eq!(lab.embedder.hear().await["type"], "progress");
    assert_eq!(lab.embedder.hear().await["type"], "control_response");
}
