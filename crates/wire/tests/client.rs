//! The client over a scripted link: finding the server's era, then the same methods for both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "test code"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Recorder, Wire, peer, settle};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use trunkline_wire::client::{
    CallRequest, ConnectError, ConnectOptions, Listing, MAX_INPUT_ROUNDS, PROBE_PATIENCE,
    Subscription, connect,
};
use trunkline_wire::mcp::{CallResult, Implementation, ListKind, Tool};
use trunkline_wire::transport::{CloseReason, Closed};
use trunkline_wire::version::{Era, LEGACY, MODERN};
use trunkline_wire::{Client, Json, RequestError};

type Connecting = JoinHandle<Result<Client, ConnectError>>;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

fn options() -> ConnectOptions {
    ConnectOptions {
        client_info: Implementation {
            name: "tester".to_owned(),
            title: None,
            version: "1".to_owned(),
        },
        capabilities: Json::parse(r#"{"elicitation":{}}"#).unwrap(),
        skip_probe: false,
        legacy_only: false,
    }
}

fn start(options: ConnectOptions) -> (Connecting, Wire) {
    start_with(&Recorder::new(), options)
}

fn start_with(handler: &Arc<Recorder>, options: ConnectOptions) -> (Connecting, Wire) {
    let (peer, wire) = peer(handler);
    let handler = handler.clone();
    let connecting = tokio::spawn(async move { connect(peer, handler, &options).await });
    (connecting, wire)
}

fn discovery() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": MODERN,
        "capabilities": {"tools": {"listChanged": true}},
        "instructions": "be kind",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "2"}},
    })
}

fn greeting(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {"prompts": {}},
        "serverInfo": {"name": "legacy", "version": "1"},
    })
}

fn unsupported(versions: &[&str]) -> Value {
    json!({"code": -32022, "message": "unsupported version", "data": {"supported": versions}})
}

fn method_not_found() -> Value {
    json!({"code": -32601, "message": "what?"})
}

/// A client of a modern server.
async fn modern() -> (Client, Wire) {
    modern_with(&Recorder::new()).await
}

async fn modern_with(handler: &Arc<Recorder>) -> (Client, Wire) {
    let (connecting, mut wire) = start_with(handler, options());
    let (id, _) = wire.request("server/discover").await;
    wire.answer(id, discovery());
    (connecting.await.unwrap().unwrap(), wire)
}

/// A client of a legacy server.
async fn legacy() -> (Client, Wire) {
    let (connecting, mut wire) = start(ConnectOptions {
        skip_probe: true,
        ..options()
    });
    let client = greet(&mut wire, connecting).await;
    (client, wire)
}

/// Goes through the legacy handshake, which comes next.
async fn greet(wire: &mut Wire, connecting: Connecting) -> Client {
    let (id, params) = wire.request("initialize").await;
    assert_eq!(params["protocolVersion"], LEGACY[0]);
    assert_eq!(params["clientInfo"]["name"], "tester");
    assert_eq!(params["capabilities"], json!({"elicitation": {}}));
    wire.answer(id, greeting(LEGACY[1]));
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(wire.sent().await["method"], "notifications/initialized");
    assert_eq!(client.era(), Era::Legacy);
    assert_eq!(client.identity().protocol_version, LEGACY[1]);
    client
}

/// Asserts that a request says who asks, as the modern protocol wants it of each.
#[track_caller]
fn assert_modern(params: &Value) {
    let meta = &params["_meta"];
    assert_eq!(meta[VERSION_KEY], MODERN[0], "{params}");
    let info = &meta["io.modelcontextprotocol/clientInfo"];
    assert_eq!(info["name"], "tester", "{params}");
    let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*capabilities, json!({"elicitation": {}}), "{params}");
}

