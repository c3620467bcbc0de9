//! Each row of the translation table in `docs/gateway.md`, for each pair of eras.

use serde_json::{Value, json};
use trunkline_testkit::Script;

use crate::support::{ERAS, Era, TestClient, entry, gateway, line_in, pairs};

fn script() -> Script {
    let mut script = Script::default()
        .tool_with(json!({
            "name": "echo", "title": "Echo", "inputSchema": {"type": "object", "x": 1.5},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
            "_meta": {"vendor/key": [1]}, "vendorField": true,
        }))
        .tool("steps", json!([{"progress": {"steps": 3, "total": true, "message": "on it"}}, {"replyText": "done"}]))
        .tool("slow", json!([{"sleepMs": 60000}, {"replyText": "late"}]))
        .tool("fail", json!([{"replyError": {"code": -32077, "message": "no", "data": {"why": 1}}}]))
        .tool("bad", json!([{"reply": {"content": [{"type": "text", "text": "oops"}], "isError": true, "_meta": {"k": 1}, "extra": 2}}]))
        .tool("update", json!([{"publish": {"method": "notifications/resources/updated", "params": {"uri": "note://1"}}}, {"replyText": "ok"}]))
        .tool("grow", json!([{"addTool": {"name": "grown", "inputSchema": {"type": "object"}}}, {"replyText": "ok"}]))
        .tool("log", json!([{"notify": {"method": "notifications/message", "params": {"level": "warning", "logger": "db", "data": "look"}}}, {"replyText": "ok"}]))
        .tool_with(json!({
            "name": "task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"},
            "do": [{"task": {"pollMs": 5, "steps": [{"sleepMs": 5}], "end": {"result": {"content": [{"type": "text", "text": "worked"}]}}}}],
        }));
    script.instructions = Some("Be kind.".to_owned());
    script.resources = serde_json::from_value(json!([
        {"uri": "note://1", "name": "one", "text": "hello"},
    ]))
    .unwrap();
    script.resource_templates = vec![json!({"uriTemplate": "note://{id}/part", "name": "part"})];
    script.prompts = serde_json::from_value(json!([
        {"name": "greet", "arguments": [{"name": "who"}]},
    ]))
    .unwrap();
    script.capabilities = Some(json!({
        "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true},
        "prompts": {"listChanged": true}, "completions": {}, "logging": {},
        "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }));
    script.on = serde_json::from_value(json!({
        "completion/complete": [{"reply": {"completion": {"values": ["Ada"], "total": 1, "hasMore": false}}}],
    }))
    .unwrap();
    script
}

async fn pair(client: Era, server: Era) -> (trunkline_gateway::Gateway, TestClient) {
    let gateway = gateway([entry("srv", server, script())]);
    let client = TestClient::new(&gateway, client).await;
    (gateway, client)
}

#[tokio::test]
async fn the_opening_of_each_era_is_answered() {
    for server in ERAS {
        let (gateway, mut legacy) = pair(Era::Legacy, server).await;
        // Older versions are accepted as they are, unknown ones get the newest.
        for (asked, given) in [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")] {
            let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            let result = legacy.request("initialize", params).await["result"].clone();
            assert_eq!(result["protocolVersion"], given);
            assert_eq!(result["serverInfo"]["name"], "trunkline");
            assert!(
                result["instructions"]
                    .as_str()
                    .unwrap()
                    .contains("> Be kind.")
            );
        }
        let mut modern = TestClient::new(&gateway, Era::Modern).await;
        let found = modern.request("server/discover", json!({})).await["result"].clone();
        assert_eq!(found["supportedVersions"][0], "2026-07-28");
        assert_eq!(found["resultType"], "complete");
        assert!(found["ttlMs"].is_u64() && found["cacheScope"] == "private");
        assert!(
            found["instructions"]
                .as_str()
                .unwrap()
                .contains("> Be kind.")
        );
        let name = &found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
        assert_eq!(*name, "trunkline");
        // Each era has methods that the other lacks.
        assert_eq!(legacy.request("ping", json!({})).await["result"], json!({}));
        for method in [
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
        ] {
            let params = json!({"uri": "note://1", "level": "info"});
            let error = modern.request(method, params).await["error"].clone();
            assert_eq!(error["code"], -32601, "{method}");
        }
        let listen = legacy.request("subscriptions/listen", json!({})).await;
        assert_eq!(listen["error"]["code"], -32601);
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn lists_have_the_servers_definitions_under_names_of_the_pool() {
    for (client, server) in pairs() {
        let (gateway, mut client) = pair(client, server).await;
        let response = client.request("tools/list", json!({"cursor": "x"})).await;
        let tools = response["result"]["tools"].as_array().unwrap();
        let echo = tools.iter().find(|tool| tool["name"] == "mcp__srv__echo");
        assert_eq!(
            *echo.unwrap(),
            json!({
                "name": "mcp__srv__echo", "title": "Echo", "inputSchema": {"type": "object", "x": 1.5},
                "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
                "_meta": {"vendor/key": [1]}, "vendorField": true,
            })
        );
        let uris = client.names("resources/list", "resources", "uri").await;
        assert_eq!(uris, ["note://1"]);
        let templates = client
            .names(
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
            )
            .await;
        assert_eq!(templates, ["note://{id}/part"]);
        let prompts = client.request("prompts/list", json!({})).await;
        let prompt = &prompts["result"]["prompts"][0];
        assert_eq!(prompt["name"], "mcp__srv__greet");
        assert_eq!(prompt["_meta"]["trunkline/server"], "srv");
        let modern = client.era == Era::Modern;
        assert_eq!(prompts["result"].get("resultType").is_some(), modern);
        assert_eq!(prompts["result"].get("ttlMs").is_some(), modern);
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn results_and_errors_pass_unchanged() {
    for (client, server) in pairs() {
        let (gateway, mut client) = pair(client, server).await;
        let said = client.call("mcp__srv__echo", json!({"a": 1.5})).await;
        assert_eq!(said.unwrap(), r#"{"a":1.5}"#);
        let params = json!({"name": "mcp__srv__bad"});
        let result = client.request("tools/call", params).await["result"].clone();
        assert_eq!(result["isError"], true);
        assert_eq!(
            (&result["extra"], &result["_meta"]["k"]),
            (&json!(2), &json!(1))
        );
        let error = client.call("mcp__srv__fail", json!({})).await.unwrap_err();
        assert_eq!(error["code"], -32077);
        assert_eq!(
            (&error["message"], &error["data"]),
            (&json!("no"), &json!({"why": 1}))
        );
        let error = client.call("mcp__srv__none", json!({})).await.unwrap_err();
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32602), &json!("unknown-tool"))
        );
        let params = json!({"name": "mcp__srv__echo", "arguments": [1]});
        let refused = client.request("tools/call", params).await;
        assert_eq!(refused["error"]["code"], -32602);
        assert_eq!(
            client.request("no/such", json!({})).await["error"]["code"],
            -32601
        );
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn resources_prompts_and_completions_reach_their_server() {
    for (client, server) in pairs() {
        let (gateway, mut client) = pair(client, server).await;
        let read = client
            .request("resources/read", json!({"uri": "note://1"}))
            .await;
        assert_eq!(read["result"]["contents"][0]["text"], "hello");
        let modern = client.era == Era::Modern;
        assert_eq!(
            read["result"].get("cacheScope").is_some(),
            modern || server == Era::Modern
        );
        let missing = client
            .request("resources/read", json!({"uri": "note://9"}))
            .await;
        assert!(missing["error"]["code"].is_i64());
        let params = json!({"name": "mcp__srv__greet", "arguments": {"who": "Ada"}});
        let prompt = client.request("prompts/get", params).await;
        let text = prompt["result"]["messages"][0]["content"]["text"]
            .as_str()
            .unwrap();
        assert!(
            text.contains(r#""who":"Ada""#) && text.contains(r#""name":"greet""#),
            "{text}"
        );
        let unknown = client.request("prompts/get", json!({"name": "none"})).await;
        assert_eq!(unknown["error"]["code"], -32602);
        for reference in [
            json!({"type": "ref/prompt", "name": "mcp__srv__greet"}),
            json!({"type": "ref/resource", "uri": "note://{id}/part"}),
        ] {
            let params = json!({"ref": reference, "argument": {"name": "who", "value": "A"}});
            let completed = client.request("completion/complete", params).await;
            assert_eq!(completed["result"]["completion"]["values"], json!(["Ada"]));
        }
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn progress_carries_the_clients_token() {
    for (client, server) in pairs() {
        let (gateway, mut client) = pair(client, server).await;
        for token in [json!("tok"), json!(7)] {
            let params = json!({"name": "mcp__srv__steps", "_meta": {"progressToken": token}});
            let response = client.request("tools/call", params).await;
            assert_eq!(response["result"]["content"][0]["text"], "done");
            let steps: Vec<Value> = std::mem::take(&mut client.seen);
            let expected: Vec<Value> = (1..=3)
                .map(|step| json!({"progressToken": token, "progress": step, "total": 3, "message": "on it"}))
                .collect();
            let params: Vec<&Value> = steps.iter().map(|step| &step["params"]).collect();
            assert_eq!(params, expected.iter().collect::<Vec<_>>());
        }
        client.call("mcp__srv__steps", json!({})).await.unwrap();
        assert!(client.seen.is_empty(), "no token, no progress");
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_its_server_and_has_no_response() {
    for (era, server) in pairs() {
        let dir = tempfile::tempdir().unwrap();
        let (log, received) = (dir.path().join("cancelled"), dir.path().join("received"));
        let mut script = script();
        script.cancel_log = Some(log.clone());
        script.received_log = Some(received.clone());
        let gateway = gateway([entry("srv", server, script)]);
        let mut client = TestClient::new(&gateway, era).await;
        let params = json!({"name": "mcp__srv__slow", "arguments": {}});
        let id = client.send("tools/call", params).await;
        line_in(&received, r#""slow""#).await;
        client
            .notify("notifications/cancelled", json!({"requestId": id}))
            .await;
        line_in(&log, "").await;
        let cancelled = async {
            while std::fs::read_to_string(&log).unwrap_or_default().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(crate::support::LIMIT, cancelled)
            .await
            .unwrap();
        let next = client.send("tools/list", json!({})).await;
        let first = client.next().await;
        assert_eq!(first["id"], next, "the cancelled call has no response");
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn changed_lists_and_resources_are_told_in_the_clients_era() {
    for (era, server) in pairs() {
        let (gateway, mut client) = pair(era, server).await;
        let subscription = match era {
            Era::Legacy => {
                let subscribed = client.request("resources/subscribe", json!({"uri": "note://1"}));
                assert_eq!(subscribed.await["result"], json!({}));
                None
            }
            Era::Modern => {
                let filter =
                    json!({"toolsListChanged": true, "resourceSubscriptions": ["note://1"]});
                let id = client
                    .send("subscriptions/listen", json!({"notifications": filter}))
                    .await;
                let told = client
                    .notification("notifications/subscriptions/acknowledged")
                    .await;
                assert_eq!(told["params"]["notifications"], filter);
                assert_eq!(
                    told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
                    id
                );
                Some(id)
            }
        };
        let belongs = |message: &Value| {
            let found = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
            match subscription {
                Some(id) => assert_eq!(*found, id),
                None => assert!(found.is_null()),
            }
        };
        client.call("mcp__srv__grow", json!({})).await.unwrap();
        belongs(
            &client
                .notification("notifications/tools/list_changed")
                .await,
        );
        assert!(client.tools().await.contains(&"mcp__srv__grown".to_owned()));
        client.call("mcp__srv__update", json!({})).await.unwrap();
        let updated = client.notification("notifications/resources/updated").await;
        assert_eq!(updated["params"]["uri"], "note://1");
        belongs(&updated);
        if let Some(id) = subscription {
            // The gateway's end is told.
            let ending = tokio::spawn({
                let gateway = gateway.clone();
                async move { gateway.shutdown().await }
            });
            let end = client.response(id).await;
            assert_eq!(end["result"]["resultType"], "complete");
            ending.await.unwrap();
        } else {
            let ended = client.request("resources/unsubscribe", json!({"uri": "note://1"}));
            assert_eq!(ended.await["result"], json!({}));
            gateway.shutdown().await;
        }
    }
}

#[tokio::test]
async fn log_messages_follow_the_level_of_the_client() {
    for (era, server) in pairs() {
        let (gateway, mut client) = pair(era, server).await;
        match era {
            Era::Legacy => {
                client.call("mcp__srv__log", json!({})).await.unwrap();
                let message = client.notification("notifications/message").await;
                assert_eq!(
                    message["params"],
                    json!({"level": "warning", "data": "look", "logger": "srv/db"})
                );
                let set = client
                    .request("logging/setLevel", json!({"level": "error"}))
                    .await;
                assert_eq!(set["result"], json!({}));
                client.call("mcp__srv__log", json!({})).await.unwrap();
                assert!(!client.has_seen("notifications/message").await);
                let bad = client
                    .request("logging/setLevel", json!({"level": "loud"}))
                    .await;
                assert_eq!(bad["error"]["code"], -32602);
            }
            Era::Modern => {
                client.call("mcp__srv__log", json!({})).await.unwrap();
                assert!(
                    !client.has_seen("notifications/message").await,
                    "no level, no messages"
                );
                let level = json!({"io.modelcontextprotocol/logLevel": "info"});
                let params = json!({"name": "mcp__srv__log", "_meta": level});
                client.request("tools/call", params).await;
                client.notification("notifications/message").await;
                let level = json!({"io.modelcontextprotocol/logLevel": "error"});
                let params = json!({"name": "mcp__srv__log", "_meta": level});
                client.request("tools/call", params).await;
                assert!(!client.has_seen("notifications/message").await);
            }
        }
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_followed_to_its_end() {
    for (client, server) in pairs() {
        let (gateway, mut client) = pair(client, server).await;
        let said = client.call("mcp__srv__task", json!({})).await;
        assert_eq!(said.unwrap(), "worked");
        assert_eq!(
            client.request("tasks/get", json!({})).await["error"]["code"],
            -32601
        );
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn the_same_uri_of_two_servers_leads_to_each() {
    let named = |name: &str, era: Era| {
        let mut script = Script::default();
        script.resources = serde_json::from_value(json!([
            {"uri": "note://1", "name": "n", "text": name},
        ]))
        .unwrap();
        entry(name, era, script)
    };
    let gateway = gateway([named("one", Era::Legacy), named("two", Era::Modern)]);
    for era in ERAS {
        let mut client = TestClient::new(&gateway, era).await;
        let uris = client.names("resources/list", "resources", "uri").await;
        assert_eq!(uris, ["note://1", "trunkline:///two/note%3A%2F%2F1"]);
        for (uri, text) in uris.iter().zip(["one", "two"]) {
            let read = client.request("resources/read", json!({"uri": uri})).await;
            assert_eq!(read["result"]["contents"][0]["text"], text);
        }
        let lost = client
            .request("resources/read", json!({"uri": "other://1"}))
            .await;
        assert_eq!(lost["error"]["code"], -32002);
    }
    gateway.shutdown().await;
}
