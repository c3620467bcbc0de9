//! What belongs to one client stays with it (AGT-2).

use serde_json::json;
use trunkline_testkit::Script;

use crate::support::{Era, TestClient, entry, gateway, line_in};

#[tokio::test]
async fn ids_tokens_and_cancellations_of_clients_do_not_meet() {
    let dir = tempfile::tempdir().unwrap();
    let (go, received) = (dir.path().join("go"), dir.path().join("received"));
    let mut script = Script::default().tool(
        "wait",
        json!([{"waitForFile": go}, {"progress": {"steps": 1}}, {"echo": true}]),
    );
    script.received_log = Some(received.clone());
    let gateway = gateway([entry("srv", Era::Legacy, script)]);
    let mut one = TestClient::new(&gateway, Era::Legacy).await;
    let mut two = TestClient::new(&gateway, Era::Legacy).await;
    // Both use the same id and the same token.
    let params = |who: &str| json!({"name": "mcp__srv__wait", "arguments": {"who": who}, "_meta": {"progressToken": 1}});
    let first = one.send("tools/call", params("one")).await;
    let second = two.send("tools/call", params("two")).await;
    assert_eq!(first, second);
    line_in(&received, r#""who":"one""#).await;
    line_in(&received, r#""who":"two""#).await;
    two.notify("notifications/cancelled", json!({"requestId": second}))
        .await;
    two.request("ping", json!({})).await;
    std::fs::write(&go, "").unwrap();
    let response = one.response(first).await;
    assert_eq!(response["result"]["content"][0]["text"], r#"{"who":"one"}"#);
    assert_eq!(one.seen.len(), 1, "its own progress");
    two.request("ping", json!({})).await;
    assert!(two.seen.is_empty(), "{:?}", two.seen);
    gateway.shutdown().await;
}

#[tokio::test]
async fn subscriptions_and_levels_are_of_one_client() {
    let mut script = Script::default()
        .tool("update", json!([{"publish": {"method": "notifications/resources/updated", "params": {"uri": "note://1"}}}, {"replyText": "ok"}]))
        .tool("log", json!([{"notify": {"method": "notifications/message", "params": {"level": "debug", "data": "d"}}}, {"replyText": "ok"}]));
    script.resources =
        serde_json::from_value(json!([{"uri": "note://1", "name": "n", "text": "t"}])).unwrap();
    let gateway = gateway([entry("srv", Era::Legacy, script)]);
    let mut one = TestClient::new(&gateway, Era::Legacy).await;
    let mut two = TestClient::new(&gateway, Era::Legacy).await;
    one.request("resources/subscribe", json!({"uri": "note://1"}))
        .await;
    one.request("logging/setLevel", json!({"level": "debug"}))
        .await;
    two.call("mcp__srv__update", json!({})).await.unwrap();
    one.notification("notifications/resources/updated").await;
    assert!(!two.has_seen("notifications/resources/updated").await);
    two.call("mcp__srv__log", json!({})).await.unwrap();
    assert!(
        !two.has_seen("notifications/message").await,
        "its level is the default"
    );
    assert!(
        !one.has_seen("notifications/message").await,
        "the call was another's"
    );
    one.call("mcp__srv__log", json!({})).await.unwrap();
    one.notification("notifications/message").await;
    // A client that leaves takes its subscriptions along.
    drop(one);
    two.call("mcp__srv__update", json!({})).await.unwrap();
    assert!(!two.has_seen("notifications/resources/updated").await);
    gateway.shutdown().await;
}
