//! Questions of servers reach the client of the call, in all pairs of eras.

use serde_json::{Value, json};
use trunkline_gateway::ClientInfo;
use trunkline_testkit::Script;

use crate::support::{Era, TestClient, entry, gateway, pairs};

const FORM: &str = "elicitation/create";

fn question() -> Value {
    json!({"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}})
}

/// Tools that ask in the way of their era.
fn asking(era: Era) -> Script {
    let ask = |method: &str, params: Value| match era {
        Era::Legacy => {
            json!([{"request": {"method": method, "params": params}}, {"replyAnswer": true}])
        }
        Era::Modern => json!([
            {"inputRequired": {"inputRequests": {"k": {"method": method, "params": params}}, "requestState": "s"}},
            {"replyInputs": true},
        ]),
    };
    let page =
        json!({"mode": "url", "message": "Go", "url": "https://x.test/", "elicitationId": "e1"});
    let sampling = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5});
    let mut script = Script::default()
        .tool("form", ask(FORM, question()))
        .tool("page", ask(FORM, page))
        .tool("sample", ask("sampling/createMessage", sampling))
        .tool("roots", ask("roots/list", json!({})))
        .tool("required", json!([{"replyError": {"code": -32042, "message": "visit", "data": {"elicitations": [
            {"mode": "url", "elicitationId": "e2", "url": "https://x.test/", "message": "Go"}]}}}]))
        .tool("finish", json!([
            {"notify": {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e2"}}},
            {"replyText": "ok"},
        ]));
    let form = ask(FORM, question());
    script.resources =
        serde_json::from_value(json!([{"uri": "ask://1", "name": "a", "text": "t"}])).unwrap();
    if era == Era::Modern {
        script.prompts = serde_json::from_value(json!([{"name": "p", "do": [
            form[0], {"reply": {"messages": []}},
        ]}]))
        .unwrap();
    } else {
        script.prompts = serde_json::from_value(json!([{"name": "p", "do": [
            form[0], {"reply": {"messages": []}},
        ]}]))
        .unwrap();
    }
    script
}

#[tokio::test]
async fn forms_pages_and_samples_are_asked_and_answered() {
    for (client, server) in pairs() {
        let gateway = gateway([entry("srv", server, asking(server))]);
        let mut client = TestClient::new(&gateway, client).await;
        let said = client.call("mcp__srv__form", json!({})).await.unwrap();
        assert!(said.contains(r#""name":"Ada""#), "{said}");
        let asked = client.notification(FORM).await;
        assert_eq!(
            asked["params"]["message"], "[srv] Name?",
            "the server is named"
        );
        assert_eq!(
            asked["params"]["requestedSchema"],
            question()["requestedSchema"]
        );
        let said = client.call("mcp__srv__page", json!({})).await.unwrap();
        assert!(said.contains(r#""action":"accept""#), "{said}");
        let asked = client.notification(FORM).await;
        assert_eq!(asked["params"]["url"], "https://x.test/");
        let said = client.call("mcp__srv__sample", json!({})).await.unwrap();
        assert!(said.contains(r#""text":"hi""#), "{said}");
        client.notification("sampling/createMessage").await;
        client
            .ask("prompts/get", json!({"name": "mcp__srv__p"}))
            .await;
        client.notification(FORM).await;
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not() {
    for (era, server) in pairs() {
        let gateway = gateway([entry("srv", server, asking(server))]);
        let info = ClientInfo::new("plain");
        let mut client = TestClient::with(&gateway, era, info, json!({"elicitation": {}})).await;
        let said = client.call("mcp__srv__page", json!({})).await.unwrap();
        assert!(said.contains(r#""action":"cancel""#), "{said}");
        if era == Era::Legacy {
            let warning = client.notification("notifications/message").await;
            let text = warning["params"]["data"].as_str().unwrap();
            assert!(text.contains("asked to visit a page"), "{text}");
        }
        match client.call("mcp__srv__sample", json!({})).await {
            Ok(said) => assert!(said.contains("does not support sampling"), "{said}"),
            Err(error) => {
                let text = error["message"].as_str().unwrap();
                assert!(text.contains("does not support sampling"), "{text}");
            }
        }
        assert!(!client.has_seen(FORM).await && !client.has_seen("sampling/createMessage").await);
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn a_page_that_a_call_requires_is_an_error_or_a_question() {
    for (era, server) in pairs() {
        let gateway = gateway([entry("srv", server, asking(server))]);
        let mut client = TestClient::new(&gateway, era).await;
        let mut other = TestClient::new(&gateway, Era::Legacy).await;
        client
            .answers
            .insert(FORM.to_owned(), json!({"action": "decline"}));
        let error = client
            .call("mcp__srv__required", json!({}))
            .await
            .unwrap_err();
        assert_eq!(error["code"], -32042);
        assert_eq!(error["data"]["elicitations"][0]["elicitationId"], "e2");
        if era == Era::Legacy {
            assert!(client.seen.is_empty(), "the client handles the error");
            // The notice goes to the client that was sent there, and to no other.
            other.call("mcp__srv__finish", json!({})).await.unwrap();
            let done = client
                .notification("notifications/elicitation/complete")
                .await;
            assert_eq!(done["params"]["elicitationId"], "e2");
            assert!(!other.has_seen("notifications/elicitation/complete").await);
        } else {
            let asked = client.notification(FORM).await;
            assert_eq!(asked["params"]["mode"], "url");
        }
        gateway.shutdown().await;
    }
}

#[tokio::test]
async fn roots_are_the_clients_where_its_call_or_its_server_asks() {
    for (era, server) in pairs() {
        for private in [false, true] {
            let entry = entry("srv", server, asking(server)).share(!private);
            let gateway = gateway([entry]);
            let mut client = TestClient::new(&gateway, era).await;
            let said = client.call("mcp__srv__roots", json!({})).await.unwrap();
            // A modern server asks within the call; a legacy one that is shared asks for nobody.
            let own = server == Era::Modern || private;
            assert_eq!(
                said.contains("file:///client"),
                own,
                "{era:?} {server:?} {private} {said}"
            );
            gateway.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_state_belongs_to_one_client_one_request_and_one_use() {
    for server in [Era::Legacy, Era::Modern] {
        let gateway = gateway([entry("srv", server, asking(server))]);
        let mut client = TestClient::new(&gateway, Era::Modern).await;
        let mut thief = TestClient::new(&gateway, Era::Modern).await;
        let params = json!({"name": "mcp__srv__form", "arguments": {"x": 1}});
        let asked = client.request("tools/call", params.clone()).await["result"].clone();
        assert_eq!(asked["resultType"], "input_required");
        let key = asked["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .unwrap()
            .clone();
        let retry = |params: &Value, responses: Value| {
            let mut params = params.clone();
            params["requestState"] = asked["requestState"].clone();
            params["inputResponses"] = responses;
            params
        };
        let answer = json!({key.clone(): {"action": "accept", "content": {"name": "Eve"}}});
        let stolen = thief
            .request("tools/call", retry(&params, answer.clone()))
            .await;
        assert_eq!(stolen["error"]["code"], -32602);
        let other = json!({"name": "mcp__srv__form", "arguments": {"x": 2}});
        let moved = client
            .request("tools/call", retry(&other, answer.clone()))
            .await;
        assert_eq!(moved["error"]["code"], -32602);
        // Without the answer, the same question comes again, under another state.
        let again = client
            .request("tools/call", retry(&params, json!({})))
            .await["result"]
            .clone();
        assert_eq!(again["resultType"], "input_required");
        assert_ne!(again["requestState"], asked["requestState"]);
        let mut last = retry(&params, answer);
        last["requestState"] = again["requestState"].clone();
        let done = client.request("tools/call", last.clone()).await;
        let text = done["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("Eve"), "{text}");
        let used = client.request("tools/call", last).await;
        assert_eq!(used["error"]["code"], -32602, "a state is used once");
        gateway.shutdown().await;
    }
}
