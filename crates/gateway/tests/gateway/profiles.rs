//! Profiles, search mode, one endpoint per server, and servers that are not shared.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trunkline_config::GatewayProfile;
use trunkline_gateway::{ClientInfo, ConnectError, Gateway, GatewayOptions, View};
use trunkline_testkit::Script;

use crate::support::{Era, TestClient, builder, entry, everything, gateway};

fn files() -> Script {
    let tool = |name: &str, read_only: bool| {
        json!({"name": name, "description": format!("{name} a file on disk"),
            "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": read_only}})
    };
    Script::default()
        .tool_with(tool("read", true))
        .tool_with(tool("write", false))
}

fn with_profiles(profiles: Value) -> Gateway {
    let profiles: BTreeMap<String, GatewayProfile> = serde_json::from_value(profiles).unwrap();
    let mut options = GatewayOptions::default();
    options.profiles = profiles;
    let entries = [
        entry("files", Era::Legacy, files()),
        entry("git", Era::Modern, files()),
    ];
    Gateway::start(builder(entries), options)
}

async fn client(gateway: &Gateway, profile: &str) -> TestClient {
    let info = ClientInfo::new("t").profile(profile.to_owned());
    TestClient::with(gateway, Era::Legacy, info, everything()).await
}

#[tokio::test]
async fn a_profile_restricts_what_a_client_sees_and_calls() {
    let gateway = with_profiles(json!({
        "one": {"servers": ["files"]},
        "reader": {"readOnly": true},
        "some": {"tools": ["mcp__git"], "deny": ["mcp__git__write"]},
        "slow": {"requestsPerMinute": 2},
    }));
    for (profile, expected) in [
        ("one", &["mcp__files__read", "mcp__files__write"][..]),
        ("reader", &["mcp__files__read", "mcp__git__read"]),
        ("some", &["mcp__git__read"]),
    ] {
        let mut client = client(&gateway, profile).await;
        assert_eq!(client.tools().await, expected, "{profile}");
        let error = client.call("mcp__git__write", json!({})).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{profile}");
        client.call(expected[0], json!({})).await.unwrap();
    }
    let mut slow = client(&gateway, "slow").await;
    for _ in 0..2 {
        slow.call("mcp__git__read", json!({})).await.unwrap();
    }
    let error = slow.call("mcp__git__read", json!({})).await.unwrap_err();
    assert_eq!(error["data"]["reason"], "rate-limited");
    let unknown = gateway.connect(ClientInfo::new("t").profile("none".to_owned()));
    assert_eq!(
        unknown.err(),
        Some(ConnectError::UnknownProfile("none".to_owned()))
    );
    gateway.shutdown().await;
}

#[tokio::test]
async fn search_mode_shows_a_search_and_calls_what_it_finds() {
    let mut options = GatewayOptions::default();
    options.search = true;
    let entries = [
        entry("files", Era::Legacy, files()),
        entry("git", Era::Modern, files()).always_load(true),
    ];
    let gateway = Gateway::start(builder(entries), options);
    for era in [Era::Legacy, Era::Modern] {
        let mut client = TestClient::new(&gateway, era).await;
        let tools = client.tools().await;
        assert_eq!(
            tools,
            [
                "ToolSearch",
                "CallTool",
                "mcp__git__read",
                "mcp__git__write"
            ]
        );
        let params = json!({"name": "ToolSearch", "arguments": {"query": "+files read"}});
        let found = client.request("tools/call", params).await;
        let first = &found["result"]["structuredContent"]["tools"][0];
        assert_eq!(first["name"], "mcp__files__read");
        let said = client
            .call(
                "CallTool",
                json!({"name": "mcp__files__read", "arguments": {"path": "x"}}),
            )
            .await;
        assert_eq!(said.unwrap(), r#"{"path":"x"}"#);
        client.call("mcp__files__read", json!({})).await.unwrap();
        let error = client
            .call("CallTool", json!({"name": "none"}))
            .await
            .unwrap_err();
        assert_eq!(error["data"]["reason"], "unknown-tool");
    }
    gateway.shutdown().await;
}

#[tokio::test]
async fn an_endpoint_of_one_server_has_its_own_names() {
    let gateway = gateway([
        entry("files", Era::Legacy, files()),
        entry("git", Era::Modern, files()),
    ]);
    let info = ClientInfo::new("t").view(View::Server("git".to_owned()));
    let mut client = TestClient::with(&gateway, Era::Legacy, info, everything()).await;
    assert_eq!(client.tools().await, ["read", "write"]);
    client.call("read", json!({})).await.unwrap();
    client
        .call("mcp__files__read", json!({}))
        .await
        .unwrap_err();
    let none = ClientInfo::new("t").view(View::Server("none".to_owned()));
    assert!(matches!(
        gateway.connect(none),
        Err(ConnectError::UnknownServer(_))
    ));
    gateway.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_not_shared_has_a_process_per_client() {
    let dir = tempfile::tempdir().unwrap();
    let starts = dir.path().join("starts");
    let mut script = files();
    script.on_start =
        serde_json::from_value(json!([{"appendFile": {"path": starts, "text": "x"}}])).unwrap();
    let gateway = gateway([entry("files", Era::Legacy, script).share(false)]);
    let started = || std::fs::read_to_string(&starts).unwrap_or_default().len();
    let mut clients = Vec::new();
    for count in 1..=3 {
        let mut client = TestClient::new(&gateway, Era::Legacy).await;
        client.call("mcp__files__read", json!({})).await.unwrap();
        assert_eq!(
            started(),
            count,
            "one process for each client, none besides"
        );
        clients.push(client);
    }
    gateway.shutdown().await;
}
