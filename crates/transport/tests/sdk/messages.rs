//! Requests to servers and their responses.

use std::time::Duration;

use serde_json::json;
use trunkline_wire::peer::RequestOptions;
use trunkline_wire::transport::DeliveryErrorKind;
use trunkline_wire::{Json, RequestError};

use crate::support::{LIMIT, lab, requesting, soon};

#[tokio::test]
async fn a_request_and_its_response_travel_in_control_messages() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let call = requesting(&peer, "tools/call");
    assert_eq!(
        lab.embedder.line().await,
        "{\"type\":\"control_request\",\"request_id\":\"req_1_1\",\"request\":{\"subtype\":\"mcp_message\",\
         \"server_name\":\"calc\",\"message\":{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}}}}\n"
    );
    // Numbers and white space are preserved.
    lab.embedder
        .send_line(
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"req_1_1","response":{"mcp_response":{"jsonrpc":"2.0","id":1,"result":{"n": 1.50e+1}}}}}"#,
        )
        .await;
    assert_eq!(call.await.unwrap().unwrap().as_str(), r#"{"n": 1.50e+1}"#);
}

#[tokio::test]
async fn multi_line_arguments_are_sent_on_one_line() {
    let mut lab = lab();
    let peer = lab.peer("calc \"2\"");
    let params = Json::parse("{\r\n  \"text\": \"a\\nb\"\n}").unwrap();
    let call =
        tokio::spawn(async move { peer.request("m", params, RequestOptions::default()).await });
    let asked = lab.embedder.hear().await;
    assert_eq!(asked["request"]["server_name"], "calc \"2\"");
    assert_eq!(
        asked["request"]["message"]["params"],
        json!({"text": "a\nb"})
    );
    lab.embedder.result(&asked, &json!({})).await;
    soon(call).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_notification_ignores_its_response() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    for answer in [
        json!({}),
        json!({"mcp_response": {"jsonrpc": "2.0", "result": {}}}),
        json!(null),
    ] {
        peer.notify("notifications/initialized", None)
            .await
            .unwrap();
        let told = lab.embedder.hear().await;
        assert_eq!(
            told["request"]["message"],
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
        );
        let id = told["request_id"].as_str().unwrap().to_owned();
        lab.embedder.answer(&id, &answer).await;
        lab.embedder.refuse(&id, "no").await;
    }
    let call = requesting(&peer, "m");
    let asked = lab.embedder.hear().await;
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
    assert_eq!(*lab.reported.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn an_invalid_response_fails_only_its_request() {
    let cases = [
        json!({"mcp_response": {"jsonrpc": "2.0", "id": 999, "result": {}}}),
        json!({"mcp_response": {"jsonrpc": "2.0", "id": 1, "result": {}}}),
        json!({"mcp_response": {"jsonrpc": "2.0", "id": 2}}),
        json!({"mcp_response": {"jsonrpc": "2.0", "method": "ping", "id": 2}}),
        json!({"mcp_response": [{"jsonrpc": "2.0", "id": 2, "result": {}}]}),
        json!({"mcp_response": "done"}),
        json!({"mcp_response": null}),
        json!({}),
        json!([]),
        json!(null),
    ];
    for answer in cases {
        let mut lab = lab();
        let peer = lab.peer("calc");
        let waits = requesting(&peer, "waits");
        let first = lab.embedder.hear().await;
        let fails = requesting(&peer, "fails");
        lab.embedder.hear().await;
        lab.embedder.answer("req_1_2", &answer).await;
        let Err(RequestError::Delivery(failure)) = fails.await.unwrap() else {
            panic!("{answer}")
        };
        assert_eq!(failure.kind, DeliveryErrorKind::Broken);
        assert!(failure.may_have_run, "{answer}");
        assert_eq!(
            failure.to_string(),
            "the embedding program gave no JSON-RPC answer to it"
        );
        lab.embedder.result(&first, &json!({"ok": true})).await;
        assert_eq!(
            waits.await.unwrap().unwrap().as_str(),
            r#"{"ok":true}"#,
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_response_without_an_id_belongs_to_its_control_request() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let call = requesting(&peer, "m");
    lab.embedder.hear().await;
    let refused = json!({"mcp_response": {"jsonrpc": "2.0", "error": {"code": -32601, "message": "no such method"}}});
    lab.embedder.answer("req_1_1", &refused).await;
    let Err(RequestError::Rpc(error)) = call.await.unwrap() else {
        panic!()
    };
    assert_eq!((error.code, &*error.message), (-32601, "no such method"));
}

#[tokio::test]
async fn a_control_error_fails_only_its_request() {
    let mut lab = lab();
    let peer = lab.peer("nobody");
    let call = requesting(&peer, "initialize");
    lab.embedder.hear().await;
    lab.embedder
        .refuse("req_1_1", "there is no server \"nobody\"")
        .await;
    let Err(error) = call.await.unwrap() else {
        panic!()
    };
    assert_eq!(
        error.to_string(),
        "the embedding program answered with an error: there is no server \"nobody\""
    );
    assert!(!peer.is_closed());
}

#[tokio::test]
async fn a_dropped_request_is_cancelled_and_its_late_response_ignored() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let call = requesting(&peer, "slow");
    lab.embedder.hear().await;
    call.abort();
    let told = lab.embedder.hear().await;
    assert_eq!(
        told["request"]["message"],
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1, "reason": "no longer wanted"}})
    );
    assert_eq!(
        lab.embedder.hear().await,
        json!({"type": "control_cancel_request", "request_id": "req_1_1"})
    );
    lab.embedder
        .answer("req_1_1", &json!({"mcp_response": {"id": 1, "result": {}}}))
        .await;
    let call = requesting(&peer, "next");
    let asked = lab.embedder.hear().await;
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
    assert_eq!(*lab.reported.lock().unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_embedder_that_never_responds_causes_a_timeout() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let options = RequestOptions {
        deadline: Some(tokio::time::Instant::now() + Duration::from_secs(5)),
        ..RequestOptions::default()
    };
    let outcome = peer.request("m", Json::empty_object(), options).await;
    assert!(
        matches!(outcome, Err(RequestError::Timeout { sent: true, .. })),
        "{outcome:?}"
    );
    for expected in [
        "control_request",
        "control_request",
        "control_cancel_request",
    ] {
        assert_eq!(lab.embedder.hear().await["type"], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_embedder_that_never_reads_causes_only_timeouts() {
    let mut lab = crate::support::lab_with_pipe(256);
    let peer = lab.peer("calc");
    let calls: Vec<_> = (0..500)
        .map(|_| {
            let peer = peer.clone();
            tokio::spawn(async move {
                let options = RequestOptions {
                    deadline: Some(tokio::time::Instant::now() + Duration::from_secs(5)),
                    ..RequestOptions::default()
                };
                peer.request("m", Json::empty_object(), options).await
            })
        })
        .collect();
    for call in calls {
        let outcome = call.await.unwrap();
        assert!(
            matches!(outcome, Err(RequestError::Timeout { .. })),
            "{outcome:?}"
        );
    }
    // Written output has whole lines; the link can be closed.
    assert_eq!(lab.embedder.hear().await["request_id"], "req_1_1");
    soon(peer.close()).await;
}

#[tokio::test]
async fn invalid_lines_are_reported_and_skipped() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let call = requesting(&peer, "m");
    let asked = lab.embedder.hear().await;
    for line in [
        &b"Traceback (most recent call last):"[..],
        b"\xff\xfe\x00",
        b"{}",
        b"{\"type\":\"user\",\"message\":{}}",
        b"{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"who\"}}",
        b"{\"type\":\"control_request\"}",
    ] {
        lab.embedder.send_line(line).await;
    }
    lab.embedder.send_line("").await;
    lab.embedder.send_line(r#"{"type":"keep_alive"}"#).await;
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
    let reported = lab.reported.lock().unwrap().clone();
    assert_eq!(reported.len(), 6, "{reported:#?}");
    assert_eq!(reported[4], "an answer to a request that is none of ours");
    assert_eq!(
        reported[5],
        "a line cannot be used: it has no \"request_id\""
    );
}

#[tokio::test]
async fn a_line_over_the_limit_fails_its_request() {
    let mut lab = lab();
    let peer = lab.peer("calc");
    let calls = [requesting(&peer, "large"), requesting(&peer, "small")];
    let mut asked = [lab.embedder.hear().await, lab.embedder.hear().await];
    asked.sort_by_key(|asked| asked["request"]["message"]["method"].to_string());
    let huge = "x".repeat(LIMIT);
    lab.embedder.result(&asked[0], &json!({"text": huge})).await;
    lab.embedder.result(&asked[1], &json!({})).await;
    // A request of that size is refused, and an unknown response only reported.
    lab.embedder
        .ask("big", &json!({"subtype": "x", "text": huge}))
        .await;
    lab.embedder.send_line(format!("{huge} garbage")).await;
    let [large, small] = calls;
    let Err(RequestError::Delivery(failure)) = large.await.unwrap() else {
        panic!()
    };
    assert_eq!(failure.kind, DeliveryErrorKind::TooLarge);
    small.await.unwrap().unwrap();
    let refused = lab.embedder.hear().await;
    assert_eq!(refused["response"]["request_id"], "big");
    assert_eq!(refused["response"]["code"], "too_large");
    let call = requesting(&peer, "m");
    let asked = lab.embedder.hear().await;
    lab.embedder.result(&asked, &json!({})).await;
    call.await.unwrap().unwrap();
    assert_eq!(lab.reported.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_thousand_concurrent_calls_get_their_own_responses() {
    let mut lab = crate::support::lab_with_pipe(16 * 1024);
    let peers = [lab.peer("a"), lab.peer("b")];
    let calls: Vec<_> = (0..1000)
        .map(|n| {
            let peer = peers[n % 2].clone();
            tokio::spawn(async move {
                let params = Json::from(json!({ "n": n }));
                let result = peer
                    .request("echo", params, RequestOptions::default())
                    .await;
                assert_eq!(result.unwrap().field::<usize>("n"), Some(n));
            })
        })
        .collect();
    let mut asked = Vec::new();
    for _ in 0..1000 {
        asked.push(lab.embedder.hear().await);
    }
    // Responses in another order.
    asked.sort_by_key(|asked| {
        asked["request"]["message"]["params"]["n"].as_u64().unwrap() * 7919 % 1009
    });
    for asked in asked {
        let params = asked["request"]["message"]["params"].clone();
        lab.embedder.result(&asked, &params).await;
    }
    for call in calls {
        soon(call).await.unwrap();
    }
}

#[tokio::test]
async fn a_response_for_one_server_does_not_reach_another() {
    let mut lab = lab();
    let (a, b) = (lab.peer("a"), lab.peer("b"));
    let call = requesting(&a, "m");
    lab.embedder.hear().await;
    let other = requesting(&b, "m");
    let asked = lab.embedder.hear().await;
    // The same number on two connections names two requests.
    assert_eq!(asked["request"]["message"]["id"], 1);
    lab.embedder.result(&asked, &json!({"of": "b"})).await;
    assert_eq!(other.await.unwrap().unwrap().as_str(), r#"{"of":"b"}"#);
    assert!(!call.is_finished());
    lab.embedder
        .answer(
            "req_1_1",
            &json!({"mcp_response": {"id": 1, "result": {"of": "a"}}}),
        )
        .await;
    assert_eq!(call.await.unwrap().unwrap().as_str(), r#"{"of":"a"}"#);
}
