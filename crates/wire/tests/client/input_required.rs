//! A call that needs input gets it from the handler and is repeated.

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline_wire::Json;
use trunkline_wire::client::MAX_INPUT_ROUNDS;

use crate::harness::{assert_modern, call_tool, done, modern_with, text};
use crate::support::{Recorder, settle};

fn asks(requests: &Value, state: Option<&str>) -> String {
    let state = state.map_or(String::new(), |state| format!(r#","requestState":{state}"#));
    format!(r#"{{"resultType":"input_required","inputRequests":{requests}{state}}}"#)
}

/// Responds to every method but `refused` with `{"for": params}`.
fn responsive_handler() -> Arc<Recorder> {
    Recorder::answering(|method, params| {
        let refused = method == "refused";
        Box::pin(async move {
            if refused {
                return Err(trunkline_wire::RpcError::new(-1, "not today"));
            }
            let params = params.unwrap_or_else(Json::null);
            Ok(Json::parse(format!(r#"{{"for":{params}}}"#)).unwrap())
        })
    })
}

#[tokio::test(start_paused = true)]
async fn the_handler_provides_input_and_the_state_is_returned_unchanged() {
    let states = [
        r#""plain""#,
        r#""a\u00e9\/\\\"\n\ud83d\ude00""#,
        r#"{"b" : 1.50, "a":[ ]}"#,
        "\"é\u{2028}\"",
    ];
    for state in states {
        let handler = responsive_handler();
        let (client, mut wire) = modern_with(&handler).await;
        let call = call_tool(&client);
        let (first, before) = wire.request("tools/call").await;
        let requests = json!({
            "one": {"method": "elicitation/create", "params": {"message": "?"}},
            "k\"2": {"method": "roots/list"},
        });
        wire.answer(first, asks(&requests, Some(state)));
        let sent = wire.sent_text().await;
        assert!(
            sent.contains(&format!(r#""requestState":{state}"#)),
            "{sent}"
        );
        let again: Value = serde_json::from_str(&sent).unwrap();
        let params = &again["params"];
        assert_ne!(again["id"], first, "a new id each round");
        assert_modern(params);
        for member in ["name", "arguments"] {
            assert_eq!(params[member], before[member]);
        }
        assert_eq!(
            params["inputResponses"],
            json!({"one": {"for": {"message": "?"}}, "k\"2": {"for": null}})
        );
        assert_eq!(
            handler.requests(),
            [r#"elicitation/create {"message":"?"}"#, "roots/list"]
        );
        wire.answer(again["id"].as_u64().unwrap(), done("thanks"));
        assert_eq!(text(&call.await.unwrap().unwrap()), "thanks");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_latest_state_is_returned() {
    let (client, mut wire) = modern_with(&responsive_handler()).await;
    let call = call_tool(&client);
    let ask = json!({"k": {"method": "roots/list"}});
    let mut ids = Vec::new();
    let rounds = [
        (asks(&ask, Some(r#""s1""#)), None, None),
        (asks(&ask, None), Some("s1"), Some("k")),
        (asks(&json!({}), Some(r#""s3""#)), None, Some("k")),
        (done("end").to_string(), Some("s3"), None),
    ];
    for (answer, state, responses) in rounds {
        let (id, params) = wire.request("tools/call").await;
        let sent = params
            .get("requestState")
            .map(|state| state.as_str().unwrap());
        assert_eq!(sent, state);
        let keys = params.get("inputResponses").map(|all| {
            let keys: Vec<_> = all.as_object().unwrap().keys().collect();
            keys[0].as_str()
        });
        assert_eq!(keys, responses);
        ids.push(id);
        wire.answer(id, answer);
    }
    assert_eq!(text(&call.await.unwrap().unwrap()), "end");
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn ten_rounds_are_answered_and_the_eleventh_is_an_error() {
    for rounds in [MAX_INPUT_ROUNDS, MAX_INPUT_ROUNDS + 1] {
        let handler = responsive_handler();
        let (client, mut wire) = modern_with(&handler).await;
        let call = call_tool(&client);
        for _ in 0..rounds {
            let (id, _) = wire.request("tools/call").await;
            wire.answer(id, asks(&json!({"k": {"method": "roots/list"}}), None));
        }
        if rounds == MAX_INPUT_ROUNDS {
            let (id, _) = wire.request("tools/call").await;
            wire.answer(id, done("phew"));
            assert_eq!(text(&call.await.unwrap().unwrap()), "phew");
        } else {
            let error = call.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("more than 10 times"), "{error}");
            settle().await;
            wire.assert_nothing_sent();
        }
        let asked = handler.requests().len();
        assert_eq!(
            asked, MAX_INPUT_ROUNDS,
            "nobody is asked for what goes nowhere"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_input_fails_the_call_with_the_reason() {
    let cases = [
        (
            json!({"k": {"method": "refused"}}),
            "the server needs `refused`, which is not available: not today (error -1)",
        ),
        (json!({"k": {}}), "input `k` has no method"),
        (json!({"k": 7}), "input `k` has no method"),
    ];
    for (requests, expected) in cases {
        let (client, mut wire) = modern_with(&responsive_handler()).await;
        let call = call_tool(&client);
        let (id, _) = wire.request("tools/call").await;
        wire.answer(id, asks(&requests, None));
        let error = call.await.unwrap().unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
        settle().await;
        wire.assert_nothing_sent();
    }
}