fn call_tool(client: &Client) -> JoinHandle<Result<CallResult, RequestError>> {
    let client = client.clone();
    tokio::spawn(async move {
        let arguments = Json::parse(r#"{"a":1}"#).unwrap();
        let call = CallRequest {
            tool: "t",
            arguments: Some(&arguments),
            ..CallRequest::default()
        };
        client.call_tool(call).await
    })
}

fn list_tools(client: &Client) -> JoinHandle<Result<Listing<Tool>, RequestError>> {
    let client = client.clone();
    tokio::spawn(async move { client.list::<Tool>(ListKind::Tools, None).await })
}

fn names(listing: &Listing<Tool>) -> Vec<&str> {
    listing.items.iter().map(|tool| &*tool.name).collect()
}

fn page(names: &[&str], cursor: &Value) -> Value {
    let tools: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect();
    json!({"resultType": "complete", "tools": tools, "nextCursor": cursor})
}

fn done(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

fn text(result: &CallResult) -> String {
    result.content[0].text().unwrap().to_string()
}

fn died() -> Closed {
    Closed::new(CloseReason::Exited {
        code: Some(1),
        signal: None,
    })
}

mod era {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_modern_server_answers_the_probe_and_is_connected_by_it() {
        let (connecting, mut wire) = start(options());
        let (id, params) = wire.request("server/discover").await;
        assert_modern(&params);
        wire.answer(id, discovery());
        let client = connecting.await.unwrap().unwrap();
        assert_eq!(client.era(), Era::Modern);
        let identity = client.identity();
        assert_eq!(identity.protocol_version, MODERN[0]);
        assert_eq!(identity.info.as_ref().unwrap().name, "modern");
        assert_eq!(identity.instructions.as_deref(), Some("be kind"));
        assert!(identity.capabilities.tools && identity.capabilities.list_changed[0]);
        settle().await;
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_else_the_probe_brings_means_legacy() {
        let answers = [
            ("error", method_not_found()),
            (
                "error",
                json!({"code": -32600, "message": "initialize first"}),
            ),
            ("error", json!({"code": -32602, "message": "bad params"})),
            ("error", json!({"code": 0, "message": ""})),
            ("error", json!("text")),
            ("error", Value::Null),
            ("error", unsupported(&[LEGACY[1]])),
            ("error", unsupported(&[])),
            ("error", json!({"code": -32022, "message": "no data"})),
            ("result", json!({})),
            ("result", Value::Null),
            ("result", json!({"supportedVersions": "2026-07-28"})),
            (
                "result",
                json!({"supportedVersions": [LEGACY[1], LEGACY[2]]}),
            ),
        ];
        for (member, answer) in answers {
            let (connecting, mut wire) = start(options());
            let (id, _) = wire.request("server/discover").await;
            wire.feed(json!({"id": id, member: answer}).to_string());
            let client = greet(&mut wire, connecting).await;
            assert_eq!(client.identity().info.as_ref().unwrap().name, "legacy");
            settle().await;
            wire.assert_silent();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_gets_initialize_behind_the_probe() {
        let (connecting, mut wire) = start(options());
        let started = Instant::now();
        let (probe, _) = wire.request("server/discover").await;
        settle().await;
        wire.assert_silent();
        let client = greet(&mut wire, connecting).await;
        assert!(started.elapsed() >= PROBE_PATIENCE);
        assert!(started.elapsed() < PROBE_PATIENCE + Duration::from_secs(1));
        wire.cancellation_of(probe).await;
        // The answer to the probe comes after all, and changes nothing.
        wire.answer(probe, discovery());
        settle().await;
        assert!(!client.peer().is_closed());
        wire.assert_silent();
    }

    /// What the server answers once both the probe and `initialize` have been sent, in order.
    async fn answered_late(
        answers: &[(&str, &str, Value)],
    ) -> (Result<Client, ConnectError>, Wire) {
        let (connecting, mut wire) = start(options());
        let (probe, _) = wire.request("server/discover").await;
        let (hello, _) = wire.request("initialize").await;
        for (to, member, answer) in answers {
            let id = if *to == "probe" { probe } else { hello };
            wire.feed(json!({"id": id, *member: answer}).to_string());
            settle().await;
        }
        let connected = tokio::time::timeout(Duration::from_mins(1), connecting).await;
        (connected.expect("a verdict").unwrap(), wire)
    }

    #[tokio::test(start_paused = true)]
    async fn late_answers_win_in_either_order() {
        let probe = |member, answer| ("probe", member, answer);
        let hello = |member, answer| ("hello", member, answer);
        let cases = [
            (
                "late discovery",
                vec![probe("result", discovery())],
                Era::Modern,
            ),
            (
                "late greeting",
                vec![hello("result", greeting(LEGACY[0]))],
                Era::Legacy,
            ),
            (
                "the probe refused, then the greeting",
                vec![
                    probe("error", method_not_found()),
                    hello("result", greeting(LEGACY[0])),
                ],
                Era::Legacy,
            ),
            (
                "initialize refused, then the discovery",
                vec![
                    hello("error", unsupported(MODERN)),
                    probe("result", discovery()),
                ],
                Era::Modern,
            ),
            (
                "the discovery, then a refusal nobody waits for",
                vec![
                    probe("result", discovery()),
                    hello("error", method_not_found()),
                ],
                Era::Modern,
            ),
        ];
        for (what, answers, era) in cases {
            let (connected, mut wire) = answered_late(&answers).await;
            assert_eq!(connected.unwrap().era(), era, "{what}");
            settle().await;
            while let Some(message) = wire.try_sent() {
                assert_eq!(era, Era::Legacy, "{what}: {message}");
                assert_eq!(message["id"], Value::Null, "{what}: no third request");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn both_refused_is_the_refusal_of_initialize() {
        let refusal = json!({"code": -1, "message": "go away"});
        let orders = [
            [
                ("probe", "error", method_not_found()),
                ("hello", "error", refusal.clone()),
            ],
            [
                ("hello", "error", refusal),
                ("probe", "error", method_not_found()),
            ],
        ];
        for answers in orders {
            let error = answered_late(&answers).await.0.err().unwrap();
            assert_eq!(error.to_string(), "go away (error -1)");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn death_by_the_probe_is_told_apart() {
        let (connecting, mut wire) = start(options());
        wire.request("server/discover").await;
        wire.end(died());
        let error = connecting.await.unwrap().err().unwrap();
        assert!(matches!(error, ConnectError::DiedOfProbe(_)), "{error:?}");
        assert_eq!(
            error.to_string(),
            "the server's process exited with status 1"
        );
    }

    /// LIF-5: a server that dies of the probe is still connected. One that starts slowly reads the probe only after
    /// `initialize` was sent behind it.
    #[tokio::test(start_paused = true)]
    async fn death_by_the_probe_after_a_slow_start_is_told_apart_too() {
        let (connecting, mut wire) = start(options());
        wire.request("server/discover").await;
        wire.request("initialize").await;
        wire.end(died());
        let error = connecting.await.unwrap().err().unwrap();
        assert!(matches!(error, ConnectError::DiedOfProbe(_)), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn death_after_the_probe_was_answered_is_not_blamed_on_it() {
        let (connecting, mut wire) = start(options());
        let (id, _) = wire.request("server/discover").await;
        wire.refuse(id, method_not_found());
        wire.request("initialize").await;
        wire.end(died());
        let error = connecting.await.unwrap().err().unwrap();
        assert!(
            matches!(error, ConnectError::Request(RequestError::Closed { .. })),
            "{error:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_version_is_retried_once_with_a_common_one() {
        let (connecting, mut wire) = start(options());
        let (first, _) = wire.request("server/discover").await;
        wire.refuse(first, unsupported(&["2027-01-01", MODERN[0]]));
        let (second, params) = wire.request("server/discover").await;
        assert_ne!(first, second);
        assert_modern(&params);
        wire.answer(second, discovery());
        assert_eq!(connecting.await.unwrap().unwrap().era(), Era::Modern);

        let (connecting, mut wire) = start(options());
        for _ in 0..2 {
            let (id, _) = wire.request("server/discover").await;
            wire.refuse(id, unsupported(MODERN));
        }
        assert!(connecting.await.unwrap().is_err(), "not for ever");
        settle().await;
        wire.assert_silent();
    }

    #[tokio::test(start_paused = true)]
    async fn no_common_version_is_said_clearly() {
        let expected =
            "the server speaks none of our protocol versions, only 2027-01-01, 2028-01-01";
        let theirs = ["2027-01-01", "2028-01-01"];
        for (member, answer) in [
            ("error", unsupported(&theirs)),
            (
                "result",
                json!({"supportedVersions": theirs, "capabilities": {}}),
            ),
        ] {
            let (connecting, mut wire) = start(options());
            let (id, _) = wire.request("server/discover").await;
            wire.feed(json!({"id": id, member: answer}).to_string());
            let error = connecting.await.unwrap().err().unwrap();
            assert_eq!(error.to_string(), expected);
            settle().await;
            wire.assert_silent();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_initialize_must_name_a_version_that_we_speak() {
        let cases = [
            (
                json!({"protocolVersion": "1999-01-01", "capabilities": {}}),
                "the server speaks none of our protocol versions, only 1999-01-01",
            ),
            (
                json!({"capabilities": {}}),
                "the server's answer cannot be read: it names no protocol version",
            ),
            (
                json!({"protocolVersion": 5}),
                "the server's answer cannot be read: it names no protocol version",
            ),
            (
                Value::Null,
                "the server's answer cannot be read: it names no protocol version",
            ),
        ];
        for (answer, expected) in cases {
            let (connecting, mut wire) = start(ConnectOptions {
                legacy_only: true,
                ..options()
            });
            let (id, _) = wire.request("initialize").await;
            wire.answer(id, answer);
            let error = connecting.await.unwrap().err().unwrap();
            assert_eq!(error.to_string(), expected);
            settle().await;
            wire.assert_silent();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_legacy_version_is_accepted() {
        for version in LEGACY {
            let (connecting, mut wire) = start(ConnectOptions {
                skip_probe: true,
                ..options()
            });
            let (id, _) = wire.request("initialize").await;
            wire.answer(id, greeting(version));
            let client = connecting.await.unwrap().unwrap();
            assert_eq!(client.identity().protocol_version, *version);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_remembered_legacy_server_is_not_probed_unless_it_refuses() {
        let skip = || ConnectOptions {
            skip_probe: true,
            ..options()
        };
        let (connecting, mut wire) = start(skip());
        greet(&mut wire, connecting).await;
        settle().await;
        wire.assert_silent();

        let (connecting, mut wire) = start(skip());
        let (id, _) = wire.request("initialize").await;
        wire.refuse(id, unsupported(MODERN));
        let (id, _) = wire.request("server/discover").await;
        wire.answer(id, discovery());
        assert_eq!(connecting.await.unwrap().unwrap().era(), Era::Modern);

        let (connecting, mut wire) = start(skip());
        let (id, _) = wire.request("initialize").await;
        wire.refuse(id, json!({"code": -1, "message": "go away"}));
        let (id, _) = wire.request("server/discover").await;
        wire.refuse(id, method_not_found());
        let error = connecting.await.unwrap().err().unwrap();
        assert_eq!(error.to_string(), "go away (error -1)");
    }

    #[tokio::test(start_paused = true)]
    async fn legacy_only_never_probes() {
        let legacy_only = || ConnectOptions {
            legacy_only: true,
            ..options()
        };
        let (connecting, mut wire) = start(legacy_only());
        greet(&mut wire, connecting).await;

        let (connecting, mut wire) = start(legacy_only());
        let (id, _) = wire.request("initialize").await;
        wire.refuse(id, unsupported(MODERN));
        assert!(connecting.await.unwrap().is_err());
        settle().await;
        wire.assert_silent();
    }
}

mod calls {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_carries_name_arguments_and_metadata_of_its_era() {
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
    async fn every_modern_request_says_who_asks() {
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
                json!({"resultType": "task", "content": []}),
                "the server's answer cannot be read: unknown result type `task`",
            ),
            (
                json!([1]),
                "the server's answer cannot be read: the result is not an object",
            ),
        ] {
            let call = call_tool(&client);
            let (id, _) = wire.request("tools/call").await;
            wire.answer(id, answer);
            assert_eq!(call.await.unwrap().unwrap_err().to_string(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_version_is_retried_once() {
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
            wire.assert_silent();
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
}

mod input_required {
    use super::*;

    fn asks(requests: &Value, state: Option<&str>) -> String {
        let state = state.map_or(String::new(), |state| format!(r#","requestState":{state}"#));
        format!(r#"{{"resultType":"input_required","inputRequests":{requests}{state}}}"#)
    }

    /// Answers every method but `refused` with `{"for": its params}`.
    fn obliging() -> Arc<Recorder> {
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
    async fn the_handler_answers_and_the_state_goes_back_to_the_letter() {
        let states = [
            r#""plain""#,
            r#""a\u00e9\/\\\"\n\ud83d\ude00""#,
            r#"{"b" : 1.50, "a":[ ]}"#,
            "\"é\u{2028}\"",
        ];
        for state in states {
            let handler = obliging();
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
    async fn only_what_the_server_sent_last_goes_back() {
        let (client, mut wire) = modern_with(&obliging()).await;
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
    async fn ten_rounds_are_answered_and_an_eleventh_is_an_error_without_asking_again() {
        for rounds in [MAX_INPUT_ROUNDS, MAX_INPUT_ROUNDS + 1] {
            let handler = obliging();
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
                wire.assert_silent();
            }
            let asked = handler.requests().len();
            assert_eq!(
                asked, MAX_INPUT_ROUNDS,
                "nobody is asked for what goes nowhere"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn input_that_cannot_be_had_fails_the_call_and_says_why() {
        let cases = [
            (
                json!({"k": {"method": "refused"}}),
                "the server needs `refused`, which is not available: not today (error -1)",
            ),
            (json!({"k": {}}), "input `k` has no method"),
            (json!({"k": 7}), "input `k` has no method"),
        ];
        for (requests, expected) in cases {
            let (client, mut wire) = modern_with(&obliging()).await;
            let call = call_tool(&client);
            let (id, _) = wire.request("tools/call").await;
            wire.answer(id, asks(&requests, None));
            let error = call.await.unwrap().unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
            settle().await;
            wire.assert_silent();
        }
    }
}

mod lists {
    use super::*;

    /// What the server answers page by page, the names that are kept of it, and what the warning says.
    type Fault = (
        Vec<(&'static str, Value)>,
        &'static [&'static str],
        &'static str,
    );

    /// Answers page after page with `answers`, checking that each asks for the cursor given before.
    async fn fetch(answers: &[(&str, Value)]) -> Result<Listing<Tool>, RequestError> {
        let (client, mut wire) = modern().await;
        let list = list_tools(&client);
        let mut cursor = Value::Null;
        for (member, answer) in answers {
            let (id, params) = wire.request("tools/list").await;
            assert_eq!(params.get("cursor").unwrap_or(&Value::Null), &cursor);
            wire.feed(json!({"id": id, *member: answer}).to_string());
            cursor = answer["nextCursor"].clone();
        }
        let listing = list.await.unwrap();
        settle().await;
        wire.assert_silent();
        listing
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_joined_in_order() {
        let mut second = page(&["c"], &json!("q\"\n2"));
        second["tools"].as_array_mut().unwrap().push(json!(7));
        second["ttlMs"] = json!(50);
        let mut last = page(&["d"], &Value::Null);
        last["ttlMs"] = json!(900);
        let answers = [
            ("result", page(&["a", "b"], &json!("1"))),
            ("result", second),
            ("result", last),
        ];
        let listing = fetch(&answers).await.unwrap();
        assert_eq!(names(&listing), ["a", "b", "c", "d"]);
        assert_eq!(listing.bad.len(), 1);
        assert_eq!(listing.bad[0].index, 3);
        assert_eq!(listing.ttl_ms, Some(50));
        assert!(listing.warnings.is_empty(), "{:?}", listing.warnings);
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_before_a_fault_is_kept_with_a_warning() {
        let error = json!({"code": -1, "message": "tired"});
        let huge = "x".repeat(70_000);
        let cases: [Fault; 4] = [
            (
                vec![
                    ("result", page(&["a"], &json!("1"))),
                    ("result", page(&["b"], &json!("1"))),
                ],
                &["a", "b"],
                "cursor repeats",
            ),
            (
                vec![("result", page(&["a"], &json!("1"))), ("error", error)],
                &["a"],
                "page 2 could not be read: tired (error -1)",
            ),
            (
                vec![
                    ("result", page(&["a"], &json!("1"))),
                    ("result", json!({"tools": 5})),
                ],
                &["a"],
                "page 2 could not be read",
            ),
            (
                vec![("result", page(&["a"], &json!(huge)))],
                &["a"],
                "cursor is too long",
            ),
        ];
        for (answers, expected, warning) in cases {
            let listing = fetch(&answers).await.unwrap();
            assert_eq!(names(&listing), expected);
            let warnings = listing.warnings.join("; ");
            assert!(warnings.contains(warning), "{warning}: {warnings:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cursor_that_is_no_string_ends_the_list_with_a_warning() {
        for cursor in [json!(5), json!({"x": 1}), json!(true)] {
            let listing = fetch(&[("result", page(&["a"], &cursor))]).await.unwrap();
            assert_eq!(names(&listing), ["a"]);
            assert_eq!(listing.warnings.len(), 1, "{cursor}: the rest is missing");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_cursor_is_a_cursor() {
        let answers = [
            ("result", page(&["a"], &json!(""))),
            ("result", page(&["b"], &Value::Null)),
        ];
        assert_eq!(names(&fetch(&answers).await.unwrap()), ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_page_that_fails_is_an_error() {
        let error = json!({"code": -1, "message": "tired"});
        for (member, answer, expected) in [
            ("error", error, "tired (error -1)"),
            (
                "result",
                json!({}),
                "the server's answer cannot be read: it has no `tools`",
            ),
        ] {
            let error = fetch(&[(member, answer)]).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_list_ends() {
        let (client, mut wire) = modern().await;
        let list = list_tools(&client);
        let mut pages = 0;
        while !list.is_finished() {
            settle().await;
            if let Some(request) = wire.try_sent() {
                pages += 1;
                let id = request["id"].as_u64().unwrap();
                wire.answer(id, page(&["a"], &json!(pages.to_string())));
            }
        }
        let listing = list.await.unwrap().unwrap();
        assert_eq!(pages, trunkline_wire::client::MAX_PAGES);
        assert_eq!(listing.items.len(), pages);
        assert_eq!(listing.warnings, ["the list was cut after 1000 pages"]);
    }
}
